"""The figures on the page of a model: how many rows are settled, and metrics where true labels are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.identification import DOUBTFUL, SETTLED
from plr.intervals import Calibration
from plr.metrics import ChoiceMetrics, CoverageMetrics, ErrorMetrics
from plr.report.row_intervals import LEVELS, SHOWN, ends_of
from plr.report.rows import Rows

__all__ = ["STATES", "count_states", "find_facts", "states_of"]

Floats = NDArray[np.float64]

STATES = ("settled", "likely", "doubtful")
"""How sure it is which candidate is true, from sure to unsure."""


def find_facts(rows: Rows, calibration: Calibration | None, *, new: bool) -> dict[str, Any]:
    """Return the figures for some rows as plain values.

    Parameters
    ----------
    rows : Rows
    calibration : Calibration or None
    new : bool
        Whether the model was not fitted to these rows.

    Returns
    -------
    dict
        ``rows`` and ``several`` count all rows and those whose candidates differ; ``candidates`` is the mean number per
        row; ``counts`` has rows with several candidates by how sure it is which one is true; ``expected`` and
        ``chance`` are the share of those rows in which the likeliest candidate should be the true one, by the model's
        own probabilities and by chance (None without such rows). ``checks`` compares the model with true labels, where
        some are known: ``rows`` with one, those ``scored`` (the true label is among the candidates), ``several``
        candidates among them, the share whose choice is ``right`` with its standard error, ``rmse``, ``mae``, ``r2``,
        ``reliability`` (by bins of probability, as `plr.metrics.ChoiceMetrics` has it), ``calibration_error`` and what
        of it may be chance, and how often 90 % ``intervals`` hold the true labels, as `plr.metrics.CoverageMetrics` has
        it, with ``levels``: the same of intervals of other coverages (None for training rows, whose predictions know
        too much).
    """
    several = rows.several
    among = rows.weight[several]
    there = float(among.sum())
    return {
        "rows": rows.total,
        "several": round(there),
        "candidates": float(np.average(rows.given, weights=rows.weight)),
        "counts": {state: round(count) for state, count in count_states(rows.top[several], among).items()},
        "expected": float(among @ rows.top[several]) / there if there else None,
        "chance": float(among @ (1.0 / rows.given[several])) / there if there else None,
        "checks": _checks(rows, calibration if new else None),
    }


def states_of(probability: Floats) -> NDArray[np.int64]:
    """Return places in `STATES`."""
    return np.where(probability >= SETTLED, 0, np.where(probability >= DOUBTFUL, 1, 2))


def count_states(probability: Floats, weight: Floats) -> dict[str, float]:
    """Return how many rows are in each of `STATES`."""
    return dict(zip(STATES, np.bincount(states_of(probability), weight, len(STATES)).tolist(), strict=True))


def _checks(rows: Rows, calibration: Calibration | None) -> dict[str, Any] | None:
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
    levels = {}
    for level in LEVELS:
        ends = ends_of(rows, calibration, level)
        if ends is not None:
            coverage = CoverageMetrics(level)
            coverage.add(ends, truth, weight=rows.weight)
            levels[level] = coverage.figures()
    covered = None
    if SHOWN in levels:
        covered = {**levels[SHOWN], "levels": [{"asked": level, **found} for level, found in levels.items()]}
    return {
        "rows": rows.total,
        "scored": choice["rows_with_truth_among_candidates"],
        "several": choice["rows_scored_with_several"],
        "right": choice["accuracy_with_several"],
        "right_error": choice["accuracy_with_several_error"],
        **{name: error[name] for name in ("rmse", "mae", "r2")},
        "reliability": choice["calibration"],
        "calibration_error": choice["calibration_error"],
        "calibration_error_by_chance": choice["calibration_error_by_chance"],
        "intervals": covered,
    }
