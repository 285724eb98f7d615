"""Known labels in scikit-learn: routed to fit and score, and cut to the rows of each part."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plr import PartialLabelRegressor
from plr.learners.starts import DensityStart
from support.candidate_mechanisms import guesses

pytestmark = [pytest.mark.usefixtures("small_forests"), pytest.mark.filterwarnings("ignore::plr.errors.PlrWarning")]
PROBLEM = guesses(90)
X, S, Y = PROBLEM.X, PROBLEM.S, PROBLEM.y
KNOWN = PROBLEM.known(60)
TABLES = {
    "array": KNOWN,
    "series": pd.Series(KNOWN, index=np.arange(90) + 1000),
    "frame": pd.DataFrame({"value": KNOWN, "answer": "", "probability": 0.5}, index=np.arange(90)[::-1]),
    "list": KNOWN.tolist(),
}


def regressor(**options):
    return PartialLabelRegressor("linear", start=DensityStart(models="neighbours"), random_state=0, **options)


@pytest.fixture(autouse=True)
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def test_r2_on_the_rows_that_are_known():
    model = regressor().fit(X, S, known=KNOWN)
    rows = ~np.isnan(KNOWN)
    expected = r2_score(Y[rows], model.predict(X)[rows])
    assert model.score(X, S, known=KNOWN) == pytest.approx(expected)
    assert model.score(X, Y, known=TABLES["frame"]) == pytest.approx(expected)
    weight = np.random.default_rng(0).uniform(size=90)
    weighted = r2_score(Y[rows], model.predict(X)[rows], sample_weight=weight[rows])
    assert model.score(X, S, weight, KNOWN) == pytest.approx(weighted)
    chosen = np.random.default_rng(1).uniform(0.1, 1.0, size=90)
    by_chance = r2_score(Y[rows], model.predict(X)[rows], sample_weight=1 / chosen[rows])
    assert model.score(X, S, known={"value": KNOWN, "probability": chosen}) == pytest.approx(by_chance)
    for few in (np.full(90, np.nan), np.where(np.arange(90) == 0, Y, np.nan)):
        with pytest.warns(UndefinedMetricWarning, match="at least two rows"):
            assert np.isnan(model.score(X, S, known=few))


@pytest.mark.parametrize(
    "kind", ["array", "frame", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("series", "list"))]
)
def test_known_labels_are_cut_to_the_rows_of_each_fold(kind):
    model = regressor().set_fit_request(known=True).set_score_request(known=True)
    folds = KFold(2, shuffle=True, random_state=0)
    found = cross_validate(model, X, S, cv=folds, params={"known": TABLES[kind]}, error_score="raise")
    for score, (train, test) in zip(found["test_score"], folds.split(X), strict=True):
        by_hand = regressor().fit(X[train], S[train], known=KNOWN[train])
        assert score == by_hand.score(X[test], S[test], known=KNOWN[test])


def test_pipelines_and_searches():
    inside = regressor().set_fit_request(known=True).set_score_request(known=True)
    pipeline = make_pipeline(StandardScaler(), inside).fit(X, S, known=KNOWN)
    assert pipeline[-1].prior_.checked == 60
    by_hand = regressor().fit(StandardScaler().fit_transform(X), S, known=KNOWN)
    assert pipeline.score(X, S, known=KNOWN) == by_hand.score(StandardScaler().fit_transform(X), S, known=KNOWN)
    grid = {"partiallabelregressor__prior": ["given", "auto"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, S, known=KNOWN)
    assert search.best_params_ == {"partiallabelregressor__prior": "auto"}
    assert search.best_estimator_[-1].prior_.checked == 60
