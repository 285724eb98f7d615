"""``plr report``: the page of a model, or tables, figures and a page of a benchmark's results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plr._parameters import check_choice
from plr.cli.common import TERMINAL, warnings_as_notes
from plr.errors import DataError, ParameterError

if TYPE_CHECKING:
    from plr.paper.report import Content

__all__ = ["report_command"]

# What the database of a benchmark begins with, as every file of SQLite's does.
_DATABASE = b"SQLite format 3\0"


def report_command(
    subject: Annotated[
        Path,
        typer.Argument(
            metavar="STORE|MODEL", help="Folder that plr benchmark wrote its results to, or a model file of plr fit's."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for tables, figures and the page of a benchmark; HTML file for that of a model."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="For a model: table whose rows the page is about.", show_default="the training rows"),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(help="For a model: column of the table with true labels.", show_default="as the table says"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="For a model: column or columns of candidates.", show_default="as in training"),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(help="For a model: column that says how likely each candidate is.", show_default="as in training"),
    ] = None,
    trust: Annotated[
        str | None, typer.Option(help="For a model: types of foreign estimators that the file may hold: a,b,c.")
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            help="For a model: FILE.py:NAME of the torch module, or of what makes it, whose weights it holds."
        ),
    ] = None,
    selection: Annotated[
        str | None,
        typer.Option(
            help="For a benchmark: how epoch and hyper-parameters are chosen: last, loss, evidence, truth, or two "
            "joined by +, such as last+truth.",
            show_default="the preset's",
        ),
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(
            help="For a benchmark: trial: each trial chooses its hyper-parameters; cell: all trials choose together.",
            show_default="trial",
        ),
    ] = None,
    notes: Annotated[
        Path | None,
        typer.Option(
            help="For a benchmark: CSV file of reasons for cells that disagree: columns dataset, model, method, "
            "false_labels, note."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written, and the figures, as JSON.")] = False,
) -> None:
    """Write the page of a model, or tables, figures and a page of a benchmark's results.

    The page of a model is one file: predictions against candidates, the rows still in doubt, what was done. That of a
    benchmark has Tables 1 to 3, published numbers beside measured ones. Prints the paths of what was written.

    Example: plr report model.plr -o page.html, or plr report runs/paper -o runs/paper/report
    """
    of_model = {"data": data, "truth": truth, "target": target, "prior": prior, "trust": trust, "module": module}
    of_store = {"selection": selection, "per": per, "notes": notes}
    model = _is_model(subject)
    for option, value in (of_store if model else of_model).items():
        if value is not None:
            which = "a model" if model else "a benchmark"
            raise ParameterError(f"--{option} has no meaning for the report of {which}; leave it out.")
    if model:
        _report_model(subject, out, as_json, **of_model)
    else:
        _report_store(subject, out, as_json, selection, per or "trial", notes)


def _is_model(path: Path) -> bool:
    """Whether a path names a model file rather than the results of a benchmark."""
    if path.suffix == ".plr" and not path.is_dir():
        return True
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            begin = file.read(len(_DATABASE))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from error
    # A model file begins with the length of its header and a brace; those of earlier formats with "PK".
    if begin[8:9] != b"{" and not begin.startswith(b"PK") and begin != _DATABASE:
        raise ParameterError(
            f"{path} is neither a model file nor a folder of benchmark results; for a table: "
            f"plr report MODEL --data {path}"
        )
    return begin != _DATABASE


def _report_model(subject: Path, out: Path, as_json: bool, **choices: Any) -> None:
    from plr.cli.model_report import report_model

    with warnings_as_notes():
        content = report_model(subject, out, **choices)
    if as_json:
        found = {
            "page": str(out),
            "new_rows": content.new,
            "facts": content.facts,
            "diagnosis": content.verdict,
        }
        typer.echo(json.dumps(found))
        return
    if content.rows is None:
        TERMINAL.note("The file keeps nothing about single rows; plr report MODEL --data DATA shows those of a table.")
    typer.echo(out)


def _report_store(store: Path, out: Path, as_json: bool, selection: str | None, per: str, notes: Path | None) -> None:
    check_choice("per", per, ("trial", "cell"))
    from plr.paper.report import write_report

    content, paths = write_report(store, out, selection=selection, per=per, notes=notes)
    if as_json:
        typer.echo(json.dumps(_summarise_report(content, paths)))
        return
    for line in _closing_lines(content):
        TERMINAL.note(line)
    for path in paths:
        typer.echo(path)


def _closing_lines(content: Content) -> list[str]:
    from plr.paper.agreement import RULE_IN_SHORT
    from plr.paper.tables import describe_selection

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
        lines.append(
            f"Not finished: {total - done} of {total} cells are missing{what}; run plr benchmark again to resume."
        )
    return lines


def _summarise_report(content: Content, paths: list[Path]) -> dict[str, Any]:
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
