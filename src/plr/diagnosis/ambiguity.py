"""How ambiguous candidate sets are, by the candidates alone: values that recur together, and relations between values.

Of all pairs of candidates that share a row, some ratio or difference may come again and again. How often it would come
by chance is counted on the same candidates dealt out to the rows at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets

__all__ = [
    "OutlyingValue",
    "Relation",
    "ValuePair",
    "find_relations",
    "further_relations",
    "labelled_rows",
    "outlying_values",
    "values_together",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Values that come in fewer rows say nothing about what always comes with them.
_LEAST_ROWS_OF_A_VALUE = 20
_MOST_VALUES = 300
# Candidates closer together than this share of the spread of all labels are as good as one.
_AS_GOOD_AS_ONE = 0.01

_MOST_PAIRS = 300_000
_MOST_OF_A_ROW = 40
# A relation is reported from these shares of the ambiguous rows on: of those that have it, and of those that have it
# more often than by chance.
_LEAST_SHARE, _LEAST_EXCESS, _TIMES_CHANCE, _LEAST_ROWS = 0.2, 0.15, 3.0, 10
# How closely values are compared, coarse to fine: readings are rounded, computed ones are not.
_WIDTHS = (1e-2, 1e-3, 1e-5)
# Lines are looked for by so many trials on so many rows, which finds them among up to six candidates a row.
_TRIALS, _TRIED_ROWS, _MOST_PAIRS_OF_A_ROW = 600, 100, 15
_MOST_FURTHER = 6

_RATIOS = {
    2.20462: "between kilograms and pounds",
    1.609344: "between miles and kilometres",
    2.54: "between inches and centimetres",
    3.28084: "between metres and feet",
    3.6: "between metres per second and kilometres per hour",
    1.94384: "between metres per second and knots",
    1.852: "between knots and kilometres per hour",
    4.184: "between calories and joules",
    28.3495: "between ounces and grams",
    3.785412: "between gallons and litres",
    7.50062: "between kilopascals and millimetres of mercury",
    18.0182: "between mmol/l and mg/dl of glucose",
    60.0: "between seconds and minutes, or minutes and hours",
    3600.0: "between seconds and hours",
    24.0: "between hours and days",
    10.0: "with a decimal point one place off",
    100.0: "with a decimal point two places off, or shares and per cent",
    1000.0: "between a unit and its thousandth, such as grams and kilograms",
}


@dataclass(frozen=True)
class ValuePair:
    """Two values, in how many rows they come together, and in what share of the rows that have the commoner one."""

    value: float
    other: float
    rows: int
    share: float


@dataclass(frozen=True)
class OutlyingValue:
    """A value that lies far from all others, and how many rows have it."""

    value: float
    rows: int


def labelled_rows(S: CandidateSets, spread: float) -> NDArray[np.bool_]:
    """Return which rows are as good as labelled: their candidates are one, or as good as one."""
    starts = S.offsets[:-1]
    width = np.maximum.reduceat(S.values, starts) - np.minimum.reduceat(S.values, starts)
    return width <= _AS_GOOD_AS_ONE * spread


def values_together(S: CandidateSets) -> tuple[list[ValuePair], int]:
    """Return the pairs of values that come together most, and how many values come in enough rows to tell.

    Each of the most frequent values with the one that it comes with most; those with the largest share first.
    """
    values, places = np.unique(S.values, return_inverse=True)
    counts = np.bincount(places)
    enough = np.flatnonzero(counts >= _LEAST_ROWS_OF_A_VALUE)
    frequent = enough[np.argsort(-counts[enough], kind="stable")[:_MOST_VALUES]]
    if len(frequent) == 0 or (S.sizes == 1).all():
        return [], len(enough)
    number = np.full(len(values), -1)
    number[frequent] = np.arange(len(frequent))
    kept = number[places] >= 0
    present = np.zeros((len(S), len(frequent)), dtype=np.float32)
    present[S.row_index[kept], number[places][kept]] = 1.0
    both = (present.T @ present).astype(np.float64)
    total = np.diag(both).copy()
    # Of two values that can be told apart, one sometimes comes without the other.
    mutual = both / np.maximum(total[:, None], total[None, :])
    np.fill_diagonal(mutual, 0.0)
    partner = mutual.argmax(axis=1)
    share = mutual[np.arange(len(frequent)), partner]
    found: dict[tuple[float, float], ValuePair] = {}
    for first in np.argsort(-share, kind="stable"):
        low, high = sorted((float(values[frequent[first]]), float(values[frequent[partner[first]]])))
        if share[first] > 0:
            found.setdefault((low, high), ValuePair(low, high, int(both[first, partner[first]]), float(share[first])))
    return list(found.values()), len(enough)


def outlying_values(S: CandidateSets, low: float, high: float) -> list[OutlyingValue]:
    """Return values that come again and again and lie far from all others: words for "missing" written as numbers.

    Most values are between ``low`` and ``high``.
    """
    width = high - low
    values, counts = np.unique(S.values, return_counts=True)
    found = ((values < low - width) | (values > high + width)) & (counts >= max(5, 0.002 * len(S))) & (width > 0)
    return [OutlyingValue(float(value), int(count)) for value, count in zip(values[found], counts[found], strict=True)]


@dataclass(frozen=True)
class Pairs:
    """Pairs of different candidates of the same row: the smaller, the larger, and the row."""

    low: Floats
    high: Floats
    row: Integers
    rows: int

    def take(self, chosen: NDArray[np.bool_]) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.low[chosen], self.high[chosen], self.row[chosen], self.rows)


@dataclass(frozen=True)
class Relation:
    """Something that holds between two candidates of many rows.

    Attributes
    ----------
    kind : {"ratio", "difference", "line", "digit"}
    value : float
        The ratio of the larger to the smaller, the difference, or the slope of the line; of digits, 10.
    offset : float
        What the line adds; else 0.
    share : float
        The share of rows with several candidates in which some pair is so related.
    by_chance : float
        The same if candidates were dealt out to the rows at random.
    words : str
        What it looks like.
    """

    kind: str
    value: float
    offset: float
    share: float
    by_chance: float
    words: str

    @property
    def line(self) -> tuple[float, float]:
        """Slope and offset of the line that leads from one candidate to the other."""
        return (1.0, self.value) if self.kind == "difference" else (self.value, self.offset)

    def near(self, found: Floats, wanted: Floats, spread: float) -> NDArray[np.bool_]:
        """Whether candidates are as near to where the relation wants them as readings that are rounded can be."""
        exact = _WIDTHS[0] * (np.abs(wanted) if self.kind == "ratio" else spread)
        return np.asarray(np.abs(found - wanted) <= (exact / 2 if self.kind == "line" else exact))

    def holds(self, pairs: Pairs, spread: float) -> NDArray[np.bool_]:
        """Whether it holds between the two of each pair."""
        slope, offset = self.line
        low, high = pairs.low, pairs.high
        if self.kind == "ratio":
            # Of two negative numbers, the larger one is nearer to zero.
            low, high = np.where(low < 0, high, low), np.where(low < 0, low, high)
        return self.near(high, slope * low + offset, spread)


def pairs_of(S: CandidateSets, random: np.random.Generator) -> Pairs:
    """Return pairs of different candidates, of as many rows as there is time for, drawn at random."""
    sizes = np.minimum(S.sizes, _MOST_OF_A_ROW)
    order = random.permutation(np.flatnonzero(sizes > 1))
    counts = np.cumsum(sizes[order] * (sizes[order] - 1) // 2)
    chosen = np.sort(order[: max(1, int(np.searchsorted(counts, _MOST_PAIRS)))])
    low, high, row = [np.empty(0)], [np.empty(0)], [np.empty(0, dtype=np.int64)]
    for size in np.unique(S.sizes[chosen]):
        rows = chosen[S.sizes[chosen] == size]
        block = S.values[S.offsets[rows][:, None] + np.arange(size)]
        if size > _MOST_OF_A_ROW:
            block = random.permuted(block, axis=1)[:, :_MOST_OF_A_ROW]
        block = np.sort(block, axis=1)
        first, second = np.triu_indices(block.shape[1], 1)
        low.append(block[:, first].ravel())
        high.append(block[:, second].ravel())
        row.append(np.repeat(rows, len(first)))
    pairs = Pairs(np.concatenate(low), np.concatenate(high), np.concatenate(row), len(chosen))
    return pairs.take(pairs.high > pairs.low)


def find_relations(S: CandidateSets, spread: float, random: np.random.Generator) -> list[Relation]:
    """Return the relations that hold more often than by chance, the most frequent first.

    Parameters
    ----------
    S : CandidateSets
        Without duplicates in a row.
    spread : float
        How far apart most candidates of all rows are.
    random : numpy.random.Generator
    """
    pairs = pairs_of(S, random)
    if pairs.rows < _LEAST_ROWS or spread <= 0:
        return []
    dealt = pairs_of(CandidateSets._of_checked(random.permutation(S.values), S.offsets), random)
    found = [
        _peak("ratio", _log_ratios(pairs), pairs, _log_ratios(dealt), dealt),
        _peak("difference", (pairs.high - pairs.low) / spread, pairs, (dealt.high - dealt.low) / spread, dealt, spread),
    ]
    kept = [relation for relation in found if relation is not None]
    share, chance = _one_digit_share(pairs), _one_digit_share(dealt)
    if share >= 0.5 and share - chance >= 0.3:
        kept.append(Relation("digit", 10.0, 0.0, share, chance, "they differ in one digit"))
    if not any(relation.share >= 0.9 for relation in kept):
        kept += [line] if (line := _line(pairs, dealt, spread)) is not None else []
    # Of equals, digits come last: where values differ by 20 throughout, one digit of them differs as a consequence.
    kept.sort(key=lambda relation: (round(relation.by_chance - relation.share, 1), relation.kind == "digit"))
    if kept and kept[0].share >= 0.9 and kept[0].kind != "digit":
        # What holds everywhere brings others with it: where labels vary little, a difference is nearly a ratio.
        more = [relation for relation in kept[1:] if relation.kind == "digit"]
        return [kept[0], *(more if kept[0].kind == "ratio" else [])]
    return kept


def _log_ratios(pairs: Pairs) -> Floats:
    """Return the logarithm of larger over smaller; NaN where there is none, since they differ in sign."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(pairs.high / pairs.low)
    return np.where(np.isfinite(ratio), np.abs(ratio), np.nan)


def _peak(
    kind: str, amount: Floats, pairs: Pairs, amount_by_chance: Floats, dealt: Pairs, unit: float = 1.0
) -> Relation | None:
    """Return the amount that comes most often beyond chance, as finely as it can be told."""
    value = share = chance = 0.0
    for width in _WIDTHS:
        counted = (_count(amount, pairs, amount_by_chance, dealt, width, shift) for shift in (0.0, 0.5))
        peak = max(counted, key=lambda found: found[1] - found[2])
        # Finer only where hardly a row is lost: then the value is exact and not a matter of rounding.
        if peak[1] - peak[2] >= 0.8 * (share - chance):
            value, share, chance = peak
    if share < max(_LEAST_SHARE, _TIMES_CHANCE * chance, chance + _LEAST_EXCESS) or share * pairs.rows < _LEAST_ROWS:
        return None
    if kind == "difference":
        return Relation(kind, value * unit, 0.0, share, chance, f"one is {value * unit:.6g} more than the other")
    ratio = float(np.exp(value))
    known = next((f", as {words}" for known, words in _RATIOS.items() if abs(ratio / known - 1) < 0.002), "")
    return Relation(kind, ratio, 0.0, share, chance, f"one is {ratio:.6g} times the other{known}")


def _count(
    amount: Floats, pairs: Pairs, by_chance: Floats, dealt: Pairs, width: float, shift: float
) -> tuple[float, float, float]:
    """Return the amount, the share of rows that have it, and the share that would by chance, of the fullest bin."""
    names, counts = np.unique(_bins(amount, pairs.row, width, shift), return_counts=True)
    if not len(names):
        return 0.0, 0.0, 0.0
    other_names, other_counts = np.unique(_bins(by_chance, dealt.row, width, shift), return_counts=True)
    _, here, there = np.intersect1d(names, other_names, assume_unique=True, return_indices=True)
    chance = np.zeros(len(names))
    chance[here] = other_counts[there] / dealt.rows
    excess = np.where(_stands_out(names, counts), counts / pairs.rows - chance, 0.0)
    top = int(np.argmax(excess))
    inside = np.floor(amount / width + shift) == names[top]
    return float(np.median(amount[inside])), float(counts[top] / pairs.rows), float(chance[top])


def _stands_out(names: Integers, counts: Integers) -> NDArray[np.bool_]:
    """Whether each bin has several times what the bins some steps to its left and right have."""
    around = np.zeros(len(names))
    for step in (-6, -5, -4, 4, 5, 6):
        place = np.minimum(np.searchsorted(names, names + step), len(names) - 1)
        around += np.where(names[place] == names + step, counts[place], 0) / 6
    return counts > _TIMES_CHANCE * around


def _bins(amount: Floats, row: Integers, width: float, shift: float) -> Integers:
    """Return the bins of the amounts, each once for every row that has it."""
    # Candidates that are nearly equal are related in no way of interest.
    usable = np.isfinite(amount) & (amount > 2 * _WIDTHS[0])
    bins = np.floor(amount[usable] / width + shift).astype(np.int64)
    order = np.lexsort((row[usable], bins))
    bins, rows = bins[order], row[usable][order]
    fresh = np.ones(len(bins), dtype=bool)
    fresh[1:] = (np.diff(bins) != 0) | (np.diff(rows) != 0)
    return bins[fresh]


def _one_digit_share(pairs: Pairs) -> float:
    """Return the share of pairs whose difference has one digit that is not zero."""
    difference = pairs.high - pairs.low
    if not len(difference):
        return 0.0
    with np.errstate(divide="ignore"):
        scaled = difference / 10.0 ** np.floor(np.log10(difference))
    return float(np.mean(np.abs(scaled - np.round(scaled)) < 1e-6))


def further_relations(S: CandidateSets, spread: float, known: Relation, random: np.random.Generator) -> list[Relation]:
    """Return lines between candidates of nearly every row besides a known relation: °F where there are °C and K."""
    pairs, found = pairs_of(S, random), [known]
    dealt = pairs_of(CandidateSets._of_checked(random.permutation(S.values), S.offsets), random)
    while len(found) <= _MOST_FURTHER:
        other = ~np.logical_or.reduce([relation.holds(pairs, spread) for relation in found])
        line = _line(pairs.take(other), dealt, spread)
        if line is None:
            break
        found.append(line)
    return found[1:]


def _line(pairs: Pairs, dealt: Pairs, spread: float) -> Relation | None:
    """Return the straight line that leads from the smaller to the larger of two candidates of nearly every row, if any.

    Lines through one pair of a row and one of another are tried, and the one that most rows have a pair on is taken.
    """
    rows, place = np.unique(pairs.row, return_inverse=True)
    if len(rows) < max(_LEAST_ROWS, 0.9 * pairs.rows) or len(pairs.low) > _MOST_PAIRS_OF_A_ROW * len(rows):
        return None
    random = np.random.default_rng(0)
    few = np.flatnonzero(np.isin(place, random.permutation(len(rows))[:_TRIED_ROWS]))
    first, second = few[random.integers(len(few), size=(2, _TRIALS))]
    apart = pairs.low[second] - pairs.low[first]
    usable = np.abs(apart) > 0.02 * spread
    first, second, apart = first[usable], second[usable], apart[usable]
    slopes = (pairs.high[second] - pairs.high[first]) / apart
    offsets = pairs.high[first] - slopes * pairs.low[first]
    tried = Pairs(pairs.low[few], pairs.high[few], place[few], min(len(rows), _TRIED_ROWS))
    lines = ((_share_on(tried, *line, spread), *line) for line in zip(slopes, offsets, strict=True))
    share, slope, offset = max(lines, default=(0.0, 0.0, 0.0))
    if share < 0.8:
        return None
    on = np.abs(pairs.high - slope * pairs.low - offset) < 0.01 * spread
    slope, offset = (float(part) for part in np.polyfit(pairs.low[on], pairs.high[on], 1))
    share, chance = _share_on(pairs, slope, offset, spread), _share_on(dealt, slope, offset, spread)
    if share < 0.9 or share < _TIMES_CHANCE * chance:
        return None
    degrees = abs(slope - 1.8) < 0.02 and abs(offset - 32) < 1
    words = f"one is {slope:.6g} times the other plus {offset:.6g}"
    return Relation("line", slope, offset, share, chance, words + (", as °F and °C are" if degrees else ""))


def _share_on(pairs: Pairs, slope: float, offset: float, spread: float) -> float:
    """Return the share of rows that have a pair on a line."""
    on = np.abs(pairs.high - slope * pairs.low - offset) < 0.005 * spread
    return np.count_nonzero(np.bincount(pairs.row[on])) / pairs.rows
