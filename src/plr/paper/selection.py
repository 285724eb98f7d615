"""From fits to one number per table cell: which epoch, which hyper-parameters, by which score."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from plr._parameters import check_choice

if TYPE_CHECKING:
    from plr.paper.protocol import Protocol

__all__ = [
    "DISTINCT_SELECTIONS",
    "EPOCH_RULES",
    "SELECTIONS",
    "choose",
    "in_order",
    "parse_selection",
    "short_selection",
    "summarise",
    "tabulate",
]

EPOCH_RULES = ("last", "loss", "evidence", "truth")
"""Which epoch's network is kept: the last, or the best on validation rows by the method's own loss on their candidates,
by the evidence of their candidates, or by their true labels."""

# What hyper-parameters are chosen by, on validation rows.
_SCORES = ("loss", "evidence", "truth")

SELECTIONS = ("last", *_SCORES, *(f"{epoch}+{score}" for epoch in EPOCH_RULES for score in _SCORES if epoch != score))
"""Every way to choose: an epoch rule, ``+``, a score for the setting. The epoch rule's own score need not be named;
that of ``last`` is the method's own loss. The two may differ because own losses of different Huber thresholds, or of
different beta2, are not on one scale."""

_PLACE = ("dataset", "model", "method", "false_labels", "set_size", "mechanism", "fraction")
_place_of = itemgetter(*_PLACE)

Row = dict[str, Any]


def parse_selection(name: str) -> tuple[str, str]:
    """Return the epoch rule and the setting's score that a selection names.

    >>> parse_selection("last"), parse_selection("evidence"), parse_selection("last+truth")
    (('last', 'loss'), ('evidence', 'evidence'), ('last', 'truth'))
    """
    epoch, plus, score = name.partition("+")
    check_choice("selection", epoch if plus and epoch in EPOCH_RULES and score in _SCORES else name, SELECTIONS)
    return epoch, score if plus else ("loss" if epoch == "last" else epoch)


def short_selection(name: str) -> str:
    """Return the short name of a selection that has two.

    >>> short_selection("last+loss"), short_selection("loss+loss"), short_selection("last+truth")
    ('last', 'loss', 'last+truth')
    """
    epoch, score = parse_selection(name)
    return epoch if parse_selection(epoch)[1] == score else name


DISTINCT_SELECTIONS = tuple(name for name in SELECTIONS if name == short_selection(name))
"""Every way to choose, under one name each."""


def choose(rows: Iterable[Row], selection: str = "last", *, per: str = "trial") -> list[Row]:
    """Choose one fit for each trial of each table cell.

    Parameters
    ----------
    rows : iterable of dict
        What `plr.paper.store.Store.rows` returns.
    selection : str, default="last"
        One of `SELECTIONS`.
    per : {"trial", "cell"}, default="trial"
        Whether each trial chooses its hyper-parameters by its own validation rows, or all trials of a table cell choose
        together by the mean of their scores.

    Returns
    -------
    list of dict
        The rows chosen, with ``selection`` added. Where no setting trained, ``test_mse`` is None.
    """
    epoch, score = parse_selection(selection)
    check_choice("per", per, ("trial", "cell"))
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["rule"] == epoch:
            place = _place_of(row)
            groups[place if per == "cell" else (*place, row["trial"])].append(row)
    chosen: list[Row] = []
    for group in groups.values():
        setting = _best_setting(group, f"val_{score}")
        chosen += [{**row, "selection": selection} for row in group if row["setting"] == setting]
    return chosen


def summarise(chosen: Iterable[Row]) -> list[Row]:
    """Turn chosen fits into one row per table cell: mean and deviation over trials, published numbers beside them."""
    from plr.paper.published import find_published

    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in chosen:
        groups[(*_place_of(row), row["selection"])].append(row)
    summary: list[Row] = []
    for group in groups.values():
        first = group[0]
        errors = [row["test_mse"] for row in group if row["test_mse"] is not None]
        mean = statistics.fmean(errors) if errors else math.nan
        # `statistics.stdev` is exact, and a hundred times as slow.
        squares = math.fsum((error - mean) ** 2 for error in errors)
        setting, times = Counter(row["setting"] for row in group).most_common(1)[0]
        published = find_published(first)
        summary.append(
            {
                **{name: first[name] for name in _PLACE},
                "selection": first["selection"],
                "trials": len(errors),
                "failed_trials": len(group) - len(errors),
                "test_mse": mean if errors else None,
                "test_mse_std": math.sqrt(squares / (len(errors) - 1)) if len(errors) > 1 else None,
                "published_mse": None if published is None else published.mse,
                "published_std": None if published is None else published.std,
                "misprint": None if published is None else published.misprint,
                "setting": json.loads(setting),
                "setting_trials": times,
            }
        )
    return summary


def tabulate(rows: Iterable[Row], selection: str = "last", *, per: str = "trial") -> list[Row]:
    """Choose and summarise: one row per table cell, for one selection or for ``"all"``."""
    fits = list(rows)
    names = SELECTIONS if selection == "all" else (selection,)
    return [row for name in names for row in summarise(choose(fits, name, per=per))]


def in_order(rows: Iterable[Row], protocol: Protocol) -> list[Row]:
    """Sort rows as the protocol names data sets, models and methods; sizes ascend."""
    known = {"model": protocol.models, "dataset": protocol.datasets, "method": protocol.methods}

    def place(row: Row) -> tuple[Any, ...]:
        # A method that brings its own model comes after those of the protocol.
        named = [(*names, row[part]).index(row[part]) for part, names in known.items()]
        return (*named, row["false_labels"] or 0, row["fraction"])

    return sorted(rows, key=place)


def _best_setting(group: list[Row], column: str) -> str:
    """Return the setting with the least score, averaged where it occurs in several trials."""
    scores: dict[str, list[float]] = defaultdict(list)
    for row in group:
        usable = row[column] is not None and row["test_mse"] is not None
        scores[row["setting"]].append(row[column] if usable else math.inf)
    if len(scores) == 1:
        return next(iter(scores))
    # The first in the order of the store wins a tie, so that the answer does not depend on the order of the work.
    return min(sorted(scores), key=lambda setting: statistics.fmean(scores[setting]))
