"""The search for a committee's members: where to begin, on which scale of labels, by which columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from plr.contracts import Fitted, Learner, Report, Task
from plr.densities import FEW_ROWS
from plr.densities.forest import Forest
from plr.densities.mixture import Estimate, estimate
from plr.folds import Folds, average_folds, out_of_fold, take_rows
from plr.learners.committee.members import Candidate, View, judge, learn_noise, log_likelihood, make_view, stack
from plr.learners.committee.relevance import moments_of, relevant_columns, screen_columns
from plr.learners.density import FittedDensity, point_of
from plr.learners.gaussian_process import FittedGaussianProcess, GaussianProcess, without_rows
from plr.learners.mlp import MLP
from plr.learners.refit.fits import trusted
from plr.learners.refit.learner import FittedRefit, Refit
from plr.preprocessing.label_scale import Power, likely_powers
from plr.preprocessing.scaling import Affine
from plr.progress import SILENT, Progress
from plr.weighting.rule import Rule, row_sums

__all__ = ["EFFORTS", "Effort", "Search", "boosted_trees"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Where labels are drawn, trees weigh the candidates of one half by what they learn from the other.
_INNER_FOLDS = 2
# Columns that a tree looks at, at most. Where there are more, others have their turn in the next tree; thousands of
# columns in each of thousands of trees would take minutes for a hundred rows.
_MOST_COLUMNS = 1000
# Trees and networks weigh candidates by their own noise and by the square root of the weights they begin with.
_TRUST = 0.5
# With fewer columns than this none are left out, and leaving out fewer than a third is not worth a fit.
_MANY_COLUMNS, _WORTH_LEAVING_OUT = 6, 2 / 3
# On plain labels fewer columns must make rows likelier by so much.
_CLEARLY_AHEAD = 0.1
# Columns that matter are looked for so many times, each time in what the last function has left.
_SEARCHES = 2
_WITHOUT_RANKS = "Gaussian process, without ranks"
# Scales of labels beside their own, at most.
_MOST_SCALES = 2
# Scales and columns are looked for by a coarser Gaussian process on so many rows, and a coarser forest.
_EXPLORED_ROWS, _EXPLORED_FEATURES, _EXPLORED_TREES = 2_000, 300, 40
# A member that is behind the best on the first folds by more than this, and more than chance would have it, is not
# fitted to the others; one that is a little behind may still do the mixture good.
_FIRST_FOLDS, _ERRORS_BEHIND, _LITTLE_BEHIND = 2, 2.0, 0.1


@dataclass(frozen=True)
class Effort:
    """How much is computed.

    Attributes
    ----------
    explore_few, explore_many : (int, int)
        Chains and rounds of the Gaussian process while scales and columns are looked for, for up to ``FEW_ROWS`` rows
        and for more.
    few, many : (int, int)
        Of those that begin where the mixture of members has ended.
    refits, inner_refits, last_fits : int
        Rounds of the trees where no labels are drawn, and where they are; how often they are fitted to all rows.
    from_start : bool
        Whether networks and trees begin where the start does, too.
    patient : bool
        Whether chains go on while a function may take shape.
    """

    explore_few: tuple[int, int]
    explore_many: tuple[int, int]
    few: tuple[int, int]
    many: tuple[int, int]
    refits: int
    inner_refits: int
    last_fits: int
    from_start: bool = True
    patient: bool = True


EFFORTS = {
    "low": Effort((1, 8), (1, 6), (2, 12), (1, 6), 2, 1, 1, False, False),
    "normal": Effort((2, 12), (2, 8), (4, 18), (2, 10), 4, 1, 3),
    "high": Effort((4, 24), (4, 16), (8, 40), (6, 24), 8, 3, 6),
}
"""What each level of effort stands for."""


@dataclass(frozen=True)
class Beginning:
    """Weights to begin with: for all rows, and for each fold what was made without it."""

    whole: Floats | None
    of_folds: tuple[Floats | None, ...]

    @classmethod
    def of(cls, found: Sequence[Candidate], weight: Floats) -> Beginning:
        """Begin where the likeliest mixture of candidates has ended."""
        shares = stack(found, weight)
        several = zip(*(candidate.weights for candidate in found), strict=True)
        *of_folds, whole = (np.average(weights, axis=0, weights=shares) for weights in several)
        return cls(whole, tuple(of_folds))


class Search:
    """Fits members to views of a task, each without each fold as well.

    Parameters
    ----------
    task : Task
        With weights of mean 1.
    folds : list of (train, test)
    effort : Effort
    cv : object
        What folds within folds are made by.
    few : bool
        Whether rows are too few for networks and trees.
    scales : bool
        Whether other scales of labels are tried.
    """

    def __init__(self, task: Task, folds: Folds, effort: Effort, cv: object, few: bool, scales: bool) -> None:
        self.task, self.folds, self.effort, self.cv, self.few = task, folds, effort, cv, few
        self.weight = np.ones(len(task.S)) if task.sample_weight is None else task.sample_weight
        self.rows = np.flatnonzero(self.weight)
        self.candidates: list[Candidate] = []
        self.left_out: list[tuple[str, float, float]] = []
        # Coarse Gaussian processes, one for each scale, and one without ranks.
        self.explored: list[Candidate] = []
        rule = task.rule
        if rule.learns_scale:
            # What is fitted to means of candidates wants weights that fall off as the squared loss does.
            rule = Rule(clone(rule.weighting).set_params(noise="gaussian"), rule.loss)
        plain = make_view(task, None, rule)
        powers = likely_powers(task.S, self.weight)[:_MOST_SCALES] if scales else []
        # Columns of two values have no ranks to speak of.
        self.ranked = any(len(np.unique(column)) > 2 for column in plain.task.X.T)
        self.views = [plain, *(make_view(task, power, rule) for power in powers)]

    def run(self) -> list[Candidate]:
        """Return the members that were fitted, where labels are drawn."""
        effort, grown = self.effort, not self.few
        exploring, starting, drawing, growing = self.task.progress.split(
            {
                "scales and columns": 2.0 + len(self.views),
                "networks and boosted trees from the start": 1.0 if grown and effort.from_start else 0.0,
                "Gaussian process": 2.0,
                "networks and boosted trees": 3.0 if grown else 0.0,
            }
        )
        with exploring:
            view, beginning = self._explore(exploring)
        if grown and effort.from_start:
            with starting:
                training, planting = starting.parts(2)
                self._add_networks("network from the start", view, beginning, training)
                self._add_trees("boosted trees from the start", view, beginning, 1, planting)
        with drawing:
            self._draw(drawing)
        if grown:
            best = self._best()
            with growing:
                training, planting = growing.parts(2)
                self._add_networks("network", best.view, self._ended(), training)
                self._add_trees("boosted trees", best.view, self._ended(), effort.last_fits, planting)
        return self.candidates

    def run_plain(self, apart: bool) -> list[Candidate]:
        """Return the members that were fitted, where no labels are drawn or no rows can be left out.

        ``apart`` says that rows must not speak for others of their group or fold.
        """
        smoothing, growing = self.task.progress.split(
            {"Gaussian process": 1.0, "boosted trees": 0.0 if self.few else 2.0}
        )
        with smoothing:
            pieces = smoothing.parts(len(self.views) + 2)
            for view, piece in zip(self.views, pieces, strict=False):
                self._add_smoother("Gaussian process", view, apart, piece)
            if self.ranked:
                self._add_smoother(_WITHOUT_RANKS, replace(self._best().view, ranks=False), apart, pieces[-2])
            columns = self._relevant(self._best())
            if columns is not None:
                best = self._best()
                part = self._whole(best.view).with_columns(columns)
                narrow = self._add_smoother("Gaussian process, relevant columns", part, apart, pieces[-1])
                if self._evidence(narrow) < self._evidence(best) + _CLEARLY_AHEAD:
                    # The rows that it is judged by have had a say in its columns.
                    self.candidates.remove(narrow)
                    self.left_out.append((narrow.member.name, self._evidence(narrow), narrow.seconds))
        if not self.few and self.folds:
            best = self._best()
            with growing:
                self._add_plain_trees(best.view, best.weights[-1], growing)
        return self.candidates

    def _explore(self, progress: Progress) -> tuple[View, Beginning]:
        """Fit what says which scale and which columns are worth while; return where others may begin."""
        plain, *others = self.views
        pieces = progress.parts(3 + len(others))
        density: Estimate | None = self.task.density
        size = self.effort.explore_few if len(self.task.S) < FEW_ROWS else self.effort.explore_many
        begun = self._begin(plain, self.task.start)
        if density is not None:
            self._add_density(plain, _on_scale(density, plain), begun, 0.0)
        for view, piece in zip(self.views, pieces, strict=False):
            self._add_process("Gaussian process", view, begun, size, piece, coarse=True)
        processes = self.candidates[-len(self.views) :]
        if self.ranked:
            plainer = replace(self._best(processes).view, ranks=False)
            processes.append(self._add_process(_WITHOUT_RANKS, plainer, begun, size, pieces[-2], coarse=True))
        self.explored = processes
        view = self._best(processes).view
        if view.scale.power is not None and density is not None:
            began = time.monotonic()
            found = estimate(replace(view.task, start=None, progress=SILENT), self.cv, density.models)
            begun = Beginning(found.weights, begun.of_folds)
            self._add_density(view, found, begun, time.monotonic() - began)
        self._screen(view, size, pieces[-1])
        best = self._best()
        return (view if best.member.columns is None else best.view), begun

    def _screen(self, view: View, size: tuple[int, int], progress: Progress) -> None:
        """Try the columns that a row's candidates depend on."""
        columns = view.task.X.shape[1]
        if columns < _MANY_COLUMNS:
            return
        screened = screen_columns(view.task.X, moments_of(view.task.S), self.weight)
        if 0 < len(screened) <= _WORTH_LEAVING_OUT * columns:
            part = view.with_columns(screened)
            begun = self._begin(part, None)
            self._add_process("Gaussian process, columns screened", part, begun, size, progress, coarse=True)

    def _draw(self, progress: Progress) -> None:
        """Fit the Gaussian process to all rows, by the columns that the best function so far depends on."""
        best = self._best()
        size = self.effort.few if len(self.task.S) < FEW_ROWS else self.effort.many
        fitted: list[Candidate] = []
        *narrow, wide, other = progress.parts(2 + _SEARCHES)
        name = "Gaussian process, relevant columns"
        tried: Rows | None = None
        for piece in narrow:
            columns = self._relevant(self._best())
            if columns is None or (tried is not None and np.isin(columns, tried).all()):
                break
            tried = columns
            view = self._whole(best.view).with_columns(columns)
            fitted.append(self._add_process(name, view, self._ended(), size, piece))
            if fitted[-1] is not self._best():
                break
        if self._best() not in fitted:
            self._add_process("Gaussian process, again", best.view, self._ended(), size, wide)
        self._draw_otherwise(size, other)

    def _draw_otherwise(self, size: tuple[int, int], progress: Progress) -> None:
        """Fit the Gaussian process of another scale or without ranks, or with, where it is not clearly behind.

        Where candidates tell little, which of two looks better is chance, and their mean is better than either.
        """
        best, first = self._best().view, self._best(self.explored)
        others = [found for found in self.explored if (found.view.scale, found.view.ranks) != (best.scale, best.ranks)]
        if not others:
            return
        second = max(others, key=self._evidence)
        ahead = (second.likelihoods - first.likelihoods)[self.rows]
        mean, error = _mean_and_error(ahead, self.weight[self.rows])
        if mean + _ERRORS_BEHIND * error < 0.0:
            return
        view = self._whole(second.view)
        if best.columns is not None:
            view = view.with_columns(best.columns)
        self._add_process("Gaussian process, second view", view, self._ended(), size, progress)

    def _relevant(self, best: Candidate) -> Rows | None:
        """Return the columns that a function depends on, and what it leaves; None where hardly any can be left out."""
        columns, own = self.views[0].task.X.shape[1], best.member.columns
        if columns < _MANY_COLUMNS:
            return None
        taken = np.arange(columns) if own is None else own
        kept = taken[relevant_columns(best.member.predict_part, best.view.task.X[self.rows], self.task.seed)]
        S = best.view.task.S
        left = row_sums(best.weights[-1] * S.values, S) - best.view.scale.apply(best.held_out)
        # By ranks: a few rows with the wrong label must not decide.
        left[self.rows] = rankdata(left[self.rows])
        kept = np.union1d(kept, screen_columns(self.views[0].task.X, left[:, None], self.weight))
        return kept if 0 < len(kept) <= _WORTH_LEAVING_OUT * columns else None

    def _whole(self, view: View) -> View:
        """Return the view of all columns on the same scale of labels."""
        whole = next(whole for whole in self.views if whole.scale is view.scale)
        return replace(whole, ranks=view.ranks)

    def _begin(self, view: View, start: Floats | None) -> Beginning:
        """Return weights to begin with: those given for all rows, if any; for few rows also without each fold.

        What is not given comes from a small forest.
        """
        task, many = replace(view.task, start=None, density=None, progress=SILENT), len(self.task.S) >= FEW_ROWS
        models = [Forest(rows_per_leaf=30 if many else 10, trees=_EXPLORED_TREES, most_rows=_EXPLORED_ROWS)]
        whole = estimate(task, self.cv, models).weights if start is None else start
        if many or (start is not None and self.task.density is None):
            # Of many rows, those of one fold have little say in what is made of the others.
            return Beginning(whole, (whole,) * len(self.folds))

        def begin(fold: int) -> Floats:
            train = self.folds[fold][0]
            weights = np.array(task.S.prior_or_uniform)
            part = replace(take_rows(task, train), n_jobs=1)
            inside = np.zeros(len(task.S), dtype=bool)
            inside[train] = True
            weights[inside[task.S.row_index]] = estimate(part, 5, models).weights
            return weights

        return Beginning(whole, tuple(self._parallel(begin, range(len(self.folds)))))

    def _best(self, among: Sequence[Candidate] = ()) -> Candidate:
        """Return the best by evidence; of another scale of labels only where it is ahead of the best on their own.

        Where candidates tell little, a scale that looks best by chance may make predictions worse than their mean.
        """
        among = among or self.candidates
        best = max(among, key=self._evidence)
        plain = [found for found in among if found.view.scale is self.views[0].scale]
        if not plain or best in plain:
            return best
        other = max(plain, key=self._evidence)
        mean, error = _mean_and_error((best.likelihoods - other.likelihoods)[self.rows], self.weight[self.rows])
        return best if mean > error else other

    def _ended(self) -> Beginning:
        return Beginning.of(self.candidates, self.weight)

    def _evidence(self, found: Candidate) -> float:
        return found.evidence(self.weight)

    def _add_density(self, view: View, found: Estimate, beginning: Beginning, seconds: float) -> None:
        """Add the density that the start has estimated; its mean predicts."""
        if found.out_of_fold is None:
            return
        mixture = found.mixture
        report = Report(rounds=1, loss=np.array([-found.log_likelihood]))
        model = FittedDensity(mixture, "mean", report, found.log_likelihood)
        prediction = point_of(mixture, mixture.mix(found.out_of_fold, len(self.task.S)), "mean")
        weights = [found.weights if start is None else start for start in (*beginning.of_folds, beginning.whole)]
        self._add(judge(_named("density", view), [model], view, prediction, weights, seconds))

    def _add_process(
        self,
        name: str,
        view: View,
        beginning: Beginning,
        size: tuple[int, int],
        progress: Progress,
        coarse: bool = False,
    ) -> Candidate:
        began = time.monotonic()
        chains, rounds = size
        learner = GaussianProcess(chains, rounds, "auto" if self.effort.patient else rounds, ranks=view.ranks)
        if coarse:
            learner.set_params(features=_EXPLORED_FEATURES, most_rows=_EXPLORED_ROWS)
        task = replace(view.task, start=beginning.whole, seed=self._seed(), progress=progress)
        starts = () if beginning.whole is None else beginning.of_folds
        with progress:
            process, draws, functions = learner.fit_folds(task, self.folds, starts)
        tests = [found.prediction[test] for found, (_, test) in zip(draws, self.folds, strict=True)]
        prediction = average_folds(self.folds, tests, len(self.task.S))
        weights = (*(found.weights for found in draws), process.weights)
        seconds = time.monotonic() - began
        found = judge(_named(name, view), [_without_rows(process)], view, prediction, weights, seconds)
        return self._add(replace(found, functions=functions))

    def _add_networks(self, name: str, view: View, beginning: Beginning, progress: Progress) -> None:
        """Train a network without each fold, from the weights made without it; they predict new rows together."""
        seed = self._seed()

        def train(fold: int) -> Fitted:
            part = self._part(view, beginning.of_folds[fold], self.folds[fold][0], seed + fold)
            return MLP(scale_features=False, ranks=view.ranks).fit(part)

        began = time.monotonic()
        with progress:
            networks = self._race(_named(name, view), view, train, len(self.folds))
        if networks is None:
            return
        found = [network.predict(view.task.X) for network in networks]
        tests = [own[test] for own, (_, test) in zip(found, self.folds, strict=True)]
        prediction = average_folds(self.folds, tests, len(self.task.S))
        found.append(np.asarray(np.mean(found, axis=0)))
        seconds = time.monotonic() - began
        self._add(judge(_named(name, view), networks, view, prediction, None, seconds, found))

    def _add_trees(self, name: str, view: View, beginning: Beginning, fits: int, progress: Progress) -> None:
        """Fit trees without each fold and to all rows, each from weights that know no more."""
        seed, folds = self._seed(), len(self.folds)
        jobs = [(start, rows, 1) for start, (rows, _) in zip(beginning.of_folds, self.folds, strict=True)]
        jobs.append((beginning.whole, self.rows, fits))

        def fit(number: int) -> FittedRefit:
            start, rows, last_fits = jobs[number]
            learner = Refit(
                boosted_trees(view.task.X.shape[1]),
                cv=_INNER_FOLDS,
                # The process draws labels for rows whose truth may be missing as well; it takes trees some rounds to
                # leave these rows out.
                max_rounds=self.effort.refits if self.task.rule.may_miss else self.effort.inner_refits,
                last_fits=last_fits,
                scale_target=False,
            )
            return learner.fit(self._part(view, start, rows, seed + number))

        began = time.monotonic()
        with progress:
            fitted = self._race(_named(name, view), view, fit, folds + 1)
        if fitted is None:
            return
        tests = [trees.predict(view.task.X[test]) for trees, (_, test) in zip(fitted, self.folds, strict=False)]
        prediction = average_folds(self.folds, tests, len(self.task.S))
        found = []
        for (_, rows, _), trees in zip(jobs, fitted, strict=True):
            own = trees.predict(view.task.X)
            if trees.out_of_fold is not None:
                # Trees are nearer to the rows they were fitted to than they should be.
                own[rows] = trees.out_of_fold
            found.append(own)
        models, seconds = [replace(fitted[-1], out_of_fold=None)], time.monotonic() - began
        self._add(judge(_named(name, view), models, view, prediction, None, seconds, found))

    def _race(self, name: str, view: View, fit: Callable[[int], Any], count: int) -> list[Any] | None:
        """Fit so many models, each fold's first; only the first few where these are behind the best member."""
        began = time.monotonic()
        first = min(_FIRST_FOLDS, len(self.folds))
        fitted = self._parallel(fit, range(first))
        rows = np.unique(np.concatenate([test for _, test in self.folds[:first]]))
        if not self.weight[rows].any():
            return fitted + self._parallel(fit, range(first, count))
        tests = [model.predict(view.task.X[test]) for model, (_, test) in zip(fitted, self.folds, strict=False)]
        prediction = np.zeros(len(self.task.S))
        for found, (_, test) in zip(tests, self.folds, strict=False):
            prediction[test] = found
        part, counted = take_rows(view.task, rows), self.weight[rows]
        inside = np.zeros(len(self.task.S), dtype=bool)
        inside[rows] = True
        ratios, _, missing = learn_noise(prediction[rows], part, view.log_q[inside[self.task.S.row_index]])
        ahead = log_likelihood(ratios, part.S, missing) - self._best().likelihoods[rows]
        mean, error = _mean_and_error(ahead, counted)
        if mean + _ERRORS_BEHIND * error < -_LITTLE_BEHIND:
            self.left_out.append((name, self._evidence(self._best()) + mean, time.monotonic() - began))
            return None
        return fitted + self._parallel(fit, range(first, count))

    def _part(self, view: View, start: Floats | None, rows: Rows, seed: int) -> Task:
        task = view.task
        if start is not None:
            task = replace(task, S=trusted(task.S, start, _TRUST), start=start)
        return replace(take_rows(task, rows), seed=seed % 2**31, n_jobs=1, callback=None, progress=SILENT)

    def _add_smoother(self, name: str, view: View, apart: bool, progress: Progress) -> Candidate:
        """Add a Gaussian process that draws nothing; its own predictions of rows without them will do, unless apart."""
        began = time.monotonic()
        learner = GaussianProcess(rounds=self.effort.few[1] + self.effort.explore_few[1], ranks=view.ranks)
        whole, crossing = progress.parts(2)
        task = replace(view.task, start=self.task.start, seed=self._seed())
        with whole:
            process = learner.fit(replace(task, progress=whole))
        prediction = process.out_of_fold
        drawn_from = self.few and task.S.values.size > len(task.S)
        if prediction is None or apart or drawn_from:
            # With few rows a row's candidates have much say in which candidates of others are believed.
            with crossing:
                prediction = self._cross_fit(learner, task, process, crossing)
        seconds = time.monotonic() - began
        model = _without_rows(process)
        return self._add(judge(_named(name, view), [model], view, prediction, [process.weights], seconds))

    def _add_plain_trees(self, view: View, weights: Floats, progress: Progress) -> None:
        """Add trees that are fitted out of fold and to all rows."""
        began = time.monotonic()
        task = view.task
        if task.rule.learns_scale:
            task = replace(task, S=trusted(task.S, weights, _TRUST), start=weights)
        whole, crossing = progress.parts(2)
        learner = Refit(
            boosted_trees(task.X.shape[1]),
            cv=self.cv,
            max_rounds=self.effort.refits,
            last_fits=self.effort.last_fits,
            scale_target=False,
        )
        with whole:
            trees = learner.fit(replace(task, progress=whole))
        prediction = trees.out_of_fold
        if prediction is None:
            # On plain labels weights do not move, and trees out of fold are fitted once that is known.
            with crossing:
                prediction = self._cross_fit(learner.set_params(last_fits=1), task, trees, crossing)
        models, seconds = [replace(trees, out_of_fold=None)], time.monotonic() - began
        self._add(judge(_named("boosted trees", view), models, view, prediction, None, seconds, [prediction]))

    def _cross_fit(self, learner: Learner, task: Task, fitted: Fitted, progress: Progress) -> Floats:
        """Predict the rows out of fold; a lone group as it is, since there is nothing else to learn from."""
        if not self.folds:
            return fitted.predict(task.X)
        return out_of_fold(learner, replace(task, callback=None, progress=progress), self.cv)

    def _add(self, found: Candidate) -> Candidate:
        self.candidates.append(found)
        return found

    def _parallel(self, run: Callable[[int], Any], numbers: Iterable[int]) -> list[Any]:
        return list(Parallel(n_jobs=self.task.n_jobs, prefer="threads")(delayed(run)(number) for number in numbers))

    def _seed(self) -> int:
        return (self.task.seed + 7919 * (len(self.candidates) + len(self.left_out))) % 2**31


def _mean_and_error(numbers: Floats, weight: Floats) -> tuple[float, float]:
    mean = float(np.average(numbers, weights=weight))
    return mean, float(np.sqrt(np.average((numbers - mean) ** 2, weights=weight) / np.count_nonzero(weight)))


def _without_rows(process: FittedGaussianProcess) -> FittedGaussianProcess:
    """Return what predicts, without what is known of each training row."""
    chains = tuple(map(without_rows, process.chains))
    return replace(process, chains=chains, weights=np.empty(0), out_of_fold=None)


def _on_scale(found: Estimate, view: View) -> Estimate:
    """Return a density of labels as given, of features as given, for a view's encoded features and scaled labels."""
    own, target = found.mixture.target, view.scale.target
    scaled = Affine((own.centre - target.centre) / target.scale, own.scale / target.scale)
    return replace(found, mixture=replace(found.mixture, encoding=view.task.preprocess().encoding, target=scaled))


def _named(name: str, view: View) -> str:
    power = view.scale.power
    if not isinstance(power, Power):
        return name
    return f"{name}, of {'logarithms' if power.power == 0 else 'a power of labels'}"


def boosted_trees(columns: int = 1) -> Any:
    """Return the trees, not yet fitted, for so many columns."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(
        n_estimators=300,
        num_leaves=12,
        learning_rate=0.05,
        min_child_samples=8,
        subsample=0.8,
        subsample_freq=1,
        colsample_bytree=min(0.8, _MOST_COLUMNS / max(columns, 1)),
        deterministic=True,
        force_col_wise=True,
        n_jobs=1,
        verbosity=-1,
    )
