"""Folders whose false labels depend on the features: found in a sample, said, and acted on."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plr import PartialLabelRegressor, TableModel, load_model, make_candidates
from plr.errors import DependentLabelsWarning
from plr.learners import MLP
from plr.priors import BoostedLogit
from support.candidate_mechanisms import guesses, join

pytestmark = pytest.mark.usefixtures("small_forests")
TRAINED, ROWS = 400, 600
PROBLEM = guesses(ROWS)


def written(problem, folder, known=0):
    rows = np.arange(TRAINED)
    labels = [value if row < known else None for row, value in enumerate(problem.y[:TRAINED])]
    columns = {f"x{number}": problem.X[rows, number] for number in range(problem.X.shape[1])}
    columns |= {"y": problem.S[rows].to_arrow(), "known": pa.array(labels, pa.float64())}
    if problem.S.features:
        scores = problem.S.features["score"].reshape(len(problem.y), -1)[rows].tolist()
        columns["score"] = scores
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "part.parquet", row_group_size=100)
    return folder


def fit(folder, known=False, learner="linear", **options):
    options |= {"known": "known"} if known else {"ignore": "known"}
    regressor = PartialLabelRegressor(learner, random_state=0, prior=options.pop("prior_model", "auto"))
    return TableModel(regressor).fit(folder, "y", in_batches=True, **options)


def error(model, problem=PROBLEM):
    rest = slice(TRAINED, None)
    names = [f"x{number}" for number in range(problem.X.shape[1])]
    found = model.predict(pa.table(dict(zip(names, problem.X[rest].T, strict=True))))
    return float(np.mean((np.asarray(found) - problem.y[rest]) ** 2))


def test_without_checked_rows_the_means_are_fitted(tmp_path):
    with pytest.warns(DependentLabelsWarning, match="depend on the features.*20 to 50 rows.*known.*in_batches=False"):
        model = fit(written(PROBLEM, tmp_path / "rows"))
    means = PartialLabelRegressor("linear", random_state=0).fit(PROBLEM.X[:TRAINED], PROBLEM.S[:TRAINED].mean())
    rest = slice(TRAINED, None)
    assert error(model) == pytest.approx(np.mean((means.predict(PROBLEM.X[rest]) - PROBLEM.y[rest]) ** 2), rel=0.05)
    regressor = model.regressor
    assert "mean of each row's candidates" in regressor.diagnosis_.caution
    np.testing.assert_allclose(regressor.identify(PROBLEM.X, PROBLEM.S).probabilities, 0.2)
    # A tenth of the rows says how far labels are from predictions, and counts all candidates.
    low, high = regressor.predict_interval(PROBLEM.X[rest], 0.9).T
    assert np.mean((low <= PROBLEM.y[rest]) & (PROBLEM.y[rest] <= high)) > 0.8


@pytest.mark.parametrize(
    "learner", ["linear", pytest.param(MLP(hidden=(16,), epochs=200, batch_size=32), marks=pytest.mark.slow)]
)
def test_checked_rows_teach_by_the_place_of_values(tmp_path, learner):
    with pytest.warns(DependentLabelsWarning, match="by what the checked rows teach"):
        taught = fit(written(PROBLEM, tmp_path / "rows", known=60), known=True, learner=learner)
    with pytest.warns(DependentLabelsWarning):
        plain = fit(tmp_path / "rows", learner=learner)
    assert error(taught) < 0.8 * error(plain)
    prior = taught.regressor.prior_
    assert prior.checked == 60
    assert prior.agreement.exponent == 0.0
    assert prior.dependence.found
    rest = slice(TRAINED, None)
    found = taught.regressor.identify(PROBLEM.X[rest], PROBLEM.S[rest])
    assert np.mean(found.value == PROBLEM.y[rest]) > 0.3  # a choice at random: 0.2
    taught.save(tmp_path / "model.plr")
    loaded = load_model(tmp_path / "model.plr").regressor
    again = loaded.identify(PROBLEM.X[rest], PROBLEM.S[rest])
    np.testing.assert_array_equal(again.probabilities, found.probabilities)


def test_a_model_of_utilities(tmp_path):
    problem = join(ROWS)
    folder = written(problem, tmp_path / "rows", known=200)
    trees = BoostedLogit(n_estimators=20, learning_rate=0.3)
    with pytest.warns(DependentLabelsWarning):
        model = fit(folder, known=True, candidate_features="score", intervals=False, prior_model=trees)
    found = model.regressor.identify(problem.X, problem.S)
    assert np.mean(found.value == problem.y) > 0.5
    assert isinstance(model.regressor.prior, BoostedLogit)


def test_unrelated_false_labels_are_no_reason(tmp_path):
    S = make_candidates(PROBLEM.y, 4, random_state=0)
    folder = written(type(PROBLEM)(PROBLEM.X, S, PROBLEM.y), tmp_path / "rows")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DependentLabelsWarning)
        model = fit(folder)
        given = fit(written(PROBLEM, tmp_path / "others"), prior_model="given")
    assert model.regressor.prior_ is None
    assert given.regressor.prior_ is None
