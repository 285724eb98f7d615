"""The figures on the page of a model: how many rows are settled, and metrics where true labels are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr.errors import ParameterError
from plr.identification import DOUBTFUL, SETTLED
from plr.intervals import Calibration
from plr.metrics import ChoiceMetrics, ErrorMetrics
from plr.report.rows import Rows

__all__ = ["STATES", "Checks", "Facts", "find_facts", "half_width", "states_of"]

Floats = NDArray[np.float64]

STATES = ("settled", "likely", "doubtful")
"""How sure it is which candidate is true, from sure to unsure."""


@dataclass(frozen=True)
class Checks:
    """How the model compares with true labels.

    Attributes
    ----------
    rows : int
        Rows with a true label.
    judged : int
        Those of them whose true label is among the candidates; only they tell whether choices are right.
    several : int
        Those of the judged ones with several candidates.
    right : float or None
        In which share of them the likeliest candidate is the true one.
    rmse, mae : float
    r2 : float or None
    reliability : list of (said, came, count)
        By bins of probability: the mean of it, the share of candidates that are true, and their number.
    calibration_error : float or None
        How far the two are apart, in the mean over candidates; None where no row is judged.
    covered : float or None
        The share of true labels in the 90 % interval; None for training rows, whose predictions know too much.
    """

    rows: int
    judged: int
    several: int
    right: float | None
    rmse: float
    mae: float
    r2: float | None
    reliability: list[tuple[float, float, int]]
    calibration_error: float | None
    covered: float | None


@dataclass(frozen=True)
class Facts:
    """The figures of a page.

    Attributes
    ----------
    rows, several : int
        All rows, and those whose candidates differ.
    candidates : float
        Per row, in the mean.
    counts : dict of str to int
        Rows with several candidates by how sure it is which one is true.
    expected, chance : float or None
        The share of those rows in which the likeliest candidate should be the true one, by the model's own
        probabilities; and by chance.
    checks : Checks or None
    """

    rows: int
    several: int
    candidates: float
    counts: dict[str, int]
    expected: float | None
    chance: float | None
    checks: Checks | None


def find_facts(rows: Rows, calibration: Calibration | None, *, new: bool) -> Facts:
    """Return the figures for some rows; ``new`` where the model was not fitted to them."""
    several, weight = rows.several, rows.weight
    among = weight[several]
    found = states_of(rows.top[several])
    counts = {state: round(float(among[found == place].sum())) for place, state in enumerate(STATES)}
    there = float(among.sum())
    return Facts(
        rows=rows.total,
        several=round(there),
        candidates=float(np.average(rows.given, weights=weight)),
        counts=counts,
        expected=float(among @ rows.top[several]) / there if there else None,
        chance=float(among @ (1.0 / rows.given[several])) / there if there else None,
        checks=_checks(rows, calibration if new else None),
    )


def states_of(probability: Floats) -> NDArray[np.int64]:
    """Return places in `STATES`."""
    return np.where(probability >= SETTLED, 0, np.where(probability >= DOUBTFUL, 1, 2))


def half_width(calibration: Calibration | None, coverage: float = 0.9) -> float | None:
    """Return how far true labels are from predictions, if that is known."""
    if calibration is None:
        return None
    try:
        return calibration.half_width(coverage)
    except ParameterError:
        # Too few rows for so high a coverage.
        return None


def _checks(rows: Rows, calibration: Calibration | None) -> Checks | None:
    if rows.truth is None or not np.isfinite(rows.truth).any():
        return None
    rows = rows.take(np.flatnonzero(np.isfinite(rows.truth)))
    truth = np.asarray(rows.truth)
    errors, choices = ErrorMetrics(), ChoiceMetrics()
    errors.add(rows.prediction, truth, weight=rows.weight)
    choices.add_candidates(
        rows.values,
        rows.offsets,
        rows.probabilities,
        rows.likeliest,
        truth,
        several=rows.several,
        weight=rows.weight,
        given=rows.given,
    )
    error, choice = errors.figures(), choices.figures()
    half, covered = half_width(calibration), None
    if half is not None:
        within = np.abs(rows.prediction - truth) <= half * (1.0 if rows.relative is None else rows.relative)
        covered = float(np.average(within, weights=rows.weight))
    return Checks(
        rows=rows.total,
        judged=choice["rows_with_truth_among_candidates"],
        several=choice["rows_judged_with_several"],
        right=choice["accuracy_with_several"],
        rmse=error["rmse"],
        mae=error["mae"],
        r2=error["r2"],
        reliability=[(found["said"], found["true"], found["candidates"]) for found in choice["calibration"]],
        calibration_error=choice["calibration_error"],
        covered=covered,
    )
