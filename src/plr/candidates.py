"""Candidate sets: a target with several possible values per row, one of which is the true label."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import EllipsisType
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.exceptions import DataConversionWarning

from plr import _conversion as conversion
from plr._conversion import Flat, Floats, Integers, name_rows
from plr.errors import CandidateError, EmptySetError, InfeasibleError, PriorError, unknown_name

__all__ = ["CandidateSets", "as_candidate_sets"]

_PADDED_LIMIT = 2 * 1024**3
_PADDED_EXCESS = 10


class CandidateSets:
    """One set of candidate labels per row, of any length, optionally with a prior.

    Stored ragged: the candidates of all rows one after the other. Order and duplicates are kept, so a candidate's
    position means to you what it meant in your data. Objects never change: all arrays are read-only. A writeable array
    you pass in is copied, a read-only one (as Arrow's are) is shared.

    Parameters
    ----------
    values : array-like of shape (n_candidates,)
        The candidates of all rows, one row after the other.
    offsets : array-like of shape (n_rows + 1,)
        Row ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
    prior : array-like of shape (n_candidates,), optional
        How likely each candidate is before anything is learned; scaled to sum to one in each row. None is uniform.
    slots : array-like of shape (n_candidates,), optional
        The column each candidate came from; None where it is its position in the row.
    empty : {"raise", "drop"}, default="raise"
        What to do about rows without a candidate. After ``"drop"``, `kept` says which rows are left.

    Examples
    --------
    >>> S = CandidateSets.from_lists([[3.1, 7.0], [2.2], [5.0, 5.5, 9.1]])
    >>> S
    CandidateSets(3 rows, sizes 1–3 (mean 2), values 2.2 to 9.1, uniform prior)
    >>> S[0]
    array([3.1, 7. ])
    >>> S[[2, 0]].to_lists()
    [[5.0, 5.5, 9.1], [3.1, 7.0]]
    """

    __slots__ = ("_kept", "_offsets", "_prior", "_slots", "_values")

    # ``array + S`` would otherwise pad S and add the numbers up.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    _values: Floats
    _offsets: Integers
    _prior: Floats | None
    _slots: NDArray[np.int32] | None
    _kept: Integers | None

    def __init__(
        self,
        values: ArrayLike,
        offsets: ArrayLike,
        prior: ArrayLike | None = None,
        *,
        slots: ArrayLike | None = None,
        empty: str = "raise",
    ) -> None:
        flat = conversion.own(conversion.as_floats(values, "values"), np.float64)
        if flat.ndim != 1:
            raise CandidateError(f"values must have 1 dimension, not {flat.ndim}; from_padded takes 2-D arrays.")
        bounds = _checked_offsets(offsets, len(flat))
        shares = None if prior is None else conversion.own(conversion.as_shares(prior, "prior"), np.float64)
        if shares is not None and shares.shape != flat.shape:
            raise PriorError(f"Give one prior per candidate: {len(flat)} candidates, prior of shape {shares.shape}.")
        places = None if slots is None else conversion.own(slots, np.int32)
        if places is not None and places.shape != flat.shape:
            raise CandidateError(f"Give one slot per candidate: {len(flat)} candidates, slots of shape {places.shape}.")
        self._fill(*_checked(Flat(flat, np.diff(bounds), shares, places), empty))

    def _fill(
        self,
        values: Floats,
        offsets: Integers,
        prior: Floats | None = None,
        slots: NDArray[np.int32] | None = None,
        kept: Integers | None = None,
    ) -> None:
        self._values, self._offsets = _frozen(values), _frozen(offsets)
        self._prior = None if prior is None else _frozen(prior)
        self._slots = None if slots is None else _frozen(slots)
        self._kept = None if kept is None else _frozen(kept)

    @classmethod
    def _trusted(cls, *parts: Any) -> CandidateSets:
        made = cls.__new__(cls)
        made._fill(*parts)
        return made

    @classmethod
    def from_lists(
        cls, lists: Iterable[Any], prior: Iterable[Any] | None = None, *, empty: str = "raise"
    ) -> CandidateSets:
        """Read one sequence of numbers per row.

        Parameters
        ----------
        lists : iterable of sequences
            Lists, tuples or arrays of any length; None or NaN in place of a whole list is an empty row.
        prior : iterable of sequences, optional
            Of the same shape.
        empty : {"raise", "drop"}, default="raise"
            What to do about rows without a candidate.

        Examples
        --------
        >>> S = CandidateSets.from_lists([[1, 2], [], [3]], empty="drop")
        >>> S.to_lists(), S.kept
        ([[1.0, 2.0], [3.0]], array([0, 2]))
        """
        return cls._read(conversion.read_lists, lists, prior, empty)

    @classmethod
    def from_padded(cls, array: Any, prior: Any = None, *, empty: str = "raise") -> CandidateSets:
        """Read one row per line of a 2-D array, NaN where there is no candidate.

        Parameters
        ----------
        array : array-like of shape (n_rows, n_columns)
            `slots` remembers the columns where NaN comes before a candidate.
        prior : array-like of shape (n_rows, n_columns) or (n_columns,), optional
            Ignored where there is no candidate.
        empty : {"raise", "drop"}, default="raise"
            What to do about rows without a candidate.

        Examples
        --------
        >>> S = CandidateSets.from_padded([[1.0, 2.0], [np.nan, 3.0]])
        >>> S.to_lists(), S.slots
        ([[1.0, 2.0], [3.0]], array([0, 1, 1], dtype=int32))
        """
        return cls._build(conversion.read_padded(array, prior), empty)

    @classmethod
    def from_columns(
        cls, df: Any, columns: Sequence[Any], prior: Sequence[Any] | None = None, *, empty: str = "raise"
    ) -> CandidateSets:
        """Read the candidates from several columns of a table, one candidate each where present.

        Parameters
        ----------
        df : pandas or Polars frame, Arrow table, or dict of arrays
            The table.
        columns : sequence of column names
            `slots` counts in this order; missing entries are no candidates.
        prior : sequence, optional
            One column name, or one number that holds for all rows, for each of `columns`.
        empty : {"raise", "drop"}, default="raise"
            What to do about rows without a candidate.

        Examples
        --------
        >>> readings = {"reading": [1.0, 2.0], "alternative": [1.5, np.nan]}
        >>> S = CandidateSets.from_columns(readings, ["reading", "alternative"], prior=[3, 1])
        >>> S.to_lists(), S.prior
        ([[1.0, 1.5], [2.0]], array([0.75, 0.25, 1.  ]))
        """
        return cls._build(conversion.read_columns(df, columns, prior), empty)

    @classmethod
    def from_arrow(cls, column: Any, prior: Any = None, *, empty: str = "raise") -> CandidateSets:
        """Read a list column; float64 values in one piece are shared, not copied.

        Parameters
        ----------
        column : Arrow array or chunked array, Polars Series, pandas Series
            Of lists of numbers; a null or empty list is an empty row, a null inside a list is an error.
        prior : list column, optional
            Of the same shape.
        empty : {"raise", "drop"}, default="raise"
            What to do about rows without a candidate.

        Examples
        --------
        >>> import pyarrow as pa
        >>> CandidateSets.from_arrow(pa.array([[1.0, 2.0], [3.0]])).to_lists()
        [[1.0, 2.0], [3.0]]
        """
        return cls._read(conversion.read_column, column, prior, empty)

    @classmethod
    def from_long(
        cls, df: Any, row: Any, value: Any, prior: Any = None, rows: Any = None, *, empty: str = "raise"
    ) -> CandidateSets:
        """Read a table with one line per candidate.

        Parameters
        ----------
        df : pandas or Polars frame, Arrow table, or dict of arrays
            The table; the lines of a row need not be together, and keep their order.
        row, value, prior : column names
            Which row the line belongs to, the candidate, and how likely it is (optional).
        rows : array-like, optional
            All row ids in order, such as the index of the features. Without it, rows come in order of appearance.
        empty : {"raise", "drop"}, default="raise"
            What to do about ids in `rows` that the table does not have.

        Examples
        --------
        >>> table = {"id": ["b", "a", "b"], "value": [1.0, 2.0, 3.0]}
        >>> CandidateSets.from_long(table, row="id", value="value", rows=["a", "b"]).to_lists()
        [[2.0], [1.0, 3.0]]
        """
        return cls._build(conversion.read_long(df, row, value, prior, rows), empty)

    @classmethod
    def from_labels(cls, y: Any, *, empty: str = "raise") -> CandidateSets:
        """Read ordinary labels: one candidate per row.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The labels; NaN is a row without a candidate.
        empty : {"raise", "drop"}, default="raise"
            What to do about rows without a label.

        Examples
        --------
        >>> CandidateSets.from_labels([1.0, 2.0]).to_lists()
        [[1.0], [2.0]]
        """
        labels = conversion.as_floats(y)
        if labels.ndim != 1:
            raise CandidateError(f"y should be a 1d array, got an array of shape {labels.shape} instead.")
        missing = np.isnan(labels)
        if missing.any() and empty == "raise":
            raise EmptySetError(
                f"Input y contains NaN. There is no label in {name_rows(np.flatnonzero(missing))}; leave those rows "
                'out of features and labels, or pass empty="drop" and take the rows in `kept`.'
            )
        if np.isinf(labels).any():
            raise CandidateError(
                "Input y contains infinity or a value too large for dtype('float64'). "
                f"Look at {name_rows(np.flatnonzero(np.isinf(labels)))}."
            )
        values = labels[~missing] if missing.any() else conversion.own(labels, np.float64)
        return cls._build(Flat(values, (~missing).astype(np.int64)), empty)

    @classmethod
    def concatenate(cls, parts: Iterable[CandidateSets]) -> CandidateSets:
        """Put the rows of several objects one after the other.

        >>> S = CandidateSets.from_lists([[1, 2]])
        >>> CandidateSets.concatenate([S, S]).to_lists()
        [[1.0, 2.0], [1.0, 2.0]]
        """
        sets = list(parts)
        offsets = conversion.offsets_of(np.concatenate([np.empty(0, np.int64), *(S.sizes for S in sets)]))
        values = np.concatenate([np.empty(0), *(S.values for S in sets)])
        prior = slots = None
        if any(S.prior is not None for S in sets):
            prior = np.concatenate([S.prior_or_uniform for S in sets])
        if any(S.slots is not None for S in sets):
            slots = np.concatenate([conversion.positions(S.offsets) if S.slots is None else S.slots for S in sets])
        return cls._trusted(values, offsets, prior, _tidy_slots(slots, offsets))

    @classmethod
    def _read(cls, reader: Any, rows: Any, prior: Any, empty: str) -> CandidateSets:
        flat = reader(rows)
        if prior is not None:
            try:
                shares = reader(prior)
            except CandidateError as problem:
                raise PriorError(f"The prior cannot be read: {problem}") from None
            flat = conversion.with_prior(flat, shares)
        return cls._build(flat, empty)

    @classmethod
    def _build(cls, flat: Flat, empty: str) -> CandidateSets:
        return cls._trusted(*_checked(flat, empty))

    @property
    def values(self) -> Floats:
        """The candidates of all rows, one row after the other."""
        return self._values

    @property
    def offsets(self) -> Integers:
        """Where each row starts in `values`, and where the last one ends."""
        return self._offsets

    @property
    def prior(self) -> Floats | None:
        """How likely each candidate is beforehand, summing to one in each row; None where all are equally likely."""
        return self._prior

    @property
    def slots(self) -> NDArray[np.int32] | None:
        """The column each candidate came from, or after `unique` its former position.

        None where every candidate's slot is its position in the row, as it always is for lists. It travels through
        indexing, concatenation and `unique`, and plays no part in equality.
        """
        return self._slots

    @property
    def kept(self) -> Integers | None:
        """The rows of the input that have a candidate, where ``empty="drop"`` dropped others; else None.

        It describes the constructor's input, so objects made by indexing or concatenation have none.
        """
        return self._kept

    @property
    def prior_or_uniform(self) -> Floats:
        """The prior as an array, one over the size of the row where none was given."""
        if self._prior is not None:
            return self._prior
        sizes = self.sizes
        return _frozen(np.repeat(1.0 / sizes, sizes))

    @property
    def sizes(self) -> Integers:
        """Number of candidates of each row."""
        return np.diff(self._offsets)

    @property
    def row_index(self) -> Integers:
        """The row of every candidate."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.sizes)

    @property
    def shape(self) -> tuple[int]:
        """One dimension, the rows: what scikit-learn looks for before it indexes a target."""
        return (len(self),)

    @property
    def ndim(self) -> int:
        """One, as `shape` says."""
        return 1

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[Floats]:
        for start, stop in pairwise(self._offsets.tolist()):
            yield self._values[start:stop]

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Floats: ...

    @overload
    def __getitem__(self, index: slice | EllipsisType | Sequence[Any] | NDArray[Any]) -> CandidateSets: ...

    def __getitem__(self, index: Any) -> Any:
        """Row `index` as an array, or the rows of a slice, mask or index array as candidate sets."""
        if isinstance(index, tuple):
            # scikit-learn indexes targets as ``S[rows, ...]``.
            if len(index) != 1 and not (len(index) == 2 and index[1] is Ellipsis):
                raise IndexError(f"Candidate sets have one dimension, the rows; {index!r} asks for {len(index)}.")
            index = index[0]
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self._span(start, max(start, stop))
            return self._gather(np.arange(start, stop, step, dtype=np.int64))
        if isinstance(index, numbers.Integral) and not isinstance(index, bool):
            row = int(_checked_rows(np.array([index]), len(self))[0])
            return self._values[self._offsets[row] : self._offsets[row + 1]]
        if index is Ellipsis:
            return self
        return self._gather(_checked_rows(np.asarray(index), len(self)))

    def _span(self, start: int, stop: int) -> CandidateSets:
        first, last = self._offsets[start], self._offsets[stop]
        offsets = self._offsets[start : stop + 1] - first
        prior = None if self._prior is None else self._prior[first:last]
        slots = None if self._slots is None else _tidy_slots(self._slots[first:last], offsets)
        return self._trusted(self._values[first:last], offsets, prior, slots)

    def _gather(self, rows: Integers) -> CandidateSets:
        starts = self._offsets[rows]
        sizes = self._offsets[rows + 1] - starts
        offsets = conversion.offsets_of(sizes)
        places = np.repeat(starts - offsets[:-1], sizes)
        places += np.arange(offsets[-1])
        prior = None if self._prior is None else self._prior[places]
        slots = None if self._slots is None else _tidy_slots(self._slots[places], offsets)
        return self._trusted(self._values[places], offsets, prior, slots)

    def __add__(self, other: object) -> CandidateSets:
        if not isinstance(other, CandidateSets):
            return NotImplemented
        return self.concatenate([self, other])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CandidateSets):
            return NotImplemented
        same = np.array_equal(self._offsets, other._offsets) and np.array_equal(self._values, other._values)
        if not same or (self._prior is None and other._prior is None):
            return bool(same)
        return bool(np.array_equal(self.prior_or_uniform, other.prior_or_uniform))

    def __reduce__(self) -> Any:
        # Unpickled arrays are writeable again, so they have to pass through ``_fill``.
        return _restored, (self._values, self._offsets, self._prior, self._slots, self._kept)

    def __repr__(self) -> str:
        if not len(self):
            return "CandidateSets(0 rows)"
        sizes = self.sizes
        span = f"{sizes.min()}–{sizes.max()} (mean {sizes.mean():.3g})" if sizes.min() < sizes.max() else f"{sizes[0]}"
        kind = "uniform prior" if self._prior is None else "given prior"
        return (
            f"CandidateSets({len(self)} row{'s' if len(self) > 1 else ''}, sizes {span}, "
            f"values {self._values.min():.6g} to {self._values.max():.6g}, {kind})"
        )

    def mean(self) -> Floats:
        """Prior-weighted mean of each row: the target of the paper's AVGV.

        >>> CandidateSets.from_lists([[1, 3], [5]]).mean()
        array([2., 5.])
        """
        starts = self._offsets[:-1]
        # Weighing before adding keeps the sum of huge candidates finite.
        shares = self._values / np.repeat(self.sizes, self.sizes) if self._prior is None else self._values * self._prior
        total = np.add.reduceat(shares, starts)
        # A mean lies among its candidates; rounding alone may push it out.
        return np.clip(total, np.minimum.reduceat(self._values, starts), np.maximum.reduceat(self._values, starts))

    def unique(self) -> CandidateSets:
        """Merge equal candidates of a row into the first of them, adding up their priors.

        >>> S = CandidateSets.from_lists([[2, 1, 2, 2], [3]]).unique()
        >>> S.to_lists(), S.prior, S.slots
        ([[2.0, 1.0], [3.0]], array([0.75, 0.25, 1.  ]), None)
        """
        rows = self.row_index
        order = np.lexsort((self._values, rows))
        ordered, owners = self._values[order], rows[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (ordered[1:] != ordered[:-1]) | (owners[1:] != owners[:-1])
        if first.all():
            return self
        groups = np.flatnonzero(first)
        merged = np.empty(len(order))
        if self._prior is None:
            merged[order[groups]] = np.diff(groups, append=len(order)) / self.sizes[owners[groups]]
        else:
            merged[order[groups]] = np.add.reduceat(self._prior[order], groups)
        leaders = np.sort(order[groups])
        offsets = conversion.offsets_of(np.bincount(rows[leaders], minlength=len(self)))
        slots = conversion.positions(self._offsets) if self._slots is None else self._slots
        return self._trusted(self._values[leaders], offsets, merged[leaders], _tidy_slots(slots[leaders], offsets))

    def to_lists(self) -> list[list[float]]:
        """Make one Python list per row."""
        flat = self._values.tolist()
        return [flat[start:stop] for start, stop in pairwise(self._offsets.tolist())]

    def to_arrow(self) -> Any:
        """Make an Arrow list array that shares the values (a large list where 32-bit offsets do not reach).

        >>> CandidateSets.from_lists([[1, 2], [3]]).to_arrow().type
        ListType(list<item: double>)
        """
        import pyarrow as pa

        if self._offsets[-1] > np.iinfo(np.int32).max:
            return pa.LargeListArray.from_arrays(pa.array(self._offsets), pa.array(self._values))
        return pa.ListArray.from_arrays(pa.array(self._offsets.astype(np.int32)), pa.array(self._values))

    def to_padded(self, fill: float = np.nan) -> Floats:
        """Make an array of shape (rows, largest size), `fill` after the last candidate of each row.

        >>> CandidateSets.from_lists([[1, 2], [3]]).to_padded()
        array([[ 1.,  2.],
               [ 3., nan]])
        """
        if not len(self):
            return np.empty((0, 0))
        sizes = self.sizes
        width = int(sizes.max())
        needed, held = 8 * len(self) * width, self._values.nbytes + self._offsets.nbytes
        if needed > _PADDED_LIMIT and needed > _PADDED_EXCESS * held:
            raise InfeasibleError(
                f"Padding {len(self)} rows to the {width} candidates of row {int(sizes.argmax())} needs "
                f"{needed / 1024**3:.1f} GiB for {held / 1024**3:.3g} GiB of data; work on values and offsets, or "
                "leave such rows out."
            )
        if len(self._values) == len(self) * width:
            return self._values.reshape(len(self), width).copy()
        padded = np.full((len(self), width), fill, dtype=np.float64)
        padded[np.arange(width) < sizes[:, np.newaxis]] = self._values
        return padded

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("Candidate sets are stored ragged, so an array of them is always a copy.")
        padded = self.to_padded()
        return padded if dtype is None else padded.astype(dtype, copy=False)


def _restored(*parts: Any) -> CandidateSets:
    return CandidateSets._trusted(*parts)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _tidy_slots(slots: Integers | NDArray[np.int32] | None, offsets: Integers) -> NDArray[np.int32] | None:
    if slots is None or np.array_equal(slots, conversion.positions(offsets)):
        return None
    return slots.astype(np.int32, copy=False)


def _checked_rows(rows: NDArray[Any], count: int) -> Integers:
    """Row numbers from a mask or an index array, negative ones counted from the end."""
    if rows.ndim != 1:
        raise IndexError(
            f"Rows are chosen by an integer, a slice, or a 1-D mask or index array, not {rows.ndim} dimensions."
        )
    if rows.dtype.kind == "b":
        if len(rows) != count:
            raise IndexError(f"The mask has {len(rows)} entries for {count} rows.")
        return np.flatnonzero(rows)
    if not len(rows):
        return np.empty(0, dtype=np.int64)
    if rows.dtype.kind not in "iu":
        raise IndexError(f"Rows are chosen by integers or booleans, not {rows.dtype}.")
    wrong = rows[(rows >= count) | (rows < -count)]
    if len(wrong):
        raise IndexError(f"Index {wrong[0]} is out of range for {count} rows.")
    chosen = rows.astype(np.int64, copy=False)
    return np.where(chosen < 0, chosen + count, chosen) if chosen.min() < 0 else chosen


def _checked_offsets(offsets: ArrayLike, count: int) -> Integers:
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or not len(bounds) or bounds.dtype.kind not in "iu":
        raise CandidateError("offsets must be a 1-D array of integers with one entry more than there are rows.")
    bounds = bounds.astype(np.int64, copy=False)
    if bounds[0] != 0 or bounds[-1] != count:
        raise CandidateError(f"offsets must go from 0 to the {count} values, not from {bounds[0]} to {bounds[-1]}.")
    falls = np.flatnonzero(bounds[1:] < bounds[:-1])
    if len(falls):
        raise CandidateError(f"offsets must never fall; they do after {name_rows(falls)}.")
    return bounds


def _checked(flat: Flat, empty: str) -> tuple[Any, ...]:
    """Apply the rules all constructors share; returns what ``CandidateSets._fill`` takes."""
    if empty not in ("raise", "drop"):
        raise unknown_name("empty", empty, ["raise", "drop"])
    values, sizes, prior, slots, names = flat
    finite = np.isfinite(values)
    if not finite.all():
        rows = conversion.rows_of(np.flatnonzero(~finite), sizes)
        kind = "NaN" if np.isnan(values[~finite][0]) else "infinite"
        remedy = "leave missing candidates out of the list" if kind == "NaN" else "leave it out or correct it"
        raise CandidateError(
            f"A candidate that is {kind} inside {name_rows(rows, names)} ({len(rows)} of {len(sizes)} rows have one "
            f"that is not finite); {remedy}."
        )
    kept = None
    if len(sizes) and sizes.min() == 0:
        hollow = np.flatnonzero(sizes == 0)
        if empty == "raise":
            raise EmptySetError(
                f"{len(hollow)} of {len(sizes)} rows have no candidate: {name_rows(hollow, names)}. Give each at least "
                'one, or pass empty="drop" and take the rows in `kept` from the features.'
            )
        kept = np.flatnonzero(sizes)
        sizes = sizes[kept]
    offsets = conversion.offsets_of(sizes)
    if prior is not None:
        prior = _normalised(prior, offsets, lambda rows: name_rows(rows if kept is None else kept[rows], names))
    return values, offsets, prior, _tidy_slots(slots, offsets), kept


def _normalised(prior: Floats, offsets: Integers, name: Callable[[Integers], str]) -> Floats:
    sizes, starts = np.diff(offsets), offsets[:-1]
    for problem, wrong in (("not finite", ~np.isfinite(prior)), ("negative", prior < 0)):
        if wrong.any():
            rows = conversion.rows_of(np.flatnonzero(wrong), sizes)
            raise PriorError(
                f"{len(rows)} of {len(sizes)} rows have a prior that is {problem}: {name(rows)}. "
                "A prior is a finite number, zero or more, for each candidate."
            )
    largest = np.maximum.reduceat(prior, starts)
    if not largest.all():
        rows = np.flatnonzero(largest == 0)
        raise PriorError(
            f"{len(rows)} of {len(sizes)} rows have a prior of zero for every candidate: {name(rows)}. "
            "Give at least one candidate a positive prior."
        )
    with np.errstate(over="ignore"):
        total = np.add.reduceat(prior, starts)
    # What is normalised already stays as it is, so that reading a prior back changes no bit of it.
    done = np.abs(total - 1) <= 4 * sizes * np.finfo(np.float64).eps
    if done.all():
        return conversion.own(prior, np.float64)
    # Dividing by the largest first keeps tiny priors from vanishing and huge ones from overflowing.
    scaled = prior / np.repeat(np.where(done, 1.0, largest), sizes)
    return scaled / np.repeat(np.where(done, 1.0, np.add.reduceat(scaled, starts)), sizes)


def as_candidate_sets(S: Any, empty: str = "raise") -> CandidateSets:
    """Turn anything that can be a target into candidate sets.

    Parameters
    ----------
    S : CandidateSets, sequence of sequences, list column, NaN-padded 2-D array or frame, or 1-D labels
        Candidate sets are returned as they are. An array or frame with one column is taken for labels, with the
        warning scikit-learn's own regressors give.
    empty : {"raise", "drop"}, default="raise"
        What to do about rows without a candidate.

    Examples
    --------
    >>> as_candidate_sets([[1, 2], [3]])
    CandidateSets(2 rows, sizes 1–2 (mean 1.5), values 1 to 3, uniform prior)
    >>> as_candidate_sets([1.5, 2.5]).to_lists()
    [[1.5], [2.5]]
    """
    if isinstance(S, CandidateSets):
        return S
    if S is None:
        raise CandidateError(
            "Fitting requires y to be passed, but the target y is None; give candidate sets or labels."
        )
    if conversion.is_frame(S):
        columns = dict(conversion.columns_of(S))
        if S.shape[1] == 1:
            _warn_column_vector()
            return as_candidate_sets(next(iter(columns.values())), empty)
        return CandidateSets.from_columns(S, list(columns), empty=empty)
    if conversion.is_list_column(S):
        return CandidateSets.from_arrow(S, empty=empty)
    if not hasattr(S, "__array__"):
        if not conversion.is_row(type(S)) or hasattr(S, "toarray"):
            raise CandidateError(
                f"A {type(S).__name__} is no target; give CandidateSets, a list of lists, a list column, a NaN-padded "
                "2-D array or 1-D labels (columns of a dict or frame: CandidateSets.from_columns)."
            )
        S = list(S)
        if any(map(conversion.is_row, set(map(type, S)))):
            return CandidateSets.from_lists(S, empty=empty)
        return CandidateSets.from_labels(S, empty=empty)
    return _from_array(S, empty)


def _from_array(S: Any, empty: str) -> CandidateSets:
    array = S if isinstance(S, np.ma.MaskedArray) else np.asarray(S)
    if array.ndim == 1:
        if array.dtype == object and any(map(conversion.is_row, set(map(type, array)))):
            return CandidateSets.from_lists(array, empty=empty)
        return CandidateSets.from_labels(S, empty=empty)
    if array.ndim != 2:
        raise CandidateError(
            f"A target of shape {array.shape} has {array.ndim} dimensions"
            + ("; row 0 is nested too deep" if array.ndim > 2 else "")
            + ". Give 1-D labels, a NaN-padded 2-D array or a list of lists."
        )
    if array.shape[1] == 1:
        _warn_column_vector()
        return CandidateSets.from_labels(array[:, 0], empty=empty)
    return CandidateSets.from_padded(array, empty=empty)


def _warn_column_vector() -> None:
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, ), for "
        "example using ravel().",
        DataConversionWarning,
        stacklevel=3,
    )
