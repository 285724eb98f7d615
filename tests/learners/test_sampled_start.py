"""The sampled start: a Gaussian process's draws as first weights and priors, for any learner."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.errors import ParameterError
from plr.learners import MLP, Boosting, GaussianProcess, Linear, Refit, Task
from plr.learners.refit.fits import trusted
from plr.learners.starts import DensityStart, SampledStart, get_start
from plr.losses import Absolute, Squared
from plr.weighting import Posterior, Progressive, Rule

pytestmark = pytest.mark.usefixtures("small_forests")
SHORT = GaussianProcess(chains=1, rounds=9)


def made_up(rows=120, false_labels=4):
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(rows, 2))
    y = np.abs(X[:, 0]) + X[:, 1] + 0.05 * random.normal(size=rows)
    S, truth = make_candidates(y, false_labels, set_size="fixed", random_state=100, return_index=True)
    return X, y, S, S.offsets[:-1] + truth


def weights(X, S, start=None, rule=None, **more):
    task = Task(X, S, rule or Rule(Posterior(), Squared()), **more)
    return (start or SampledStart(process=SHORT)).weights(task, 5)


def check_weights(found, S):
    assert found.shape == S.values.shape
    assert (found >= 0).all()
    assert_allclose(np.add.reduceat(found, S.offsets[:-1]), 1.0)


def test_it_is_surer_of_the_truth_than_the_density():
    X, _, S, true = made_up()
    drawn, dense = weights(X, S), weights(X, S, DensityStart.for_draws(len(S)))
    check_weights(drawn, S)
    assert drawn[true].mean() > dense[true].mean() + 0.2


@pytest.mark.parametrize(
    "rule",
    [
        Rule(Progressive(), Squared()),
        Rule(Posterior(), Absolute()),
        Rule(Posterior(noise="laplace", scale="row"), Squared()),
    ],
    ids=["weighting", "loss", "scale of rows"],
)
def test_the_draws_do_not_depend_on_what_the_learner_goes_by(rule):
    X, _, S, _ = made_up()
    assert_array_equal(weights(X, S, rule=rule), weights(X, S))


def test_what_the_posterior_says_of_false_labels_counts():
    X, _, S, true = made_up()
    plain = weights(X, S)
    assert not np.array_equal(weights(X, S, rule=Rule(Posterior(missing_truth=0.3), Squared())), plain)
    # A label that is never false must be true.
    log_q = np.zeros(S.values.size)
    log_q[true] = -20.0
    assert weights(X, S, log_q=log_q)[true].mean() > 0.95


def test_priors_of_zero_stay():
    X, _, S, true = made_up()
    prior = np.ones(S.values.size)
    prior[true] = 0.0
    assert_array_equal(weights(X, CandidateSets(S.values, S.offsets, prior))[true], 0.0)


def test_workers_change_nothing():
    X, _, S, _ = made_up()
    start = SampledStart(process=GaussianProcess(chains=2, rounds=3))
    assert_array_equal(*(weights(X, S, start, seed=1, n_jobs=jobs) for jobs in (1, 2)))


def test_groups_have_no_say_in_their_rows():
    # Labels have nothing to do with features, so that only rows of its own group can tell a row's.
    random = np.random.default_rng(0)
    X, y = np.repeat(random.normal(size=(20, 2)), 8, axis=0), np.repeat(random.uniform(size=20), 8)
    S, truth = make_candidates(y, 2, set_size="fixed", random_state=1, return_index=True)
    true = S.offsets[:-1] + truth
    apart, together = (weights(X, S, groups=groups)[true].mean() for groups in (None, np.repeat(np.arange(20), 8)))
    assert apart > 0.7
    assert together < 0.45


def test_plain_labels_need_no_start():
    assert_array_equal(weights(np.eye(3), CandidateSets.from_lists([[1.0], [2.0], [3.0]])), 1.0)


class TestTrust:
    def test_priors_are_multiplied_by_a_power_of_the_weights(self):
        S = CandidateSets.from_lists([[1.0, 2.0], [3.0, 4.0, 5.0]])
        given = np.array([0.8, 0.2, 0.0, 0.36, 0.64])
        half = trusted(S, given, SampledStart().trust)
        assert_allclose(half.prior[0] / half.prior[1], 2.0)
        assert_allclose(half.prior[4] / half.prior[3], 4 / 3)
        # No candidate is ruled out by a start.
        assert half.prior[2] > 0
        assert_allclose(np.add.reduceat(half.prior, S.offsets[:-1]), 1.0)
        told = CandidateSets(S.values, S.offsets, np.array([0.2, 0.8, 0.0, 0.5, 0.5]))
        full = trusted(told, given, 1.0)
        assert_allclose(full.prior, [0.5, 0.5, 0.0, 0.36, 0.64])

    def test_without_it_the_sets_are_left_alone(self):
        S = CandidateSets.from_lists([[1.0, 2.0]])
        assert DensityStart().trust == 0.0
        assert trusted(S, np.array([0.8, 0.2]), 0.0) is S

    @pytest.mark.parametrize("trust", [-0.5, np.nan, "much"])
    def test_bad_values_are_named(self, trust):
        X, _, S, _ = made_up(20)
        with pytest.raises(ParameterError, match="trust"):
            PartialLabelRegressor("linear", start=SampledStart(trust, SHORT)).fit(X, S)

    def test_it_reaches_the_learner(self):
        X, _, S, _ = made_up()
        seen = []

        class Watched(Linear):
            def fit(self, task):
                seen.append(task)
                return super().fit(task)

        model = PartialLabelRegressor(Watched(), start=SampledStart(1.0, SHORT), random_state=0).fit(X, S)
        (task,) = seen
        assert_array_equal(task.start, model.start_weights_)
        assert_allclose(task.S.prior, trusted(S, model.start_weights_, 1.0).prior)


@pytest.mark.parametrize(
    "learner",
    [Linear(), MLP(hidden=(8,), epochs=100), Boosting(trees=30, rows_per_leaf=5), Refit(DecisionTreeRegressor(), cv=3)],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
def test_every_learner_begins_with_it(learner):
    X, y, S, true = made_up()
    without, started = (
        PartialLabelRegressor(learner, start=start, random_state=0).fit(X, S)
        for start in (None, SampledStart(process=SHORT))
    )
    assert started.start_weights_[true].mean() > 0.7
    assert not np.array_equal(started.predict(X), without.predict(X))
    assert started.score(X, y) > 0.5


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_other_losses_may_begin_with_it(loss):
    X, y, S, _ = made_up()
    model = PartialLabelRegressor(
        MLP(hidden=(8,), epochs=100), loss=loss, start=SampledStart(process=SHORT), random_state=0
    )
    assert model.fit(X, S).score(X, y) > 0.7


@pytest.mark.parametrize("kind", ["list", "frame", "sparse"])
def test_learners_that_take_rows_of_any_kind(kind):
    X, _, S, _ = made_up()
    rows = {"list": X.tolist(), "frame": pd.DataFrame(X, columns=["a", "b"]), "sparse": sparse.csr_array(X)}[kind]
    start = SampledStart(process=SHORT)
    found, plain = (
        PartialLabelRegressor(Refit(Ridge(), cv=2, max_rounds=1), start=start, random_state=0).fit(given, S)
        for given in (rows, X)
    )
    assert_array_equal(found.start_weights_, plain.start_weights_)


def test_by_name_as_parameter_and_pickled():
    assert isinstance(get_start("sampled"), SampledStart)
    model = PartialLabelRegressor("linear", start=SampledStart(process=GaussianProcess()))
    assert model.set_params(start__trust=0.2, start__process__rounds=2, start__process__chains=1).start.trust == 0.2
    before = repr(clone(model))
    X, _, S, _ = made_up(60)
    model.fit(X, S)
    assert repr(model) == before
    assert_array_equal(pickle.loads(pickle.dumps(model)).start_weights_, model.start_weights_)
    # Weights that never move have no use for a start.
    assert PartialLabelRegressor("linear", "average", start="sampled").fit(X, S).start_weights_ is None
