"""The committee, which ``auto`` stands for: what it is made of, when it is not used, and what it promises on data."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.errors import FewRowsWarning, ParameterError
from plr.folds import make_folds
from plr.learners import LEARNERS, MLP, Committee, GaussianProcess, Refit, Task
from plr.learners.committee import EFFORTS, FittedCommittee, boosted_trees
from plr.learners.committee.members import learn_noise
from plr.learners.committee.relevance import screen_columns
from plr.learners.committee.search import Search
from plr.losses import Absolute, Squared
from plr.weighting import Posterior, Rule, get_weighting

pytestmark = pytest.mark.usefixtures("small_forests")
LOW = Committee(effort="low", cv=2)


def made_up(rows=150, false_labels=3, set_size="fixed", seed=0):
    """Return features, labels of a known function with a step, their candidate sets, and where the true ones are."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, size=(rows, 2))
    y = np.sin(2 * X[:, 0]) + 2.0 * (X[:, 1] > 0) + 0.05 * random.normal(size=rows)
    S, truth = make_candidates(y, false_labels, set_size=set_size, random_state=seed + 100, return_index=True)
    return X, y, S, S.offsets[:-1] + truth


def fit(X, S, learner=LOW, rule=None, **more):
    sets = S if isinstance(S, CandidateSets) else CandidateSets.from_lists(S)
    return learner.fit(Task(X, sets, rule or Rule(Posterior(), Squared()), **more))


def kinds(model):
    """Return what kinds of models a committee is made of."""
    return {member.kind for member in model.members}


@pytest.fixture
def search(monkeypatch):
    """Return the searches for members that have been made, with all that they have tried."""
    made = []
    for name in ("run", "run_plain"):
        original = getattr(Search, name)
        monkeypatch.setattr(
            Search, name, lambda self, original=original, **more: made.append(self) or original(self, **more)
        )
    return made


@pytest.fixture(scope="module")
def default():
    X, _, S, _ = made_up(250)
    return PartialLabelRegressor(effort="low", random_state=0).fit(X, S)


def test_finds_the_function_far_better_than_the_candidates_median(default):
    _, y, S, true = made_up(250)
    median = np.mean((np.median(S.values.reshape(len(S), -1), axis=1) - y) ** 2)
    new, labels, _, _ = made_up(300, seed=1)
    assert np.mean((default.predict(new) - labels) ** 2) < 0.25 * median
    assert np.mean((default.model_.out_of_fold - y) ** 2) < 0.25 * median
    assert np.mean(S.offsets[:-1] + default.identify().index == true) > 0.75


def test_the_prediction_is_that_of_the_members_by_their_shares(default):
    X, _, _, _ = made_up(250)
    model = default.model_
    rows = model.encoding.apply(X)
    assert model.shares.sum() == pytest.approx(1.0)
    assert_allclose(
        model.predict(X), sum(s * m.predict(rows) for s, m in zip(model.shares, model.members, strict=True))
    )
    # Each row's unseen prediction is by models that have not seen it, so it is worse than that of those that have.
    assert not np.allclose(model.out_of_fold, model.predict(X))


def test_on_plain_labels_the_better_one_counts_for_more_and_trees_have_no_say_on_a_line():
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(120, 2))
    line, steps = (
        fit(X, CandidateSets(y, np.arange(121)), Committee("low")) for y in (X[:, 0], (np.floor(3 * X) % 2).sum(axis=1))
    )
    assert kinds(line) == {"FittedGaussianProcess"}
    assert "FittedRefit" in kinds(steps)


def test_members_that_fail_are_left_out(search):
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(150, 3))
    y = X @ [1.0, -2.0, 0.5]
    S = make_candidates(y, 4, set_size="fixed", random_state=1)
    model = PartialLabelRegressor(effort="low", random_state=0).fit(X, S)
    assert "density" in {found.member.name for found in search[0].candidates}
    assert "FittedDensity" not in kinds(model.model_)
    assert np.mean((model.predict(X) - y) ** 2) < 0.01 * np.var(y)


@pytest.mark.parametrize("false_labels", [4, 12])
def test_evidence_tells_members_apart_whose_errors_clearly_differ(search, false_labels):
    X, y, S, _ = made_up(400, false_labels=false_labels)
    PartialLabelRegressor(random_state=0).fit(X, S)
    members = search[0].candidates
    errors = np.array([np.mean((found.held_out - y) ** 2) for found in members])
    evidence = np.array([found.evidence(np.ones(400)) for found in members])
    better = errors[:, None] < 0.5 * errors
    assert better.any()
    assert np.mean((evidence[:, None] > evidence)[better]) > 0.8
    assert errors[evidence.argmax()] < 1.3 * errors.min()


def test_a_density_that_has_failed_has_no_share_for_covering_rows_without_their_truth(search):
    # Candidates are multiples of the truth, so that a density knows where they lie, even where it is none of them.
    random = np.random.default_rng(4)
    X = random.uniform(0, 1, size=(300, 2))
    y = 40 + 300 * X[:, 0] - 60 * X[:, 1] + 6 * random.normal(size=300)
    S = y[:, None] * random.uniform(0.1, 3.0, size=(300, 3))
    there = random.random(300) > 0.125
    S[there, 0] = y[there]
    for weighting in (Posterior(), Posterior(missing_truth="learned")):
        model = PartialLabelRegressor(effort="low", weighting=weighting, random_state=0).fit(X, S)
        assert "FittedDensity" not in kinds(model.model_)
        assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 10


def test_crowded_labels_are_seen_on_another_scale(search):
    random = np.random.default_rng(0)
    X = random.uniform(0, 1, size=(250, 3))
    y = np.exp(5 * X[:, 0] + X[:, 1]) * (1 + 0.02 * random.normal(size=250))
    S = make_candidates(y, 6, set_size="fixed", random_state=1)
    found = fit(X, S, Committee("low", cv=5))
    plain = fit(X, S, Committee("low", cv=5, scales=False))
    new = random.uniform(0, 1, size=(300, 3))
    truth = np.exp(5 * new[:, 0] + new[:, 1])
    assert len(search[0].views) > 1
    assert len(search[1].views) == 1
    assert {member.scale.power is None for member in plain.members} == {True}
    assert np.mean((found.predict(new) - truth) ** 2) < 0.5 * np.mean((plain.predict(new) - truth) ** 2)


def test_a_scale_is_taken_only_where_it_is_ahead_by_more_than_chance(search):
    random = np.random.default_rng(0)
    X = random.uniform(0, 1, size=(60, 2))
    y = np.exp(2 * X[:, 0] + random.normal(size=60))
    fit(X, make_candidates(y, 2, random_state=1))
    plain, other = (view.scale for view in search[0].views[:2])

    def candidate(scale, likelihoods):
        return SimpleNamespace(
            view=SimpleNamespace(scale=scale), likelihoods=likelihoods, evidence=lambda _: likelihoods.mean()
        )

    own = random.normal(size=60)
    far, near = own + 0.5 * random.normal(size=60), own + 0.5 * random.normal(size=60)
    far, near = far + 1.0 + (own - far).mean(), near + 0.01 + (own - near).mean()
    for likelihoods, chosen in ((far, other), (near, plain)):
        assert search[0]._best([candidate(plain, own), candidate(other, likelihoods)]).view.scale is chosen


def test_a_function_that_held_out_predictions_disagree_with_has_no_share(search):
    X, y, S, true = made_up(200)
    fit(X, S)
    found = next(found for found in search[0].candidates if found.member.name == "Gaussian process")
    functions = found.functions
    wrong = [-1.0, *np.ones(len(functions.coefficients) - 1)]
    functions = replace(
        functions,
        coefficients=tuple(sign * own for sign, own in zip(wrong, functions.coefficients, strict=True)),
        predictions=np.array(wrong)[:, None] * functions.predictions,
    )
    probability = np.zeros(S.values.size)
    probability[true] = 1.0
    (process,) = found.member.models
    evenly = replace(process, chains=functions.mixed(functions.even_shares))
    (agreeing,) = replace(found, functions=functions).agreeing(probability, np.ones(200)).member.models
    labels = found.view.scale.apply(y)
    even, agreed = (np.mean((model.predict(found.view.task.X) - labels) ** 2) for model in (evenly, agreeing))
    assert agreed < 0.5 * even


@pytest.mark.slow
@pytest.mark.parametrize(("relevant", "columns"), [(2, 32), (3, 100)])
def test_columns_that_matter_only_together_are_found(search, relevant, columns):
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(1200, columns))
    y = 2 * np.sin(3 * X[:, 0]) * X[:, 1] + (relevant > 2) * X[:, 2] + 0.1 * random.normal(size=1200)
    model = fit(X, make_candidates(y, 4, set_size="fixed", random_state=1), Committee("low", cv=3))
    best = max(zip(model.shares, model.members, strict=True), key=lambda pair: pair[0])[1]
    assert set(range(relevant)) <= set(best.columns.tolist())
    assert len(best.columns) < columns / 3
    new = random.uniform(-1, 1, size=(500, columns))
    truth = 2 * np.sin(3 * new[:, 0]) * new[:, 1] + (relevant > 2) * new[:, 2]
    assert np.mean((model.predict(new) - truth) ** 2) < 0.05 * np.var(truth)


def test_on_plain_labels_columns_are_left_out_only_where_that_clearly_helps(search):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 30))
    each, three = X @ random.normal(size=30), X[:, 0] + np.sin(2 * X[:, 1]) * X[:, 2]
    for y, narrow in ((each, False), (three, True)):
        noisy = y + 0.3 * random.normal(size=200)
        model = fit(X, CandidateSets(noisy, np.arange(201)), Committee("low"))
        assert (min(len(m.columns) if m.columns is not None else 30 for m in model.members) < 30) == narrow


@pytest.mark.parametrize(("columns", "looked_at"), [(10, 8), (1_000, 800), (5_000, 1_000), (100_000, 1_000)])
def test_a_tree_looks_at_a_thousand_columns_at_most(columns, looked_at):
    assert round(boosted_trees(columns).colsample_bytree * columns) == looked_at


def test_effort_is_how_much_is_fitted():
    X, y, S, _ = made_up(60)
    sets = CandidateSets(y, np.arange(61))
    counts = []
    for level, effort in EFFORTS.items():
        model = fit(X, sets, Committee(level, cv=2))
        counts += [len(m.models[0].models) == effort.last_fits for m in model.members if m.kind == "FittedRefit"]
    assert counts
    assert all(counts)
    rounds = [fit(X, S, Committee(level, cv=2)).report.rounds for level in ("low", "normal")]
    assert rounds == sorted(set(rounds))


def test_the_regressors_effort_and_folds_reach_it():
    learner = PartialLabelRegressor(effort="high", cv=3)._resolve()[0]
    assert (learner.effort, learner.cv) == ("high", 3)
    own = Committee("low", cv=4)
    assert PartialLabelRegressor(own, cv=3)._resolve()[0].cv == 4


class TestEffortThatWouldDoNothing:
    @pytest.mark.parametrize("name", [name for name in LEARNERS if name != "committee"])
    def test_is_refused_with_every_other_learner(self, name):
        X, _, S, _ = made_up(20)
        for level in EFFORTS:
            with pytest.raises(ParameterError, match=rf"effort '{level}' is for the committee.*leave it out"):
                PartialLabelRegressor(name, effort=level).fit(X, S)

    def test_is_refused_with_a_committee_of_ones_own(self):
        X, _, S, _ = made_up(20)
        with pytest.raises(ParameterError, match=r"give Committee\(effort='high'\)"):
            PartialLabelRegressor(Committee(), effort="high").fit(X, S)
        assert PartialLabelRegressor(Committee("high"))._resolve()[0].effort == "high"

    def test_is_refused_where_auto_is_the_network(self):
        X, y, S, _ = made_up(20)
        with pytest.raises(ParameterError, match="the learner is MLP, which auto is with validation rows or a loss"):
            PartialLabelRegressor(effort="low", loss="absolute").fit(X, S)
        with pytest.raises(ParameterError, match="the learner is MLP"):
            PartialLabelRegressor(effort="low").fit(X, S, validation=(X, y))

    def test_none_is_normal(self):
        for named in ("auto", "committee"):
            assert PartialLabelRegressor(named)._resolve()[0].effort == "normal"
            assert PartialLabelRegressor(named, effort="low")._resolve()[0].effort == "low"


class TestFewRows:
    @pytest.mark.parametrize("named", ["auto", "committee"])
    def test_it_is_the_learner_that_it_says(self, named):
        X, _, S, _ = made_up(20)
        model = PartialLabelRegressor(named, effort="low", random_state=0).fit(X, S)
        assert isinstance(model.learner_, Committee)
        assert isinstance(model.model_, FittedCommittee)

    def test_there_are_neither_trees_nor_networks(self):
        X, _, S, _ = made_up(49)
        found = fit(X, S)
        assert kinds(found) <= {"FittedGaussianProcess", "FittedDensity"}
        assert_array_equal(found.out_of_fold, found.held_out)

    @pytest.mark.filterwarnings("ignore::plr.errors.FewRowsWarning")
    @pytest.mark.parametrize("rows", [1, 3, 5, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (2, 8))])
    def test_it_does_what_it_can_from_one_row_on(self, rows):
        X, _, S, _ = made_up(8)
        X, S = X[:rows], S[:rows]
        for groups in (None, np.arange(rows) // 2):
            model = PartialLabelRegressor(LOW, random_state=0).fit(X, S, groups=groups)
            assert isinstance(model.model_, FittedCommittee)
            assert np.isfinite(model.predict(X)).all()
            assert np.isfinite(model.identify().probabilities).all()

    def test_the_noise_scale_is_that_of_rows_it_has_not_seen(self):
        X, _, S, _ = made_up(40, false_labels=2)
        new, labels, _, _ = made_up(300, seed=1)
        model = PartialLabelRegressor(random_state=0).fit(X, S)
        error = np.sqrt(np.mean((model.predict(new) - labels) ** 2))
        assert 0.3 * error < model.noise_scale_ < 2 * error

    def test_rows_without_weight_do_not_make_fifty(self, search):
        X, y, _, _ = made_up(70)
        weight = np.where(np.arange(70) < 49, 1.0, 0.0)
        for light, few in ((weight, True), (None, False)):
            fit(X, CandidateSets(y, np.arange(71)), sample_weight=light)
            assert search[-1].few == few

    def test_how_many_are_few_can_be_said(self, search):
        X, _, S, _ = made_up(20)
        for fewest, few in ((20, False), (21, True)):
            fit(X, S, Committee("low", fewest_rows=fewest))
            tried = {*(found.member.name for found in search[-1].candidates), *(out[0] for out in search[-1].left_out)}
            assert ("boosted trees" in tried, "network" in tried) == (not few, not few)
        with pytest.raises(ParameterError, match="fewest_rows must be"):
            fit(X, S, Committee(fewest_rows=-1))

    def test_very_few_are_told(self):
        X, y, S, _ = made_up(19)
        with pytest.warns(FewRowsWarning, match="19 rows are few"):
            PartialLabelRegressor(effort="low", random_state=0).fit(X, S)
        # Rows without weight do not count, and on plain labels there is nothing to tell apart.
        more = np.append(np.ones(19), np.zeros(5))
        with pytest.warns(FewRowsWarning, match="19 rows are few"):
            PartialLabelRegressor(effort="low").fit(*made_up(24)[::2], sample_weight=more)
        PartialLabelRegressor(effort="low").fit(X, y)


class TestNotUsed:
    @pytest.mark.parametrize("case", ["loss", "validation"])
    def test_auto_is_the_network_where_the_committee_cannot(self, case):
        model = PartialLabelRegressor(loss="absolute" if case == "loss" else "squared")
        learner = model._resolve(validated=case == "validation")[0]
        assert isinstance(learner, MLP)
        assert isinstance(PartialLabelRegressor()._resolve()[0], Committee)

    def test_validation_rows_reach_the_network(self):
        X, y, S, _ = made_up(60)
        model = PartialLabelRegressor(random_state=0).fit(X, S, validation=(X[:20], y[:20]))
        assert isinstance(model.learner_, MLP)
        assert model.model_.report.best_round is not None

    def test_what_it_cannot_do_is_refused(self):
        X, _, S, _ = made_up(60)
        with pytest.raises(ParameterError, match="squared loss only"):
            fit(X, S, rule=Rule(Posterior(), Absolute()))
        with pytest.raises(ParameterError, match="validation"):
            fit(X, S, validation=(X, S))
        with pytest.raises(ParameterError, match="noise scale of its own"):
            fit(X, S, rule=Rule(Posterior(scale="row"), Squared()))
        with pytest.raises(ParameterError, match=r"effort.*did you mean 'low'"):
            fit(X, S, Committee("lo"))
        with pytest.raises(ParameterError, match="effort"):
            PartialLabelRegressor(effort="lo").fit(X, S)
        with pytest.raises(ParameterError, match="cv"):
            fit(X, S, Committee(cv=1))


def test_workers_change_nothing_and_the_seed_does():
    X, _, S, _ = made_up(80)
    one, two, other = (fit(X, S, seed=seed, n_jobs=jobs) for seed, jobs in ((3, 1), (3, 2), (4, 2)))
    assert_array_equal(one.predict(X), two.predict(X))
    assert_array_equal(one.out_of_fold, two.out_of_fold)
    assert_array_equal(one.held_out, two.held_out)
    assert not np.array_equal(one.predict(X), other.predict(X))


def test_rows_without_weight_have_no_influence():
    X, _, S, _ = made_up(120)
    weight = np.where(np.arange(120) < 80, 1.0, 0.0)
    values = S.values.copy()
    values[320:] = np.random.default_rng(0).choice(values[:320], 160)
    other = CandidateSets(values, S.offsets)
    with_them, with_others = (fit(X, sets, sample_weight=weight) for sets in (S, other))
    assert_array_equal(with_them.predict(X), with_others.predict(X))
    assert_array_equal(with_them.held_out, with_others.held_out)
    # Sums are rounded otherwise where there are fewer rows, and draws turn on rounding.
    without = fit(X[:80], S[:80], sample_weight=weight[:80])
    assert np.std(with_them.predict(X) - without.predict(X)) < 0.1 * np.std(without.predict(X))


@pytest.mark.filterwarnings("error")
def test_folds_without_weight_do_not_judge(monkeypatch):
    X, _, S, _ = made_up(100)
    task = Task(X, S, Rule(Posterior(), Squared()), sample_weight=np.where(np.arange(100) < 40, 0.0, 1.0))
    tried = Search(task, make_folds(task, KFold(5)), EFFORTS["low"], KFold(5), few=False, scales=False)
    monkeypatch.setattr(tried, "_best", lambda: SimpleNamespace(likelihoods=np.zeros(100)))
    model = SimpleNamespace(predict=lambda rows: np.zeros(len(rows)))
    assert len(tried._race("of any kind", tried.views[0], lambda _: model, 5)) == 5


@pytest.mark.filterwarnings("error")
def test_candidates_out_of_all_proportion_leave_the_noise_as_it_is():
    near = 0.1 * np.random.default_rng(0).normal(size=50)
    S = CandidateSets.from_lists([[label, 1e200] for label in near] + [[1e200]])
    task = Task(np.zeros((51, 1)), S, Rule(Posterior(), Squared()))
    ratios, noise, _ = learn_noise(np.zeros(51), task, np.zeros(101))
    assert 0.05 < noise < 0.2
    assert np.isfinite(ratios).all()


@pytest.mark.filterwarnings("error")
def test_one_row_says_nothing_of_many_columns():
    assert len(screen_columns(np.ones((3, 8)), np.arange(3.0)[:, None], np.array([0.0, 1.0, 0.0]))) == 0


def test_the_unit_of_weights_does_not_matter():
    X, _, S, _ = made_up(80)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 80)
    one, other = (fit(X, S, sample_weight=unit * weight) for unit in (1.0, 2.0**-40))
    assert_array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize(("unit", "shift"), [(1e-300, 0.0), (1e290, 0.0), (1e-3, 1e6)])
@pytest.mark.filterwarnings("error")
def test_units_of_labels_do_not_matter(unit, shift):
    X, _, S, _ = made_up(80)
    plain = fit(X, S)
    scaled = fit(X, CandidateSets(unit * S.values + shift, S.offsets))
    first, second = plain.predict(X), scaled.predict(X)
    assert np.sqrt(np.mean(((second - shift) / unit - first) ** 2)) < 0.1 * first.std()
    assert_allclose(scaled.report.noise_scale[-1] / unit, plain.report.noise_scale[-1], rtol=0.2)


def test_noise_and_false_labels_are_held_against_each_other_in_one_unit():
    X, _, S, _ = made_up(80)
    weighting = Posterior(false_labels="estimated", missing_truth=0.1)
    plain, scaled = (
        PartialLabelRegressor(LOW, weighting, random_state=0).fit(X, CandidateSets(unit * S.values, S.offsets))
        for unit in (1.0, 2.0**12)
    )
    # Draws turn on rounding; in another unit, noise and false labels would differ by the logarithm of 4096.
    assert_allclose(scaled.model_.report.loss, plain.model_.report.loss, atol=0.05)
    assert np.std(scaled.predict(X) / 2.0**12 - plain.predict(X)) < 0.05 * np.std(plain.predict(X))


@pytest.mark.parametrize("drawn", [True, False])
def test_trees_begin_where_the_mixture_has_ended_and_keep_its_root_as_a_prior(monkeypatch, drawn):
    X, _, S, _ = made_up(60)
    seen, original = [], Refit.fit
    monkeypatch.setattr(Refit, "fit", lambda self, task: seen.append(task) or original(self, task))
    weighting = Posterior(missing_truth=0.1) if drawn else get_weighting("progressive")
    fit(X, S, rule=Rule(weighting, Squared()))
    if drawn:
        # Once without each fold, and with all rows where these do not show that they fail.
        assert [len(told.S) for told in seen] in ([30, 30], [30, 30, 60])
        for told in seen:
            roots = np.sqrt(np.maximum(told.start, 1e-3))
            assert_allclose(told.S.prior, roots / np.add.reduceat(roots, told.S.offsets[:-1])[told.S.row_index])
            assert (told.rule.weighting.noise, told.rule.weighting.missing_truth) == ("gaussian", 0.1)
    else:
        # Under other weightings nothing was drawn.
        (told,) = seen
        assert (told.rule.weighting, told.start, told.S.prior) == (weighting, None, None)


def test_priors_of_zero_are_never_believed():
    X, y, S, true = made_up(100)
    prior = np.full(S.values.size, 1.0)
    prior[true] = 0.0
    model = PartialLabelRegressor(LOW, random_state=0).fit(X, CandidateSets(S.values, S.offsets, prior))
    assert_array_equal(model.model_.out_of_fold_weights[true], 0.0)
    assert_array_equal(model.identify().probabilities[true], 0.0)
    prior[true] = 1e6
    told = PartialLabelRegressor(LOW, random_state=0).fit(X, CandidateSets(S.values, S.offsets, prior))
    plain = PartialLabelRegressor(LOW, random_state=0).fit(X, y)
    assert np.mean((told.predict(X) - plain.predict(X)) ** 2) < 0.1 * np.var(y)


def test_a_density_of_false_labels_helps():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(120, 1))
    y = 2 * X[:, 0] + 0.2 * random.normal(size=120)
    S = np.column_stack([y, 0.1 * random.normal(size=(120, 2))])

    def at_zero(labels):
        return np.exp(-0.5 * (labels / 0.1) ** 2) / (0.1 * np.sqrt(2 * np.pi))

    found = [
        np.mean(PartialLabelRegressor(LOW, weighting, random_state=0).fit(X, S).identify().index == 0)
        for weighting in (Posterior(), Posterior(false_labels=at_zero))
    ]
    assert found[1] > max(found[0], 0.85)


def test_rows_without_their_truth():
    X, y, S, true = made_up(200, false_labels=1)
    values, lost = S.values.copy(), np.arange(200) % 5 == 0
    values[true[lost]] = np.random.default_rng(1).uniform(y.min(), y.max(), lost.sum())
    weighting = Posterior(missing_truth="learned")
    model = PartialLabelRegressor(LOW, weighting, random_state=0).fit(X, CandidateSets(values, S.offsets))
    assert model.score(X, y) > 0.8
    assert 0.1 < model.missing_share_ < 0.35


@pytest.mark.parametrize("weighting", ["average", "identification", "progressive"])
def test_other_weightings(weighting):
    X, y, S, _ = made_up(100, false_labels=1)
    model = PartialLabelRegressor(LOW, weighting, random_state=0).fit(X, S)
    assert model.start_weights_ is None
    assert model.score(X, y) > 0.5
    assert np.isfinite(model.identify().probabilities).all()


def test_folds_of_ones_own_and_groups_reach_the_trees():
    X, _, S, _ = made_up(60)
    for cv, groups in ((KFold(2), None), (3, np.arange(60) // 6), (2, np.zeros(60))):
        model = PartialLabelRegressor(effort="low", cv=cv, random_state=0).fit(X, S, groups=groups)
        assert np.isfinite(model.identify().probabilities).all()
    light = np.where(np.arange(60) < 55, 1.0, 0.0)
    model = PartialLabelRegressor(LOW, random_state=0).fit(X, S, groups=np.zeros(60), sample_weight=light)
    assert np.isfinite(model.predict(X)).all()


def hard_problems():
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 2))
    S = make_candidates(X[:, 0], 1, set_size="fixed", random_state=1)
    return {
        "fifty rows of two": (X, S),
        "constant columns": (np.column_stack([X, np.ones((50, 2))]), S),
        "nothing but constants": (np.ones((50, 2)), S),
        "one column": (X[:, 1:], S),
        "more columns than rows": (random.normal(size=(50, 90)), S),
        "equal candidates": (X, [[3.0, 3.0]] * 50),
        "equal labels": (X, [[3.0]] * 50),
        "single candidates and others": (X, [[1.0 * k] if k % 3 else [1.0 * k, 7.0] for k in range(50)]),
        "nothing but gaps": (np.full((50, 2), np.nan), S),
        "huge features": (1e300 * X, S),
    }


@pytest.mark.parametrize("name", hard_problems())
def test_hard_problems(name):
    X, S = hard_problems()[name]
    model = PartialLabelRegressor(LOW, random_state=0).fit(X, S)
    assert isinstance(model.model_, FittedCommittee)
    assert np.isfinite(model.predict(X)).all()
    found = model.identify()
    assert np.isfinite(found.probabilities).all()
    if name.startswith("equal"):
        assert_allclose(model.predict(X), 3.0, atol=1e-3)


def test_frames_with_gaps_and_categories_survive_a_pickle():
    X, y, _, _ = made_up(150)
    frame = pd.DataFrame({"a": np.where(np.arange(150) % 7, X[:, 0], np.nan), "b": X[:, 1], "kind": list("xyz" * 50)})
    labels = y + 4.0 * (np.arange(150) % 3)
    model = PartialLabelRegressor(effort="low", random_state=0).fit(frame, make_candidates(labels, 2, random_state=7))
    assert model.score(frame, labels) > 0.9
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict(frame), model.predict(frame), rtol=1e-12)
    assert np.isfinite(model.predict(frame.assign(kind="new", b=np.nan))).all()


@pytest.mark.parametrize("false_labels", [0, 1])
def test_groups_and_folds_of_ones_own_leave_out_both_models(false_labels):
    # Labels have nothing to do with features, so that only a row's twin can tell.
    random = np.random.default_rng(1)
    X = np.repeat(random.normal(size=(40, 2)), 2, axis=0)
    y = np.repeat(random.normal(size=40), 2)
    S = make_candidates(y, false_labels, set_size="fixed", random_state=1)
    groups = np.repeat(np.arange(40), 2)
    folds = [(np.flatnonzero(groups % 4 != k), np.flatnonzero(groups % 4 == k)) for k in range(4)]
    told = {
        "neither": fit(X, S),
        "groups": fit(X, S, groups=groups),
        "folds": fit(X, S, Committee("low", cv=folds)),
    }
    agree = {name: np.corrcoef(model.out_of_fold, y)[0, 1] for name, model in told.items()}
    assert agree["neither"] > 0.6 if false_labels == 0 else agree["neither"] > 0.3
    assert max(agree["groups"], agree["folds"]) < 0.3
    for name in ("groups", "folds"):
        held_out = told[name].held_out
        assert (held_out is None) == (false_labels == 0)
        assert held_out is None or np.corrcoef(held_out, y)[0, 1] < 0.3


def test_identify_asks_for_no_more_fits(default, monkeypatch):
    for kind in (Committee, GaussianProcess):
        monkeypatch.setattr(kind, "fit", None)
    assert len(default.identify().index) == 250


def asked_for_intervals():
    _, y, _, _ = made_up(120)
    groups = np.arange(120) // 3
    return {
        "folds": ({}, {}),
        "a splitter": ({"cv": KFold(3)}, {}),
        "folds of one's own": ({"cv": [(np.arange(40, 120), np.arange(40)), (np.arange(40), np.arange(40, 120))]}, {}),
        "groups": ({}, {"groups": groups}),
        "rows without weight": ({}, {"sample_weight": np.where(np.arange(120) % 7, 1.5, 0.0)}),
        "checked rows": ({}, {"known": np.where(np.arange(120) % 9, np.nan, y)}),
        "truth that may be missing": ({"weighting": Posterior(missing_truth="learned")}, {}),
    }


@pytest.mark.parametrize("case", asked_for_intervals())
def test_intervals_ask_for_no_more_fits(case, monkeypatch):
    parameters, more = asked_for_intervals()[case]
    X, y, S, _ = made_up(120)
    model = PartialLabelRegressor(**{"effort": "low", "cv": 2, "random_state": 0, **parameters}).fit(X, S, **more)
    for kind in (Committee, GaussianProcess, Refit):
        monkeypatch.setattr(kind, "fit", None)
    assert model.learner_.effort_of_folds(model.model_) is None
    intervals = model.predict_interval(X)
    assert np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1])) > 0.7
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_interval(X), intervals)


def test_held_out_predictions_are_about_as_far_off_as_new_ones(default):
    _, y, _, _ = made_up(250)
    new, labels, _, _ = made_up(300, seed=1)
    held_out, fresh = (
        np.sqrt(np.mean(error**2)) for error in (default.model_.held_out - y, default.predict(new) - labels)
    )
    assert 0.8 * fresh < held_out < 1.6 * fresh


def test_other_weightings_hold_nothing_out_in_the_fit():
    X, _, S, _ = made_up(60, false_labels=1)
    assert fit(X, S, rule=Rule(get_weighting("progressive"), Squared())).held_out is None
