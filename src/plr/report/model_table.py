"""The rows on the page of a model, the most doubtful first: a first page as HTML, and all of them for the script."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from plr.report.charts import shown
from plr.report.facts import STATES, states_of
from plr.report.html import Markup, element
from plr.report.model_charts import WORDS, strip, value_range
from plr.report.rows import Rows

__all__ = ["rows_as_json", "rows_section"]

PAGE = 25
"""Rows of one page of the table."""


def rows_as_json(rows: Rows, half: float | None, slots: tuple[str, ...]) -> str:
    """Return all rows for the script, as JSON that can stand in a page: without any ``<``."""
    order = _order(rows)
    rows = rows.take(order)
    low, high = value_range(rows)
    data: dict[str, Any] = {
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
        "slots": None if (of := _slots(rows, slots)) is None else {"names": slots, "of": of.tolist()},
        "ends": _short(np.array([low, high]), 6),
        "page": PAGE,
        "words": [WORDS[state] for state in STATES],
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def rows_section(rows: Rows, half: float | None, name: str, slots: tuple[str, ...]) -> Markup:
    """Return the controls and the table with its first page."""
    order = _order(rows)
    first = rows.take(order[:PAGE])
    low_high = value_range(rows.take(order))
    context = [(f"c{place}", title) for place, title in enumerate(rows.columns)]
    heads = [("number", "Row"), *context[: rows.naming], ("", f"Candidates of {name}"), ("value", "Likeliest")]
    around = "" if half is None or rows.relative is not None else f" ±{shown(half)}"
    heads += [("share", "Probability"), ("prediction", f"Predicted{around}")]
    heads += [("truth", "True")] if rows.truth is not None else []
    heads += context[rows.naming :]
    cells = []
    for key, title in heads:
        # Buttons sort, and only the script makes them do so.
        content = element("button", title, type="button", data_sort=key) if key else Markup(element("span", title))
        sort = "ascending" if key == "share" else "none" if key else None
        text = key.startswith("c") or not key
        cells.append(element("th", content, scope="col", aria_sort=sort, class_="text" if text else None))
    body = [_line(first, place, half, low_high, slots) for place in range(len(first))]
    table = element(
        "table",
        element("thead", element("tr", *cells)),
        element("tbody", *body),
        class_="rows",
        id="rows-table",
    )
    return element(
        "div",
        _controls(),
        element("p", f"The {len(first)} most doubtful of {len(rows):,} rows.", id="rows-count", aria_live="polite"),
        element("div", table, class_="scroll", tabindex="0", role="region", aria_label="Rows, the most doubtful first"),
        element(
            "nav",
            element("button", "Previous", type="button", id="rows-previous", aria_label="Previous page"),
            element("span", "", id="rows-page"),
            element("button", "Next", type="button", id="rows-next", aria_label="Next page"),
            class_="pager",
            aria_label="Pages of the table",
            hidden=True,
        ),
    )


def _controls() -> Markup:
    options = [("", "all"), ("2", WORDS["doubtful"]), ("1", WORDS["likely"]), ("0", WORDS["settled"])]
    choices = [element("option", words, value=value) for value, words in options]
    return element(
        "form",
        element("label", "Search ", element("input", type="search", id="rows-search", autocomplete="off")),
        element("label", "Show rows that are ", element("select", *choices, id="rows-state")),
        class_="controls",
        role="search",
        hidden=True,
    )


def _line(rows: Rows, place: int, half: float | None, ends: tuple[float, float], slots: tuple[str, ...]) -> Markup:
    begin, end = rows.offsets[place], rows.offsets[place + 1]
    values, shares = rows.values[begin:end].tolist(), rows.probabilities[begin:end].tolist()
    best = int(rows.likeliest[place])
    state = STATES[int(states_of(rows.top[place : place + 1])[0])]
    around = None if half is None else float(_half(rows, half)[place])
    by_row = "" if around is None or rows.relative is None else f" ±{shown(around)}"
    cells = [element("th", str(rows.number[place]), scope="row")]
    context = [element("td", texts[place], class_="text") for texts in rows.columns.values()]
    cells += context[: rows.naming]
    of = _slots(rows, slots)
    chosen = [f"{rows.values[best]:.9g}", *([] if of is None else [element("small", f" {slots[of[best]]}")])]
    cells += [
        element("td", strip(values, shares, float(rows.prediction[place]), around, ends), class_="drawn"),
        element("td", *chosen),
        element("td", f"{rows.top[place]:.2f} ", element("small", WORDS[state], class_=state)),
        element("td", shown(rows.prediction[place]), *([element("small", by_row)] if by_row else [])),
    ]
    if rows.truth is not None:
        cells.append(element("td", "" if np.isnan(rows.truth[place]) else f"{rows.truth[place]:.9g}"))
    return element("tr", *cells, *context[rows.naming :])


def _order(rows: Rows) -> Any:
    """Return the rows with several candidates by how sure their choice is, then the others."""
    return np.argsort(np.where(rows.several, rows.top, 2.0), kind="stable")


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
