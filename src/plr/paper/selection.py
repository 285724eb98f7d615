"""From fits to one number per table cell: which epoch, which hyper-parameters, judged by what."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from plr._parameters import check_choice
from plr.errors import ParameterError

if TYPE_CHECKING:
    from plr.paper.protocol import Protocol

__all__ = ["EPOCH_RULES", "SCORES", "SELECTIONS", "choose", "in_order", "parse_selection", "summarise", "tabulate"]

EPOCH_RULES = ("last", "loss", "evidence", "truth")
"""Which epoch's network is kept: the last, or the best on validation rows by the method's own loss on their candidates,
by the evidence of their candidates, or by their true labels."""

SCORES = ("loss", "evidence", "truth")
"""What hyper-parameters are chosen by, on validation rows."""

SELECTIONS = ("last", *SCORES, *(f"{epoch}+{score}" for epoch in EPOCH_RULES for score in SCORES if epoch != score))
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
    check_choice("selection", epoch if plus and epoch in EPOCH_RULES and score in SCORES else name, SELECTIONS)
    return epoch, score if plus else ("loss" if epoch == "last" else epoch)


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
    if per not in ("trial", "cell"):
        raise ParameterError(f'per must be "trial" or "cell", got {per!r}.')
    column = f"val_{score}"
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["rule"] == epoch:
            place = _place_of(row)
            groups[place if per == "cell" else (*place, row["trial"])].append(row)
    chosen: list[Row] = []
    for group in groups.values():
        setting = _best_setting(group, column)
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
        mean = statistics.fmean(errors) if errors else None
        setting, times = Counter(row["setting"] for row in group).most_common(1)[0]
        published = find_published(first)
        summary.append(
            {
                **{name: first[name] for name in _PLACE},
                "selection": first["selection"],
                "trials": len(errors),
                "failed_trials": len(group) - len(errors),
                "test_mse": mean,
                "test_mse_std": _deviation(errors, mean),
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
    places = [
        {name: place for place, name in enumerate(names)}
        for names in (protocol.models, protocol.datasets, protocol.methods)
    ]

    def place(row: Row) -> tuple[Any, ...]:
        # A method that brings its own model comes after those of the protocol.
        named = [
            known.get(row[name], len(known)) for name, known in zip(("model", "dataset", "method"), places, strict=True)
        ]
        return (*named, row["false_labels"] or 0, row["fraction"])

    return sorted(rows, key=place)


def _deviation(errors: list[float], mean: float | None) -> float | None:
    """Return the standard deviation; `statistics.stdev` is exact, and a hundred times as slow."""
    if mean is None or len(errors) < 2:
        return None
    return math.sqrt(math.fsum((error - mean) ** 2 for error in errors) / (len(errors) - 1))


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
