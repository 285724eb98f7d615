"""The density start: it finds where true labels pile up, out of fold, and survives any data."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, RepeatedKFold

from plr import CandidateSets, make_candidates
from plr.densities import MODELS, choose_models
from plr.densities.forest import Forest
from plr.densities.mixture import estimate
from plr.densities.neighbours import Neighbours
from plr.densities.network import DensityNetwork
from plr.errors import ParameterError
from plr.learners import Task
from plr.learners.starts import DensityStart
from plr.losses import Squared
from plr.weighting import Posterior, Rule

# These compile most kernels; in one process, so that it is done once.
pytestmark = pytest.mark.xdist_group("kernels")

KINDS = ["auto", *MODELS]
# Smaller than those a start is made of, where it does not matter how good they are.
SMALL = {
    "trees": [Forest(rows_per_leaf=5, trees=30), Forest(rows_per_leaf=30, trees=30)],
    "network": [
        DensityNetwork(bins=12, weight_decay=5.0, most=150),
        DensityNetwork(bins=24, weight_decay=0.5, most=150),
    ],
    "neighbours": [Neighbours(count=10), Neighbours(count=40)],
}


@functools.cache
def rule():
    return Rule(Posterior(), Squared())


def task(X, S, **more):
    sets = S if isinstance(S, CandidateSets) else CandidateSets.from_lists(S)
    return Task(np.asarray(X, dtype=np.float64), sets, rule(), **more)


def problem(rows=200, false_labels=3, seed=0, **more):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 2))
    y = np.abs(X[:, 0]) + 0.05 * random.normal(size=rows)
    S, truth = make_candidates(y, false_labels, set_size="fixed", random_state=seed, return_index=True)
    return task(X, S, **more), truth


def check_weights(weights, S):
    assert weights.shape == S.values.shape
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert_allclose(np.add.reduceat(weights, S.offsets[:-1]), 1.0)


# What auto stands for, trees and networks, is there one by one.
@pytest.mark.parametrize(
    "models", [pytest.param("auto", marks=pytest.mark.slow), *MODELS, ("trees", "neighbours")], ids=str
)
def test_true_labels_stand_out(models):
    given, truth = problem()
    weights = DensityStart(models).weights(given, 5)
    check_weights(weights, given.S)
    assert weights[given.S.offsets[:-1] + truth].mean() > 0.4


@pytest.mark.slow
def test_where_features_say_nothing_the_weights_are_the_priors():
    random = np.random.default_rng(0)
    y = random.uniform(size=300)
    S = make_candidates(y, 3, set_size="fixed", random_state=0)
    weights = DensityStart().weights(task(random.normal(size=(300, 2)), S), 5)
    assert np.abs(weights - 0.25).mean() < 0.1


@pytest.mark.parametrize("cv", [4, KFold(4, shuffle=True, random_state=0)], ids=["number", "splitter"])
@pytest.mark.parametrize("models", MODELS)
def test_a_row_has_no_say_in_its_own_weights(models, cv):
    given, _ = problem(40)
    row = 7
    values = given.S.values.copy()
    inside = slice(given.S.offsets[row], given.S.offsets[row + 1])
    # Other candidates within the range, so that bins stay where they are.
    values[inside] = np.linspace(values.min() + 0.1, values.max() - 0.1, 4)
    other = task(given.X, CandidateSets(values, given.S.offsets))
    heights = []
    for one in (given, other):
        found = estimate(one, cv, SMALL[models])
        # Labels are scaled by all rows, which moves the unit a little.
        unit = float(found.mixture.target.scale)
        heights.append([part[row] / unit for part in found.out_of_fold])
    for first, second in zip(*heights, strict=True):
        assert_allclose(first, second, rtol=0.05, atol=0.02)


def twins():
    """Return rows in pairs of the same features and true label, which is found nowhere else."""
    random = np.random.default_rng(0)
    X = np.repeat(random.normal(size=(60, 2)), 2, axis=0)
    y = np.repeat(random.uniform(size=60), 2)
    S, truth = make_candidates(y, 2, set_size="fixed", random_state=0, return_index=True)
    return X, S, S.offsets[:-1] + truth, np.repeat(np.arange(60), 2)


@pytest.mark.parametrize("models", MODELS)
def test_groups_stay_together(models):
    X, S, true, groups = twins()
    together = DensityStart(models).weights(task(X, S, groups=groups), 5)[true].mean()
    assert together < 0.36
    # A network does not know its rows by heart.
    assert models == "network" or DensityStart(models).weights(task(X, S), 5)[true].mean() > together + 0.05


@pytest.mark.parametrize("models", ["trees", "neighbours"])
def test_rows_without_weight_are_judged_without_their_group(models):
    X, S, true, groups = twins()
    light = np.flatnonzero(np.arange(120) % 2)
    weight = np.where(np.arange(120) % 2, 0.0, 1.0)

    def at_the_truth(**more):
        found = estimate(task(X, S, sample_weight=weight, **more), 5, choose_models(models, 120))
        labels = found.mixture.target.apply(S.values[true[light]])
        return found.mixture.models[0].bins.at(found.out_of_fold[0], light, labels).mean()

    assert at_the_truth() > 1.3 * at_the_truth(groups=groups)


@pytest.mark.parametrize("models", MODELS)
def test_workers_change_nothing(models):
    results = []
    for jobs in (1, 3):
        given, _ = problem(300, n_jobs=jobs, seed=1)
        found = estimate(given, 3, SMALL[models])
        results.append((found.weights, found.log_likelihood, found.mixture.heights(given.X)))
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            assert_array_equal(first, second)


def test_priors_multiply():
    given, truth = problem(100)
    prior = np.full(given.S.values.size, 1.0)
    prior[given.S.offsets[:-1] + truth] = 10.0
    told = task(given.X, CandidateSets(given.S.values, given.S.offsets, prior))
    plain, informed = (
        DensityStart("trees").weights(one, 5)[given.S.offsets[:-1] + truth].mean() for one in (given, told)
    )
    assert informed > plain + 0.1
    prior[given.S.offsets[:-1]] = 0.0
    prior[given.S.offsets[:-1] + 1] = 1.0
    none = DensityStart("trees").weights(task(given.X, CandidateSets(given.S.values, given.S.offsets, prior)), 5)
    assert (none[given.S.offsets[:-1]] == 0).all()


def test_a_known_density_of_false_labels_helps():
    # False labels pile up at zero for all rows, true ones move with x.
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(300, 1))
    false = 0.1 * random.normal(size=(300, 2))
    S = CandidateSets.from_padded(np.column_stack([2 * X[:, 0] + 0.05 * random.normal(size=300), false]))
    log_q = -0.5 * (S.values / 0.1) ** 2 - np.log(0.1 * np.sqrt(2 * np.pi))
    away = np.abs(X[:, 0]) > 0.3
    share = {
        name: DensityStart("trees").weights(task(X, S, log_q=given), 5).reshape(300, 3)[away, 0].mean()
        for name, given in (("uniform", None), ("known", log_q))
    }
    assert share["known"] > 0.9
    assert share["known"] > share["uniform"] + 0.1


def test_the_score_tells_signal_from_noise():
    given, _ = problem(200)
    shuffled = task(np.random.default_rng(0).permutation(given.X), given.S)
    signal, noise = (estimate(one, 5, choose_models("trees", 200)).log_likelihood for one in (given, shuffled))
    assert signal > 0.2
    assert abs(noise) < 0.1


def test_many_candidates_cost_what_bins_cost():
    # What a candidate says is what it leaves to the two bin centres beside it.
    given, _ = problem(60, false_labels=40)
    from plr.densities.bins import Bins

    sizes = set()

    class Recording(DensityNetwork):
        def _train(self, problem, sets, *rest):
            sizes.add(int(sets.sizes.max()))
            return super()._train(problem, sets, *rest)

    found = estimate(given, 3, [Recording(bins=12, weight_decay=0.5, most=50)])
    assert sizes == {12}
    long = estimate(given, 3, [DensityNetwork(bins=48, weight_decay=0.5, most=50)])
    assert abs(found.log_likelihood - long.log_likelihood) < 0.2
    bins = Bins.over(given.S, 12)
    heights = np.random.default_rng(0).uniform(size=(60, 12))
    exact = np.add.reduceat(bins.at(heights, given.S.row_index, given.S.values), given.S.offsets[:-1])
    assert_allclose((bins.spread(given.S, np.ones(given.S.values.size)) * heights).sum(axis=1), exact)
    # Features far beyond all training rows count as only very far.
    assert_array_equal(found.mixture.heights(1e9 * given.X), found.mixture.heights(1e12 * given.X))


def hard_problems():
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 3))
    y = X[:, 0]
    S = make_candidates(y, 3, set_size="fixed", random_state=0)
    few = np.zeros(30)
    few[3] = 1.0
    far = S.values.copy()
    far[7] = 1e9
    cases = {f"{rows} rows": (X[:rows], S[:rows], {}) for rows in (1, 2, 3, 7)}
    cases |= {f"labels of {unit:g}": (X, CandidateSets(S.values * unit, S.offsets), {}) for unit in (1e-300, 1e290)}
    return cases | {
        "labels far from zero": (X, CandidateSets(1e9 + 1e-3 * S.values, S.offsets), {}),
        "one group": (X, S, {"groups": np.zeros(30)}),
        "two groups": (X, S, {"groups": np.arange(30) % 2}),
        "named groups": (X, S, {"groups": np.array(list("abcdefghij" * 3))}),
        "equal candidates": (X, [[3.0, 3.0]] * 30, {}),
        "all equal but one": (X, [[3.0, 3.0]] * 29 + [[3.0, 4.0]], {}),
        "one candidate far out": (X, CandidateSets(far, S.offsets), {}),
        "weight on one row": (X, S, {"sample_weight": few}),
        "weights that vanish": (X, S, {"sample_weight": 10.0 ** -np.arange(0.0, 300.0, 10.0)}),
        "priors of zero": (X, CandidateSets(S.values, S.offsets, np.tile([0.0, 1e-280, 1.0, 0.0], 30)), {}),
        "impossible false labels": (X, S, {"log_q": np.where(S.values < 0, -np.inf, 0.0)}),
        "wild densities of false labels": (X, S, {"log_q": 1e4 * random.normal(size=S.values.size)}),
        "gaps": (np.where(X > 0.5, np.nan, X), S, {}),
        "nothing but gaps": (np.full((30, 3), np.nan), S, {}),
        "constant features": (np.ones((30, 2)), S, {}),
        "huge features": (1e300 * X, S, {}),
        "categories": (np.column_stack([X, np.arange(30) // 2]), S, {"categorical": (3,)}),
        "a thousand candidates": (X, make_candidates(y, 1000, set_size="fixed", random_state=0), {}),
    }


@pytest.mark.parametrize("name", hard_problems())
@pytest.mark.filterwarnings("error")
def test_hard_problems(name):
    X, S, more = hard_problems()[name]
    given = task(X, S, **more)
    for models in (SMALL["trees"] + SMALL["neighbours"], SMALL["network"]):
        found = estimate(given, 5, models)
        check_weights(found.weights, given.S)
        assert np.isfinite(found.log_likelihood)
        assert np.isfinite(found.mixture.heights(given.X)).all()
    if name in ("1 rows", "one group", "equal candidates", "weight on one row"):
        # Nothing to learn from without the row itself.
        assert_array_equal(found.weights, given.S.prior_or_uniform)


@pytest.mark.parametrize(
    "cv",
    [
        pytest.param(KFold(3), id="once"),
        pytest.param(RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), id="twice", marks=pytest.mark.slow),
    ],
)
def test_folds_of_ones_own(cv):
    given, truth = problem(150)
    for models in MODELS:
        weights = DensityStart(models).weights(given, cv)
        check_weights(weights, given.S)
        assert weights[given.S.offsets[:-1] + truth].mean() > 0.35


def test_plain_labels_need_no_start():
    given = task(np.eye(3), [[1.0], [2.0], [3.0]])
    assert_array_equal(DensityStart().weights(given, 5), 1.0)


@pytest.mark.parametrize(("models", "message"), [("tree", "did you mean 'trees'"), ((), "sequence"), (3, "sequence")])
def test_bad_models_are_named(models, message):
    with pytest.raises(ParameterError, match=message):
        DensityStart(models).weights(task(np.eye(3), [[1.0], [2.0], [3.0]]), 5)
