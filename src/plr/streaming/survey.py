"""One pass over all rows: is every row sound, and what are the sums that scaling and encoding are learned from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.columns.kinds import Mended
from plr.errors import FeatureError, TargetScaleError
from plr.preprocessing.features import MOST_CATEGORIES, Columns, Encoding
from plr.preprocessing.scaling import Affine
from plr.streaming.rows import FolderRows
from plr.weighting.rule import frozen

__all__ = ["Moments", "Survey", "is_category", "matrix", "survey"]

Floats = NDArray[np.float64]

# As for tables in memory: an indicator is scaled as that of half the rows would be.
_INDICATOR_SCALE = 0.5
# Of a column with more different texts than this, the rarest are forgotten on the way.
_MOST_COUNTED = 200_000
# Sums of squares of smaller labels have no digits left.
_SMALLEST_LABELS = 1e-150


@dataclass
class Moments:
    """Weighted mean, spread and range of columns, of the entries that are there."""

    weight: Floats
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats, weight: Floats | None = None) -> Moments:
        """Return those of a matrix, NaN where an entry is missing."""
        there = ~np.isnan(values)
        counts = there.astype(np.float64) if weight is None else there * weight[:, None]
        total = counts.sum(axis=0)
        known = np.where(there, values, 0.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # Around the first value of each column: large offsets would otherwise cost digits.
            middle = known[0] if len(known) else np.zeros(values.shape[1])
            offset = np.where(there, values - middle, 0.0)
            mean = np.where(total > 0, (counts * offset).sum(axis=0) / np.where(total > 0, total, 1.0), 0.0)
            squares = (counts * (offset - mean) ** 2).sum(axis=0)
        low = np.where(there, values, np.inf).min(axis=0, initial=np.inf)
        high = np.where(there, values, -np.inf).max(axis=0, initial=-np.inf)
        return cls(total, mean + middle, squares, low, high)

    def add(self, other: Moments) -> None:
        """Take in the moments of further rows."""
        total = self.weight + other.weight
        with np.errstate(over="ignore", invalid="ignore"):
            share = np.divide(other.weight, total, out=np.zeros_like(total), where=total > 0)
            apart = other.mean - self.mean
            self.squares = self.squares + other.squares + apart**2 * self.weight * share
            self.mean = np.where(self.weight > 0, self.mean + apart * share, other.mean)
        self.weight = total
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)

    @property
    def deviation(self) -> Floats:
        """Standard deviations; 1 where all entries are equal, up to rounding."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = np.sqrt(self.squares / np.where(self.weight > 0, self.weight, 1.0))
            size = np.maximum(np.abs(self.low), np.abs(self.high))
            size = np.where(np.isfinite(size), size, 0.0)
            return np.where(found > 10 * np.finfo(float).eps * size, found, np.where(np.isnan(found), np.nan, 1.0))


@dataclass
class Survey:
    """What one pass has found.

    Attributes
    ----------
    rows, left_out, candidates : int
        Rows with candidates, rows without, and candidates in all.
    largest_set : int
    weight : float
        Of all rows.
    has_prior : bool
        Whether candidates have priors.
    numbers : Moments
        Of the features that are numbers.
    gaps : ndarray of bool
        Which of them have gaps.
    labels : Moments
        Of the candidates, each counted by its prior and its row's weight.
    counts : dict
        For each feature of texts, the weight of each text.
    chosen : list of FolderRows
        The rows that were asked for.
    mended : dict
        How many cells of a column count as missing, by column and by what they are not, and the first of them.
    """

    rows: int = 0
    left_out: int = 0
    candidates: int = 0
    largest_set: int = 0
    weight: float = 0.0
    has_prior: bool = False
    numbers: Moments | None = None
    gaps: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    labels: Moments | None = None
    counts: dict[str, dict[str, float]] = field(default_factory=dict)
    chosen: list[FolderRows] = field(default_factory=list)
    mended: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def add(self, other: Survey) -> None:
        """Take in what was found of further rows."""
        if self.numbers is None or self.labels is None:
            self.numbers, self.labels, self.gaps = other.numbers, other.labels, other.gaps
        elif other.numbers is not None and other.labels is not None:
            self.numbers.add(other.numbers)
            self.labels.add(other.labels)
            self.gaps = self.gaps | other.gaps
        self.rows += other.rows
        self.left_out += other.left_out
        self.candidates += other.candidates
        self.largest_set = max(self.largest_set, other.largest_set)
        self.weight += other.weight
        self.has_prior = self.has_prior or other.has_prior
        for name, counts in other.counts.items():
            mine = self.counts.setdefault(name, {})
            for text, count in counts.items():
                mine[text] = mine.get(text, 0.0) + count
            if len(mine) > _MOST_COUNTED:
                kept = sorted(mine, key=lambda text: (-mine[text], text))[: _MOST_COUNTED // 2]
                self.counts[name] = {text: mine[text] for text in kept}
        self.chosen.extend(other.chosen)
        for which, (cells, first) in other.mended.items():
            known = self.mended.get(which)
            self.mended[which] = (cells, first) if known is None else (known[0] + cells, known[1])

    def notes(self) -> list[str]:
        """Return in words what had to be mended."""
        return [Mended(column, kind, cells, first) for (column, kind), (cells, first) in self.mended.items()]

    def columns(self, names: Sequence[str]) -> Columns | None:
        """Return how texts become numbers; None where there are no texts."""
        categories = {
            place: tuple(sorted(text for text, count in self.counts[name].items() if count > 0))
            for place, name in enumerate(names)
            if name in self.counts
        }
        return Columns(tuple(names), dict(categories)) if categories else None

    def encoding(self, names: Sequence[str], columns: Columns | None, scale: bool) -> Encoding:
        """Return how features become what a network sees: as `plr.preprocessing.features.learn_encoding` would."""
        assert self.numbers is not None
        categorical = () if columns is None else columns.categorical
        numeric = tuple(place for place in range(len(names)) if place not in categorical)
        mean, deviation = self.numbers.mean, self.numbers.deviation
        bad = ~(np.isfinite(mean) & np.isfinite(deviation))
        if bad.any():
            name = names[numeric[int(np.flatnonzero(bad)[0])]]
            raise FeatureError(f"Column {name!r} has a range too large for float64 arithmetic; rescale it.")
        marked = tuple(place for place, gap in zip(numeric, self.gaps, strict=True) if gap)
        missing = 1.0 - self.numbers.weight[self.gaps] / self.weight
        codes: dict[int, Floats] = {}
        shares = [missing]
        for place in categorical:
            assert columns is not None
            weight = np.array([self.counts[names[place]][text] for text in columns.categories[place]])
            frequent = np.sort(np.argsort(-weight, kind="stable")[:MOST_CATEGORIES])
            codes[place] = frequent.astype(np.float64)
            shares.append(weight[frequent] / self.weight)
        share = np.concatenate(shares)
        if scale:
            centre, unit = (
                np.concatenate([mean, share]),
                np.concatenate([deviation, np.full(len(share), _INDICATOR_SCALE)]),
            )
        else:
            centre, unit = np.zeros(len(mean) + len(share)), np.ones(len(mean) + len(share))
        return Encoding(numeric, mean, marked, codes, Affine(centre, unit))

    def target(self, scale: bool) -> Affine:
        """Return how labels are scaled, as `plr.preprocessing.scaling.learn_target` would."""
        assert self.labels is not None
        centre, deviation = float(self.labels.mean[0]), float(self.labels.deviation[0])
        if not (np.isfinite(centre) and np.isfinite(deviation)):
            raise TargetScaleError(
                f"The candidates reach from {self.labels.low[0]:g} to {self.labels.high[0]:g}, a span beyond float64 "
                f"arithmetic; divide them all by 1e150, or leave out what is no label."
            )
        low, high = float(self.labels.low[0]), float(self.labels.high[0])
        if low < high and max(-low, high) < _SMALLEST_LABELS:
            raise TargetScaleError(
                f"The candidates reach from {low:g} to {high:g}; squares of such small labels vanish in float64. "
                f"Multiply them all by 1e150."
            )
        return Affine(np.float64(centre), np.float64(deviation)) if scale else Affine(np.float64(0.0), np.float64(1.0))


def survey(rows: Iterable[FolderRows], choose: NDArray[np.int64] | None = None) -> Survey:
    """Look at some rows.

    Parameters
    ----------
    rows : iterable of FolderRows
    choose : sorted ndarray of int, optional
        Numbers of rows to keep.
    """
    found = Survey()
    for part in rows:
        found.add(_look(part, choose))
    return found


def is_category(column: pa.ChunkedArray) -> bool:
    """Return whether a feature is texts."""
    return bool(pa.types.is_string(column.type))


def matrix(X: pa.Table, columns: Columns | None) -> Floats:
    """Return features as a float64 matrix: numbers, and numbers of categories, NaN where missing or not known."""
    out = np.empty((X.num_rows, X.num_columns))
    for place, column in enumerate(X.columns):
        if not is_category(column):
            out[:, place] = column.to_numpy()
            continue
        assert columns is not None
        known = pa.array(columns.categories[place], pa.string())
        out[:, place] = pc.fill_null(pc.index_in(column, known).cast(pa.float64()), np.nan).to_numpy()
    return out


def _look(rows: FolderRows, choose: NDArray[np.int64] | None) -> Survey:
    mended = {(column, kind): (cells, first) for column, kind, cells, first in rows.mended}
    found = Survey(rows=len(rows.index), left_out=rows.left_out, mended=mended)
    if not found.rows:
        return found
    S, weight = rows.S, rows.weight
    found.candidates, found.largest_set = S.values.size, int(S.sizes.max())
    found.weight = float(found.rows) if weight is None else float(weight.sum())
    found.has_prior = S.prior is not None
    numbers = [column.to_numpy() for column in rows.X.columns if not is_category(column)]
    values = np.column_stack(numbers) if numbers else np.empty((found.rows, 0))
    found.numbers = Moments.of(values, weight)
    found.gaps = np.asarray(np.isnan(values).any(axis=0))
    counted = S.prior_or_uniform if weight is None else S.prior_or_uniform * weight[S.row_index]
    found.labels = Moments.of(S.values[:, None], counted)
    for name, column in zip(rows.X.column_names, rows.X.columns, strict=True):
        if is_category(column):
            found.counts[name] = _count(column, weight)
    if choose is not None:
        first, last = np.searchsorted(choose, [rows.index[0], rows.index[-1] + 1])
        places = np.flatnonzero(np.isin(rows.index, choose[first:last]))
        if places.size:
            found.chosen.append(_small_copy(rows.take(places)))
    return found


def _count(column: pa.ChunkedArray, weight: Floats | None) -> dict[str, float]:
    coded = pc.dictionary_encode(column.combine_chunks(), null_encoding="mask")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    there = coded.indices.is_valid().to_numpy(zero_copy_only=False)
    places = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)[there]
    weights = None if weight is None else weight[there]
    totals = np.bincount(places, weights, minlength=len(coded.dictionary))
    return dict(zip(coded.dictionary.to_pylist(), totals.astype(float).tolist(), strict=True))


def _small_copy(rows: FolderRows) -> FolderRows:
    """Return rows that hold on to no larger array they were taken from."""
    S = rows.S
    prior = None if S.prior is None else frozen(S.prior.copy())
    sets = type(S)(frozen(S.values.copy()), frozen(S.offsets.copy()), prior)
    return FolderRows(rows.index, rows.X, sets, rows.weight)
