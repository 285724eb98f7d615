"""``plr report``: tables, figures and a page of a benchmark's results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from plr.report.content import Content

__all__ = ["report_command"]


def report_command(
    store: Annotated[Path, typer.Argument(help="Folder that plr benchmark wrote its results to.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write tables, figures and the page into.")],
    selection: Annotated[
        str | None,
        typer.Option(
            help="How epoch and hyper-parameters are chosen: last, loss, evidence, truth, or two joined by +, such as "
            "last+truth.",
            show_default="the preset's",
        ),
    ] = None,
    per: Annotated[
        str, typer.Option(help="trial: each trial chooses its hyper-parameters; cell: all trials choose together.")
    ] = "trial",
    notes: Annotated[
        Path | None,
        typer.Option(
            help="CSV file of reasons for cells that disagree: columns dataset, model, method, false_labels, note."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written, and the counts, as JSON.")] = False,
) -> None:
    """Write Tables 1 to 3, the figures and one page, published numbers beside measured ones.

    Prints the paths of what was written, the page last.

    Example: plr report runs/paper -o runs/paper/report
    """
    from plr.report import write_report

    content, paths = write_report(store, out, selection=selection, per=per, notes=notes)
    if as_json:
        typer.echo(json.dumps(summarise_report(content, paths)))
        return
    agreement = content.chosen.agreement
    if agreement.counted:
        typer.echo(
            f"{agreement.agreeing} of {agreement.counted} published means agree under the selection "
            f"{agreement.selection}.",
            err=True,
        )
    for path in paths:
        typer.echo(path)


def summarise_report(content: Content, paths: list[Path]) -> dict[str, Any]:
    """Return what a report came to, as plain values."""
    best = content.best
    return {
        "files": [str(path) for path in paths],
        "selection": content.chosen.selection,
        "per": content.chosen.agreement.per,
        "agreement": [
            {
                "selection": agreement.selection,
                "per": agreement.per,
                "agreeing": agreement.agreeing,
                "counted": agreement.counted,
                "unmeasured": agreement.unmeasured,
            }
            for agreement in content.agreements
        ],
        "best": None if best is None else {"selection": best.selection, "per": best.per},
        "observations": [
            {"number": observation.number, "holds": observation.holds} for observation in content.chosen.observations
        ],
    }
