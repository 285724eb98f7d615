"""One chain of draws: labels given the kernel, and the kernel given labels, in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from plr._fields import BY_ROW, MATRIX, WITH_GAPS, require
from plr.candidates import CandidateSets
from plr.errors import DivergenceError
from plr.learners.refit.fits import draw_candidates
from plr.progress import SILENT, Progress
from plr.weighting.rule import Rule, row_sums

__all__ = ["Chain", "ChainFold", "ChainSettings", "ChainTask", "Kernel", "cholesky", "run_chain"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

# A constant's variance: labels have mean 0, so hardly any is needed.
_CONSTANT = 0.1
# Bounds of the logarithms of the lengths, of the Matérn and the linear part's variances and of the noise.
_LENGTHS, _MATERN, _LINEAR, _NOISE = (-3.0, 5.0), (-6.0, 3.0), (-8.0, 3.0), (-9.0, 1.0)
# How far these logarithms usually are from where they begin; the noise may be anything.
_SPREAD, _NOISE_SPREAD = 1.0, 2.0
# Covariances that are computed at a time: so many stay in the processor's cache from one step to the next.
_AT_ONCE = 300_000
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

    def covariance(self, A: Floats, B: Floats, dtype: type = np.float64) -> NDArray[Any]:
        """Return the covariance of the function between rows of A and rows of B.

        Distances are computed in double precision, which cancellation asks for, and what follows in that of the result.
        """
        columns = A.shape[1]
        curved, straight = np.exp(self.parameters[columns : columns + 2])
        sloped: NDArray[Any] = ((straight / max(columns, 1)) * A).astype(dtype)
        turned: NDArray[Any] = B.T.astype(dtype)
        found: NDArray[Any] = np.empty((len(A), len(B)), dtype=dtype)
        step = max(_AT_ONCE // max(len(B), 1), 1)
        for rows in (slice(first, first + step) for first in range(0, len(A), step)):
            distance: NDArray[Any] = _distances(A[rows], B, self.parameters[:columns]).astype(dtype, copy=False)
            total = found[rows]
            np.negative(distance, out=total)
            np.exp(total, out=total)
            distance += 1.0
            total *= distance
            total *= dtype(curved)
            total += sloped[rows] @ turned
            total += dtype(_CONSTANT)
        return found

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
            # Above its diagonal are the zeros of the factor.
            inverse += np.tril(inverse, -1).T
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
    diagonal = np.diag_indices(len(matrix))
    for share in (0.0, *_MORE_JITTER):
        if share:
            more = matrix.copy()
            more[diagonal] += share * np.trace(matrix) / len(matrix)
        else:
            more = matrix
        try:
            factor: Floats = linalg.cholesky(more, lower=True)
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


def _distances(A: Floats, B: Floats, logarithms: Floats) -> Floats:
    """Return the root of three times the squared distances, in units of the lengths."""
    scale = np.sqrt(3.0) * np.exp(-logarithms)
    left, right = A * scale, B * scale
    squared: Floats = (-2.0 * left) @ right.T
    squared += (left * left).sum(axis=1)[:, None]
    squared += (right * right).sum(axis=1)
    np.maximum(squared, 0.0, out=squared)
    return np.sqrt(squared, out=squared)


def _matern(A: Floats, B: Floats, logarithms: Floats) -> tuple[Floats, Floats]:
    """Return the Matérn 3/2 correlations, and what their derivatives in the log lengths are multiples of."""
    distance = _distances(A, B, logarithms)
    decay = np.exp(-distance)
    distance += 1.0
    distance *= decay
    return distance, 3.0 * decay


Found = tuple[Kernel, Floats, Floats, Floats, list[float], list[float]]
"""A kernel; labels and weights of the candidates, from all rows and from each fold's; log likelihoods of rows; noise
variances and evidence by round."""

# A row's own say in its prediction; at one, nothing would be left to predict it from.
_HIGHEST_LEVERAGE = 0.999
# Columns of labels that the kernel is learned from.
_DRAWS = 10
# First labels are drawn from the squares of the start's weights, which are under-confident.
_SHARPENING = 2.0
# At least so many rows count as those that the start is most confident of.
_FEWEST_CONFIDENT = 200
# Rounds of a stretch, and by how much rows become likelier in one as long as a function may be taking shape.
_STRETCH, _GROWTH = 8, 0.01
# By how much likelier rows are around a function that has taken shape; and where this share of the labels is certain,
# it has.
_LEAP, _CERTAIN = 0.3, 0.7
# Added to the diagonal of the covariance between places, in shares of its mean.
_JITTER = 1e-6


@dataclass(frozen=True)
class ChainTask:
    """What is learned from: scaled features and labels, and what goes with each row.

    ``odds`` are prior over density of false labels, ``missing`` the probability that the truth is not in a set.
    ``folds`` are masks of rows: for each, labels are drawn once more from what these rows alone say, beginning with
    weights of its own where ``fold_starts`` has them.
    """

    X: Floats
    S: CandidateSets
    weight: Floats
    odds: Floats
    missing: Floats
    start: Floats | None
    folds: tuple[Mask, ...] = ()
    fold_starts: tuple[Floats | None, ...] = ()


@dataclass(frozen=True)
class ChainSettings:
    """How long a chain is and how much of the data it looks at.

    ``rounds`` of learning the kernel from ``kernel_rows`` random rows by ``steps`` steps, each followed by ``sweeps``
    over all rows; up to ``most_rounds`` while the function may take shape. It has ``features`` features on the way, and
    ``last_features`` in the end.
    """

    rounds: int
    most_rounds: int
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
        return self.predict_several(X, self.coefficients)

    def predict_several(self, X: Floats, coefficients: Floats, dtype: type = np.float64) -> Floats:
        """Return the same for functions of other coefficients, which are a vector, or columns of a matrix."""
        by_place = linalg.solve_triangular(self.root, coefficients, lower=True, trans="T", check_finite=False)
        found: Floats = self.kernel.covariance(X, self.places, dtype) @ by_place
        return found


@dataclass(frozen=True)
class ChainFold:
    """What some of a chain's rows say: the others' candidates have had no say in it, but for the kernel.

    Attributes
    ----------
    coefficients : ndarray
        Of a function of the chain's features.
    weights : ndarray, one entry per candidate
        How often each was drawn; in the rows that say it each time from what the other ones say.
    prediction : ndarray of shape (n,)
        The function's values.
    """

    coefficients: Floats
    weights: Floats
    prediction: Floats


@dataclass(frozen=True)
class _System:
    """The linear system behind the function, for one kernel."""

    root: Floats
    features: NDArray[Any]
    gain: NDArray[Any]
    leverage: Floats

    @classmethod
    def of(cls, kernel: Kernel, places: Floats, problem: ChainTask, dtype: type = np.float64) -> _System:
        """Set the system of all rows up."""
        return next(iter(_Systems(kernel, places, problem, dtype)))

    def coefficients(self, labels: Floats) -> Floats:
        """Return the function's coefficients for labels of all rows."""
        return np.asarray(self.gain.T @ labels.astype(self.gain.dtype), dtype=np.float64)

    def leave_one_out(self, labels: Floats) -> Floats:
        """Return what the other rows' labels predict for each row."""
        fitted = self.features @ self.coefficients(labels)
        found: Floats = (fitted - self.leverage * labels) / (1.0 - self.leverage)
        return found


class _Systems:
    """The systems of all rows, which is number 0, and of each fold's, which have places and features in common.

    Draws are noisy anyway and take it in single precision, which is twice as fast.
    """

    def __init__(self, kernel: Kernel, places: Floats, problem: ChainTask, dtype: type = np.float64) -> None:
        self.kernel, self.problem, self.dtype = kernel, problem, dtype
        covariance = kernel.covariance(places, places)
        covariance[np.diag_indices(len(places))] += _JITTER * np.trace(covariance) / len(places)
        self.root = cholesky(covariance)
        self.features = _features(kernel, places, self.root, problem.X, dtype)
        self._weight: NDArray[Any] = problem.weight.astype(dtype)
        self._precision = self._products(slice(None))

    def __iter__(self) -> Iterator[_System]:
        return map(self.system, range(1 + len(self.problem.folds)))

    def system(self, number: int) -> _System:
        """Return a system; rows that are not in it have no gain and no leverage."""
        rows, features, weight, factor = self._solved(number)
        # Two products with the factor's inverse take half the time of solving with it, and are as exact. One with the
        # inverse of the whole is not.
        triangular: Any = linalg.lapack.dtrtri(factor, lower=1)[0].astype(self.dtype, copy=False)
        multiply = linalg.get_blas_funcs("trmm", (triangular,))
        solved = multiply(1.0, triangular, multiply(1.0, triangular, features.T, lower=1), lower=1, trans_a=1)
        gain = np.ascontiguousarray(solved.T)
        gain *= weight
        if number:
            of_rows, gain = gain, np.zeros_like(self.features)
            gain[rows] = of_rows
        leverage = np.minimum(np.einsum("ij,ij->i", self.features, gain).astype(np.float64), _HIGHEST_LEVERAGE)
        return _System(self.root, self.features, gain, leverage)

    def coefficients(self, number: int, labels: Floats) -> Floats:
        """Return what `_System.coefficients` returns, without gain and leverage."""
        rows, features, weight, factor = self._solved(number)
        found: Floats = linalg.cho_solve((factor, True), features.T @ (weight[:, 0] * labels[rows]))
        return found

    def _solved(self, number: int) -> tuple[Any, NDArray[Any], NDArray[Any], Floats]:
        """Return the rows of a system, their features and weights, and the factor of its precision."""
        rows: Any = slice(None)
        precision = self._precision.copy()
        if number:
            seen = self.problem.folds[number - 1]
            rows = np.flatnonzero(seen)
            # The rows left out are fewer than those that stay.
            precision -= self._products(np.flatnonzero(~seen))
        precision[np.diag_indices(len(precision))] += self.kernel.noise
        features, weight = self.features[rows], self._weight[rows, None]
        return rows, features, weight, cholesky(precision)

    def _products(self, rows: Any) -> Floats:
        """Return the sum over rows of the products of their features."""
        # A product of an array with itself takes half the time of one with another.
        weighted = self.features[rows] * np.sqrt(self._weight[rows, None])
        return np.asarray(weighted.T @ weighted, dtype=np.float64)


def run_chain(
    problem: ChainTask, plan: ChainSettings, rule: Rule, seed: int, progress: Progress = SILENT
) -> tuple[Chain, tuple[ChainFold, ...], Floats]:
    """Run one chain; the last of what is returned is the log likelihood of each row given the labels of all others.

    Where no candidate is in doubt the kernel is learned from the labels once. Under weightings other than the
    posterior, labels are not drawn: they are the candidates' means under the rule's weights around predictions from the
    other rows. Folds are there for draws alone.
    """
    random = np.random.default_rng(seed)
    rows, columns = problem.X.shape
    places = problem.X[random.permutation(rows)[: plan.last_features]]
    kernel = Kernel.prior(columns)
    if problem.S.values.size == rows and not problem.missing.any():
        chosen = np.sort(random.permutation(rows)[: 2 * plan.kernel_rows])
        labels, weights = problem.S.values[None], np.ones((1, rows))
        kernel = kernel.learned(problem.X[chosen], labels[0, chosen, None], problem.weight[chosen], 10 * plan.steps)
        by_row, noise, evidence = np.zeros(rows), [kernel.noise], [0.0]
    elif rule.learns_scale:
        kernel, labels, weights, by_row, noise, evidence = _Sampler(problem, plan, places, random).run(kernel, progress)
    else:
        kernel, labels, weights, by_row, noise, evidence = _fit_rule(problem, plan, places, rule, kernel, random)
    systems = _Systems(kernel, places, problem)
    system = systems.system(0)
    chain = Chain(
        kernel,
        places,
        system.root,
        system.coefficients(labels[0]),
        weights[0],
        system.leave_one_out(labels[0]),
        np.sqrt(np.array(noise)),
        np.array(evidence),
    )
    folds = []
    for number in range(1, len(labels)):
        coefficients = systems.coefficients(number, labels[number])
        folds.append(ChainFold(coefficients, weights[number], systems.features @ coefficients))
    return chain, tuple(folds), by_row


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
    return kernel, row_sums(weights * S.values, S)[None], weights[None], -found.loss, noise, evidence


class _Labels:
    """Labels as they are drawn from what some of the rows say, or all; they begin with a start's weights."""

    def __init__(self, S: CandidateSets, start: Floats | None, seen: Mask | None, random: np.random.Generator) -> None:
        self.seen = seen
        first, self.confidence = S.prior_or_uniform, None
        if start is not None:
            first = start**_SHARPENING
            first = first / row_sums(first, S)[S.row_index]
            self.confidence = np.maximum.reduceat(first, S.offsets[:-1])
        self.draws = np.stack([S.values[draw_candidates(S, first, random)] for _ in range(_DRAWS)], axis=1)
        self.labels = np.ascontiguousarray(self.draws[:, 0])
        self.order = np.arange(len(S))
        self.generator = random.integers(0, 2**63, 1).astype(np.uint64)
        self.densities = np.empty(int(S.sizes.max()))
        self.certainty = 0.0
        # Sums over rounds: each candidate's probability, each row's mean label and log likelihood.
        self.sums = np.zeros(S.values.size), np.zeros(len(S)), np.zeros(len(S))


def _settled(evidence: Sequence[float]) -> bool:
    """Return whether evidence no longer grows from one stretch of rounds to the next."""
    if len(evidence) < 2 * _STRETCH:
        return False
    return bool(np.mean(evidence[-_STRETCH:]) - np.mean(evidence[-2 * _STRETCH : -_STRETCH]) < _GROWTH)


class _Sampler:
    """The state of a chain, and its rounds."""

    def __init__(self, problem: ChainTask, plan: ChainSettings, places: Floats, random: np.random.Generator) -> None:
        self.problem, self.plan, self.places, self.random = problem, plan, places, random
        starts = (problem.start, *(problem.fold_starts or (problem.start,) * len(problem.folds)))
        seen = (None, *problem.folds)
        self.parts = [_Labels(problem.S, *part, random) for part in zip(starts, seen, strict=True)]

    def run(self, kernel: Kernel, progress: Progress = SILENT) -> Found:
        """Learn the kernel and draw the labels in turn; what the last third of the rounds say is averaged.

        Where there is little noise, a function takes shape slowly and then all at once, and rows are far likelier from
        then on. So a chain that has not settled goes on. If no such leap comes, what the first rounds say counts: with
        more of them, labels come to confirm each other, and errors grow rather than fall.

        The kernel is learned with all rows in sight. It is a few numbers, and what they tell about the candidates of a
        fold has not shown in errors: those of held-out rows are as large as those of new ones.
        """
        plan, S = self.plan, self.problem.S
        stretch = plan.rounds - 2 * plan.rounds // 3
        noise: list[float] = []
        evidence: list[float] = []
        parameters: list[Floats] = []
        found: Found | None = None
        for done in range(1, plan.most_rounds + 1):
            if (done - 1 - plan.rounds) % stretch == 0:
                for part in self.parts:
                    for total in part.sums:
                        total[:] = 0.0
            kernel, by_row = self._round(kernel, first=not noise)
            parameters.append(kernel.parameters)
            noise.append(kernel.noise)
            evidence.append(float(np.average(by_row, weights=self.problem.weight)))
            # What comes after the rounds takes as long as one of them.
            progress(done, max(plan.rounds, min(done + stretch, plan.most_rounds)) + 1)
            if done < plan.rounds or (done - plan.rounds) % stretch:
                continue
            if found is None or np.mean(evidence[-stretch:]) - np.mean(found[-1][-stretch:]) > _LEAP:
                labels, weights = [], []
                for part in self.parts:
                    shares, expected, by_row = part.sums
                    total = row_sums(shares, S)[S.row_index]
                    weights.append(np.where(total > 0, shares / np.where(total > 0, total, 1.0), S.prior_or_uniform))
                    labels.append(expected / stretch)
                found = (
                    Kernel(np.mean(parameters[-stretch:], axis=0)),
                    np.array(labels),
                    np.array(weights),
                    self.parts[0].sums[2] / stretch,
                    noise.copy(),
                    evidence.copy(),
                )
            if self.parts[0].certainty > _CERTAIN or _settled(evidence):
                break
        assert found is not None
        return found

    def _round(self, kernel: Kernel, first: bool) -> tuple[Kernel, Floats]:
        """Learn the kernel, then draw labels; return it, and each row's log likelihood."""
        problem, plan = self.problem, self.plan
        chosen = np.sort(self.random.permutation(len(problem.S))[: plan.kernel_rows])
        confidence = self.parts[0].confidence
        if first and confidence is not None:
            # By the rows that the start is most confident of, in part at random: the labels of the others would pass
            # for noise.
            worth = confidence * self.random.uniform(0.8, 1.0, len(problem.S))
            chosen = np.sort(np.argsort(-worth, kind="stable")[: plan.kernel_rows])
        steps = 2 * plan.steps if first else plan.steps
        kernel = kernel.learned(problem.X[chosen], self.parts[0].draws[chosen], problem.weight[chosen], steps)
        systems = _Systems(kernel, self.places[: plan.features], problem, np.float32)
        scores = []
        for part, system in zip(self.parts, systems, strict=True):
            if first and part.confidence is not None:
                self._impute_uncertain(part, system, kernel, part.confidence)
            scores.append(self._draw_labels(part, system, kernel))
        return kernel, scores[0]

    def _impute_uncertain(self, part: _Labels, system: _System, kernel: Kernel, confidence: Floats) -> None:
        """Give rows that the start is least confident of the labels that the others predict, until they are drawn."""
        among = np.arange(len(confidence)) if part.seen is None else np.flatnonzero(part.seen)
        rows = len(among)
        best = np.argsort(-confidence[among], kind="stable")[: max(rows // 3, min(rows, _FEWEST_CONFIDENT))]
        confident = among[best]
        known = system.features[confident].astype(np.float64)
        weight = self.problem.weight[confident]
        precision = (known * weight[:, None]).T @ known
        precision[np.diag_indices(known.shape[1])] += kernel.noise
        coefficients = linalg.solve(precision, known.T @ (weight * part.labels[confident]), assume_a="pos")
        guessed = system.features @ coefficients
        guessed[confident] = part.labels[confident]
        # Nothing will be drawn for rows whose label is known.
        given = (self.problem.S.sizes == 1) & (self.problem.missing == 0.0)
        guessed[given] = part.labels[given]
        part.labels = np.ascontiguousarray(guessed)

    def _draw_labels(self, part: _Labels, system: _System, kernel: Kernel) -> Floats:
        from plr.learners.gaussian_process._sampling import sweep

        problem, S, sweeps = self.problem, self.problem.S, self.plan.sweeps
        noise = kernel.noise / problem.weight
        coefficients = system.coefficients(part.labels).astype(np.float32)
        shares, expected, evidence = np.zeros(S.values.size), np.zeros(len(S)), np.zeros(len(S))
        first_kept = sweeps // 2
        kept_draws = np.linspace(first_kept, sweeps - 1, part.draws.shape[1]).astype(np.int64)
        part.draws = np.empty_like(part.draws)
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
                part.labels,
                coefficients,
                part.order,
                part.generator,
                part.densities,
                done >= first_kept,
                shares,
                expected,
                evidence,
            )
            part.draws[:, kept_draws == done] = part.labels[:, None]
        kept = sweeps - first_kept
        part.certainty = float(np.average(np.maximum.reduceat(shares, S.offsets[:-1]), weights=problem.weight)) / kept
        for total, found in zip(part.sums, (shares, expected, evidence), strict=True):
            total += found / kept
        return evidence / kept


def _features(kernel: Kernel, places: Floats, root: Floats, X: Floats, dtype: type = np.float64) -> NDArray[Any]:
    covariance = kernel.covariance(places, X, dtype)
    factor: NDArray[Any] = root.astype(dtype, copy=False)
    whitened = linalg.solve_triangular(factor, covariance, lower=True, check_finite=False, overwrite_b=True)
    return np.ascontiguousarray(whitened.T)
