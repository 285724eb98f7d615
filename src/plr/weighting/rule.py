"""Where a weighting and a loss meet: the rule that a learner trains by."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray

from plr._codes import (
    CUSTOM,
    EVEN,
    HIGHEST,
    LOWEST,
    MISSING,
    NARROWEST,
    NO_NOISE,
    SCALE,
    SOFTMAX,
    STATE_SIZE,
    Formula,
    Sets,
)
from plr._parameters import check_number
from plr.candidates import CandidateSets, as_candidate_sets
from plr.errors import LengthError, ParameterError
from plr.losses import Loss, get_loss
from plr.weighting.base import Weighting

__all__ = ["Evaluation", "Rule", "frozen", "kernel_sets", "row_sums", "thread_count", "weigh"]

Floats = NDArray[np.float64]
NOTHING: Floats = np.empty(0)
NOTHING.flags.writeable = False

# Fewer candidates than this are weighed before another thread has started.
_WORTH_A_THREAD = 50_000
# More are a mistake, and more than the libraries below can take.
_MOST_JOBS = 4096


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only contiguous view: kernels are compiled once, for read-only inputs."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def kernel_sets(S: CandidateSets, *, log_q: Floats | None = None, fixed: Floats | None = None) -> Sets:
    """Return candidate sets as the kernels take them."""
    optional = (NOTHING if part is None else frozen(part) for part in (log_q, fixed))
    return Sets(S.values, S.offsets, NOTHING if S.prior is None else S.prior, *optional)


class Evaluation(NamedTuple):
    """What a rule makes of predictions: flat weights, and per row the loss, its derivative and its curvature."""

    weights: Floats
    loss: Floats
    gradient: Floats
    hessian: Floats


class Rule:
    """A weighting and a loss, checked and compiled.

    Parameters
    ----------
    weighting : Weighting
    loss : Loss

    Attributes
    ----------
    formula : Formula
        What the kernels take.
    learns_scale : bool
        Whether the learned state's noise scale matters and has to be updated by the fit loop.
    may_miss : bool
        Whether the truth may be missing from a row, so that weights may sum to less than one.
    learns_missing : bool
        Whether the share of such rows is part of what is learned.
    """

    def __init__(self, weighting: Weighting, loss: Loss) -> None:
        from plr.weighting.formula import code_of

        self.weighting, self.loss = weighting, loss
        found, numbers, lose_by = weighting.encode(), loss.encode(), code_of(loss)
        self.learns_scale = weighting.learns_scale
        self.may_miss, self.learns_missing = found.missing > 0.0, found.learns_missing
        self._missing = float(found.missing)
        weigh_by = code_of(weighting) if found.by_vectors and lose_by != CUSTOM else CUSTOM
        first, second = (*found.numbers, 0.0, 0.0)[:2]
        needs_score = not found.even and found.noise == NO_NOISE and weigh_by == CUSTOM
        of_loss = (2 + len(numbers), 3, lose_by == CUSTOM)
        self.formula = Formula(
            weighting=weigh_by,
            shares=EVEN if found.even else HIGHEST if weighting.takes_all else SOFTMAX,
            first=float(first),
            second=float(second),
            noise=found.noise,
            degrees=float(found.degrees),
            constant=float(found.constant),
            loss=lose_by,
            number=float(numbers[0] if numbers else 0.0),
            score=_pointer(weighting, "score", 3 + len(found.numbers), 5, needs_score),
            value=_pointer(loss, "value", *of_loss),
            derivative=_pointer(loss, "derivative", *of_loss),
            curvature=_pointer(loss, "curvature", *of_loss),
        )

    def __reduce__(self) -> tuple[type[Rule], tuple[Weighting, Loss]]:
        # Pointers to compiled functions mean nothing in another process.
        return Rule, (self.weighting, self.loss)

    def initial_state(self, scale: float = 1.0) -> Floats:
        """Return the state that the fit loop owns; its noise ``scale`` begins at the labels' standard deviation."""
        state = np.zeros(STATE_SIZE)
        state[SCALE] = scale
        state[LOWEST] = max(NARROWEST * scale, np.finfo(float).tiny)
        state[MISSING] = self._missing
        return state

    def evaluate(
        self,
        prediction: Floats,
        S: CandidateSets,
        state: Floats,
        log_q: Floats = NOTHING,
        *,
        threads: int = 1,
        out: Evaluation | None = None,
    ) -> Evaluation:
        """Weigh the candidates of every row around its prediction.

        Rows have nothing to do with each other, so the result does not depend on ``threads``. Where ``out`` is given,
        an earlier result for the same sets, it is overwritten: large arrays then are not made anew each round.
        """
        from plr.weighting.formula import evaluate

        rows = len(S)
        if out is None:
            out = Evaluation(np.empty(S.values.size), np.empty(rows), np.empty(rows), np.empty(rows))
        self._run(evaluate, prediction, kernel_sets(S, log_q=log_q), state, *out, threads=threads)
        return out

    def evidence(self, prediction: Floats, S: CandidateSets, state: Floats, log_q: Floats = NOTHING) -> Floats:
        """Return each row's log Σ prior · p / q under the noise of a posterior weighting.

        Where a share ε of the rows may lack their truth, log((1 - ε) · Σ prior · p / q + ε).
        """
        from plr.weighting.formula import evidence

        out = np.empty(len(S))
        self._run(evidence, prediction, kernel_sets(S, log_q=log_q), state, np.empty(S.values.size), out)
        return out

    def update_scale(
        self,
        prediction: Floats,
        S: CandidateSets,
        state: Floats,
        weights: Floats,
        sample_weight: Floats | None = None,
        *,
        threads: int = 1,
        own: bool = True,
    ) -> Floats:
        """Return the state after one round of learning the noise scale from weighted residuals.

        The share of rows whose truth is missing is learned as well, where it is to be. Weights that are not the rule's
        ``own`` but a start's sum to one and say nothing about it.
        """
        mean = float(np.average(self.spread(prediction, S, state, weights, threads=threads), weights=sample_weight))
        met = float(np.average(row_sums(weights, S), weights=sample_weight)) if self.may_miss else 1.0
        return self.next_state(state, mean, met, own=own)

    def spread(
        self, prediction: Floats, S: CandidateSets, state: Floats, weights: Floats, *, threads: int = 1
    ) -> Floats:
        """Return each row's weighted residuals, whose mean gives the noise scale."""
        from plr.weighting.formula import spread

        parts = np.empty(len(S))
        self._run(spread, prediction, kernel_sets(S), state, weights, parts, threads=threads)
        return parts

    def next_state(self, state: Floats, mean: float, met: float, *, own: bool = True) -> Floats:
        """Return the state after a round, from the mean of `spread` and of the sums of the rows' weights."""
        from plr.weighting.formula import next_missing, next_scale

        new = state.copy()
        if self.learns_missing and own:
            new[MISSING] = next_missing(met)
        if met > 0.0:
            new[SCALE] = next_scale(self.formula, mean / met, state)
        return new

    def _run(
        self,
        kernel: Callable[..., None],
        prediction: Floats,
        sets: Sets,
        state: Floats,
        weights: Floats,
        *out: Floats,
        threads: int = 1,
    ) -> None:
        """Call a kernel on ranges of rows with about as many candidates each, all at the same time."""
        # The one form that kernels are compiled for; nothing writes to it.
        centre = np.require(prediction, dtype=np.float64, requirements=["C", "A", "W"])
        size, parts = sets.values.size, min(threads, sets.values.size // _WORTH_A_THREAD)
        if parts < 2:
            kernel(self.formula, centre, sets, state, weights, *out)
            return

        def work(first: int, last: int) -> None:
            rows = sets._replace(offsets=sets.offsets[first : last + 1])
            kernel(self.formula, centre[first:last], rows, state, weights, *(array[first:last] for array in out))

        cuts = np.searchsorted(sets.offsets, np.arange(1, parts) * (size // parts))
        with ThreadPoolExecutor(parts) as pool:
            for done in [pool.submit(work, *ends) for ends in pairwise([0, *cuts.tolist(), len(centre)])]:
                done.result()


def _pointer(owner: Weighting | Loss, name: str, arguments: int, wanted: int, needed: bool) -> object:
    """Return one of a weighting's or loss's functions as a pointer of ``wanted`` floats, where kernels will call it."""
    from plr._jit import UNUSED, compile_scalar

    kind = "weighting" if isinstance(owner, Weighting) else "loss"
    role = f"a {kind}" if name in ("score", "value") else f"a {kind}'s {name}"
    function = getattr(owner, name)
    if not needed:
        function, arguments = UNUSED[wanted], wanted
    elif function is None and name == "curvature":
        function, arguments = _one, 2
    elif not callable(function):
        raise ParameterError(f"The {kind} {type(owner).__name__} has no function {name!r} that kernels could call.")
    return compile_scalar(function, arguments, role, wanted)


def _one(_prediction: float, _value: float) -> float:
    return 1.0


def row_sums(weights: Floats, S: CandidateSets) -> Floats:
    """Return the sum of each row's weights."""
    return np.add.reduceat(weights, S.offsets[:-1])


def thread_count(n_jobs: int | None) -> int:
    """Return how many threads a number of jobs stands for: as in scikit-learn, but None is one on each core.

    The environment variable OMP_NUM_THREADS says how many None is, where it is set.
    """
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return int(limit) if limit.isdecimal() and int(limit) > 0 else int(joblib.cpu_count())
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ParameterError(
            f"{{parameter}} must be None or a whole number other than 0, got {n_jobs!r}.",
            parameter="n_jobs",
            value=n_jobs,
        )
    if n_jobs > _MOST_JOBS:
        raise ParameterError(
            f"{{parameter}} must be at most {_MOST_JOBS:,}, or -1 for all cores, got {n_jobs!r}.",
            parameter="n_jobs",
            value=n_jobs,
        )
    return int(joblib.effective_n_jobs(int(n_jobs)))


def weigh(
    prediction: ArrayLike,
    S: object,
    weighting: object = "progressive",
    loss: object = "squared",
    scale: float = 1.0,
) -> Floats:
    """Return every candidate's weight around given predictions, flat, aligned with ``S.offsets``.

    Parameters
    ----------
    prediction : array-like of shape (n,)
    S : CandidateSets or anything it can be made from
    weighting, loss : str or instance
    scale : float, default=1.0
        The noise scale, for weightings that learn one.

    Notes
    -----
    A density of false labels that is uniform or to be estimated is so over these sets. Where the share of rows whose
    truth is missing is to be learned, the weights are those of the share that learning begins with.

    Examples
    --------
    >>> weigh([1.0, 5.0], [[1.5, 3.0], [4.0]], weighting="identification")
    array([1., 0., 1.])
    >>> weigh([1.0], [[1.5, 3.0]], weighting="average")
    array([0.5, 0.5])
    """
    from plr.weighting import get_weighting

    sets = as_candidate_sets(S)
    centre = np.ascontiguousarray(prediction, dtype=np.float64)
    if centre.shape != (len(sets),):
        raise LengthError(f"prediction has shape {centre.shape}, but there are {len(sets)} candidate sets.")
    rule = Rule(get_weighting(weighting), get_loss(loss))
    state = rule.initial_state(check_number("scale", scale, low=0.0, open_low=True))
    density = rule.weighting.density(sets)
    return rule.evaluate(centre, sets, state, NOTHING if density is None else density.log(sets.values)).weights
