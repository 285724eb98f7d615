"""One chain of draws: labels given the kernel, and the kernel given labels, in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from plr._fields import BY_ROW, MATRIX, WITH_GAPS, require
from plr.candidates import CandidateSets
from plr.errors import DivergenceError
from plr.learners.refit.fits import draw_candidates
from plr.weighting.rule import Rule, row_sums

__all__ = ["Chain", "ChainSettings", "ChainTask", "Kernel", "cholesky", "run_chain"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# A constant's variance: labels have mean 0, so hardly any is needed.
_CONSTANT = 0.1
# Bounds of the logarithms of the lengths, of the Matérn and the linear part's variances and of the noise.
_LENGTHS, _MATERN, _LINEAR, _NOISE = (-3.0, 5.0), (-6.0, 3.0), (-8.0, 3.0), (-9.0, 1.0)
# How far these logarithms usually are from where they begin; the noise may be anything.
_SPREAD, _NOISE_SPREAD = 1.0, 2.0
# What is added to a diagonal, in shares of its mean, where rounding has left a matrix with eigenvalues below 0.
_MORE_JITTER = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


@dataclass(frozen=True)
class Kernel:
    """A Matérn 3/2 part with a length for each column, a linear part, a constant, and noise.

    ``parameters`` are the logarithms of the lengths, of the two parts' variances and of the noise variance, for columns
    and labels of mean 0 and standard deviation 1.
    """

    parameters: Floats

    @classmethod
    def prior(cls, columns: int) -> Kernel:
        """Return what is assumed before any label is seen: smooth, half of it linear."""
        lengths = np.full(columns, np.log(1.5 * np.sqrt(max(columns, 1))))
        return cls(np.concatenate([lengths, np.log([0.5, 0.5, 0.3])]))

    @property
    def noise(self) -> float:
        """The noise variance."""
        return float(np.exp(self.parameters[-1]))

    def covariance(self, A: Floats, B: Floats) -> Floats:
        """Return the covariance of the function between rows of A and rows of B."""
        columns = A.shape[1]
        curved, straight = np.exp(self.parameters[columns : columns + 2])
        total: Floats = curved * _matern(A, B, self.parameters[:columns])[0]
        total += straight / max(columns, 1) * (A @ B.T)
        total += _CONSTANT
        return total

    def learned(self, X: Floats, Y: Floats, weight: Floats, iterations: int) -> Kernel:
        """Return the parameters under which the labels are likelier, a few steps from these on.

        ``Y`` has a column for each draw of the labels; their log likelihoods are averaged. A row's noise variance is
        divided by its weight. The prior of the parameters keeps few rows from saying too much.
        """
        columns, (rows, draws) = X.shape[1], Y.shape
        linear = X @ X.T / max(columns, 1)
        squares = X * X
        centre = Kernel.prior(columns).parameters
        spread = np.append(np.full(columns + 2, _SPREAD), _NOISE_SPREAD)
        diagonal = np.diag_indices(rows)

        def cost(parameters: Floats) -> tuple[float, Floats]:
            curved, straight, noise = np.exp(parameters[columns:])
            matern, slope = _matern(X, X, parameters[:columns])
            total = curved * matern + straight * linear + _CONSTANT
            total[diagonal] += noise / weight
            factor = cholesky(total)
            solved = linalg.cho_solve((factor, True), Y, check_finite=False)
            value = 0.5 * np.vdot(Y, solved) / draws + np.log(np.diag(factor)).sum()
            inverse, _ = linalg.lapack.dpotri(factor, lower=1)
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            pull = inverse - solved @ solved.T / draws
            gradient = np.empty_like(parameters)
            # The sum over pairs of pull · slope · (difference of a column)², without an array per column.
            product = pull * slope
            product *= curved
            by_column = product.sum(axis=0) @ squares - (X * (product @ X)).sum(axis=0)
            gradient[:columns] = by_column * np.exp(-2.0 * parameters[:columns])
            gradient[columns] = 0.5 * curved * np.vdot(pull, matern)
            gradient[columns + 1] = 0.5 * straight * np.vdot(pull, linear)
            gradient[columns + 2] = 0.5 * noise * (np.diag(pull) / weight).sum()
            away = (parameters - centre) / spread
            return float(value + 0.5 * away @ away), gradient + away / spread

        # As arrays: with thousands of columns, looking at pairs one by one takes longer than the linear algebra.
        bounds = optimize.Bounds(*np.array([_LENGTHS] * columns + [_MATERN, _LINEAR, _NOISE]).T)
        found = optimize.minimize(
            cost, self.parameters, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations}
        )
        return Kernel(np.asarray(found.x, dtype=np.float64))


def cholesky(matrix: Floats) -> Floats:
    """Return the lower Cholesky factor of a covariance or a precision.

    Rounding may have left it with eigenvalues slightly below 0. Then as little is added to its diagonal as it takes.

    Raises
    ------
    DivergenceError
        If the matrix is not finite, or no rounding of a positive one.
    """
    unit = np.diag(np.full(len(matrix), np.trace(matrix) / len(matrix)))
    for share in (0.0, *_MORE_JITTER):
        try:
            factor: Floats = linalg.cholesky(matrix + share * unit, lower=True)
            return factor
        except linalg.LinAlgError:
            continue
        except ValueError:
            # Not finite.
            break
    raise DivergenceError(
        f"A covariance of the Gaussian process, of {len(matrix)} rows, is not positive definite, even with "
        f"{_MORE_JITTER[-1]:g} of its mean variance added as noise; look for extreme entries in X and in sample_weight."
    )


def _matern(A: Floats, B: Floats, logarithms: Floats) -> tuple[Floats, Floats]:
    """Return the Matérn 3/2 correlations, and what their derivatives in the log lengths are multiples of."""
    scale = np.exp(-logarithms)
    left, right = A * scale, B * scale
    squared = (left * left).sum(axis=1)[:, None] + (right * right).sum(axis=1)[None, :]
    squared -= 2.0 * (left @ right.T)
    np.maximum(squared, 0.0, out=squared)
    distance = np.sqrt(3.0 * squared, out=squared)
    decay = np.exp(-distance)
    return (1.0 + distance) * decay, 3.0 * decay


# A row's own say in its prediction; at one, nothing would be left to predict it from.
_HIGHEST_LEVERAGE = 0.999
# Columns of labels that the kernel is learned from.
_DRAWS = 10
# First labels are drawn from the squares of the start's weights, which are under-confident.
_SHARPENING = 2.0
# At least so many rows count as those that the start is most confident of.
_FEWEST_CONFIDENT = 200
# Added to the diagonal of the covariance between places, in shares of its mean.
_JITTER = 1e-6


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


Found = tuple[Kernel, Floats, Floats, list[float], list[float]]
"""A kernel, labels, weights of the candidates, and the noise variance and the evidence of each round."""


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
        diagonal = np.diag_indices(len(places))
        covariance = kernel.covariance(places, places)
        covariance[diagonal] += _JITTER * np.trace(covariance) / len(places)
        root = cholesky(covariance)
        features = _features(kernel, places, root, problem.X, dtype)
        weight: NDArray[Any] = problem.weight[:, None].astype(dtype)
        precision = np.asarray((features * weight).T @ features, dtype=np.float64)
        precision[diagonal] += kernel.noise
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

    Where no candidate is in doubt the kernel is learned from the labels once. Under weightings other than the
    posterior, labels are not drawn: they are the candidates' means under the rule's weights around predictions from the
    other rows.
    """
    random = np.random.default_rng(seed)
    rows, columns = problem.X.shape
    places = problem.X[random.permutation(rows)[: plan.last_features]]
    kernel = Kernel.prior(columns)
    if problem.S.values.size == rows and not problem.missing.any():
        chosen = np.sort(random.permutation(rows)[: 2 * plan.kernel_rows])
        labels, weights = problem.S.values, np.ones(rows)
        kernel = kernel.learned(problem.X[chosen], labels[chosen, None], problem.weight[chosen], 10 * plan.steps)
        noise, evidence = [kernel.noise], [0.0]
    elif rule.learns_scale:
        kernel, labels, weights, noise, evidence = _Sampler(problem, plan, places, random).run(kernel)
    else:
        kernel, labels, weights, noise, evidence = _fit_rule(problem, plan, places, rule, kernel, random)
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


def _fit_rule(
    problem: ChainTask, plan: ChainSettings, places: Floats, rule: Rule, kernel: Kernel, random: np.random.Generator
) -> Found:
    S = problem.S
    weights = np.array(S.prior_or_uniform if problem.start is None else problem.start)
    state = rule.initial_state()
    noise, evidence = [], []
    for _ in range(-(-plan.rounds // 3)):
        labels = row_sums(weights * S.values, S)
        chosen = np.sort(random.permutation(len(S))[: plan.kernel_rows])
        kernel = kernel.learned(problem.X[chosen], labels[chosen, None], problem.weight[chosen], plan.steps)
        system = _System.of(kernel, places[: plan.features], problem)
        found = rule.evaluate(system.leave_one_out(labels), S, state)
        weights = found.weights
        noise.append(kernel.noise)
        evidence.append(-float(found.loss.mean()))
    return kernel, row_sums(weights * S.values, S), weights, noise, evidence


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

    def run(self, kernel: Kernel) -> Found:
        """Learn the kernel and draw the labels in turn; what the last third of the rounds say is averaged."""
        problem, S, plan = self.problem, self.problem.S, self.plan
        places = self.places[: plan.features]
        first_kept = 2 * plan.rounds // 3
        shares, expected = np.zeros(S.values.size), np.zeros(len(S))
        parameters = np.zeros_like(kernel.parameters)
        noise, evidence = [], []
        for done in range(plan.rounds):
            chosen = np.sort(self.random.permutation(len(S))[: plan.kernel_rows])
            if done == 0 and self.confidence is not None:
                # By the rows that the start is most confident of, in part at random: the labels of the others would
                # pass for noise.
                worth = self.confidence * self.random.uniform(0.8, 1.0, len(S))
                chosen = np.sort(np.argsort(-worth, kind="stable")[: plan.kernel_rows])
            steps = plan.steps if done else 2 * plan.steps
            kernel = kernel.learned(problem.X[chosen], self.draws[chosen], problem.weight[chosen], steps)
            system = _System.of(kernel, places, problem, np.float32)
            if done == 0 and self.confidence is not None:
                self._impute_uncertain(system, kernel, self.confidence)
            probability, mean, score = self._draw_labels(system, kernel)
            noise.append(kernel.noise)
            evidence.append(float(np.average(score, weights=problem.weight)))
            if done >= first_kept:
                shares += probability
                expected += mean
                parameters += kernel.parameters
        kept = plan.rounds - first_kept
        total = row_sums(shares, S)[S.row_index]
        weights = np.where(total > 0, shares / np.where(total > 0, total, 1.0), S.prior_or_uniform)
        return Kernel(parameters / kept), expected / kept, weights, noise, evidence

    def _impute_uncertain(self, system: _System, kernel: Kernel, confidence: Floats) -> None:
        """Give rows that the start is least confident of the labels that the others predict, until they are drawn."""
        rows = len(self.labels)
        confident = np.argsort(-confidence, kind="stable")[: max(rows // 3, min(rows, _FEWEST_CONFIDENT))]
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
        first_kept = sweeps // 2
        kept_draws = np.linspace(first_kept, sweeps - 1, _DRAWS).astype(np.int64)
        self.draws = np.empty((len(S), _DRAWS))
        for done in range(sweeps):
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
                done >= first_kept,
                shares,
                expected,
                evidence,
            )
            self.draws[:, kept_draws == done] = self.labels[:, None]
        kept = sweeps - first_kept
        return shares / kept, expected / kept, evidence / kept


def _features(kernel: Kernel, places: Floats, root: Floats, X: Floats, dtype: type = np.float64) -> NDArray[Any]:
    covariance: NDArray[Any] = kernel.covariance(places, X).astype(dtype, copy=False)
    factor: NDArray[Any] = root.astype(dtype, copy=False)
    whitened = linalg.solve_triangular(factor, covariance, lower=True, check_finite=False, overwrite_b=True)
    return np.ascontiguousarray(whitened.T)
