"""The report of a benchmark: tables, figures and a page, from stored rows alone."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plr._parameters import check_choice
from plr.atomic_file import write_files
from plr.errors import StoreError
from plr.paper import figures
from plr.paper.agreement import (
    COUNTED_CELLS,
    RULE_IN_SHORT,
    RULE_IN_WORDS,
    Agreement,
    Verdict,
    agreement_of,
    best_agreement,
    read_notes,
)
from plr.paper.observations import Observation, check_observations, measured_means, published_means
from plr.paper.protocol import Protocol
from plr.paper.published import Place
from plr.paper.ranks import FEWEST_DATASETS, Ranking, build_rankings, ranks_csv
from plr.paper.report.rank_chart import rank_chart
from plr.paper.selection import DISTINCT_SELECTIONS, choose, parse_selection, short_selection, summarise
from plr.paper.store import Store
from plr.paper.table_formats import (
    FORMATS,
    SYMBOLS,
    format_deviation,
    format_number,
    format_result,
    table1_text,
    table_text,
)
from plr.paper.tables import (
    FEWEST_TRIALS,
    Characteristics,
    ResultTable,
    beside_models,
    build_table1,
    build_tables,
    dataset_title,
    describe_selection,
    model_title,
)
from plr.paper.times import MethodTime, measure_times, times_csv
from plr.progress import describe_seconds
from plr.report.pages import render_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Content", "View", "gather", "render_report", "write_report"]

# How a verdict is shown: a symbol, words, and a class for its colour.
_MARKS = {
    verdict: {"symbol": SYMBOLS[verdict], "words": words, "kind": kind}
    for verdict, words, kind in (
        (Verdict.AGREES, "agrees", "agrees"),
        (Verdict.BETTER, "better than published", "better"),
        (Verdict.HIGHER, "higher than published", "apart"),
        (Verdict.LOWER, "lower than published", "apart"),
        (Verdict.FAILED, "failed to train", "apart"),
        (Verdict.MISPRINT, "published number misprinted", "open"),
    )
}


@dataclass(frozen=True)
class View:
    """What one selection rule makes of the store.

    Attributes
    ----------
    agreement : Agreement
    tables : list of ResultTable
    rankings : list of Ranking
    observations : list of Observation
        Empty where there are too few trials to judge them by.
    summary : list of dict
        One row for each table cell.
    """

    agreement: Agreement
    tables: list[ResultTable]
    rankings: list[Ranking]
    observations: list[Observation]
    summary: list[dict[str, Any]]

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
    times : list of MethodTime
    fewest_trials : int
        Of any table cell.
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
    times: list[MethodTime]
    fewest_trials: int

    @property
    def chosen(self) -> View:
        """What the chosen rule makes of the store."""
        return self.views[0]


def write_report(
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    selection: str | None = None,
    per: str = "trial",
    notes: str | os.PathLike[str] | None = None,
) -> tuple[Content, list[Path]]:
    """Write tables, figures and the page of a store into a folder.

    Parameters
    ----------
    store : path
        Folder of the store, or the file in it.
    out : path
        Folder to write into; made if needed, files of an earlier report are replaced.
    selection : str, optional
        How epoch and hyper-parameters are chosen, one of `plr.paper.SELECTIONS`; by default the protocol's.
    per : {"trial", "cell"}, default="trial"
        Whether trials choose hyper-parameters each or together.
    notes : path, optional
        CSV file of reasons for cells that disagree, with the columns dataset, model, method, false_labels and note.

    Returns
    -------
    content : Content
        What the report shows.
    paths : list of Path
        What was written; the page is the last.
    """
    figures.require_matplotlib()
    reasons = None if notes is None else read_notes(notes)
    with Store.open(store) as opened:
        content = gather(opened, selection, per, reasons)
    drawn = _draw(content)
    svgs = {name: figures.to_svg(figure) for name, _, _, figure in drawn}
    files: dict[str, bytes] = {}
    for form in FORMATS:
        files[f"table1.{form}"] = table1_text(content.table1, form).encode()
        for table in content.chosen.tables:
            files[f"{table.name}.{form}"] = table_text(table, form).encode()
    files["ranks.csv"] = ranks_csv(content.chosen.rankings).encode()
    files["times.csv"] = times_csv(content.times).encode()
    for name, _, _, figure in drawn:
        files[f"{name}.svg"] = svgs[name]
        files[f"{name}.png"] = figures.to_png(figure)
    pictures = [(name, title, caption, *_for_page(svgs[name].decode(), name)) for name, title, caption, _ in drawn]
    # The page is the last: it stands for the whole.
    files["index.html"] = render_report(content, pictures).encode()
    return content, write_files(Path(out), files)


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
    name = short_selection(store.protocol.selection if selection is None else selection)
    check_choice("per", per, ("trial", "cell"))
    rows, cells = store.rows(), store.cells()
    by_epoch: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_epoch.setdefault(row["rule"], []).append(row)
    agreements, views = [], []
    finished = Counter(
        (cell["dataset"], cell["model"], cell["method"], cell["false_labels"], cell["fraction"])
        for cell in cells
        if cell["state"] == "done"
    )
    fewest = min(finished.values(), default=0)
    for way in ("trial", "cell"):
        for rule in DISTINCT_SELECTIONS:
            chosen = choose(by_epoch.get(parse_selection(rule)[0], []), rule, per=way)
            if not chosen:
                continue
            chosen = beside_models(chosen)
            summary = summarise(chosen)
            agreements.append(agreement_of(summary, rule, way, notes))
            if way == per:
                tables = build_tables(chosen, summary, per=per, notes=notes)
                observed = check_observations(measured_means(summary)) if fewest >= FEWEST_TRIALS else []
                views.append(View(agreements[-1], tables, build_rankings(tables), observed, summary))
    views.sort(key=lambda view: view.selection != name)
    if not views or views[0].selection != name:
        raise StoreError(f"{store.path} has no finished cell to report under the selection {name!r}.")
    runs = []
    for run in store.runs():
        own = [cell["seconds"] for cell in cells if cell["run"] == run["id"] and cell["state"] == "done"]
        runs.append({**run, "cells": len(own), "seconds": sum(seconds or 0.0 for seconds in own)})
    return Content(
        protocol=store.protocol,
        runs=runs,
        states=dict(Counter(cell["state"] for cell in cells)),
        failures=[cell for cell in cells if cell["state"] == "failed"],
        diverged=sum(row["problem"] is not None and row["rule"] == "last" for row in rows),
        table1=build_table1(store.protocol.datasets),
        views=views,
        agreements=agreements,
        best=best_agreement(agreements),
        published_observations=check_observations(published_means()),
        times=measure_times(cells, runs, store.protocol),
        fewest_trials=fewest,
    )


def _draw(content: Content) -> list[tuple[str, str, str, Figure]]:
    """Draw what the store has numbers for: Figure 1, and test error against the number of false labels by model.

    Returns
    -------
    list of (name of the files, title, caption, figure)
    """
    view = content.chosen
    chosen = f"Chosen: {describe_selection(view.selection, view.agreement.per)}."
    drawn = []
    fractions = figures.draw_fractions(view.summary)
    if fractions is not None:
        caption = f"Test MSE against the share of the training rows used; bars are one standard deviation. {chosen}"
        drawn.append(("figure1", "Figure 1: more training data", caption, fractions))
    for table in view.tables:
        sizes = figures.draw_sizes(view.summary, table.model)
        if sizes is not None:
            beside = " Large open markers: published." if table.has_published else ""
            caption = f"Test MSE against the number of false labels; both axes are logarithmic.{beside} {chosen}"
            title = f"Test error and false labels: {model_title(table.model)}"
            drawn.append((f"sizes-{table.model}", title, caption, sizes))
    return drawn


def _for_page(svg: str, name: str) -> tuple[str, str]:
    """Return an SVG to be put into a page beside others, and its natural width.

    It has ids of its own, the page's text colour, and attributes instead of styles, which the page's policy forbids;
    its size is left to the page.

    >>> _for_page('<svg width="9pt" height="9pt"><g id="a" style="fill: red; stroke: none"/></svg>', "f")
    ('<svg stroke-linejoin="round" stroke-linecap="butt"><g id="f-a" fill="red" stroke="none"/></svg>', '9pt')
    """

    def attributes(found: re.Match[str]) -> str:
        rules = (rule.split(":", 1) for rule in found[1].split(";") if rule.strip())
        return " ".join(f'{name.strip()}="{value.strip()}"' for name, value in rules)

    head, body = svg[svg.index("<svg") :].rstrip().split(">", 1)
    width = head.split(' width="', 1)[1].split('"', 1)[0]
    # The one rule of matplotlib's style element, which is removed, as attributes that all elements inherit.
    head = re.sub(r' (?:width|height)="[^"]*"', "", head) + ' stroke-linejoin="round" stroke-linecap="butt">'
    body = re.sub(r"<(metadata|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    body = re.sub(r'style="([^"]*)"', attributes, body)
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", body)
    return head + body.replace(figures.INK, "currentColor"), width


def render_report(content: Content, pictures: list[tuple[str, str, str, str, str]]) -> str:
    """Return the page; a picture is a name, a title, a caption, an SVG and its natural width."""
    settings = content.protocol.settings().items()
    return render_page(
        "plr.paper.report",
        "benchmark",
        style="".join(f"#{name} {{ --natural: {width}; }}\n" for name, *_, width in pictures),
        filters={
            "result_number": format_number,
            "deviation": format_deviation,
            "duration": describe_seconds,
            "dataset_title": dataset_title,
        },
        content=content,
        views=content.views,
        done=content.states.get("done", 0),
        total=sum(content.states.values()),
        settings=[(name.replace("_", " "), _words(value)) for name, value in settings if value != []],
        several_devices=len({time.device for time in content.times}) > 1,
        rank_chart=rank_chart,
        fewest_datasets=FEWEST_DATASETS,
        enough_trials=FEWEST_TRIALS,
        agreements={(agreement.selection, agreement.per): agreement for agreement in content.agreements},
        figures=pictures,
        marks=_MARKS,
        counted_cells=COUNTED_CELLS,
        rule_in_short=RULE_IN_SHORT,
        rule_in_words=RULE_IN_WORDS,
        lower=Verdict.LOWER,
        describe_selection=describe_selection,
        format_result=format_result,
    )


def _words(value: object) -> list[str]:
    """Return what a setting is as words that are not to be broken."""
    if isinstance(value, list):
        return [" ".join(_words(item)) for item in value]
    return [value if isinstance(value, str) else json.dumps(value)]
