"""What people come with, from beginning to end: two files to be joined, a frame of pandas, settings to be chosen."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from sklearn.model_selection import GridSearchCV

from plr import PartialLabelRegressor, TableModel, load_model
from plr.metrics import candidate_likelihood_scorer
from plr.weighting import Average, Posterior

PEOPLE = 240


def pooled(fits):
    """Return the pooled estimates of regressions on several draws, with 95 % intervals, by Rubin's rules."""
    m, degrees = len(fits), fits[0].df_resid
    estimates = pd.DataFrame([fit.params for fit in fits])
    within, between = pd.DataFrame([fit.bse**2 for fit in fits]).mean(), (1 + 1 / m) * estimates.var(ddof=1)
    lost = between / (within + between)
    of_draws, of_rows = (m - 1) / lost**2, (degrees + 1) / (degrees + 3) * degrees * (1 - lost)
    half = np.sqrt(within + between) * stats.t.ppf(0.975, of_draws * of_rows / (of_draws + of_rows))
    return pd.DataFrame({"lower": estimates.mean() - half, "upper": estimates.mean() + half})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files: a survey with names, and a register in which every name is that of several people."""
    folder, random = tmp_path_factory.mktemp("join"), np.random.default_rng(3)
    years, rural = random.integers(0, 40, PEOPLE), random.integers(0, 2, PEOPLE)
    income = (20 + 1.0 * years - 8 * rural + random.normal(0, 3, PEOPLE)).round(2)
    names = np.array([f"name {number}" for number in random.integers(0, PEOPLE // 3, PEOPLE)])
    survey = pd.DataFrame({"person": np.arange(PEOPLE) + 500, "name": names, "years": years, "rural": rural})
    register = pd.DataFrame({"tax_number": random.permutation(PEOPLE) + 9000, "name": names, "income": income})
    survey.to_csv(folder / "survey.csv", index=False)
    register.sample(frac=1, random_state=0).to_csv(folder / "register.csv", index=False)
    pd.DataFrame({"person": survey["person"], "income": income}).to_csv(folder / "truth.csv", index=False)
    return folder


def run(folder, *arguments):
    command = [sys.executable, "-m", "plr", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_from_two_files_to_a_checked_model_and_a_pooled_regression(folder):
    survey = pd.read_csv(folder / "survey.csv")
    pairs = survey.merge(pd.read_csv(folder / "register.csv"), on="name").drop(columns="name")
    assert len(pairs) > 2 * PEOPLE
    pairs.to_csv(folder / "pairs.csv", index=False)
    truth = pd.read_csv(folder / "truth.csv").set_index("person")["income"]

    columns = ("--row", "person", "--target", "income", "--record", "tax_number")
    assert run(folder, "check", "pairs.csv", *columns).startswith("Fine: a model can learn from this data.")
    fit = ("fit", "pairs.csv", *columns, "--learner", "linear", "--option", "weighting.false_labels=estimated")
    fit += ("--weighting", "posterior")
    first = json.loads(run(folder, *fit, "-o", "first.plr", "--identified", "first.csv", "--json"))
    assert (first["rows"], first["checked"]) == (PEOPLE, None)
    run(folder, "review", "first.plr", "-n", 30, "-o", "review.csv")
    review = pd.read_csv(folder / "review.csv")
    review.assign(value=truth.loc[review["row"]].to_numpy()).to_csv(folder / "review.csv", index=False)
    checked = json.loads(
        run(
            folder,
            *fit,
            "--known",
            "review.csv",
            "--one-to-one",
            "-o",
            "model.plr",
            "--identified",
            "answers.csv",
            "--json",
        )
    )
    assert checked["checked"]["found"] == 30
    answers = pd.read_csv(folder / "answers.csv").set_index("person")
    right = (answers["value"] == truth.loc[answers.index]).mean()
    assert right > 0.55
    assert answers["probability"].mean() == pytest.approx(right, abs=0.12)
    of_new = load_model(folder / "model.plr").predict({"years": [0, 30], "rural": [0, 0]})
    assert np.diff(of_new)[0] / 30 == pytest.approx(1.0, abs=0.1)

    model = TableModel(PartialLabelRegressor("linear", Posterior(false_labels="estimated"), random_state=0))
    model.fit(pairs, target="income", row="person", record="tax_number", known=str(folder / "review.csv"))
    people = survey.set_index("person").loc[pairs["person"].unique()]
    draws = [people.assign(income=draw) for draw in model.regressor.impute(20, random_state=0)]
    known = truth.loc[people.index]
    assert all((draw.loc[review["row"], "income"] == known[review["row"]]).all() for draw in draws)
    fits = [smf.ols("income ~ years + rural", draw).fit() for draw in draws]
    found, best = pooled(fits), smf.ols("income ~ years + rural", people.assign(income=model.identify()["value"])).fit()
    for name, true in (("years", 1.0), ("rural", -8.0)):
        assert found["lower"][name] < true < found["upper"][name]
        assert found["upper"][name] - found["lower"][name] > np.diff(best.conf_int().loc[name])[0]


def test_a_frame_in_and_a_frame_out():
    random = np.random.default_rng(0)
    index = pd.Index([f"car {number}" for number in range(150)], name="car")
    cars = pd.DataFrame(
        {
            "weight": random.uniform(0.8, 2.5, 150),
            "fuel": pd.Categorical(random.choice(["petrol", "diesel"], 150)),
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 200, 150), unit="D"),
        },
        index=index,
    )
    use = 3 * cars["weight"] + 2.0 * (cars["fuel"] == "petrol") + random.normal(0, 0.1, 150)
    guesses = pd.Series(random.uniform(2, 10, 150), index)
    cars["use"] = [f"{a:.2f}; {b:.2f}" if a < b else f"{b:.2f}|{a:.2f}|" for a, b in zip(use, guesses, strict=True)]
    old, new = cars[:120].copy(), cars[120:]

    model = TableModel(learner="boosting", start="density", random_state=0).fit(old, target="use")
    assert {column.name: column.kind for column in model.features.columns} == {
        "weight": "number",
        "fuel": "category",
        "sold": "date",
    }
    predicted = pd.Series(model.predict(new), new.index)
    assert np.corrcoef(predicted, use[120:])[0, 1] > 0.9
    chosen = model.identify(new).to_pandas().set_index(new.index)
    assert (np.abs(chosen["value"] - use[120:]) < 0.01).mean() > 0.8

    numbers = old.assign(day=old.pop("sold").dt.day_of_year).drop(columns="use")
    regressor = PartialLabelRegressor(learner="boosting", start="density", random_state=0).fit(numbers, old["use"])
    answers = old.join(regressor.identify().to_frame())
    assert answers.index.equals(old.index)
    assert answers["probability"].between(0, 1).all()
    assert (np.abs(answers["value"] - use[:120]) < 0.01).mean() > 0.8
    by_candidate = regressor.identify(numbers.tail(5), old["use"].tail(5)).to_frame(long=True)
    assert by_candidate.groupby(level=0)["probability"].sum().to_numpy() == pytest.approx(1.0, abs=1e-6)
    assert by_candidate.index.unique().tolist() == numbers.index[-5:].tolist()


def test_settings_are_chosen_without_labels():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.uniform(-1, 1, size=(200, 2)), columns=["a", "b"])
    truth = 3 * X["a"] - X["b"] + random.normal(0, 0.1, 200)
    S = pd.Series([[false, true] for true, false in zip(truth, random.uniform(-4, 4, 200), strict=True)])
    train, test = np.arange(150), np.arange(150, 200)
    grid = [{"weighting": [Average()]}, {"weighting": [Posterior()], "weighting__noise": ["student", "gaussian"]}]
    search = GridSearchCV(
        PartialLabelRegressor("linear", random_state=0), grid, scoring=candidate_likelihood_scorer, cv=3
    ).fit(X.loc[train], S[train])
    assert isinstance(search.best_params_["weighting"], Posterior)
    errors = [np.abs(search.best_estimator_.predict(X.loc[test]) - truth[test]).mean()]
    averaged = PartialLabelRegressor("linear", Average(), random_state=0).fit(X.loc[train], S[train])
    errors.append(np.abs(averaged.predict(X.loc[test]) - truth[test]).mean())
    assert errors[0] < 0.5 * errors[1]
