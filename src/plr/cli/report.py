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
    from plr._parameters import check_choice
    from plr.report import write_report

    check_choice("--per", per, ("trial", "cell"))
    content, paths = write_report(store, out, selection=selection, per=per, notes=notes)
    if as_json:
        typer.echo(json.dumps(summarise_report(content, paths)))
        return
    for line in _closing_lines(content):
        typer.echo(line, err=True)
    for path in paths:
        typer.echo(path)


def _closing_lines(content: Content) -> list[str]:
    from plr.benchmark.agreement import RULE_IN_SHORT
    from plr.benchmark.tables import describe_selection

    lines = []
    agreement = content.chosen.agreement
    if agreement.counted:
        lines.append(
            f"{agreement.agreeing} of {agreement.counted} measured means agree with the published ones: "
            f"{RULE_IN_SHORT}; Supervised, IDent and PIDent may also be lower. "
            f"Chosen ({agreement.selection}): {describe_selection(agreement.selection, agreement.per)}."
        )
    total, done = sum(content.states.values()), content.states.get("done", 0)
    if done < total:
        failed = content.states.get("failed", 0)
        what = f", {failed} of which failed" if failed else ""
        lines.append(f"Not finished: {total - done} of {total} cells are missing{what}; plr benchmark goes on with it.")
    return lines


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
