"""`plr.compare`: the same folds for all, figures by hand, and what may not be believed."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

import plr
from plr import PartialLabelRegressor, make_candidates
from plr.comparison import Comparison
from plr.errors import DependentLabelsWarning, ParameterError
from plr.metrics import candidate_likelihood
from support.candidate_mechanisms import join

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, size=(150, 2))
Y = np.round(3 * X[:, 0] + X[:, 1] + RANDOM.normal(0, 0.1, 150), 4)
S = make_candidates(Y, 3, set_size="fixed", random_state=1)
KNOWN = np.where(np.arange(150) % 5 == 0, Y, np.nan)


def figures(found):
    """Return all that does not depend on how fast the machine is."""
    return [{**one, "seconds": 0} for one in found.to_dict()["models"]]


@pytest.fixture(scope="module")
def found():
    return plr.compare(X, S, ["linear", "boosting"], ["auto", "average"], known=KNOWN, cv=3, random_state=0)


def test_figures_are_those_of_predictions_made_out_of_fold(found):
    assert (found.rows, found.folds, found.checked, found.ranked_by) == (150, 3, 30, "likelihood")
    assert found.best.name == "linear"
    first = candidate_likelihood(found.predictions[:, 0], S)
    rows = ~np.isnan(KNOWN)
    for one, prediction in zip(found.models, found.predictions.T, strict=True):
        each = candidate_likelihood(prediction, S)
        assert one.likelihood == pytest.approx(each.mean())
        assert one.likelihood_error == pytest.approx(each.std(ddof=1) / 150**0.5)
        assert one.behind == pytest.approx((first - each).mean())
        assert one.behind_error == pytest.approx((first - each).std(ddof=1) / 150**0.5)
        assert one.mae == pytest.approx(mean_absolute_error(Y[rows], prediction[rows]))
        assert one.rmse == pytest.approx(root_mean_squared_error(Y[rows], prediction[rows]))
        assert one.r2 == pytest.approx(r2_score(Y[rows], prediction[rows]))
        assert one.seconds > 0
    assert found.best.right > 0.8


def test_a_fold_is_a_fit_of_its_own_on_the_folds_of_a_regressor(found):
    model = PartialLabelRegressor("linear", cv=3, random_state=0).fit(X, S)
    from plr.folds import make_folds

    for train, test in make_folds(model._training, 3):
        by_hand = PartialLabelRegressor("linear", random_state=0).fit(X[train], S[train], known=KNOWN[train])
        np.testing.assert_allclose(found.predictions[test, 0], by_hand.predict(X[test]))


@pytest.mark.parametrize("kind", [pd.DataFrame, lambda columns: columns, pa.table, lambda columns: columns["value"]])
def test_neither_workers_nor_the_form_of_known_labels_change_a_figure(found, kind):
    known = kind({"value": KNOWN.tolist()})
    given = {"known": known, "cv": 3, "random_state": 0, "n_jobs": 2}
    again = plr.compare(X, S.to_lists(), ("linear", "boosting"), ("auto", "average"), **given)
    assert figures(again) == figures(found)


def test_tables_of_it(found):
    table = found.to_table()
    assert table["likelihood"].to_pylist() == [one.likelihood for one in found.models]
    assert pa.table(found).equals(table)
    text = str(found)
    assert [line.split("  ")[0] for line in text.splitlines()[1:5]] == [one.name for one in found.models]
    assert "150 rows, 30 of them checked, each predicted by models that have not seen it" in text
    assert repr(found) == "Comparison(4 models, linear first by likelihood)"


def test_instances_names_of_ones_own_and_pairs_that_do_not_go_together():
    by_row = plr.weighting.Posterior(scale="row")
    learners = {"ridge": Ridge(), "line": "linear"}
    found = plr.compare(X, S, learners, {"auto": "auto", "by row": by_row}, cv=2, random_state=0)
    assert {(one.learner, one.weighting) for one in found.models} == {
        ("line", "auto"),
        ("ridge", "auto"),
        ("ridge", "by row"),
    }
    assert list(found.left_out) == ["line, by row"]
    assert "Left out: line, by row. Linear cannot give each row a noise scale" in found.summary()
    with pytest.raises(ParameterError, match="cannot give each row a noise scale"):
        plr.compare(X, S, ["linear"], [by_row], cv=2)


@pytest.mark.filterwarnings("ignore::plr.errors.PlrWarning")
def test_where_false_candidates_depend_on_the_features_checked_rows_decide(small_forests):
    problem = join(120)
    found = plr.compare(problem.X, problem.S, ["linear", "boosting"], known=problem.known(25), cv=3, random_state=0)
    assert found.ranked_by == "mae"
    assert found.models[0].mae <= found.models[1].mae
    assert "best first by errors on checked rows" in found.summary()
    with pytest.warns(DependentLabelsWarning) as told:
        without = plr.compare(problem.X, problem.S, ["linear"], cv=3, random_state=0)
    # Once, not for each fold.
    assert len(told) == 1
    assert without.ranked_by == "likelihood"
    assert "Look up the true labels" in without.caution


def test_weights_groups_and_progress():
    groups, weight, told = np.arange(150) // 5, np.where(np.arange(150) < 75, 1.0, 3.0), []
    found = plr.compare(
        X,
        S,
        ["linear"],
        groups=groups,
        sample_weight=weight,
        cv=3,
        random_state=0,
        callback=lambda *args: told.append(args),
    )
    assert told == [(1, 3, 0.0), (2, 3, 0.0), (3, 3, 0.0)]
    each = candidate_likelihood(found.predictions[:, 0], S, weight)
    assert found.best.likelihood == pytest.approx(np.average(each, weights=weight))
    sums = np.bincount(groups, weight * (each - found.best.likelihood))
    assert found.best.likelihood_error == pytest.approx((sums @ sums * 30 / 29) ** 0.5 / weight.sum())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learners": "linear"}, "learners must be a list"),
        ({"learners": ["linaer"]}, "did you mean 'linear'"),
        ({"learners": ["linear", "linear"]}, "linear is there twice"),
        ({"epochs": 3}, "takes no parameter 'epochs'"),
        ({"cv": 1}, "cv"),
        ({"groups": np.zeros(150)}, "at least two rows, or two groups"),
    ],
)
def test_mistakes_are_said(given, message):
    with pytest.raises(ParameterError, match=message):
        plr.compare(X, S, **{"learners": ["linear"], **given})


def test_effort_is_for_those_that_have_it(monkeypatch):
    seen = []
    fit = PartialLabelRegressor.fit
    monkeypatch.setattr(
        PartialLabelRegressor, "fit", lambda self, *a, **k: (seen.append(self.effort), fit(self, *a, **k))[1]
    )
    found = plr.compare(X[:45], S[:45], ["linear", "auto"], cv=2, random_state=0, effort="low")
    assert isinstance(found, Comparison)
    assert seen == [None, None, "low", "low"]
