"""How candidate sets come about: hide true labels among false ones, in the ways people meet them.

>>> from plr.generation import MECHANISMS
>>> list(MECHANISMS)
['uniform', 'gaussian', 'marginal', 'units', 'digits', 'folding', 'biased']
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

import plr
from plr._parameters import check_choice, check_integer, check_number
from plr.candidates import CandidateSets
from plr.errors import CandidateError, FeatureError, LengthError, ParameterError
from plr.generation.biased import Biased
from plr.generation.digits import Digits
from plr.generation.folding import Folding
from plr.generation.gaussian import Gaussian
from plr.generation.marginal import Marginal
from plr.generation.mechanism import FalseLabels, GenerationTask, Mechanism, check_total
from plr.generation.uniform import Uniform
from plr.generation.units import Units

__all__ = ["MECHANISMS", "SET_SIZES", "make_candidates", "recipe", "resolve_options"]

MECHANISMS: dict[str, type[Mechanism]] = {
    "uniform": Uniform,
    "gaussian": Gaussian,
    "marginal": Marginal,
    "units": Units,
    "digits": Digits,
    "folding": Folding,
    "biased": Biased,
}
"""Every mechanism by name. Its options are the fields of its class."""

SET_SIZES = ("upto", "fixed")
"""The paper's tables drew the number of false labels per row (``upto``); its text says it is the same for all rows."""

RandomState = int | np.random.SeedSequence | np.random.Generator | np.random.RandomState | None

_FALSE_LABELS = 4


@overload
def make_candidates(
    y: ArrayLike, false_labels: int | None = ..., *, return_index: Literal[False] = ..., **options: Any
) -> CandidateSets: ...


@overload
def make_candidates(
    y: ArrayLike, false_labels: int | None = ..., *, return_index: Literal[True], **options: Any
) -> tuple[CandidateSets, NDArray[np.int64]]: ...


def make_candidates(
    y: ArrayLike,
    false_labels: int | None = None,
    *,
    mechanism: str = "uniform",
    set_size: str | None = None,
    X: ArrayLike | None = None,
    missing: float = 0.0,
    random_state: RandomState = None,
    return_index: bool = False,
    **options: Any,
) -> CandidateSets | tuple[CandidateSets, NDArray[np.int64]]:
    """Hide each true label among false ones.

    Parameters
    ----------
    y : array-like of shape (n,)
        True labels.
    false_labels : int, optional
        How many false labels a row gets, at most or exactly (the paper's ``|S̄|``); 4 by default. Refused by the
        mechanisms ``units`` and ``folding``, whose maps or period say how many there are.
    mechanism : str, default "uniform"
        Where false labels come from:

        ``uniform``
            anywhere in the label's range, as in the paper;
        ``gaussian``
            near the truth, as several people's guesses;
        ``marginal``
            other rows' true labels, as in a wrong join;
        ``units``
            the truth in a unit that is not stated, read in every unit;
        ``digits``
            the printed truth with one digit unreadable;
        ``folding``
            the truth wrapped into a period, unwrapped in every way;
        ``biased``
            around a function of the features, which competes with the truth.
    set_size : {"upto", "fixed"}, optional
        Whether a row gets a random number of false labels, uniform on 0, 1, …, ``false_labels`` (the default, and what
        the paper's tables used), or always ``false_labels`` (what its text says, and far harder). Refused with
        ``false_labels``.
    X : array-like of shape (n, features), optional
        Features; only ``biased`` looks at them.
    missing : float, default 0.0
        Share of rows, below 1, whose truth is left out. One more false label takes its place where the mechanism can
        give one, and no such row is left empty.
    random_state : int, SeedSequence, Generator, RandomState or None
        The same seed gives the same sets.
    return_index : bool, default False
        Return as well where in its set each truth is.
    **options
        Options of the mechanism: the parameters of its class in :data:`MECHANISMS`.

    Returns
    -------
    sets : CandidateSets
        One set per row, the truth anywhere in it with equal chances.
    index : ndarray of int64
        Position of the truth in each set, -1 where it is missing. Only with ``return_index=True``.

    Examples
    --------
    >>> sets, index = make_candidates([3.0, 7.0, 5.0], 2, set_size="fixed", random_state=0, return_index=True)
    >>> sets.sizes
    array([3, 3, 3])
    >>> sets.values[sets.offsets[:-1] + index]
    array([3., 7., 5.])
    >>> make_candidates([20.0], mechanism="units", unambiguous=0, random_state=0).values
    array([20., 68.])
    """
    chosen, most, size = _resolve(mechanism, false_labels, set_size, options)
    check_number("missing", missing, low=0, below=1, what="{parameter}, a share of rows,")
    task = _task(y, X, random_state, most if size == "fixed" else (0, most), missing)
    sets, index = _assemble(task, chosen.false_labels(task))
    return (sets, index) if return_index else sets


def recipe(
    false_labels: int | None = None,
    *,
    mechanism: str = "uniform",
    set_size: str | None = None,
    missing: float = 0.0,
    random_state: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return what :func:`make_candidates` would do, defaults filled in, as plain values that can be written down.

    Options left to the labels, such as the span of ``uniform``, are left out; :func:`resolve_options` gives them.

    Examples
    --------
    >>> recipe(2, mechanism="gaussian", random_state=0)  # doctest: +NORMALIZE_WHITESPACE
    {'plr': '0.1.0', 'mechanism': 'gaussian', 'options': {'spread': 0.5}, 'false_labels': 2, 'set_size': 'upto',
     'missing': 0.0, 'seed': 0}
    """
    chosen, most, size = _resolve(mechanism, false_labels, set_size, options)
    counted = {"false_labels": most, "set_size": size} if chosen.counted else {}
    return {
        "plr": plr.__version__,
        "mechanism": mechanism,
        "options": {name: value for name, value in _options(chosen).items() if value is not None},
        **counted,
        "missing": missing,
        "seed": random_state,
    }


def resolve_options(
    mechanism: str,
    y: ArrayLike,
    *,
    X: ArrayLike | None = None,
    random_state: RandomState = None,
    **options: Any,
) -> dict[str, Any]:
    """Return a mechanism's options with all filled in that it takes from the rows, or draws.

    Handed to :func:`make_candidates` with other rows, they hide those rows' truths in exactly the same way: in the same
    span, with the same period, around the same function of the features.

    Parameters
    ----------
    mechanism : str
        One of :data:`MECHANISMS`.
    y, X : array-like
        Labels, and features where the mechanism looks at them, to take options from.
    random_state : int, SeedSequence, Generator, RandomState or None
        For what a mechanism draws once for all rows: the direction of ``biased``.
    **options
        Options already decided.

    Returns
    -------
    dict
        Every option of the mechanism, as plain values.

    Examples
    --------
    >>> resolve_options("folding", [0.0, 4.0, 6.0])
    {'period': 2.0, 'span': (0.0, 6.0), 'unambiguous': 0.2}
    """
    chosen, _, _ = _resolve(mechanism, None, None, options)
    task = _task(y, X, random_state)
    return _options(chosen.resolved(task))


def _options(mechanism: Mechanism) -> dict[str, Any]:
    return {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}  # type: ignore[arg-type]


def _resolve(
    mechanism: str, false_labels: int | None, set_size: str | None, options: dict[str, Any]
) -> tuple[Mechanism, int, str]:
    kind = MECHANISMS[check_choice("mechanism", mechanism, MECHANISMS)]
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ParameterError(f"The mechanism {mechanism!r} has no option {name!r}; {has}.", parameter=name)
    if not kind.counted and (false_labels is not None or set_size is not None):
        given = "false_labels" if false_labels is not None else "set_size"
        raise ParameterError(
            f"{{parameter}} does not apply to {mechanism!r}, whose options are {', '.join(known)}.", parameter=given
        )
    number = check_integer("false_labels", _FALSE_LABELS if false_labels is None else false_labels, countable=False)
    if kind.most_false_labels is not None and number > kind.most_false_labels:
        raise ParameterError(
            f"{mechanism!r} has at most {kind.most_false_labels} false labels a row, not {number}.",
            parameter="false_labels",
            value=number,
        )
    check_total(number)
    size = check_choice("set_size", "upto" if set_size is None else set_size, SET_SIZES)
    return kind(**options), number, size


def _task(
    y: ArrayLike,
    X: ArrayLike | None,
    random_state: RandomState,
    counts: int | tuple[int, int] = 0,
    missing: float = 0.0,
) -> GenerationTask:
    """Check labels and features, and draw how many false labels each row gets and whose truth is left out."""
    try:
        labels = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CandidateError(f"y must be numbers, one true label per row: {error}") from error
    if labels.ndim != 1:
        raise CandidateError(f"y must have one dimension, one true label per row; it has the shape {labels.shape}.")
    rows = len(labels)
    if rows == 0:
        raise CandidateError("y is empty; there is no label to hide.")
    wrong = np.flatnonzero(~np.isfinite(labels))
    if wrong.size:
        row, value = int(wrong[0]), float(labels[wrong[0]])
        raise CandidateError(
            f"y[{row}] is {value}; true labels must be finite ({wrong.size} are not).", row=row, value=value
        )
    rng = _generator(random_state)
    features = None if X is None else _check_features(X, rows)
    numbers = np.full(rows, counts) if isinstance(counts, int) else rng.integers(*counts, size=rows, endpoint=True)
    left_out = np.zeros(rows, dtype=np.bool_)
    if missing > 0:
        left_out[rng.permutation(rows)[: round(missing * rows)]] = True
    return GenerationTask(labels, features, numbers.astype(np.int64, copy=False), left_out, rng)


def _check_features(X: ArrayLike, n: int) -> NDArray[np.float64]:
    try:
        features = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FeatureError(f"X must be numbers: {error}") from error
    if features.ndim != 2:
        raise FeatureError(f"X must have two dimensions (rows, features); it has the shape {features.shape}.")
    if len(features) != n:
        raise LengthError(f"X has {len(features)} rows, y has {n}.")
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0].tolist()
        value = float(features[row, column])
        raise FeatureError(
            f"X[{row}, {column}] is {value}; features must be finite.", row=row, column=column, value=value
        )
    return features


def _generator(random_state: RandomState) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{{parameter}} must be a seed or a generator, not {random_state!r}.",
            parameter="random_state",
            value=random_state,
        ) from error


def _assemble(task: GenerationTask, false: FalseLabels) -> tuple[CandidateSets, NDArray[np.int64]]:
    kept = np.flatnonzero(~task.missing)
    sizes = false.counts + ~task.missing
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    index = np.full(len(task.y), -1, dtype=np.int64)
    index[kept] = task.rng.integers(0, sizes[kept])
    true = offsets[kept] + index[kept]
    is_false = np.ones(offsets[-1], dtype=np.bool_)
    is_false[true] = False
    values = np.empty(offsets[-1])
    values[true] = task.y[kept]
    values[is_false] = false.values
    return CandidateSets(values, offsets), index
