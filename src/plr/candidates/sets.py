"""The class: one set of candidates per row, read-only, indexed by row; and making it of any target."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from types import EllipsisType, MappingProxyType
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.exceptions import DataConversionWarning

from plr.candidates.arrays import (
    Flat,
    Floats,
    Integers,
    as_floats,
    check_readable,
    checked,
    is_row,
    offsets_of,
    pad_mask,
    positions,
    read_flat,
    read_labels,
    read_lists,
    read_padded,
    read_with_prior,
    tidy_slots,
)
from plr.candidates.arrow import is_frame, is_list_column, is_text_column, read_column, read_texts
from plr.candidates.features import (
    Column,
    Flatten,
    as_array,
    flatten_columns,
    flatten_lines,
    flatten_lists,
    flatten_padded,
    join_columns,
    read_features,
)
from plr.candidates.html import SHOWN_ROWS, as_html, listed_candidates
from plr.candidates.origin import Origin, join_origins, origin_of, origin_of_lines
from plr.candidates.tables import column_of, columns_of, read_columns, read_long
from plr.errors import CandidateError, ParameterError

__all__ = ["CandidateSets", "as_candidate_sets"]


@dataclass(init=False, repr=False, eq=False, frozen=True)
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
    features : dict of str to array-like of shape (n_candidates,), optional
        What is known of each candidate: a match score, a source, a date. Numbers, NaN where missing, or categories,
        which are texts, empty where missing; of many categories only the most frequent ones count. Dates become days
        since 1970. A feature that is the same for all candidates of a row says nothing about which one is true.
    record : array-like of shape (n_candidates,), optional
        Which record each candidate is, such as the key of a matched row of the other table: texts or numbers. It may be
        a candidate of many rows; twice in the same row is an error with ``one_to_one=True`` alone.
    prior_is : {"share", "probability", "match_weight"}, default="share"
        What the prior's numbers are. ``"share"``: weights of any size, of which only the proportions within a row
        count. ``"probability"``: how probable it is that each candidate, by itself, is the true one, as programs for
        record linkage give it for each pair; p stands for odds of p / (1 - p). ``"match_weight"``: the same as the
        logarithm of the odds to base 2, as in Splink. The prior then is each candidate's share of its row's odds, and
        with odds that add up to o, none of them is true with probability 1 / (1 + o): see `missing`. Of probability 1,
        or an infinite weight, are candidates that are certain: those of a row share alike. One of probability 0 is
        impossible; where all of a row are, they share alike, and the truth is missing.

    Attributes
    ----------
    values : ndarray of shape (n_candidates,)
        The candidates of all rows, one row after the other.
    offsets : ndarray of shape (n_rows + 1,)
        Where each row starts in `values`, and where the last one ends.
    prior : ndarray of shape (n_candidates,) or None
        How likely each candidate is beforehand, summing to one in each row; None where all are equally likely.
    slots : ndarray of shape (n_candidates,) or None
        The column each candidate came from, or after `unique` its former position. None where every candidate's slot is
        its position in the row, as it always is for lists. It travels through indexing, concatenation and `unique`, and
        plays no part in equality.
    kept : ndarray or None
        The rows of the input that have a candidate, where ``empty="drop"`` dropped others; else None. It describes the
        constructor's input, so objects made by indexing or concatenation have none.
    features : read-only mapping of str to ndarray of shape (n_candidates,)
        Features of the candidates: float64, or texts. They travel through indexing, concatenation and `unique`, and
        play no part in equality.
    record : ndarray of shape (n_candidates,) or None
        Which record each candidate is, as a text; empty where that is not known.
    missing : ndarray of shape (n_rows,) or None
        How probable it is, before anything is learned, that none of a row's candidates is true; None where the prior
        does not say (``prior_is="share"``). Rows count in training by how probable it is that they have their truth,
        and ``identify`` begins with it.
    origin : Origin or None
        What kind of frame the sets were read from and what it calls its rows, which `Identification.to_frame` goes by;
        None where that is not known. It travels as features do.

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

    __slots__ = ("features", "kept", "missing", "offsets", "origin", "prior", "record", "slots", "values")

    # ``array + S`` would otherwise pad S and add the numbers up.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    values: Floats
    offsets: Integers
    prior: Floats | None
    slots: NDArray[np.int32] | None
    kept: Integers | None
    missing: Floats | None
    features: Mapping[str, Column]
    record: Column | None
    origin: Origin | None

    def __init__(
        self,
        values: ArrayLike,
        offsets: ArrayLike,
        prior: ArrayLike | None = None,
        *,
        slots: ArrayLike | None = None,
        empty: str = "raise",
        features: Mapping[str, ArrayLike] | None = None,
        record: ArrayLike | None = None,
        prior_is: str = "share",
    ) -> None:
        flat = read_flat(values, offsets, prior, slots)
        parts = checked(flat, empty, prior_is)
        self._hold(*parts, *read_features(features, record, lambda column, _: as_array(column), flat))

    def _hold(
        self,
        values: Floats,
        offsets: Integers,
        prior: Floats | None,
        slots: NDArray[np.int32] | None,
        kept: Integers | None,
        missing: Floats | None,
        features: Mapping[str, Column],
        record: Column | None,
        origin: Origin | None = None,
    ) -> None:
        object.__setattr__(self, "origin", origin)
        held = {"values": values, "offsets": offsets, "prior": prior, "slots": slots, "kept": kept}
        held |= {"missing": missing, "record": record}
        for name, array in held.items():
            object.__setattr__(self, name, None if array is None else _read_only(array))
        columns = {name: _read_only(column) for name, column in features.items()}
        object.__setattr__(self, "features", MappingProxyType(columns))

    @classmethod
    def _made(
        cls,
        flat: Flat,
        empty: str,
        prior_is: str,
        features: Mapping[str, Any] | None,
        record: Any,
        flatten: Callable[[], Flatten],
        origin: Origin | None = None,
    ) -> CandidateSets:
        """Check what a constructor has read; ``flatten`` makes what reads features as the candidates were read."""
        parts = checked(flat, empty, prior_is)
        kept = parts[4]
        origin = origin if origin is None or kept is None else origin.take(kept)
        if record is None and (features is None or (isinstance(features, Mapping) and not features)):
            return cls._of_checked(*parts, origin=origin)
        return cls._of_checked(*parts, *read_features(features, record, flatten(), flat), origin)

    @classmethod
    def _of_checked(
        cls,
        values: Floats,
        offsets: Integers,
        prior: Floats | None = None,
        slots: NDArray[np.int32] | None = None,
        kept: Integers | None = None,
        missing: Floats | None = None,
        features: Mapping[str, Column] | None = None,
        record: Column | None = None,
        origin: Origin | None = None,
    ) -> CandidateSets:
        """Take arrays that are known to be right, without checks and copies.

        Values must be finite float64, offsets int64 with no empty row, and a prior must sum to one in each row. The
        arrays are shared: nobody may write to them afterwards.
        """
        made = cls.__new__(cls)
        made._hold(values, offsets, prior, slots, kept, missing, features or {}, record, origin)
        return made

    @classmethod
    def from_lists(
        cls,
        lists: Iterable[Any],
        prior: Iterable[Any] | None = None,
        *,
        empty: str = "raise",
        features: Mapping[str, Iterable[Any]] | None = None,
        record: Iterable[Any] | None = None,
        prior_is: str = "share",
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
        features : dict of str to iterable of sequences, optional
            Named features of the candidates, each of the same shape; numbers or texts, None where missing.
        record : iterable of sequences, optional
            Which record each candidate is, of the same shape.
        prior_is : {"share", "probability", "match_weight"}, default="share"
            What the prior's numbers are; see `CandidateSets`.

        Examples
        --------
        >>> S = CandidateSets.from_lists([[1, 2], [], [3]], empty="drop", features={"score": [[0.9, 0.2], [], [0.4]]})
        >>> S.to_lists(), S.kept, S.features["score"]
        ([[1.0, 2.0], [3.0]], array([0, 2]), array([0.9, 0.2, 0.4]))
        """
        origin = origin_of(lists)
        flat = read_with_prior(read_lists, lists, prior)
        return cls._made(flat, empty, prior_is, features, record, lambda: flatten_lists(flat.sizes), origin)

    @classmethod
    def from_padded(
        cls,
        array: Any,
        prior: Any = None,
        *,
        empty: str = "raise",
        features: Mapping[str, Any] | None = None,
        record: Any = None,
        prior_is: str = "share",
    ) -> CandidateSets:
        """Read one row per line of a 2-D array, NaN where there is no candidate.

        Parameters
        ----------
        array : array-like of shape (n_rows, n_columns)
            `slots` remembers the columns where NaN comes before a candidate.
        prior : array-like of shape (n_rows, n_columns) or (n_columns,), optional
            Ignored where there is no candidate.
        empty : {"raise", "drop"}, default="raise"
            What to do about rows without a candidate.
        features : dict of str to array-like of shape (n_rows, n_columns) or (n_columns,), optional
            Named features of the candidates; ignored where there is no candidate.
        record : array-like of shape (n_rows, n_columns), optional
            Which record each candidate is.
        prior_is : {"share", "probability", "match_weight"}, default="share"
            What the prior's numbers are; see `CandidateSets`.

        Examples
        --------
        >>> S = CandidateSets.from_padded([[1.0, 2.0], [np.nan, 3.0]])
        >>> S.to_lists(), S.slots
        ([[1.0, 2.0], [3.0]], array([0, 1, 1], dtype=int32))
        """
        flat = read_padded(array, prior)
        origin = origin_of(array)
        return cls._made(
            flat, empty, prior_is, features, record, lambda: flatten_padded(~np.isnan(as_floats(array))), origin
        )

    @classmethod
    def from_columns(
        cls,
        df: Any,
        columns: Sequence[Any],
        prior: Sequence[Any] | None = None,
        *,
        empty: str = "raise",
        features: Mapping[str, Sequence[Any]] | None = None,
        record: Sequence[Any] | None = None,
        prior_is: str = "share",
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
        features : dict of str to sequence of column names, optional
            Named features of the candidates: for each, one column for each of `columns`.
        record : sequence of column names, optional
            Which record each candidate is: one column for each of `columns`.
        prior_is : {"share", "probability", "match_weight"}, default="share"
            What the prior's numbers are; see `CandidateSets`.

        Examples
        --------
        >>> readings = {"reading": [1.0, 2.0], "alternative": [1.5, np.nan]}
        >>> S = CandidateSets.from_columns(readings, ["reading", "alternative"], prior=[3, 1])
        >>> S.to_lists(), S.prior
        ([[1.0, 1.5], [2.0]], array([0.75, 0.25, 1.  ]))
        """
        flat = read_columns(df, columns, prior)

        def of_columns() -> Flatten:
            return flatten_columns(partial(column_of, list(columns_of(df))), columns)

        origin = replace(origin_of(df) or Origin("arrow"), columns=tuple(columns))
        return cls._made(flat, empty, prior_is, features, record, of_columns, origin)

    @classmethod
    def from_arrow(
        cls,
        column: Any,
        prior: Any = None,
        *,
        empty: str = "raise",
        features: Mapping[str, Any] | None = None,
        record: Any = None,
        prior_is: str = "share",
    ) -> CandidateSets:
        """Read a list column; float64 values in one piece are shared, not copied.

        Parameters
        ----------
        column : Arrow array or chunked array, Polars Series, pandas Series
            Of lists of numbers; a null or empty list is an empty row, a null inside a list is an error.
        prior : list column, optional
            Of the same shape.
        empty : {"raise", "drop"}, default="raise"
            What to do about rows without a candidate.
        features : dict of str to list column, optional
            Named features of the candidates, each of the same shape; numbers, texts or dates, null where missing.
        record : list column, optional
            Which record each candidate is, of the same shape.
        prior_is : {"share", "probability", "match_weight"}, default="share"
            What the prior's numbers are; see `CandidateSets`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> CandidateSets.from_arrow(pa.array([[1.0, 2.0], [3.0]])).to_lists()
        [[1.0, 2.0], [3.0]]
        """
        flat = read_with_prior(read_column, column, prior)
        return cls._made(flat, empty, prior_is, features, record, lambda: flatten_lists(flat.sizes), origin_of(column))

    @classmethod
    def from_text(
        cls, cells: Iterable[Any], separator: str = "|", *, empty: str = "raise", prior_is: str = "share"
    ) -> CandidateSets:
        """Read sets that are written as texts, such as ``12.5|13.1``, or with priors ``12.5:0.7|13.1:0.3``.

        Parameters
        ----------
        cells : iterable of str
            One text per row: candidates with a separator between them and perhaps one at the end, all in square
            brackets or not. A plain number is one candidate. A missing cell or an empty text is an empty row. After a
            colon comes the candidate's prior; within a row either all candidates have one or none, and those of a row
            without priors share alike.
        separator : str, default="|"
            What stands between candidates. A blank stands for one or more. In square brackets a comma will do; a
            semicolon will where this is a bar.
        empty : {"raise", "drop"}, default="raise"
            What to do about rows without a candidate.
        prior_is : {"share", "probability", "match_weight"}, default="share"
            What the prior's numbers are; see `CandidateSets`.

        Examples
        --------
        >>> CandidateSets.from_text(["12.5 | 13.1|", "[7, 8]", 4]).to_lists()
        [[12.5, 13.1], [7.0, 8.0], [4.0]]
        >>> S = CandidateSets.from_text(["12.5:0.7; 13.1:0.3", "4"], separator=";")
        >>> S.to_lists(), S.prior
        ([[12.5, 13.1], [4.0]], array([0.7, 0.3, 1. ]))
        """
        origin = origin_of(cells)
        flat = read_texts(cells, separator, prior_is == "share")
        return cls._made(flat, empty, prior_is, None, None, lambda: flatten_lists(flat.sizes), origin)

    @classmethod
    def from_long(
        cls,
        df: Any,
        row: Any,
        value: Any,
        prior: Any = None,
        rows: Any = None,
        *,
        empty: str = "raise",
        features: Sequence[str] = (),
        record: Any = None,
        prior_is: str = "share",
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
        features : list of column names, optional
            Columns with features of the candidates: numbers, texts or dates, empty where missing.
        record : column name, optional
            Which record each candidate is.
        prior_is : {"share", "probability", "match_weight"}, default="share"
            What the prior's numbers are; see `CandidateSets`.

        Examples
        --------
        >>> table = {"id": ["b", "a", "b"], "value": [1.0, 2.0, 3.0], "score": [0.9, 0.5, 0.2]}
        >>> S = CandidateSets.from_long(table, row="id", value="value", rows=["a", "b"], features=["score"])
        >>> S.to_lists(), S.features["score"]
        ([[2.0], [1.0, 3.0]], array([0.5, 0.9, 0.2]))
        """
        if isinstance(features, str):
            raise ParameterError(
                f"{{parameter}} must be a list of column names, not {features!r}.", parameter="features", value=features
            )
        flat = read_long(df, row, value, prior, rows)

        def of_lines() -> Flatten:
            return flatten_lines(partial(column_of, list(columns_of(df))), len(flat.values), flat.order)

        origin = origin_of_lines(df, row, rows, flat.keys, len(flat.values), flat.order)
        return cls._made(flat, empty, prior_is, {name: name for name in features}, record, of_lines, origin)

    @classmethod
    def from_labels(
        cls,
        y: Any,
        *,
        empty: str = "raise",
        features: Mapping[str, Any] | None = None,
        record: Any = None,
    ) -> CandidateSets:
        """Read ordinary labels: one candidate per row.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The labels; NaN is a row without a candidate.
        empty : {"raise", "drop"}, default="raise"
            What to do about rows without a label.
        features : dict of str to array-like of shape (n_rows,), optional
            Named features of the labels, as candidates have them; ignored where there is no label.
        record : array-like of shape (n_rows,), optional
            Which record each label is.

        Examples
        --------
        >>> CandidateSets.from_labels([1.0, 2.0]).to_lists()
        [[1.0], [2.0]]
        """
        flat = read_labels(y, empty)
        return cls._made(flat, empty, "share", features, record, lambda: flatten_padded(flat.sizes > 0), origin_of(y))

    @classmethod
    def concatenate(cls, parts: Iterable[CandidateSets]) -> CandidateSets:
        """Put the rows of several objects one after the other; all have the same features, or none.

        >>> S = CandidateSets.from_lists([[1, 2]])
        >>> CandidateSets.concatenate([S, S]).to_lists()
        [[1.0, 2.0], [1.0, 2.0]]
        """
        sets = list(parts)
        offsets = offsets_of(np.concatenate([np.empty(0, np.int64), *(S.sizes for S in sets)]))
        values = np.concatenate([np.empty(0), *(S.values for S in sets)])
        prior = slots = missing = None
        if any(S.prior is not None for S in sets):
            prior = np.concatenate([S.prior_or_uniform for S in sets])
        if any(S.slots is not None for S in sets):
            slots = np.concatenate([S.row_positions for S in sets])
        if any(S.missing is not None for S in sets):
            missing = np.concatenate([np.zeros(len(S)) if S.missing is None else S.missing for S in sets])
        features = {}
        for name in dict.fromkeys(name for S in sets for name in S.features):
            if any(name not in S.features for S in sets):
                raise CandidateError(
                    f"Some of the candidate sets have the feature {name!r} and others have not; give it to all.",
                    column=name,
                )
            features[name] = join_columns([S.features[name] for S in sets], f"The candidate feature {name!r}")
        records = [S.record for S in sets if S.record is not None]
        if 0 < len(records) < len(sets):
            raise CandidateError("Some of the candidate sets have records and others have not; give them to all.")
        record = np.concatenate(records) if records else None
        origin = join_origins([S.origin for S in sets])
        slots = tidy_slots(slots, offsets)
        return cls._of_checked(values, offsets, prior, slots, None, missing, features, record, origin)

    @property
    def prior_or_uniform(self) -> Floats:
        """The prior as an array, one over the size of the row where none was given."""
        if self.prior is not None:
            return self.prior
        sizes = self.sizes
        return _read_only(np.repeat(1.0 / sizes, sizes))

    @property
    def row_positions(self) -> Integers | NDArray[np.int32]:
        """The slot of every candidate: the number of its column, or else its position in the row."""
        return positions(self.offsets) if self.slots is None else self.slots

    @property
    def sizes(self) -> Integers:
        """Number of candidates of each row."""
        return np.diff(self.offsets)

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
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Floats]:
        for start, stop in pairwise(self.offsets.tolist()):
            yield self.values[start:stop]

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
        if index is Ellipsis:
            return self
        if isinstance(index, numbers.Integral) and not isinstance(index, bool):
            row = int(_row_numbers(np.array([index]), len(self))[0])
            return self.values[self.offsets[row] : self.offsets[row + 1]]
        chosen: Any
        places: Any
        if isinstance(index, slice) and index.step in (None, 1):
            # Views, not copies.
            start, stop, _ = index.indices(len(self))
            ends = self.offsets[start : max(start, stop) + 1]
            chosen, places, offsets = slice(start, start + len(ends) - 1), slice(ends[0], ends[-1]), ends - ends[0]
        else:
            rows = np.arange(len(self))[index] if isinstance(index, slice) else np.asarray(index)
            chosen = _row_numbers(rows, len(self))
            starts = self.offsets[chosen]
            sizes = self.offsets[chosen + 1] - starts
            offsets = offsets_of(sizes)
            places = np.repeat(starts - offsets[:-1], sizes)
            places += np.arange(offsets[-1])
        prior = None if self.prior is None else self.prior[places]
        slots = None if self.slots is None else tidy_slots(self.slots[places], offsets)
        missing = None if self.missing is None else self.missing[chosen]
        known = self._known(places)
        origin = None if self.origin is None else self.origin.take(chosen, places)
        return self._of_checked(self.values[places], offsets, prior, slots, None, missing, *known, origin)

    def _known(self, places: Any) -> tuple[dict[str, Column], Column | None]:
        """Return features and records of some candidates."""
        record = None if self.record is None else self.record[places]
        return {name: column[places] for name, column in self.features.items()}, record

    def __add__(self, other: object) -> CandidateSets:
        if not isinstance(other, CandidateSets):
            return NotImplemented
        return self.concatenate([self, other])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CandidateSets):
            return NotImplemented
        same = np.array_equal(self.offsets, other.offsets) and np.array_equal(self.values, other.values)
        if not same or (self.prior is None and other.prior is None):
            return bool(same)
        if not np.array_equal(self.prior_or_uniform, other.prior_or_uniform):
            return False
        one, two = (np.zeros(len(S)) if S.missing is None else S.missing for S in (self, other))
        return bool(np.array_equal(one, two))

    def __reduce__(self) -> Any:
        # Unpickled arrays are writeable again, so they have to be frozen again.
        return CandidateSets._of_checked, tuple((self._parts() | {"features": dict(self.features)}).values())

    def _parts(self) -> dict[str, Any]:
        """Return what `_of_checked` takes."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def _with(self, **changes: Any) -> CandidateSets:
        """Return the same sets with other parts, which are known to be right."""
        return self._of_checked(**self._parts() | changes)

    def __repr__(self) -> str:
        if not len(self):
            return "CandidateSets(0 rows)"
        sizes = self.sizes
        span = f"{sizes.min()}–{sizes.max()} (mean {sizes.mean():.3g})" if sizes.min() < sizes.max() else f"{sizes[0]}"
        kind = "uniform prior" if self.prior is None else "given prior"
        kind += f", features {', '.join(self.features)}" if self.features else ""
        kind += ", records" if self.record is not None else ""
        return (
            f"CandidateSets({len(self)} row{'s' if len(self) > 1 else ''}, sizes {span}, "
            f"values {self.values.min():.6g} to {self.values.max():.6g}, {kind})"
        )

    def _repr_html_(self) -> str:
        """Return the first rows as a table, for notebooks."""
        first = range(min(len(self), SHOWN_ROWS))
        shares = [
            None if self.prior is None else self.prior[self.offsets[row] : self.offsets[row + 1]] for row in first
        ]
        candidates = [listed_candidates(self[row], share) for row, share in zip(first, shares, strict=True)]
        column = "candidates" if self.prior is None else "candidates (prior)"
        return as_html(repr(self), self.labels(first), {column: candidates}, len(self))

    def labels(self, rows: Iterable[int]) -> list[str]:
        """Return what some rows are called where they were read from."""
        if self.origin is not None and self.origin.keys is not None:
            return [self.origin.label(row) for row in rows]
        return [str(row if self.kept is None else self.kept[row]) for row in rows]

    def mean(self) -> Floats:
        """Prior-weighted mean of each row: the target of the paper's AVGV.

        >>> CandidateSets.from_lists([[1, 3], [5]]).mean()
        array([2., 5.])
        """
        starts = self.offsets[:-1]
        # Weighting before adding keeps the sum of huge candidates finite.
        prior = self.prior
        shares = self.values / np.repeat(self.sizes, self.sizes) if prior is None else self.values * prior
        total = np.add.reduceat(shares, starts)
        # A mean lies among its candidates; rounding alone may push it out.
        return np.clip(total, np.minimum.reduceat(self.values, starts), np.maximum.reduceat(self.values, starts))

    def unique(self) -> CandidateSets:
        """Merge equal candidates of a row into the first of them, whose features and record stay; priors add up.

        >>> S = CandidateSets.from_lists([[2, 1, 2, 2], [3]]).unique()
        >>> S.to_lists(), S.prior, S.slots
        ([[2.0, 1.0], [3.0]], array([0.75, 0.25, 1.  ]), None)
        """
        rows = self.row_index
        order = np.lexsort((self.values, rows))
        ordered, owners = self.values[order], rows[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (ordered[1:] != ordered[:-1]) | (owners[1:] != owners[:-1])
        if first.all():
            return self
        groups = np.flatnonzero(first)
        prior = np.empty(len(order))
        if self.prior is None:
            prior[order[groups]] = np.diff(groups, append=len(order)) / self.sizes[owners[groups]]
        else:
            prior[order[groups]] = np.add.reduceat(self.prior[order], groups)
        leaders = np.sort(order[groups])
        offsets = offsets_of(np.bincount(rows[leaders], minlength=len(self)))
        slots = tidy_slots(self.row_positions[leaders], offsets)
        known = self._known(leaders)
        origin = None if self.origin is None else self.origin.take(slice(None), leaders)
        return self._of_checked(
            self.values[leaders], offsets, prior[leaders], slots, None, self.missing, *known, origin
        )

    def named_like(self, X: Any) -> CandidateSets:
        """Return the same sets, whose rows are called what those of X are, where nothing is known of their own names.

        X is of as many rows.
        """
        origin = origin_of(X) if self.origin is None and getattr(X, "shape", (None,))[0] == len(self) else None
        return self if origin is None else self._with(origin=origin)

    def with_prior(self, prior: Floats) -> CandidateSets:
        """Return the same sets with another prior, which sums to one in each row."""
        return self._with(prior=prior)

    def map(self, function: Callable[[Floats], Any]) -> CandidateSets:
        """Return the same sets with a function of each candidate, such as ``numpy.log``, in its place.

        Priors, features and records stay. Predictions of a model that is fitted to the result are on its scale.

        >>> CandidateSets.from_lists([[1, 100], [10]]).map(np.log10).to_lists()
        [[0.0, 2.0], [1.0]]
        """
        with np.errstate(all="ignore"):
            values = np.asarray(function(self.values.copy()), dtype=np.float64)
        if values.shape != self.values.shape:
            raise CandidateError(
                f"The function makes an array of shape {values.shape} of {self.values.size} candidates; it must give "
                f"one number for each."
            )
        if not np.isfinite(values).all():
            place = int(np.flatnonzero(~np.isfinite(values))[0])
            raise CandidateError(
                f"The function makes {values[place]:g} of the candidate {self.values[place]:g} in row "
                f"{int(self.row_index[place])}; leave the candidate out or correct it, or use another function."
            )
        return self._with(values=values)

    def to_lists(self) -> list[list[float]]:
        """Make one Python list per row."""
        flat = self.values.tolist()
        return [flat[start:stop] for start, stop in pairwise(self.offsets.tolist())]

    def to_arrow(self) -> Any:
        """Make an Arrow list array that shares the values (a large list where 32-bit offsets do not reach).

        It holds the values alone; `to_long` takes features and records along.

        >>> CandidateSets.from_lists([[1, 2], [3]]).to_arrow().type
        ListType(list<item: double>)
        """
        import pyarrow as pa

        if self.offsets[-1] > np.iinfo(np.int32).max:
            return pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(self.values))
        return pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), pa.array(self.values))

    def to_long(self) -> Any:
        """Make an Arrow table with one line per candidate, which `from_long` reads.

        Columns are ``row``, from 0 on, ``value``, the features by their names and, where there are some, ``prior`` and
        ``record``. `missing` is not among them: it belongs to rows.

        >>> S = CandidateSets.from_lists([[1, 2], [3]], features={"score": [[0.9, 0.1], [0.5]]})
        >>> S.to_long().column_names
        ['row', 'value', 'score']
        >>> CandidateSets.from_long(S.to_long(), "row", "value", features=["score"]) == S
        True
        """
        import pyarrow as pa

        columns = {"row": self.row_index, "value": self.values, "prior": self.prior, "record": self.record}
        if taken := sorted(columns.keys() & self.features.keys()):
            raise CandidateError(
                f"A candidate feature is called {taken[0]!r}, which is a column of its own here; give it another name.",
                column=taken[0],
            )
        columns |= self.features
        return pa.table({name: column for name, column in columns.items() if column is not None})

    def to_padded(self, fill: float = np.nan) -> Floats:
        """Make an array of shape (rows, largest size), `fill` after the last candidate of each row.

        >>> CandidateSets.from_lists([[1, 2], [3]]).to_padded()
        array([[ 1.,  2.],
               [ 3., nan]])
        """
        mask = pad_mask(self.sizes)
        padded = np.full(mask.shape, fill, dtype=np.float64)
        padded[mask] = self.values
        return padded

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("Candidate sets are stored ragged, so an array of them is always a copy.")
        padded = self.to_padded()
        return padded if dtype is None else padded.astype(dtype, copy=False)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Look at the same memory without the right to change it."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _row_numbers(rows: NDArray[Any], count: int) -> Integers:
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


def as_candidate_sets(S: Any, empty: str = "raise") -> CandidateSets:
    """Turn anything that can be a target into candidate sets.

    Parameters
    ----------
    S : CandidateSets, sequence of sequences, list column, NaN-padded 2-D array or frame, or 1-D labels
        Candidate sets are returned as they are. A column of texts such as ``12.5|13.1``, ``12.5; 13.1`` or
        ``[12.5, 13.1]`` will do for a list column. An array or frame with one column of numbers is taken for labels,
        with the warning scikit-learn's own regressors give.
    empty : {"raise", "drop"}, default="raise"
        What to do about rows without a candidate.

    Examples
    --------
    >>> as_candidate_sets([[1, 2], [3]])
    CandidateSets(2 rows, sizes 1–2 (mean 1.5), values 1 to 3, uniform prior)
    >>> as_candidate_sets([1.5, 2.5]).to_lists()
    [[1.5], [2.5]]
    """
    read = _read_target(S, empty)
    origin = origin_of(S) if read.origin is None else None
    return read if origin is None else read._with(origin=origin if read.kept is None else origin.take(read.kept))


def _read_target(S: Any, empty: str) -> CandidateSets:
    if isinstance(S, CandidateSets):
        return S
    if S is None:
        raise CandidateError(
            "Fitting requires y to be passed, but the target y is None; give candidate sets or labels.", parameter="y"
        )
    check_readable(S, CandidateError, "The target")
    if is_frame(S):
        columns = dict(columns_of(S))
        if S.shape[1] != 1:
            return CandidateSets.from_columns(S, list(columns), empty=empty)
        column = next(iter(columns.values()))
        if not (is_list_column(column) or _has_rows(np.asarray(column, dtype=object)) or is_text_column(column)):
            _warn_column_vector()
        return as_candidate_sets(column, empty)
    if is_list_column(S):
        return CandidateSets.from_arrow(S, empty=empty)
    if is_text_column(S):
        return CandidateSets.from_text(S, empty=empty)
    if hasattr(S, "__array__"):
        array = S if isinstance(S, np.ma.MaskedArray) else np.asarray(S)
        if array.ndim == 1:
            nested = array.dtype == object and _has_rows(array)
            return CandidateSets.from_lists(array, empty=empty) if nested else CandidateSets.from_labels(S, empty=empty)
        if array.ndim != 2:
            raise CandidateError(
                f"A target of shape {array.shape} has {array.ndim} dimensions"
                + ("; row 0 is nested too deep" if array.ndim > 2 else "")
                + ". Give 1-D labels, a NaN-padded 2-D array or a list of lists.",
                parameter="y",
            )
        if array.shape[1] > 1:
            return CandidateSets.from_padded(array, empty=empty)
        _warn_column_vector()
        return CandidateSets.from_labels(array[:, 0], empty=empty)
    if not is_row(type(S)) or hasattr(S, "toarray"):
        raise CandidateError(
            f"A {type(S).__name__} is no target; give CandidateSets, a list of lists, a list column, a NaN-padded "
            "2-D array or 1-D labels (columns of a dict or frame: CandidateSets.from_columns).",
            parameter="y",
        )
    S = list(S)
    return CandidateSets.from_lists(S, empty=empty) if _has_rows(S) else CandidateSets.from_labels(S, empty=empty)


def _has_rows(items: Any) -> bool:
    return any(map(is_row, set(map(type, items))))


def _warn_column_vector() -> None:
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, ), for "
        "example using ravel().",
        DataConversionWarning,
        stacklevel=3,
    )
