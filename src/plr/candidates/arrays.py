"""The ragged layout of candidate sets, and reading it from lists, padded arrays, flat arrays and plain labels.

Every reader, here and in the modules for tables and Arrow, returns a `Flat`: the candidates of all rows one after the
other, and how many each row has. None decides what an empty row or an infinite candidate means; `checked` does, once
for all of them. What is not a number is quoted with its place.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plr._parameters import check_choice
from plr.errors import CandidateError, EmptySetError, InfeasibleError, LengthError, ParameterError, PlrError, PriorError

__all__ = [
    "PRIOR_KINDS",
    "Flat",
    "Floats",
    "Integers",
    "as_floats",
    "check_readable",
    "checked",
    "is_missing",
    "is_number",
    "is_row",
    "name_rows",
    "not_a_number",
    "offsets_of",
    "pad_mask",
    "positions",
    "read_flat",
    "read_labels",
    "read_lists",
    "read_padded",
    "read_with_prior",
    "rows_of",
    "tidy_slots",
    "unshared",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# Checked values, offsets, prior, slots, kept rows and missing truths, as the attributes of the same names have them.
Parts = tuple[Floats, Integers, Floats | None, NDArray[np.int32] | None, Integers | None, Floats | None]
# What gives the id of a row, for messages; only those that are named are looked up.
Names = Callable[[int], Any]

PRIOR_KINDS = ("share", "probability", "match_weight")
"""What numbers given as prior may be."""

_NAMED = 5
# Types of pandas' own values that stand for none.
_GAPS = ("NAType", "NaTType")

# Padding is refused where one set is this large, or where it would take so many bytes and so many times the data.
_LARGEST_SET = 1_000_000
_PADDED_LIMIT = 256 * 1024**2
_PADDED_EXCESS = 10


class Flat(NamedTuple):
    """Candidates of all rows one after the other, as read: not yet checked, and the prior not yet normalised.

    ``order`` is which line of a table each candidate came from, where they were reordered; ``keys`` are the row ids.
    """

    values: Floats
    sizes: Integers
    prior: Floats | None = None
    slots: NDArray[np.int32] | None = None
    names: Names | None = None
    order: Integers | None = None
    keys: Any = None


def offsets_of(sizes: Integers) -> Integers:
    """Where each row starts in the flat array, and where the last one ends."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def positions(offsets: Integers) -> Integers:
    """Position of every candidate within its own row."""
    return np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))


def rows_of(flat: Integers, sizes: Integers) -> Integers:
    """Rows that these places of the flat array belong to, each named once."""
    return np.unique(np.searchsorted(offsets_of(sizes), flat, side="right") - 1)


def unshared(data: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Convert to a contiguous array nobody else can write to: the same where it is read-only, else a copy."""
    array = np.ascontiguousarray(data, dtype=dtype)
    shared = array is data or array.base is not None
    return array.copy() if shared and array.flags.writeable else array


def pad_mask(sizes: Integers, rows: Integers | None = None) -> NDArray[np.bool_]:
    """Return where a padded array has candidates; refuse one that would dwarf the data, and name the row."""
    width = int(sizes.max(initial=0))
    needed, held = 8 * len(sizes) * width, 8 * int(sizes.sum())
    if width >= _LARGEST_SET or (needed > _PADDED_LIMIT and needed > _PADDED_EXCESS * held):
        largest = int(sizes.argmax())
        row = largest if rows is None else int(rows[largest])
        raise InfeasibleError(
            f"Padding {len(sizes)} rows to the {width} candidates of row {row} would take {needed / 1024**2:,.0f} MiB "
            f"for {held / 1024**2:,.0f} MiB of data; leave such rows out, or thin their candidates.",
            row=row,
        )
    mask: NDArray[np.bool_] = np.arange(width) < sizes[:, np.newaxis]
    return mask


def tidy_slots(slots: Integers | NDArray[np.int32] | None, offsets: Integers) -> NDArray[np.int32] | None:
    """Drop slots that say no more than the positions do."""
    if slots is None or np.array_equal(slots, positions(offsets)):
        return None
    return slots.astype(np.int32, copy=False)


def name_rows(rows: Iterable[int] | Integers, names: Names | None = None) -> str:
    """Name the first few of some rows, and how many there are.

    >>> name_rows([4])
    'row 4'
    >>> name_rows(range(10, 40))
    'rows 10, 11, 12, 13, 14, ... (30 in all)'
    """
    found = list(rows)
    shown = [str(row) if names is None else repr(names(int(row))) for row in found[:_NAMED]]
    more = f", ... ({len(found)} in all)" if len(found) > _NAMED else ""
    return f"row{'s' if len(found) > 1 else ''} {', '.join(shown)}{more}"


def checked(flat: Flat, empty: str, prior_is: str = "share") -> Parts:
    """Apply the rules of all constructors: finite candidates, no row without one, priors that sum to one."""
    check_choice("empty", empty, ("raise", "drop"))
    check_choice("prior_is", prior_is, PRIOR_KINDS)
    values, sizes, prior, slots, names, *_ = flat
    if prior is None and prior_is != "share":
        raise ParameterError(
            f"{{parameter}} {prior_is!r} needs a prior; give one.", parameter="prior_is", value=prior_is
        )
    finite = np.isfinite(values)
    if not finite.all():
        rows, value = rows_of(np.flatnonzero(~finite), sizes), float(values[~finite][0])
        kind, remedy = ("NaN", "leave missing candidates out of the list")
        if not np.isnan(value):
            kind, remedy = ("infinite", "leave it out or correct it")
        raise CandidateError(
            f"A candidate that is {kind} inside {name_rows(rows, names)} ({len(rows)} of {len(sizes)} rows have one "
            f"that is not finite); {remedy}.",
            row=_first(rows, names),
            value=value,
            problem=f"a candidate is {kind}; {remedy}.",
        )
    kept = None
    if len(sizes) and sizes.min() == 0:
        rows = np.flatnonzero(sizes == 0)
        if empty == "raise":
            raise EmptySetError(
                f"{len(rows)} of {len(sizes)} rows have no candidate: {name_rows(rows, names)}. Give each at least "
                'one, or leave them out: CandidateSets.from_lists(lists, empty="drop") and the other constructors do, '
                "and `kept` says which rows of the features remain.",
                row=_first(rows, names),
            )
        kept = np.flatnonzero(sizes)
        sizes = sizes[kept]
    offsets = offsets_of(sizes)
    missing = None
    if prior is not None:
        check = partial(_check_prior, len(sizes), kept, names)
        if prior_is == "share":
            prior = _normalised(prior, offsets, check)
        else:
            prior, missing = _shares_of_odds(_log_odds(prior, prior_is, sizes, check), offsets)
    return values, offsets, prior, tidy_slots(slots, offsets), kept, missing


def _first(rows: Integers, names: Names | None) -> Any:
    return int(rows[0]) if names is None else names(int(rows[0]))


def _check_prior(
    count: int, kept: Integers | None, names: Names | None, wrong: Integers, problem: str, remedy: str
) -> None:
    if len(wrong):
        rows = wrong if kept is None else kept[wrong]
        raise PriorError(
            f"{len(rows)} of {count} rows have a prior {problem}: {name_rows(rows, names)}. {remedy}",
            row=_first(rows, names),
            problem=f"it has a prior {problem}. {remedy}",
        )


def _log_odds(prior: Floats, kind: str, sizes: Integers, check: Callable[[Integers, str, str], None]) -> Floats:
    """Return the logarithm of the odds that each pair is a match."""
    remedy = "Give a number for each candidate, or leave the candidate out."
    check(rows_of(np.flatnonzero(np.isnan(prior)), sizes), "that is NaN", remedy)
    if kind == "match_weight":
        return prior * np.log(2.0)
    outside = rows_of(np.flatnonzero((prior < 0) | (prior > 1)), sizes)
    remedy = 'prior_is="probability" is for numbers between 0 and 1; match weights are prior_is="match_weight".'
    check(outside, "outside of 0 to 1", remedy)
    with np.errstate(divide="ignore"):
        return np.log(prior) - np.log1p(-prior)


def _shares_of_odds(log_odds: Floats, offsets: Integers) -> tuple[Floats, Floats]:
    """Return each candidate's share of its row's odds, and each row's probability that none of them is true."""
    sizes, starts = np.diff(offsets), offsets[:-1]
    largest = np.maximum.reduceat(log_odds, starts)
    top = np.repeat(largest, sizes)
    # Candidates that are certain share alike, and so do those of a row in which all are impossible.
    with np.errstate(invalid="ignore"):
        odds = np.where(np.isinf(top), log_odds == top, np.exp(log_odds - top))
    total = np.add.reduceat(odds, starts)
    return odds / np.repeat(total, sizes), np.exp(-np.logaddexp(0.0, largest + np.log(total)))


def _normalised(prior: Floats, offsets: Integers, check: Callable[[Integers, str, str], None]) -> Floats:
    sizes, starts = np.diff(offsets), offsets[:-1]
    for problem, wrong in (("not finite", ~np.isfinite(prior)), ("negative", prior < 0)):
        remedy = "A prior is a finite number, zero or more, for each candidate."
        check(rows_of(np.flatnonzero(wrong), sizes), f"that is {problem}", remedy)
    largest = np.maximum.reduceat(prior, starts)
    remedy = "Give at least one candidate a positive prior."
    check(np.flatnonzero(largest == 0), "of zero for every candidate", remedy)
    with np.errstate(over="ignore"):
        total = np.add.reduceat(prior, starts)
    # What is normalised already stays as it is, so that reading a prior back changes no bit of it.
    done = np.abs(total - 1) <= 4 * sizes * np.finfo(np.float64).eps
    if done.all():
        return unshared(prior, np.float64)
    # Dividing by the largest first keeps tiny priors from vanishing and huge ones from overflowing.
    scaled = prior / np.repeat(np.where(done, 1.0, largest), sizes)
    return scaled / np.repeat(np.where(done, 1.0, np.add.reduceat(scaled, starts)), sizes)


def is_row(kind: type) -> bool:
    """Whether objects of this type can be one row of a list of lists."""
    ordered = hasattr(kind, "__len__") and hasattr(kind, "__iter__")
    return ordered and not issubclass(kind, (str, bytes, Mapping, set, frozenset))


def is_number(kind: type) -> bool:
    """Whether objects of this type are numbers."""
    # NumPy counts spans of time among the integers.
    return issubclass(kind, (numbers.Real, Decimal, np.bool_)) and not issubclass(kind, np.timedelta64)


def is_missing(item: Any) -> bool:
    """Whether this stands for no value: None, NaN, or pandas' NA or NaT."""
    return item is None or type(item).__name__ in _GAPS or (isinstance(item, float) and item != item)


def check_readable(data: Any, error: type[PlrError], what: str) -> None:
    """Refuse what holds values that cannot be read as it is: Polars' lazy frames, tensors with gradients."""
    if type(data).__name__ == "LazyFrame":
        raise error(f"{what} is a LazyFrame, whose rows have not been read yet; call its collect() first.")
    if getattr(data, "requires_grad", False) is True:
        raise error(f"{what} is a tensor that requires a gradient, which would be lost; give its detach().")


def not_a_number(
    item: Any, row: Any = None, column: Any = None, what: str = "", error: type[PlrError] = CandidateError
) -> PlrError:
    """Make the error for an entry that is not a number; ``what`` names the input it is part of."""
    text = "{} holds {!r} of type " + type(item).__name__ + ", which is not a number; give floats."
    if isinstance(item, (str, bytes)):
        text = "{} holds {!r}: strings are not numbers; convert them to floats first."
    elif isinstance(item, (complex, np.complexfloating)):
        text = "Complex data not supported: {} holds {!r}; give real numbers."
    elif is_missing(item):
        text = "{} holds {!r}: a list names only the candidates there are; leave missing ones out."
    elif is_row(type(item)):
        text = "{} is nested too deep: it holds {!r} where a number belongs; give one flat list per row."
    elif isinstance(item, (set, frozenset)):
        text = "{} is a set, which has no order; give a list, or sorted(...)."
    where = f"{what}, {_place(row, column)}," if what else _place(row, column)
    message = text.format(where, item)
    return error(
        message[0].upper() + message[1:], row=row, column=column, value=item, problem=text.format(what or "it", item)
    )


def _place(row: Any, column: Any) -> str:
    if row is None:
        return "the value"
    return f"row {row}" if column is None else f"row {row}, column {column}"


def as_floats(data: Any, what: str = "y", error: type[PlrError] = CandidateError) -> Floats:
    """Convert a column or table of numbers to float64, NaN where an entry is missing.

    >>> as_floats([1, None, 2.5])
    array([1. , nan, 2.5])
    """
    check_readable(data, error, what)
    if isinstance(data, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(data.astype(np.float64), np.nan))
    dtype = getattr(data, "dtype", None)
    if isinstance(data, (list, tuple)) and not any(map(is_row, set(map(type, data)))):
        # NumPy would make strings of all numbers beside one string, and the message would quote the wrong entry.
        array = np.empty(len(data), dtype=object)
        array[:] = data
    elif hasattr(dtype, "na_value") and getattr(dtype, "kind", "O") in "fiub":
        array = data.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        try:
            array = np.asarray(data)
            if array.dtype.kind in "US" and dtype is None:
                array = np.asarray(data, dtype=object)
        except ValueError as problem:
            raise error(
                f"{what} is no regular array ({problem}); CandidateSets.from_lists takes rows of any length."
            ) from None
    if array.dtype.kind in "fiub":
        return array.astype(np.float64, copy=False)
    # ``tolist`` would make plain integers of dates.
    flat = list(array.ravel()) if array.dtype.kind in "mM" else array.ravel().tolist()
    if any(kind.__name__ == "NAType" for kind in set(map(type, flat))):
        flat = [None if is_missing(item) else item for item in flat]

    def place(number: int) -> tuple[Any, Any]:
        index = [int(part) for part in np.unravel_index(number, array.shape)]
        row, column = [*index, None, None][:2]
        return row, column

    return _to_floats(flat, what, place, error, gaps=True).reshape(array.shape)


def _to_floats(
    flat: list[Any],
    what: str,
    place: Callable[[int], tuple[Any, Any]],
    error: type[PlrError] = CandidateError,
    *,
    gaps: bool = False,
) -> Floats:
    """Convert a list of numbers, and of None where there may be ``gaps``; ``place`` gives an entry's row and column."""
    # Types are few, items many.
    wrong = {kind for kind in set(map(type, flat)) if not (is_number(kind) or (gaps and kind is type(None)))}
    if wrong:
        number = next(number for number, item in enumerate(flat) if type(item) in wrong)
        raise not_a_number(flat[number], *place(number), "" if what == "y" else what, error)
    try:
        return np.array(flat, dtype=np.float64)
    except OverflowError:
        largest = sys.float_info.max
        number = next(number for number, item in enumerate(flat) if item is not None and abs(item) > largest)
        row, column = place(number)
        problem = "contains infinity or a value too large for dtype('float64')"
        raise error(
            f"{what} {problem}, in {_place(row, column)}; numbers go up to 1.8e308.",
            row=row,
            column=column,
            value=flat[number],
            problem=f"it {problem}; numbers go up to 1.8e308.",
        ) from None


def read_flat(values: ArrayLike, offsets: ArrayLike, prior: ArrayLike | None, slots: ArrayLike | None) -> Flat:
    """Read the candidates of all rows one after the other; ``offsets`` says where each row starts and ends."""
    flat = unshared(as_floats(values, "values"), np.float64)
    if flat.ndim != 1:
        raise CandidateError(
            f"{{parameter}} must have 1 dimension, not {flat.ndim}; from_padded takes 2-D arrays.", parameter="values"
        )
    bounds, problem = np.asarray(offsets), ""
    if bounds.ndim != 1 or not len(bounds) or bounds.dtype.kind not in "iu":
        problem = "must be a 1-D array of integers with one entry more than there are rows"
    elif bounds[0] != 0 or bounds[-1] != len(flat):
        problem = f"must go from 0 to the {len(flat)} values, not from {bounds[0]} to {bounds[-1]}"
    elif len(falls := np.flatnonzero(bounds[1:] < bounds[:-1])):
        problem = f"must never fall; they do after {name_rows(falls)}"
    if problem:
        raise CandidateError(f"{{parameter}} {problem}.", parameter="offsets")
    whole: Integers = bounds.astype(np.int64, copy=False)
    sizes = np.diff(whole)
    shares = None if prior is None else unshared(as_floats(prior, "prior", PriorError), np.float64)
    places = None if slots is None else unshared(slots, np.int32)
    for name, array, error in (("prior", shares, PriorError), ("slots", places, CandidateError)):
        if array is not None and array.shape != flat.shape:
            raise error(
                f"Give one {name.removesuffix('s')} per candidate: {len(flat)} candidates, {{parameter}} of shape "
                f"{array.shape}.",
                parameter=name,
            )
    return Flat(flat, sizes, shares, places)


def read_with_prior(reader: Callable[[Any], Flat], rows: Any, prior: Any) -> Flat:
    """Read candidates, and a prior of the same shape in the same way."""
    flat = reader(rows)
    if prior is None:
        return flat
    try:
        shares = reader(prior)
    except CandidateError as problem:
        raise PriorError(
            f"The prior cannot be read: {problem}",
            row=problem.row,
            column=problem.column,
            value=problem.value,
            problem=f"the prior cannot be read: {problem.problem}",
        ) from None
    if len(flat.sizes) != len(shares.sizes):
        raise LengthError(f"There are {len(flat.sizes)} rows of candidates but {len(shares.sizes)} rows of priors.")
    wrong = np.flatnonzero(flat.sizes != shares.sizes)
    if len(wrong):
        row = int(wrong[0])
        counts = f"has {flat.sizes[row]} candidates and {shares.sizes[row]} priors"
        raise PriorError(
            f"Give one prior per candidate: row {row} {counts} ({len(wrong)} such rows).",
            row=row,
            problem=f"it {counts}; give one prior per candidate.",
        )
    return flat._replace(prior=shares.values)


def read_lists(lists: Iterable[Any]) -> Flat:
    """Read one sequence of numbers per row; a missing row counts as an empty one."""
    rows = lists if isinstance(lists, list) else list(lists)
    kinds = set(map(type, rows))
    if not all(map(is_row, kinds)):
        rows = [() if is_missing(row) else row for row in rows]
        _check_rows(rows)
    try:
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    except TypeError:
        _check_rows(rows)
        raise
    if kinds == {np.ndarray} and {(row.ndim, row.dtype.kind in "fiub") for row in rows} == {(1, True)}:
        return Flat(np.concatenate(rows).astype(np.float64, copy=False), sizes)
    flat = list(chain.from_iterable(rows))

    def place(number: int) -> tuple[int, None]:
        return int(rows_of(np.array([number]), sizes)[0]), None

    return Flat(_to_floats(flat, "y", place), sizes)


def _check_rows(rows: list[Any]) -> None:
    for number, row in enumerate(rows):
        if isinstance(row, (set, frozenset, Mapping)):
            problem = f"a {type(row).__name__}, which has no order; candidates keep their positions, so give a list"
        elif is_row(type(row)) and getattr(row, "ndim", 1) > 0:
            continue
        elif is_number(type(row)):
            problem = f"the single number {row!r} among lists; write [{row!r}]"
        else:
            raise not_a_number(row, number)
        raise CandidateError(f"Row {number} is {problem}.", row=number, value=row, problem=f"it is {problem}.")


def read_padded(array: Any, prior: Any = None) -> Flat:
    """Read one row per line of a 2-D array, NaN where there is no candidate."""
    table = as_floats(array, "The padded array")
    if table.ndim != 2:
        raise CandidateError(
            f"A padded array has 2 dimensions (rows, candidates); this one has {table.ndim}. "
            "For one label per row use CandidateSets.from_labels."
        )
    shares = None
    if prior is not None:
        given, shape = as_floats(prior, "The prior", PriorError), table.shape
        if given.shape not in (shape, shape[1:]):
            raise LengthError(
                f"The prior has shape {given.shape}; give {shape} (one per candidate) or {shape[1:]} (one per column).",
                parameter="prior",
            )
        shares = np.broadcast_to(given, shape).copy()
    absent = np.isnan(table)
    if not absent.any():
        sizes = np.full(len(table), table.shape[1], dtype=np.int64)
        return Flat(unshared(table, np.float64).reshape(-1), sizes, None if shares is None else shares.reshape(-1))
    present = ~absent
    sizes = np.count_nonzero(present, axis=1).astype(np.int64)
    gaps = bool((absent[:, :-1] & present[:, 1:]).any())
    slots = np.nonzero(present)[1].astype(np.int32) if gaps else None
    return Flat(table[present], sizes, None if shares is None else shares[present], slots)


def read_labels(y: Any, empty: str) -> Flat:
    """Read one label per row; the messages about missing and infinite ones are those scikit-learn's checks expect."""
    labels = as_floats(y)
    if labels.ndim != 1:
        raise CandidateError(f"y should be a 1d array, got an array of shape {labels.shape} instead.")
    missing = np.isnan(labels)
    if missing.any() and empty == "raise":
        rows = np.flatnonzero(missing)
        raise EmptySetError(
            f"Input y contains NaN. There is no label in {name_rows(rows)}; leave those rows out of features and "
            'labels, or pass empty="drop" and take the rows in `kept`.',
            row=int(rows[0]),
            value=np.nan,
        )
    rows = np.flatnonzero(np.isinf(labels))
    if len(rows):
        raise CandidateError(
            f"Input y contains infinity or a value too large for dtype('float64'). Look at {name_rows(rows)}.",
            row=int(rows[0]),
            value=float(labels[rows[0]]),
        )
    values = labels[~missing] if missing.any() else unshared(labels, np.float64)
    return Flat(values, (~missing).astype(np.int64))
