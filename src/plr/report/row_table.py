"""The rows on the page of a model, least certain first: a first page of the table, and all rows for the script."""

from __future__ import annotations

from typing import Any

import numpy as np

from plr.report.charts import shown
from plr.report.facts import STATES, states_of
from plr.report.model_charts import WORDS, strip, value_range
from plr.report.rows import Rows

__all__ = ["first_rows", "rows_data"]

PAGE = 25
"""Rows of one page of the table."""


def rows_data(rows: Rows, half: float | None, slots: tuple[str, ...]) -> dict[str, Any]:
    """Return all rows as plain lists, for the script."""
    rows = rows.take(rows.by_doubt)
    low, high = value_range(rows)
    of = _slots(rows, slots)
    return {
        "number": rows.number.tolist(),
        "sizes": rows.sizes.tolist(),
        "given": rows.given.tolist(),
        "values": _short(rows.values, 9),
        "shares": [round(share, 3) for share in rows.probabilities.tolist()],
        "prediction": _short(rows.prediction, 6),
        "half": None if half is None else _short(_half(rows, half), 4),
        "state": states_of(rows.top).tolist(),
        "several": rows.several.astype(int).tolist(),
        "truth": None if rows.truth is None else [None if value != value else value for value in _short(rows.truth, 9)],
        "naming": rows.naming,
        "by_row": half is not None and rows.relative is not None,
        "columns": [{"name": name, "cells": cells} for name, cells in rows.columns.items()],
        "slots": None if of is None else {"names": slots, "of": of.tolist()},
        "ends": _short(np.array([low, high]), 6),
        "page": PAGE,
        "words": [WORDS[state] for state in STATES],
    }


def first_rows(rows: Rows, half: float | None, name: str, slots: tuple[str, ...]) -> dict[str, Any]:
    """Return the first page of the table: its heads, each with what the script sorts by, and its lines.

    Parameters
    ----------
    rows : Rows
    half : float, optional
        Half the width of intervals.
    name : str
        What is predicted.
    slots : tuple of str
        The columns that candidates come from.
    """
    ends = value_range(rows)
    context = [(f"c{place}", title) for place, title in enumerate(rows.columns)]
    around = "" if half is None or rows.relative is not None else f" ±{shown(half)}"
    heads = [
        ("number", "Row"),
        *context[: rows.naming],
        ("", f"Candidates of {name}"),
        ("value", "Likeliest"),
        ("share", "Probability"),
        ("prediction", f"Predicted{around}"),
        *([("truth", "True")] if rows.truth is not None else []),
        *context[rows.naming :],
    ]
    first = rows.take(rows.by_doubt[:PAGE])
    return {"heads": heads, "lines": [_line(first, place, half, ends, slots) for place in range(len(first))]}


def _line(
    rows: Rows, place: int, half: float | None, ends: tuple[float, float], slots: tuple[str, ...]
) -> dict[str, Any]:
    begin, end = rows.offsets[place], rows.offsets[place + 1]
    values, shares = rows.values[begin:end].tolist(), rows.probabilities[begin:end].tolist()
    best, prediction = int(rows.likeliest[place]), float(rows.prediction[place])
    state = STATES[int(states_of(rows.top[place : place + 1])[0])]
    around = None if half is None else float(_half(rows, half)[place])
    of = _slots(rows, slots)
    context = [texts[place] for texts in rows.columns.values()]
    return {
        "number": rows.number[place],
        "drawn": strip(values, shares, prediction, around, ends),
        "likeliest": f"{rows.values[best]:.9g}",
        "slot": "" if of is None else slots[of[best]],
        "probability": f"{rows.top[place]:.2f}",
        "state": state,
        "words": WORDS[state],
        "prediction": shown(prediction),
        "half": "" if around is None or rows.relative is None else f"±{shown(around)}",
        "truth": None if rows.truth is None else "" if np.isnan(rows.truth[place]) else f"{rows.truth[place]:.9g}",
        "before": context[: rows.naming],
        "after": context[rows.naming :],
    }


def _slots(rows: Rows, names: tuple[str, ...]) -> Any:
    """Return which column each candidate came from, where there are several columns."""
    found = rows.slots
    if found is None and (rows.sizes == rows.given).all():
        found = np.arange(len(rows.values)) - np.repeat(rows.offsets[:-1], rows.sizes)
    known = len(names) > 1 and found is not None and found.min() >= 0 and found.max() < len(names)
    return found if known else None


def _half(rows: Rows, half: float) -> Any:
    return half * (np.ones(len(rows)) if rows.relative is None else rows.relative)


def _short(values: Any, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values.tolist()]
