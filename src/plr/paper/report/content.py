"""All that a report shows, gathered from a store's rows alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plr._parameters import check_choice
from plr.errors import StoreError
from plr.paper.agreement import Agreement, Place, agreement_of, best_agreement, distinct_selections
from plr.paper.observations import Observation, check_observations, measured_means, published_means
from plr.paper.protocol import Protocol
from plr.paper.selection import choose, parse_selection, summarise
from plr.paper.store import Store
from plr.paper.tables import Characteristics, ResultTable, build_table1, build_tables

__all__ = ["Content", "View", "gather"]


@dataclass(frozen=True)
class View:
    """What one selection rule makes of the store."""

    agreement: Agreement
    tables: list[ResultTable]
    observations: list[Observation]

    @property
    def selection(self) -> str:
        """Name of the rule."""
        return self.agreement.selection


@dataclass(frozen=True)
class Content:
    """All that a report shows.

    Attributes
    ----------
    protocol : Protocol
    runs : list of dict
        As `Store.runs` returns them, with ``cells`` and ``seconds`` done by each added.
    states : dict
        Number of cells by state.
    failures : list of dict
        Cells that could not be done.
    diverged : int
        Fits that diverged (NaN or infinity), under some setting.
    table1 : list of Characteristics
    views : list of View
        One for each selection rule, the chosen one first.
    agreements : list of Agreement
        For each rule and each way to choose hyper-parameters.
    best : Agreement or None
        The one that agrees with the most published cells.
    published_observations : list of Observation
        The same statements over the published tables.
    summary : list of dict
        The table cells under the chosen rule, for figures.
    """

    protocol: Protocol
    runs: list[dict[str, Any]]
    states: dict[str, int]
    failures: list[dict[str, Any]]
    diverged: int
    table1: list[Characteristics]
    views: list[View]
    agreements: list[Agreement]
    best: Agreement | None
    published_observations: list[Observation]
    summary: list[dict[str, Any]]

    @property
    def chosen(self) -> View:
        """What the chosen rule makes of the store."""
        return self.views[0]


def gather(
    store: Store, selection: str | None = None, per: str = "trial", notes: Mapping[Place, str] | None = None
) -> Content:
    """Gather what a report of a store shows.

    Parameters
    ----------
    store : Store
    selection : str, optional
        The rule to show; by default the protocol's.
    per : {"trial", "cell"}, default="trial"
        Whether trials choose hyper-parameters each or together.
    notes : mapping, optional
        Reasons for cells that disagree, as `plr.paper.agreement.read_notes` returns them.
    """
    name = _plain(store.protocol.selection if selection is None else selection)
    check_choice("per", per, ("trial", "cell"))
    rows = store.rows()
    agreements, views, summary = _views(rows, per, notes)
    if name not in summary:
        raise StoreError(f"{store.path} has no finished cell to report under the selection {name!r}.")
    views.sort(key=lambda view: view.selection != name)
    cells = store.cells()
    return Content(
        protocol=store.protocol,
        runs=[_with_work(run, cells) for run in store.runs()],
        states=dict(Counter(cell["state"] for cell in cells)),
        failures=[cell for cell in cells if cell["state"] == "failed"],
        diverged=sum(row["problem"] is not None and row["rule"] == "last" for row in rows),
        table1=build_table1(store.protocol.datasets),
        views=views,
        agreements=agreements,
        best=best_agreement(agreements),
        published_observations=check_observations(published_means()),
        summary=summary[name],
    )


def _views(
    rows: list[dict[str, Any]], shown_per: str, notes: Mapping[Place, str] | None
) -> tuple[list[Agreement], list[View], dict[str, list[dict[str, Any]]]]:
    """Return all agreements, and the views and summaries of the rules that are shown."""
    by_epoch: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_epoch.setdefault(row["rule"], []).append(row)
    agreements, views, summaries = [], [], {}
    for per in ("trial", "cell"):
        for selection in distinct_selections():
            chosen = choose(by_epoch.get(parse_selection(selection)[0], []), selection, per=per)
            if not chosen:
                continue
            summary = summarise(chosen)
            agreement = agreement_of(summary, selection, per, notes)
            agreements.append(agreement)
            if per == shown_per:
                tables = build_tables(chosen, summary, per=per, notes=notes)
                views.append(View(agreement, tables, check_observations(measured_means(summary))))
                summaries[selection] = summary
    return agreements, views, summaries


def _plain(selection: str) -> str:
    """Return the short name of a rule that has two."""
    epoch, score = parse_selection(selection)
    short = "last" if (epoch, score) == ("last", "loss") else epoch
    return short if parse_selection(short) == (epoch, score) else selection


def _with_work(run: dict[str, Any], cells: list[dict[str, Any]]) -> dict[str, Any]:
    own = [cell["seconds"] for cell in cells if cell["run"] == run["id"] and cell["state"] == "done"]
    return {**run, "cells": len(own), "seconds": sum(second or 0.0 for second in own)}
