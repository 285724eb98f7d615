"""Checked rows: every learner works with them, and they teach what makes a candidate believable."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.errors import CandidateError, DependentLabelsWarning, FeatureError, LengthError, ParameterError
from plr.learners import LEARNERS, MLP, Boosting, Committee, Density, GaussianProcess, Module, Refit
from plr.learners.starts import DensityStart
from plr.weighting import Posterior
from support.candidate_mechanisms import guesses, join, sources

pytestmark = [pytest.mark.usefixtures("small_forests"), pytest.mark.filterwarnings("ignore::plr.errors.PlrWarning")]
SLOW = pytest.mark.slow
ROWS = 100
# Quicker than forests, in tests that do not ask how good first weights are.
NEIGHBOURS = DensityStart(models="neighbours")
JOIN, GUESSES = join(ROWS), guesses(ROWS)
LEARNER = {
    "boosting": lambda: Boosting(trees=10),
    "committee": lambda: Committee(effort="low", cv=2),
    "density": lambda: Density(models="trees"),
    "gaussian_process": lambda: GaussianProcess(chains=1, rounds=2),
    "mlp": lambda: MLP(hidden=(8,), epochs=20),
    "ridge": lambda: Refit(Ridge(), max_rounds=3),
    "module": lambda: Module(_net, epochs=3),
}


def _net():
    torch = pytest.importorskip("torch")
    return torch.nn.Linear(3, 1)


def fit(problem, known=None, learner="linear", sample_weight=None, groups=None, **options):
    model = PartialLabelRegressor(learner, random_state=0, **{"start": NEIGHBOURS} | options)
    return model.fit(problem.X, problem.S, known=known, sample_weight=sample_weight, groups=groups)


def assert_certain(model, problem, known):
    """Check that known rows are certain, and that all probabilities are ones."""
    found, S = model.identify(), problem.S
    rows = ~np.isnan(known)
    np.testing.assert_array_equal(found.value[rows], known[rows])
    np.testing.assert_allclose(found.probability[rows], 1.0)
    np.testing.assert_allclose(np.add.reduceat(found.probabilities, S.offsets[:-1]) + found.missing, 1.0, atol=1e-9)
    assert np.isfinite(model.predict(problem.X)).all()


@pytest.mark.parametrize("name", sorted({*LEARNERS, *LEARNER}))
def test_every_learner_takes_known_rows(name):
    if name == "module":
        pytest.importorskip("torch")
    known = JOIN.known(40)
    model = fit(JOIN, known, LEARNER[name]() if name in LEARNER else name)
    assert model.prior_.agreement is not None
    assert_certain(model, JOIN, known)
    right = np.mean(model.identify(JOIN.X, JOIN.S).value == JOIN.y)
    assert right > 0.5  # a choice at random: 0.2


@pytest.mark.parametrize("name", ["linear", "committee"])
def test_unrelated_candidates_are_settled_where_they_are_known(name):
    S = make_candidates(JOIN.y, 3, random_state=0)
    problem = type(JOIN)(JOIN.X, S, JOIN.y)
    known = problem.known(40)
    model = fit(problem, known, LEARNER[name]() if name in LEARNER else name)
    assert model.prior_ is None
    assert_certain(model, problem, known)
    np.testing.assert_allclose(model.candidate_probabilities_[np.repeat(~np.isnan(known), S.sizes)].max(), 1.0)


def test_a_frame_of_texts_in_a_pipeline():
    X = pd.DataFrame(
        {"colour": np.where(JOIN.X[:, 0] > 0, "red", "blue"), "kind": np.where(JOIN.X[:, 1] > 0, "a", "b")}
    )
    encode = make_column_transformer((OneHotEncoder(), ["colour", "kind"]))
    known, start = JOIN.known(40), NEIGHBOURS
    model = PartialLabelRegressor(make_pipeline(encode, Ridge()), start=start, random_state=0).fit(
        X, JOIN.S, known=known
    )
    assert model.prior_.agreement is not None
    assert_certain(model, type(JOIN)(X, JOIN.S, JOIN.y), known)
    assert len(model.identify(X[:5], JOIN.S[:5]).value) == 5


@SLOW
def test_sparse_features_are_those_of_an_array():
    known, rows = JOIN.known(40), sparse.csr_matrix(JOIN.X)
    by_sparse = PartialLabelRegressor(Ridge(), start=NEIGHBOURS, random_state=0).fit(rows, JOIN.S, known=known)
    by_dense = PartialLabelRegressor(Ridge(), start=NEIGHBOURS, random_state=0).fit(JOIN.X, JOIN.S, known=known)
    np.testing.assert_allclose(
        by_sparse.identify(rows, JOIN.S).probabilities, by_dense.identify(JOIN.X, JOIN.S).probabilities
    )


def test_nothing_smooth_is_fitted_to_dates():
    known, start = JOIN.known(40), None
    X = pd.DataFrame({"size": JOIN.X[:, 0]})
    encode = make_column_transformer(("passthrough", ["size"]))
    X["day"] = pd.to_datetime("2020-01-01")
    model = PartialLabelRegressor(make_pipeline(encode, Ridge()), start=start, random_state=0).fit(
        X, JOIN.S, known=known
    )
    assert model.prior_.agreement is None
    assert model.prior_.checked == 40


@pytest.mark.parametrize("weighting", ["average", "identification", "progressive"])
@pytest.mark.parametrize("prior", ["auto", "learned"])
def test_weightings_without_noise_go_by_the_coefficients_alone(weighting, prior):
    known = JOIN.known(40)
    model = fit(JOIN, known, weighting=weighting, prior=prior)
    assert model.prior_.agreement is None
    assert_certain(model, JOIN, known)
    assert "a candidate with score" in str(model.prior_)


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_other_losses_and_validation_rows(loss):
    known = GUESSES.known(30)
    model = PartialLabelRegressor(MLP(hidden=(8,), epochs=10), loss=loss, random_state=0)
    model.fit(GUESSES.X, GUESSES.S, validation=(GUESSES.X[:20], GUESSES.S[:20]), known=known)
    assert model.prior_.agreement is not None
    assert_certain(model, GUESSES, known)


def test_a_density_that_is_given_is_believed():
    model = fit(GUESSES, GUESSES.known(30), weighting=Posterior(false_labels=np.linspace(-8, 8, 50)))
    assert model.prior_ is None


@pytest.mark.parametrize("make", [guesses, pytest.param(join, marks=SLOW), pytest.param(sources, marks=SLOW)])
def test_checked_rows_bring_the_error_near_that_of_true_labels(make):
    problem = make(420)
    train, test = problem.take(np.arange(240)), problem.take(np.arange(240, 420))

    def error(target, known=None):
        model = PartialLabelRegressor("linear", start=NEIGHBOURS, random_state=0).fit(train.X, target, known=known)
        return np.mean((model.predict(test.X) - test.y) ** 2)

    best, none, ten, fifty = (
        error(train.y),
        error(train.S),
        error(train.S, train.known(10)),
        error(train.S, train.known(50)),
    )
    assert abs(fifty - best) <= abs(none - best) + 0.02 * best
    assert ten <= 1.05 * none
    if make is guesses:
        assert fifty < 1.1 * best < 1.5 * best < none


def test_weights_of_rows():
    known = JOIN.known(40)
    weight = np.where(np.arange(ROWS) % 4 == 0, 0.0, 1.0)
    kept = np.flatnonzero(weight)
    absent = fit(JOIN.take(kept), known[kept])
    present = fit(JOIN, known, sample_weight=weight)
    assert present.prior_.checked == absent.prior_.checked < 40
    np.testing.assert_allclose(present.prior_.coefficients, absent.prior_.coefficients, atol=1e-6)
    np.testing.assert_allclose(present.predict(JOIN.X), absent.predict(JOIN.X), atol=1e-5)


@SLOW
def test_a_weight_of_two_is_a_row_twice():
    # Up to which folds they are in, and how many rows a leaf of a tree has.
    known, each = JOIN.known(40), np.arange(ROWS)
    twice = np.append(each, each[::2])
    by_rows = fit(JOIN.take(twice), known[twice], groups=twice)
    by_weight = fit(JOIN, known, sample_weight=np.where(each % 2 == 0, 2.0, 1.0), groups=each)
    np.testing.assert_allclose(by_weight.predict(JOIN.X), by_rows.predict(JOIN.X), atol=0.15)


def test_groups_and_the_same_seed():
    known = JOIN.known(40)
    models = [fit(JOIN, known, groups=np.arange(ROWS) // 3, n_jobs=jobs) for jobs in (1, 2)]
    for one, other in [models, (models[0], pickle.loads(pickle.dumps(models[0])))]:
        np.testing.assert_array_equal(one.predict(JOIN.X), other.predict(JOIN.X))
        np.testing.assert_array_equal(one.identify().probabilities, other.identify().probabilities)
    assert clone(models[0]).get_params()["prior"] == "auto"
    assert not np.array_equal(models[0].predict(JOIN.X), fit(JOIN, known).predict(JOIN.X))


def test_missing_truth_is_learned():
    problem = join(ROWS, missing=0.3)
    known = problem.known(60)
    model = fit(problem, known)
    found = model.identify()
    lost = np.array([y not in row for y, row in zip(problem.y, problem.S, strict=True)])
    checked = ~np.isnan(known)
    np.testing.assert_array_equal(found.missing[checked], lost[checked].astype(float))
    assert 0.1 < found.missing[~checked].mean() < 0.5
    assert 0.05 < model.identify(problem.X, problem.S).missing.mean() < 0.5
    # Who says "none of these" need not know the label.
    table = pd.DataFrame(
        {"value": np.where(lost, np.nan, known), "answer": np.where(checked & lost, "none of these", "")}
    )
    by_answer = fit(problem, table)
    np.testing.assert_array_equal(by_answer.identify().missing[checked], lost[checked].astype(float))
    assert by_answer.prior_.missing.constant == pytest.approx(model.prior_.missing.constant, abs=1.0)


def test_new_rows_need_the_same_features():
    model = fit(JOIN, JOIN.known(40))
    with pytest.raises(FeatureError, match="no feature 'score'"):
        model.identify(JOIN.X, CandidateSets(JOIN.S.values, JOIN.S.offsets))
    texts = {"score": np.full(len(JOIN.S.values), "high")}
    with pytest.raises(FeatureError, match="held numbers in training"):
        model.identify(JOIN.X, CandidateSets(JOIN.S.values, JOIN.S.offsets, features=texts))


def test_a_prior_of_zero_stays_one():
    prior = np.where(np.arange(len(JOIN.S.values)) % 5 == 0, 0.0, 1.0)
    S = CandidateSets(JOIN.S.values, JOIN.S.offsets, prior, features=JOIN.S.features)
    for weighting in ("posterior", "progressive"):
        found = fit(type(JOIN)(JOIN.X, S, JOIN.y), JOIN.known(30), weighting=weighting).identify(JOIN.X, S)
        assert found.probabilities[::5].max() == 0.0


def test_what_can_be_wrong():
    with pytest.raises(ParameterError, match="prior='learned' has nothing to learn from"):
        fit(JOIN, prior="learned")
    with pytest.raises(ParameterError, match="prior='learned' has nothing to learn from"):
        fit(JOIN, np.full(ROWS, np.nan), prior="learned")
    with pytest.raises(LengthError, match="100 rows"):
        fit(JOIN, np.zeros(3))
    with pytest.raises(CandidateError, match="row 0 is inf"):
        fit(JOIN, np.full(ROWS, np.inf))
    assert fit(JOIN, JOIN.known(5), prior="learned").prior_.checked == 5


def test_learned_in_any_case():
    S = make_candidates(JOIN.y, 3, random_state=0)
    problem = type(JOIN)(JOIN.X, S, JOIN.y)
    assert fit(problem, problem.known(30), prior="learned").prior_.agreement is not None
    given = fit(JOIN, JOIN.known(30), prior="given")
    assert given.prior_ is None
    assert given.diagnosis_.dependence is None


EXTREMES = {
    "huge": lambda P: (P.X, P.S.values * 1e300, P.y * 1e300),
    "tiny": lambda P: (P.X, P.S.values * 1e-290, P.y * 1e-290),
    "far from zero": lambda P: (P.X, P.S.values + 1e9, P.y + 1e9),
    "huge feature": lambda P: (P.X * 1e200, P.S.values, P.y),
}


@pytest.mark.parametrize("name", ["huge", "far from zero", "huge feature", pytest.param("tiny", marks=SLOW)])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_extreme_tables(name):
    X, values, y = EXTREMES[name](JOIN)
    S = CandidateSets(values, JOIN.S.offsets, features=JOIN.S.features)
    rows = ~np.isnan(JOIN.known(40))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = PartialLabelRegressor("linear", start=NEIGHBOURS, random_state=0)
        model.fit(X, S, known=np.where(rows, y, np.nan))
        found = model.identify(X, S)
    assert model.prior_.agreement is not None
    assert np.isfinite(found.probabilities).all()
    assert np.mean(found.value[~rows] == y[~rows]) > 0.6
    far = X * 1e100 if name != "huge feature" else X
    assert np.isfinite(model.identify(far, S).probabilities).all()


@SLOW
def test_gaps_in_features_of_rows_and_candidates():
    X = np.column_stack([JOIN.X[:, 0], np.full(ROWS, np.nan)])
    X[::7, 0] = np.nan
    scores = np.where(np.arange(len(JOIN.S.values)) % 6 == 0, np.nan, JOIN.S.features["score"])
    nothing = np.full(len(scores), np.nan)
    columns = {
        "score": scores,
        "nothing": nothing,
        "same": np.ones(len(scores)),
        "id": np.arange(len(scores)).astype(str),
    }
    S = CandidateSets(JOIN.S.values, JOIN.S.offsets, features=columns)
    model = PartialLabelRegressor(Boosting(trees=10), random_state=0).fit(X, S, known=JOIN.known(40))
    assert np.mean(model.identify(X, S).value == JOIN.y) > 0.4


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("known", [None, 1.0])
def test_few_rows(rows, known):
    S = CandidateSets.from_lists([[1.0, 2.0], [4.0, 4.2], [1.1, 1.3]][:rows])
    labels = np.full(rows, np.nan)
    labels[0] = np.nan if known is None else known
    model = PartialLabelRegressor("linear", random_state=0).fit(np.arange(rows)[:, None], S, known=labels)
    assert np.isfinite(model.predict([[0.5]])).all()
    if known is not None:
        assert model.identify(np.zeros((1, 1)), S[:1]).probabilities.sum() == pytest.approx(1.0, abs=0.2)


def test_equal_candidates():
    S = CandidateSets.from_padded(np.repeat(JOIN.y[:, None], 3, axis=1))
    problem = type(JOIN)(JOIN.X, S, JOIN.y)
    for prior in ("auto", "learned"):
        model = fit(problem, problem.known(30), prior=prior)
        found = model.identify()
        np.testing.assert_allclose(3 * found.probabilities + np.repeat(found.missing, 3), 1.0)
    S = CandidateSets(np.full(6, 2.0), np.array([0, 2, 4, 6]))
    model = PartialLabelRegressor("linear", prior="learned").fit(np.zeros((3, 1)), S, known=[2.0, np.nan, np.nan])
    np.testing.assert_allclose(model.predict(np.zeros((1, 1))), 2.0)


@SLOW
def test_intervals_after_checked_rows():
    model = fit(JOIN, JOIN.known(40))
    low, high = model.predict_interval(JOIN.X, 0.8).T
    assert 0.6 < np.mean((low <= JOIN.y) & (JOIN.y <= high)) <= 1.0


def test_a_warning_where_nothing_says_which_is_true():
    with pytest.warns(DependentLabelsWarning, match="depend on the features.*known"):
        model = fit(GUESSES)
    assert "mean of each row's candidates" in model.identify().caution
    np.testing.assert_allclose(model.identify().probabilities, 0.2, atol=1e-9)
    # Rows count for less, the farther their candidates are apart.
    certainty, spread = model._belief.certainty, GUESSES.S.to_padded().std(axis=1)
    assert (np.diff(certainty[np.argsort(spread)]) < 0).all()
    means = fit(type(JOIN)(GUESSES.X, GUESSES.S.mean(), 0), sample_weight=certainty)
    np.testing.assert_allclose(model.predict(GUESSES.X), means.predict(GUESSES.X))
    prior = np.random.default_rng(0).uniform(0.1, 1.0, len(GUESSES.S.values))
    S = CandidateSets(GUESSES.S.values, GUESSES.S.offsets, prior)
    for problem, known in [(GUESSES, GUESSES.known(10)), (type(JOIN)(GUESSES.X, S, GUESSES.y), None)]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DependentLabelsWarning)
            assert fit(problem, known).identify().caution == ""


class TestMatchScore:
    """A score of which the larger numbers are more believable."""

    def test_counts_without_checked_rows(self):
        unaware, aware = (fit(JOIN, match_score=name) for name in (None, "score"))
        assert unaware.prior_ is None or not unaware.prior_.coefficients.any()
        assert "without checked rows" in str(aware.prior_)
        assert "with score" in str(aware.prior_)
        found = [np.mean(model.identify().value == JOIN.y) for model in (unaware, aware)]
        assert found[1] > found[0] + 0.2

    def test_scale_does_not_matter(self):
        S = JOIN.S
        far = CandidateSets(S.values, S.offsets, features={"score": 1e6 * S.features["score"] - 3e5}, record=S.record)
        other = fit(type(JOIN)(JOIN.X, far, JOIN.y), match_score="score")
        np.testing.assert_allclose(
            other.identify().probabilities, fit(JOIN, match_score="score").identify().probabilities, atol=1e-6
        )

    def test_checked_rows_correct_a_score_that_misleads(self):
        S = JOIN.S
        turned = CandidateSets(S.values, S.offsets, features={"score": -S.features["score"]}, record=S.record)
        problem = type(JOIN)(JOIN.X, turned, JOIN.y)
        right = [
            np.mean(fit(problem, known, match_score="score").identify().value == JOIN.y)
            for known in (None, problem.known(60))
        ]
        assert right[1] > right[0] + 0.3

    def test_unrelated_candidates(self):
        S = make_candidates(JOIN.y, 3, random_state=0)
        score = np.where(S.values == np.repeat(JOIN.y, S.sizes), 1.0, 0.0)
        S = CandidateSets(S.values, S.offsets, features={"score": score})
        problem = type(JOIN)(JOIN.X, S, JOIN.y)
        plain, scored = (np.mean(fit(problem, match_score=name).identify().value == JOIN.y) for name in (None, "score"))
        assert scored >= plain

    @pytest.mark.parametrize(("name", "message"), [("scor", "none of the features"), ("kind", "holds texts")])
    def test_must_be_a_feature_of_numbers(self, name, message):
        S = CandidateSets([1.0, 2.0], [0, 1, 2], features={"score": [0.1, 0.2], "kind": ["a", "b"]})
        with pytest.raises(ParameterError, match=message):
            PartialLabelRegressor("linear", match_score=name).fit([[0.0], [1.0]], S)

    def test_needs_a_prior_that_is_not_given(self):
        with pytest.raises(ParameterError, match="leave out one"):
            fit(JOIN, match_score="score", prior="given")


def test_equal_scores_are_equally_believable():
    S = JOIN.S
    score = np.round(S.features["score"], 1)
    problem = type(JOIN)(JOIN.X, CandidateSets(S.values, S.offsets, features={"score": score}), JOIN.y)
    prior = fit(problem, problem.known(60)).prior_
    same = CandidateSets([1.0, 1.0, 2.0], [0, 3], features={"score": [0.9, 0.9, 0.1]})
    first, second, last = prior.weigh(same).prior
    assert first == pytest.approx(second)
    assert first > last
    unknown = CandidateSets([1.0, 1.0], [0, 2], features={"score": [np.nan, np.nan]})
    np.testing.assert_allclose(prior.weigh(unknown).prior, 0.5)


def test_answers_that_no_candidate_is_true_count_in_full():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    values = (X.sum(axis=1)[:, None] + random.normal(0, 0.5, (200, 3))).ravel()
    S = CandidateSets(values, 3 * np.arange(201), prior=np.full(600, 0.1), prior_is="probability")
    known = {"value": np.full(200, np.nan), "answer": np.array(["none of these"] * 140 + [""] * 60)}
    known["value"][140:] = S.values[::3][140:]
    model = PartialLabelRegressor("linear", prior="learned", start=NEIGHBOURS, random_state=0).fit(X, S, known=known)
    missing = model.identify(X, S).missing
    assert 0.6 < missing.mean() < 0.8


def test_features_far_beyond_those_of_training():
    S = JOIN.S
    prior = fit(JOIN, JOIN.known(40)).prior_
    far = CandidateSets(S.values, S.offsets, features={"score": 1e308 * np.sign(S.features["score"] - 0.5)})
    assert np.isfinite(prior.weigh(far).prior).all()
    huge = type(JOIN)(
        JOIN.X, CandidateSets(S.values, S.offsets, features={"score": 1e307 * S.features["score"]}), JOIN.y
    )
    assert np.isfinite(fit(huge, JOIN.known(40)).predict(JOIN.X)).all()
