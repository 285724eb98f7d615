"""One chain of draws: labels given the kernel, and the kernel given labels, in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from plr._fields import BY_ROW, MATRIX, WITH_GAPS, require
from plr.candidates import CandidateSets
from plr.learners.gaussian_process.kernel import Kernel, cholesky
from plr.learners.refit.fits import draw_candidates
from plr.weighting.rule import Rule, row_sums

__all__ = ["Chain", "ChainSettings", "ChainTask", "run_chain"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# A row's own say in its prediction; at one, nothing would be left to predict it from.
_HIGHEST_LEVERAGE = 0.999
# Columns of labels that the kernel is learned from.
_DRAWS = 10
# First labels are drawn from the squares of the start's weights, which are under-confident.
_SHARPENING = 2.0
# At least so many rows count as those that the start is most confident of.
_FEWEST_CONFIDENT = 200


@dataclass(frozen=True)
class ChainTask:
    """What is learned from: scaled features and labels, and what goes with each row.

    ``odds`` are prior over density of false labels, ``missing`` the probability that the truth is not in a set.
    """

    X: Floats
    S: CandidateSets
    weight: Floats
    odds: Floats
    missing: Floats
    start: Floats | None


@dataclass(frozen=True)
class ChainSettings:
    """How long a chain is and how much of the data it looks at.

    ``rounds`` of learning the kernel from ``kernel_rows`` random rows by ``steps`` steps, each followed by ``sweeps``
    over all rows. The function has ``features`` features on the way, and ``last_features`` in the end.
    """

    rounds: int
    sweeps: int
    steps: int
    kernel_rows: int
    features: int
    last_features: int


@dataclass(frozen=True)
class Chain:
    """What a chain found: a function, and for the training rows what all other rows say.

    Attributes
    ----------
    kernel : Kernel
    places, root, coefficients : ndarrays
        The function: covariance with ``places``, whitened by ``root``, times ``coefficients``.
    weights : ndarray, one entry per candidate
    out_of_fold : ndarray of shape (n,)
        Predictions from all other rows.
    noise_scales, evidence : ndarrays, one entry per round
    """

    kernel: Kernel
    places: Floats = field(metadata=MATRIX)
    root: Floats = field(metadata=MATRIX)
    coefficients: Floats
    weights: Floats = field(metadata=BY_ROW)
    out_of_fold: Floats = field(metadata=BY_ROW)
    noise_scales: Floats = field(metadata=WITH_GAPS)
    evidence: Floats = field(metadata=WITH_GAPS)

    def __post_init__(self) -> None:
        places, columns = self.places.shape
        require(self.kernel.parameters.shape == (columns + 3,), "kernel and places differ in columns")
        require(self.root.shape == (places, places), "root and places differ in number")
        require(self.coefficients.shape == (places,), "coefficients and places differ in number")

    def predict(self, X: Floats) -> Floats:
        """Return the function's mean for scaled features, in scaled labels."""
        found: Floats = _features(self.kernel, self.places, self.root, X) @ self.coefficients
        return found


@dataclass(frozen=True)
class _System:
    """The linear system behind the function, for one kernel."""

    root: Floats
    features: NDArray[Any]
    gain: NDArray[Any]
    leverage: Floats

    @classmethod
    def of(cls, kernel: Kernel, places: Floats, problem: ChainTask, dtype: type = np.float64) -> _System:
        """Set the system up. Draws are noisy anyway and take it in single precision, which is twice as fast."""
        root = kernel.root(places)
        features = _features(kernel, places, root, problem.X, dtype)
        weight: NDArray[Any] = problem.weight[:, None].astype(dtype)
        precision = np.asarray((features * weight).T @ features, dtype=np.float64)
        precision[np.diag_indices(len(places))] += kernel.noise
        factor: NDArray[Any] = cholesky(precision).astype(dtype, copy=False)
        solved = linalg.cho_solve((factor, True), features.T, check_finite=False).T
        gain = np.ascontiguousarray(solved * weight)
        leverage = np.minimum((features * gain).sum(axis=1, dtype=np.float64), _HIGHEST_LEVERAGE)
        return cls(root, features, gain, leverage)

    def coefficients(self, labels: Floats) -> Floats:
        """Return the function's coefficients for labels of all rows."""
        return np.asarray(self.gain.T @ labels.astype(self.gain.dtype), dtype=np.float64)

    def leave_one_out(self, labels: Floats) -> Floats:
        """Return what the other rows' labels predict for each row."""
        fitted = self.features @ self.coefficients(labels)
        found: Floats = (fitted - self.leverage * labels) / (1.0 - self.leverage)
        return found


def run_chain(problem: ChainTask, plan: ChainSettings, rule: Rule, seed: int) -> Chain:
    """Run one chain.

    Where no candidate is in doubt there is nothing to draw. Under weightings other than the posterior, labels are not
    drawn: they are the candidates' means under the rule's weights around predictions from the other rows.
    """
    random = np.random.default_rng(seed)
    rows, columns = problem.X.shape
    places = problem.X[random.permutation(rows)[: plan.last_features]]
    if problem.S.values.size == rows and not problem.missing.any():
        return _fit_labels(problem, plan, places, random)
    if not rule.learns_scale:
        return _fit_rule(problem, plan, places, rule, random)
    return _Sampler(problem, plan, places, random).run(Kernel.prior(columns))


def _fit_labels(problem: ChainTask, plan: ChainSettings, places: Floats, random: np.random.Generator) -> Chain:
    labels = problem.S.values
    chosen = _some(len(labels), 2 * plan.kernel_rows, random)
    kernel = Kernel.prior(problem.X.shape[1])
    kernel = kernel.learned(problem.X[chosen], labels[chosen, None], problem.weight[chosen], 10 * plan.steps)
    return _finish(kernel, places, problem, labels, np.ones(labels.size), [kernel.noise], [0.0])


def _fit_rule(
    problem: ChainTask, plan: ChainSettings, places: Floats, rule: Rule, random: np.random.Generator
) -> Chain:
    S = problem.S
    weights = np.array(S.prior_or_uniform if problem.start is None else problem.start)
    kernel, state = Kernel.prior(problem.X.shape[1]), rule.initial_state()
    scales, losses = [], []
    for _ in range(-(-plan.rounds // 3)):
        labels = row_sums(weights * S.values, S)
        chosen = _some(len(S), plan.kernel_rows, random)
        kernel = kernel.learned(problem.X[chosen], labels[chosen, None], problem.weight[chosen], plan.steps)
        system = _System.of(kernel, places[: plan.features], problem)
        found = rule.evaluate(system.leave_one_out(labels), S, state)
        weights = found.weights
        scales.append(kernel.noise)
        losses.append(-float(found.loss.mean()))
    return _finish(kernel, places, problem, row_sums(weights * S.values, S), weights, scales, losses)


class _Sampler:
    """The state of a chain, and its rounds."""

    def __init__(self, problem: ChainTask, plan: ChainSettings, places: Floats, random: np.random.Generator) -> None:
        self.problem, self.plan, self.places, self.random = problem, plan, places, random
        S, start = problem.S, problem.start
        first = S.prior_or_uniform
        if start is not None:
            first = start**_SHARPENING
            first = first / row_sums(first, S)[S.row_index]
        self.confidence = None if start is None else np.maximum.reduceat(first, S.offsets[:-1])
        self.draws = np.stack([S.values[draw_candidates(S, first, random)] for _ in range(_DRAWS)], axis=1)
        self.labels = np.ascontiguousarray(self.draws[:, 0])
        self.order = np.arange(len(S))
        self.generator = random.integers(0, 2**63, 1).astype(np.uint64)
        self.densities = np.empty(int(S.sizes.max()))

    def run(self, kernel: Kernel) -> Chain:
        """Learn the kernel and draw the labels in turn; what the last third of the rounds say is averaged."""
        S, plan = self.problem.S, self.plan
        places = self.places[: plan.features]
        first_kept = 2 * plan.rounds // 3
        shares, expected = np.zeros(S.values.size), np.zeros(len(S))
        parameters = np.zeros_like(kernel.parameters)
        scales, evidence = [], []
        for done in range(plan.rounds):
            kernel = self._learn(kernel, done)
            system = _System.of(kernel, places, self.problem, np.float32)
            if done == 0 and self.confidence is not None:
                self._impute_uncertain(system, kernel)
            probability, mean, score = self._draw_labels(system, kernel)
            scales.append(kernel.noise)
            evidence.append(float(np.average(score, weights=self.problem.weight)))
            if done >= first_kept:
                shares += probability
                expected += mean
                parameters += kernel.parameters
        kept = plan.rounds - first_kept
        total = row_sums(shares, S)[S.row_index]
        weights = np.where(total > 0, shares / np.where(total > 0, total, 1.0), S.prior_or_uniform)
        kernel = Kernel(parameters / kept)
        return _finish(kernel, self.places, self.problem, expected / kept, weights, scales, evidence)

    def _learn(self, kernel: Kernel, done: int) -> Kernel:
        problem, plan = self.problem, self.plan
        chosen = _some(len(problem.S), plan.kernel_rows, self.random)
        steps = plan.steps
        if done == 0:
            steps *= 2
            if self.confidence is not None:
                # By the rows that the start is most confident of, in part at random: the labels of the others would
                # pass for noise.
                worth = self.confidence * self.random.uniform(0.8, 1.0, len(self.confidence))
                chosen = np.sort(np.argsort(-worth, kind="stable")[: plan.kernel_rows])
        return kernel.learned(problem.X[chosen], self.draws[chosen], problem.weight[chosen], steps)

    def _impute_uncertain(self, system: _System, kernel: Kernel) -> None:
        """Give rows that the start is least confident of the labels that the others predict, until they are drawn."""
        assert self.confidence is not None
        rows = len(self.labels)
        confident = np.argsort(-self.confidence, kind="stable")[: max(rows // 3, min(rows, _FEWEST_CONFIDENT))]
        known = system.features[confident].astype(np.float64)
        weight = self.problem.weight[confident]
        precision = (known * weight[:, None]).T @ known
        precision[np.diag_indices(known.shape[1])] += kernel.noise
        coefficients = linalg.solve(precision, known.T @ (weight * self.labels[confident]), assume_a="pos")
        guessed = system.features @ coefficients
        guessed[confident] = self.labels[confident]
        # Nothing will be drawn for rows whose label is known.
        given = (self.problem.S.sizes == 1) & (self.problem.missing == 0.0)
        guessed[given] = self.labels[given]
        self.labels = np.ascontiguousarray(guessed)

    def _draw_labels(self, system: _System, kernel: Kernel) -> tuple[Floats, Floats, Floats]:
        from plr.learners.gaussian_process._sampling import sweep

        problem, S, sweeps = self.problem, self.problem.S, self.plan.sweeps
        noise = kernel.noise / problem.weight
        coefficients = system.coefficients(self.labels)
        shares, expected, evidence = np.zeros(S.values.size), np.zeros(len(S)), np.zeros(len(S))
        kept = sweeps - sweeps // 2
        spare = np.linspace(sweeps // 2, sweeps - 1, _DRAWS).astype(np.int64)
        draws = np.empty((len(S), _DRAWS))
        for done in range(sweeps):
            keep = done >= sweeps // 2
            sweep(
                system.features,
                system.gain,
                system.leverage,
                noise,
                S.values,
                S.offsets,
                problem.odds,
                problem.missing,
                self.labels,
                coefficients,
                self.order,
                self.generator,
                self.densities,
                keep,
                shares,
                expected,
                evidence,
            )
            draws[:, spare == done] = self.labels[:, None]
        self.draws = draws
        return shares / kept, expected / kept, evidence / kept


def _finish(
    kernel: Kernel,
    places: Floats,
    problem: ChainTask,
    labels: Floats,
    weights: Floats,
    noise: list[float],
    evidence: list[float],
) -> Chain:
    system = _System.of(kernel, places, problem)
    return Chain(
        kernel,
        places,
        system.root,
        system.coefficients(labels),
        weights,
        system.leave_one_out(labels),
        np.sqrt(np.array(noise)),
        np.array(evidence),
    )


def _features(kernel: Kernel, places: Floats, root: Floats, X: Floats, dtype: type = np.float64) -> NDArray[Any]:
    covariance: NDArray[Any] = kernel.covariance(places, X).astype(dtype, copy=False)
    factor: NDArray[Any] = root.astype(dtype, copy=False)
    whitened = linalg.solve_triangular(factor, covariance, lower=True, check_finite=False, overwrite_b=True)
    return np.ascontiguousarray(whitened.T)


def _some(rows: int, most: int, random: np.random.Generator) -> Rows:
    return np.sort(random.permutation(rows)[:most])
