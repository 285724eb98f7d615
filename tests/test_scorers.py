"""Scorers in scikit-learn's searches: likelihoods without labels, and errors on the rows whose label is known."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn import config_context
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plr import PartialLabelRegressor, make_candidates
from plr.errors import ParameterError
from plr.learners import Boosting
from plr.metrics import (
    CandidateLikelihoodScorer,
    candidate_likelihood,
    candidate_likelihood_scorer,
    known_neg_mean_absolute_error_scorer,
    known_neg_root_mean_squared_error_scorer,
    known_r2_scorer,
)
from plr.weighting import Average, Posterior, Progressive

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, size=(240, 3))
Y = 4 * X[:, 0] + 3 * X[:, 1] * X[:, 2] + RANDOM.normal(0, 0.3, 240)
S = make_candidates(Y, 3, set_size="fixed", random_state=1)
KNOWN = np.where(np.arange(240) % 6 == 0, Y, np.nan)
GRID = {"weighting": [Average(), Posterior()]}
KNOWN_SCORERS = {
    known_r2_scorer: r2_score,
    known_neg_mean_absolute_error_scorer: lambda *given: -mean_absolute_error(*given),
    known_neg_root_mean_squared_error_scorer: lambda *given: -root_mean_squared_error(*given),
}


def boosting(weighting="auto", **options):
    return PartialLabelRegressor(Boosting(**options), weighting, random_state=0)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def test_the_score_is_the_likelihood_of_held_out_sets():
    folds = KFold(3, shuffle=True, random_state=0)
    found = cross_val_score(boosting(), X, S, cv=folds, scoring=candidate_likelihood_scorer, error_score="raise")
    for score, (train, test) in zip(found, folds.split(X), strict=True):
        prediction = boosting().fit(X[train], S[train]).predict(X[test])
        assert score == candidate_likelihood(prediction, S[test]).mean()


@pytest.mark.parametrize("target", [S, S.to_lists(), np.asarray(S), pd.Series(S.to_lists())])
@pytest.mark.parametrize("search", [GridSearchCV, HalvingGridSearchCV])
def test_searches_take_the_scorer_as_it_is(search, target):
    given = PartialLabelRegressor("linear", random_state=0)
    found = search(given, GRID, scoring=candidate_likelihood_scorer, cv=3, error_score="raise").fit(X, target)
    assert isinstance(found.best_params_["weighting"], Posterior)
    assert np.isfinite(found.score(X, target))


def test_models_of_any_kind_compare():
    labels = CandidateLikelihoodScorer(Posterior("gaussian"))
    pipeline = make_pipeline(StandardScaler(), PartialLabelRegressor("linear", random_state=0)).fit(X, S)
    naive = LinearRegression().fit(X, S.mean())
    assert labels(pipeline, X, S) > labels(naive, X, S) + 0.1
    assert pickle.loads(pickle.dumps(labels))(naive, X, S) == labels(naive, X, S)


def test_the_default_score_orders_settings_as_labels_would():
    """Boosted trees that come near to their training rows found their errors on others incredible."""
    settings = [
        boosting(weighting, **options)
        for weighting in (Average(), Progressive(beta2=1.0), Posterior())
        for options in ({"trees": 30}, {"trees": 600, "rows_per_leaf": 3})
    ]
    scores, errors = [], []
    for model in settings:
        scores.append(cross_val_score(model, X[:160], S[:160], cv=3).mean())
        errors.append(mean_absolute_error(Y[160:], model.fit(X[:160], S[:160]).predict(X[160:])))
    assert spearmanr(scores, errors)[0] < -0.7


def test_rows_of_training_are_scored_out_of_fold():
    """By its own predictions a model that learned the rows by heart would be the best."""
    eager, calm = boosting(trees=600, rows_per_leaf=3).fit(X, S), boosting().fit(X, S)
    assert candidate_likelihood(eager.predict(X), S).mean() > candidate_likelihood(calm.predict(X), S).mean() + 0.2
    assert eager.score(X, S) < calm.score(X, S)
    assert calm.score(X, S) == pytest.approx(candidate_likelihood(calm._out_of_fold, S).mean(), abs=0.05)
    # Of a part of the rows, and of labels, it says what the model itself says.
    assert calm.score(X[1:], S[1:]) > calm.score(X, S) + 0.1
    assert calm.score(X, Y) == pytest.approx(r2_score(Y, calm.predict(X)))
    assert calm.fit(X, Y).score(X, Y) == pytest.approx(r2_score(Y, calm.predict(X)))


@pytest.mark.parametrize("scorer", KNOWN_SCORERS, ids=lambda scorer: scorer.name)
def test_known_rows_alone_are_scored(scorer, routing):
    expected = KNOWN_SCORERS[scorer]
    model = PartialLabelRegressor("linear", random_state=0).set_fit_request(known=True)
    folds = KFold(3, shuffle=True, random_state=0)
    given = {"scoring": scorer, "cv": folds, "params": {"known": KNOWN}, "error_score": "raise"}
    found = cross_val_score(model, X, S, **given)
    for score, (train, test) in zip(found, folds.split(X), strict=True):
        fitted = PartialLabelRegressor("linear", random_state=0).fit(X[train], S[train], known=KNOWN[train])
        rows = test[~np.isnan(KNOWN[test])]
        assert score == pytest.approx(expected(Y[rows], fitted.predict(X[rows])))
        assert scorer(fitted, X[test], KNOWN[test]) == pytest.approx(score)
    search = GridSearchCV(model, GRID, scoring=scorer, cv=folds, error_score="raise").fit(X, S, known=KNOWN)
    assert isinstance(search.best_params_["weighting"], Posterior)


def test_several_scorers_at_once_and_rows_with_probabilities(routing):
    model = PartialLabelRegressor("linear", random_state=0).set_fit_request(known=False, sample_weight=True)
    chosen = np.where(X[:, 0] > 0, 0.9, 0.2)
    known, weight = pd.DataFrame({"value": KNOWN, "probability": chosen}), np.where(X[:, 1] > 0, 1.0, 2.0)
    scoring = {"likelihood": candidate_likelihood_scorer, "r2": known_r2_scorer}
    params = {"known": known, "sample_weight": weight}
    folds = KFold(3)
    found = cross_validate(model, X, S, scoring=scoring, cv=folds, params=params, error_score="raise")
    train, test = next(folds.split(X))
    fitted = PartialLabelRegressor("linear", random_state=0).fit(X[train], S[train], weight[train])
    rows = test[~np.isnan(KNOWN[test])]
    prediction = fitted.predict(X[rows])
    assert found["test_r2"][0] == pytest.approx(r2_score(Y[rows], prediction, sample_weight=(weight / chosen)[rows]))
    by_hand = candidate_likelihood(fitted.predict(X[test]), S[test], weight[test])
    assert found["test_likelihood"][0] == pytest.approx(np.average(by_hand, weights=weight[test]))


def test_what_cannot_be_scored_is_said():
    model = RandomForestRegressor(5).fit(X, Y)
    with pytest.raises(ParameterError, match=r"known_r2_scorer needs known labels.*enable_metadata_routing=True"):
        known_r2_scorer(model, X, S)
    with pytest.warns(UndefinedMetricWarning, match="None of these rows"):
        assert np.isnan(known_neg_mean_absolute_error_scorer(model, X, np.full(240, np.nan)))
    with pytest.warns(UndefinedMetricWarning, match="at least two rows"):
        assert np.isnan(known_r2_scorer(model, X[:1], Y[:1]))
    with pytest.raises(ValueError, match="X has 240 rows and the target 239"):
        candidate_likelihood_scorer(model, X, S[1:])
