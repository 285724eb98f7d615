"""One pass over all rows: is every row sound, and what are the sums that scaling and encoding are learned from."""

from __future__ import annotations

from collections import Counter
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
from plr.streaming.folder_rows import FolderRows

__all__ = ["Moments", "Survey", "matrix", "survey"]

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
    gaps: NDArray[np.bool_]
    """Whether an entry is missing."""

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
        return cls(total, mean + middle, squares, low, high, np.asarray(~there.all(axis=0)))

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
        self.gaps = self.gaps | other.gaps

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
    labels : Moments
        Of the candidates, each counted by its prior and its row's weight.
    counts : dict
        For each feature of texts, the weight of each text.
    chosen : list of FolderRows
        The rows that were asked for.
    mended : dict
        What is to be said of cells that count as missing, by column and by what they are not.
    """

    rows: int = 0
    left_out: int = 0
    candidates: int = 0
    largest_set: int = 0
    weight: float = 0.0
    has_prior: bool = False
    numbers: Moments | None = None
    labels: Moments | None = None
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    chosen: list[FolderRows] = field(default_factory=list)
    mended: dict[tuple[str, str], Mended] = field(default_factory=dict)

    def add(self, other: Survey) -> None:
        """Take in what was found of further rows."""
        if self.numbers is None or self.labels is None:
            self.numbers, self.labels = other.numbers, other.labels
        elif other.numbers is not None and other.labels is not None:
            self.numbers.add(other.numbers)
            self.labels.add(other.labels)
        self.rows += other.rows
        self.left_out += other.left_out
        self.candidates += other.candidates
        self.largest_set = max(self.largest_set, other.largest_set)
        self.weight += other.weight
        self.has_prior = self.has_prior or other.has_prior
        for name, counts in other.counts.items():
            mine = self.counts.setdefault(name, Counter())
            mine.update(counts)
            if len(mine) > _MOST_COUNTED:
                self.counts[name] = Counter(dict(mine.most_common(_MOST_COUNTED // 2)))
        self.chosen.extend(other.chosen)
        for which, note in other.mended.items():
            self.mended[which] = self.mended[which].joined(note) if which in self.mended else note

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
        gaps = self.numbers.gaps
        marked = tuple(place for place, gap in zip(numeric, gaps, strict=True) if gap)
        codes: dict[int, Floats] = {}
        shares = [1.0 - self.numbers.weight[gaps] / self.weight]
        for place in categorical:
            assert columns is not None
            weight = np.array([self.counts[names[place]][text] for text in columns.categories[place]])
            frequent = np.sort(np.argsort(-weight, kind="stable")[:MOST_CATEGORIES])
            codes[place] = frequent.astype(np.float64)
            shares.append(weight[frequent] / self.weight)
        share = np.concatenate(shares)
        centre = np.concatenate([mean, share])
        unit = np.concatenate([deviation, np.full(len(share), _INDICATOR_SCALE)])
        if not scale:
            centre, unit = np.zeros_like(centre), np.ones_like(unit)
        return Encoding(numeric, mean, marked, codes, Affine(centre, unit))

    def target(self, scale: bool) -> Affine:
        """Return how labels are scaled, as `plr.preprocessing.scaling.learn_target` would."""
        assert self.labels is not None
        centre, deviation, low, high = (
            float(part[0]) for part in (self.labels.mean, self.labels.deviation, self.labels.low, self.labels.high)
        )
        if not (np.isfinite(centre) and np.isfinite(deviation)):
            wrong = ", a span beyond float64 arithmetic; divide them all by 1e150, or leave out what is no label"
        elif low < high and max(-low, high) < _SMALLEST_LABELS:
            wrong = "; squares of such small labels vanish in float64. Multiply them all by 1e150"
        else:
            return Affine(np.float64(centre if scale else 0.0), np.float64(deviation if scale else 1.0))
        raise TargetScaleError(f"The candidates reach from {low:g} to {high:g}{wrong}.")


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


def matrix(X: pa.Table, columns: Columns | None) -> Floats:
    """Return features as a float64 matrix: numbers, and numbers of categories, NaN where missing or not known."""
    out = np.empty((X.num_rows, X.num_columns))
    for place, column in enumerate(X.columns):
        if pa.types.is_string(column.type):
            assert columns is not None
            known = pa.array(columns.categories[place], pa.string())
            column = pc.fill_null(pc.index_in(column, known).cast(pa.float64()), np.nan)
        out[:, place] = column.to_numpy()
    return out


def _look(rows: FolderRows, choose: NDArray[np.int64] | None) -> Survey:
    found = Survey(rows=len(rows.index), left_out=rows.left_out)
    found.mended = {(note.column, note.kind): note for note in rows.mended}
    if not found.rows:
        return found
    S, weight = rows.S, np.ones(found.rows) if rows.weight is None else rows.weight
    found.candidates, found.largest_set = S.values.size, int(S.sizes.max())
    found.weight = float(weight.sum())
    found.has_prior = S.prior is not None
    numbers = [np.empty((found.rows, 0))]
    for name, column in zip(rows.X.column_names, rows.X.columns, strict=True):
        if pa.types.is_string(column.type):
            counted = pa.table({"text": column, "weight": weight}).drop_null().group_by("text")
            texts, totals = counted.aggregate([("weight", "sum")]).select(["text", "weight_sum"]).columns
            found.counts[name] = Counter(dict(zip(texts.to_pylist(), totals.to_pylist(), strict=True)))
        else:
            numbers.append(column.to_numpy()[:, None])
    found.numbers = Moments.of(np.concatenate(numbers, axis=1), weight)
    found.labels = Moments.of(S.values[:, None], S.prior_or_uniform * weight[S.row_index])
    if choose is not None:
        first, last = np.searchsorted(choose, [rows.index[0], rows.index[-1] + 1])
        places = np.flatnonzero(np.isin(rows.index, choose[first:last]))
        if places.size:
            found.chosen.append(rows.take(places))
    return found
