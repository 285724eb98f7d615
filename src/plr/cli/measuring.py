"""How far predictions and choices are from the truth, added up over one table or over many batches of one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.label_matching import Precision, true_candidates

__all__ = ["MOST_KEPT", "Choices", "Errors", "choices_of", "errors_of"]

Floats = NDArray[np.float64]

MOST_KEPT = 1_000_000
"""Rows that medians are taken from, where there are more."""

_BINS = 10


class Errors:
    """How far predictions are from the truth, beside those of the one best constant.

    Parameters
    ----------
    rows : int
        Rows that may come; of more than `MOST_KEPT`, medians are taken from as many, chosen at random.
    """

    def __init__(self, rows: int = 0) -> None:
        self._chosen: NDArray[np.int64] | None = None
        if rows > MOST_KEPT:
            self._chosen = np.sort(np.random.default_rng(0).choice(rows, MOST_KEPT, replace=False, shuffle=False))
        self.rows = 0
        self._squared = self._absolute = self._mean = self._spread = 0.0
        self._kept: list[tuple[Floats, Floats]] = []

    def add(self, prediction: Floats, y: Floats, numbers: NDArray[np.int64] | None = None) -> None:
        """Take in some rows; ``numbers`` are theirs among all, needed where not all are kept."""
        if not len(y):
            return
        off = np.abs(prediction - y)
        mean, total = float(y.mean()), self.rows + len(y)
        apart = mean - self._mean
        self._spread += float(((y - mean) ** 2).sum()) + apart**2 * self.rows * len(y) / total
        self._mean = mean if self.rows == 0 else self._mean + apart * len(y) / total
        self._squared += float((off**2).sum())
        self._absolute += float(off.sum())
        self.rows = total
        if self._chosen is None or numbers is None:
            self._kept.append((off, y))
        else:
            low, high = np.searchsorted(self._chosen, [numbers[0], numbers[-1] + 1])
            kept = np.isin(numbers, self._chosen[low:high], assume_unique=True)
            self._kept.append((off[kept], y[kept]))

    def figures(self) -> dict[str, Any]:
        """Return the figures, as plain values."""
        off, y = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        mse, baseline = self._squared / self.rows, self._spread / self.rows
        found = {
            "mse": mse,
            "rmse": mse**0.5,
            "mae": self._absolute / self.rows,
            "median_absolute_error": float(np.median(off)),
            "r2": 1.0 - mse / baseline if baseline > 0 else None,
            "baseline_mse": baseline,
            "baseline_mae": float(np.mean(np.abs(y - np.median(y)))),
        }
        return found if len(off) == self.rows else {**found, "medians_from_rows": len(off)}


class Choices:
    """How often the likeliest candidate is the true one, and how far its probability can be believed.

    Only rows whose truth is among their candidates are judged.

    Parameters
    ----------
    precision : Precision, optional
        How exact the truths are, where not all come at once.
    """

    def __init__(self, precision: Precision | None = None) -> None:
        self._precision = precision
        self._counts = np.zeros(4, dtype=np.int64)
        self._right = np.zeros(2, dtype=np.int64)
        self._chance = self._expected = 0.0
        self._bins = np.zeros((3, _BINS))

    def add(self, found: Any, sets: CandidateSets, y: Floats) -> None:
        """Take in what was found about some rows, and their truths."""
        is_true = true_candidates(sets.values, sets.offsets, y, self._precision)
        judged = np.logical_or.reduceat(is_true, sets.offsets[:-1])
        several = sets.unique().sizes > 1
        told = several & judged
        right = is_true[sets.offsets[:-1] + found.index]
        among = judged[sets.row_index]
        probabilities = found.probabilities[among]
        bins = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
        self._counts += [len(sets), several.sum(), judged.sum(), told.sum()]
        self._right += [right[judged].sum(), right[told].sum()]
        self._chance += float((1.0 / sets.sizes[told]).sum())
        self._expected += float(found.probability[told].sum())
        self._bins += [
            np.bincount(bins, minlength=_BINS),
            np.bincount(bins, probabilities, _BINS),
            np.bincount(bins, is_true[among], _BINS),
        ]

    def figures(self) -> dict[str, Any]:
        """Return the figures, as plain values."""
        rows, several, judged, told = map(int, self._counts)
        counts, said, came = self._bins
        filled = counts > 0
        return {
            "rows": rows,
            "rows_with_several": several,
            "rows_with_truth_among_candidates": judged,
            "rows_judged_with_several": told,
            "accuracy": float(self._right[0] / judged) if judged else None,
            "accuracy_with_several": float(self._right[1] / told) if told else None,
            "by_chance_with_several": self._chance / told if told else None,
            "expected_with_several": self._expected / told if told else None,
            "calibration_error": float(np.abs(said - came).sum() / counts.sum()) if judged else None,
            "calibration": [
                {"candidates": int(count), "said": float(one / count), "true": float(other / count)}
                for count, one, other in zip(counts[filled], said[filled], came[filled], strict=True)
            ],
        }


def errors_of(prediction: Floats, y: Floats) -> dict[str, Any]:
    """Return the figures of `Errors` for one table."""
    found = Errors()
    found.add(prediction, y)
    return found.figures()


def choices_of(found: Any, sets: CandidateSets, y: Floats) -> dict[str, Any]:
    """Return the figures of `Choices` for one table."""
    choices = Choices()
    choices.add(found, sets, y)
    return choices.figures()
