"""The container: one set of candidates per row, read-only, indexed by row.

Its methods say what can be done; how is in the modules beside this one.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from types import EllipsisType
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from plr.candidates.arrow import read_column
from plr.candidates.checks import checked, checked_rows
from plr.candidates.flat import Floats, Integers, Parts, frozen
from plr.candidates.long import read_long
from plr.candidates.operations import chosen_rows, joined, means, merged, row_range
from plr.candidates.readers import read_flat, read_labels, read_lists, read_padded, read_with_prior
from plr.candidates.tables import read_columns
from plr.candidates.writers import write_arrow, write_padded, write_summary

__all__ = ["CandidateSets"]


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
        self._fill(checked(read_flat(values, offsets, prior, slots), empty))

    def _fill(self, parts: Parts) -> None:
        self._values, self._offsets = frozen(parts.values), frozen(parts.offsets)
        self._prior = None if parts.prior is None else frozen(parts.prior)
        self._slots = None if parts.slots is None else frozen(parts.slots)
        self._kept = None if parts.kept is None else frozen(parts.kept)

    @classmethod
    def _trusted(cls, parts: Parts) -> CandidateSets:
        made = cls.__new__(cls)
        made._fill(parts)
        return made

    @classmethod
    def _of_checked(cls, values: Floats, offsets: Integers, prior: Floats | None = None) -> CandidateSets:
        """Take arrays that are known to be right, without checks and copies."""
        return cls._trusted(Parts(values, offsets, prior))

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
        return cls._trusted(checked(read_with_prior(read_lists, lists, prior), empty))

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
        return cls._trusted(checked(read_padded(array, prior), empty))

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
        return cls._trusted(checked(read_columns(df, columns, prior), empty))

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
        return cls._trusted(checked(read_with_prior(read_column, column, prior), empty))

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
        return cls._trusted(checked(read_long(df, row, value, prior, rows), empty))

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
        return cls._trusted(checked(read_labels(y, empty), empty))

    @classmethod
    def concatenate(cls, parts: Iterable[CandidateSets]) -> CandidateSets:
        """Put the rows of several objects one after the other.

        >>> S = CandidateSets.from_lists([[1, 2]])
        >>> CandidateSets.concatenate([S, S]).to_lists()
        [[1.0, 2.0], [1.0, 2.0]]
        """
        return cls._trusted(joined(list(parts)))

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
        return frozen(np.repeat(1.0 / sizes, sizes))

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
                return self._trusted(row_range(self, start, max(start, stop)))
            return self._trusted(chosen_rows(self, np.arange(start, stop, step, dtype=np.int64)))
        if isinstance(index, numbers.Integral) and not isinstance(index, bool):
            row = int(checked_rows(np.array([index]), len(self))[0])
            return self._values[self._offsets[row] : self._offsets[row + 1]]
        if index is Ellipsis:
            return self
        return self._trusted(chosen_rows(self, checked_rows(np.asarray(index), len(self))))

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
        return write_summary(self)

    def mean(self) -> Floats:
        """Prior-weighted mean of each row: the target of the paper's AVGV.

        >>> CandidateSets.from_lists([[1, 3], [5]]).mean()
        array([2., 5.])
        """
        return means(self)

    def unique(self) -> CandidateSets:
        """Merge equal candidates of a row into the first of them, adding up their priors.

        >>> S = CandidateSets.from_lists([[2, 1, 2, 2], [3]]).unique()
        >>> S.to_lists(), S.prior, S.slots
        ([[2.0, 1.0], [3.0]], array([0.75, 0.25, 1.  ]), None)
        """
        parts = merged(self)
        return self if parts is None else self._trusted(parts)

    def to_lists(self) -> list[list[float]]:
        """Make one Python list per row."""
        flat = self._values.tolist()
        return [flat[start:stop] for start, stop in pairwise(self._offsets.tolist())]

    def to_arrow(self) -> Any:
        """Make an Arrow list array that shares the values (a large list where 32-bit offsets do not reach).

        >>> CandidateSets.from_lists([[1, 2], [3]]).to_arrow().type
        ListType(list<item: double>)
        """
        return write_arrow(self)

    def to_padded(self, fill: float = np.nan) -> Floats:
        """Make an array of shape (rows, largest size), `fill` after the last candidate of each row.

        >>> CandidateSets.from_lists([[1, 2], [3]]).to_padded()
        array([[ 1.,  2.],
               [ 3., nan]])
        """
        return write_padded(self, fill)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("Candidate sets are stored ragged, so an array of them is always a copy.")
        padded = self.to_padded()
        return padded if dtype is None else padded.astype(dtype, copy=False)


def _restored(*parts: Any) -> CandidateSets:
    return CandidateSets._trusted(Parts(*parts))
