"""The rows on the page of a model, least certain first: a first page of the table, and all rows for the script."""

from __future__ import annotations

from typing import Any

import numpy as np

from plr.intervals import Calibration
from plr.report.facts import STATES, states_of
from plr.report.model_charts import WORDS, strip, value_range
from plr.report.numbers import decimals_of, exact, to_decimals
from plr.report.row_intervals import RowIntervals, intervals_of
from plr.report.rows import Rows

__all__ = ["first_rows", "rows_data"]

PAGE = 25
"""Rows of one page of the table."""

FIRST_COLUMNS = 3
"""Columns of the data that the table shows at first; the others on demand."""

FIRST_VALUES = 3
"""Candidates of a row that are written out at first, the likeliest; the others on demand."""


def rows_data(rows: Rows, calibration: Calibration | None, slots: tuple[str, ...]) -> dict[str, Any]:
    """Return all rows as plain lists, for the script; ``pieces`` of rows that have several, by their place."""
    rows = rows.take(rows.by_doubt)
    intervals = intervals_of(rows, calibration)
    low, high = value_range(rows)
    of = _slots(rows, slots)
    return {
        "number": rows.number.tolist(),
        "sizes": rows.sizes.tolist(),
        "given": rows.given.tolist(),
        "values": _short(rows.values, 9),
        "shares": [round(share, 3) for share in rows.probabilities.tolist()],
        "prediction": _short(rows.prediction, 9),
        "lower": None if intervals is None else _short(intervals.ends[:, 0], 9),
        "upper": None if intervals is None else _short(intervals.ends[:, 1], 9),
        "pieces": {
            place: _short(pieces.ravel(), 6)
            for place, pieces in enumerate([] if intervals is None else intervals.pieces)
            if len(pieces) > 1
        },
        "state": states_of(rows.top).tolist(),
        "several": rows.several.astype(int).tolist(),
        "truth": None if rows.truth is None else [None if value != value else value for value in _short(rows.truth, 9)],
        "naming": rows.naming,
        "columns": [{"name": name, "cells": cells} for name, cells in rows.columns.items()],
        "slots": None if of is None else {"names": slots, "of": of.tolist()},
        "ends": _short(np.array([low, high]), 6),
        "decimals": decimals_of([low, high]),
        "page": PAGE,
        "first_columns": FIRST_COLUMNS,
        "first_values": FIRST_VALUES,
        "words": [WORDS[state] for state in STATES],
    }


def first_rows(rows: Rows, calibration: Calibration | None, name: str, slots: tuple[str, ...]) -> dict[str, Any]:
    """Return the first page of the table: its heads, each with what the script sorts by, and its lines.

    Parameters
    ----------
    rows : Rows
    calibration : Calibration or None
        What intervals are made by.
    name : str
        What is predicted.
    slots : tuple of str
        The columns that candidates come from.
    """
    ends = value_range(rows)
    context = [(f"c{place}", title) for place, title in enumerate(rows.columns)]
    heads = [
        ("number", "Row"),
        *context[: rows.naming],
        ("", f"Candidates of {name}"),
        ("value", "Likeliest"),
        ("share", "Probability"),
        ("prediction", "Predicted"),
        *([("truth", "True")] if rows.truth is not None else []),
        *context[rows.naming :],
    ]
    first = rows.take(rows.by_doubt[:PAGE])
    intervals = intervals_of(first, calibration)
    return {
        "heads": [{"key": key, "title": title, "more": _is_more(key)} for key, title in heads],
        "lines": [_line(first, place, intervals, ends, slots) for place in range(len(first))],
        "more": max(len(rows.columns) - FIRST_COLUMNS, 0),
    }


def _is_more(key: str) -> bool:
    """Return whether a column, by what the script sorts by, is shown only on demand."""
    return key[:1] == "c" and key[1:].isdigit() and int(key[1:]) >= FIRST_COLUMNS


def _line(
    rows: Rows, place: int, intervals: RowIntervals | None, ends: tuple[float, float], slots: tuple[str, ...]
) -> dict[str, Any]:
    begin, end = rows.offsets[place], rows.offsets[place + 1]
    values, shares = rows.values[begin:end].tolist(), rows.probabilities[begin:end].tolist()
    best, prediction = int(rows.likeliest[place]), float(rows.prediction[place])
    decimals = decimals_of(ends)
    order = sorted(range(len(values)), key=lambda at: -shares[at])
    written = [f"{exact(values[at])} ({shares[at]:.0%})" for at in order]
    state = STATES[int(states_of(rows.top[place : place + 1])[0])]
    pieces, interval = [], ""
    if intervals is not None:
        pieces = intervals.pieces[place].tolist()
        interval = " to ".join(to_decimals(end, decimals) for end in intervals.ends[place].tolist())
    of = _slots(rows, slots)
    context = [(texts[place], at >= FIRST_COLUMNS) for at, texts in enumerate(rows.columns.values())]
    return {
        "number": rows.number[place],
        "drawn": strip(values, shares, prediction, pieces, ends),
        "values": written[:FIRST_VALUES],
        "other_values": written[FIRST_VALUES:],
        "likeliest": exact(rows.values[best]),
        "slot": "" if of is None else slots[of[best]],
        "probability": f"{rows.top[place]:.0%}",
        "state": state,
        "words": WORDS[state],
        "prediction": to_decimals(prediction, decimals),
        "interval": interval,
        "truth": None if rows.truth is None else "" if np.isnan(rows.truth[place]) else exact(rows.truth[place]),
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


def _short(values: Any, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values.tolist()]
