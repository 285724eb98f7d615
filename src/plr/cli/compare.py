"""``plr compare``: which learner and weighting suit a table, by scores that need no true label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from plr._parameters import check_choice, check_integer
from plr.atomic_file import check_writable
from plr.cli.common import TERMINAL, check_columns, check_files, warnings_as_notes
from plr.cli.options import (
    PARTS,
    CandidateFeatures,
    Candidates,
    DropEmpty,
    Ignore,
    Known,
    MatchScore,
    Prior,
    PriorIs,
    Record,
    Row,
    Text,
    Truth,
    one_or_several,
)
from plr.errors import ParameterError

__all__ = ["compare_command"]

_PAGES = (".html", ".htm")


def compare_command(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table with candidates: CSV, TSV, Parquet, Feather, JSON Lines or Excel; - for standard input; or a "
            "folder of Parquet files."
        ),
    ],
    target: Candidates,
    learners: Annotated[
        str, typer.Option(help="Learners to compare: a,b,c of those that plr fit --learner takes.")
    ] = "linear,boosting,density,auto",
    weightings: Annotated[
        str, typer.Option(help="Weightings to compare, each with every learner: a,b,c of those of plr fit --weighting.")
    ] = "auto",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Also write a page (.html), or the table (.csv, .parquet, .feather, .jsonl)."),
    ] = None,
    ignore: Ignore = None,
    text: Text = None,
    truth: Truth = None,
    prior: Prior = None,
    prior_is: PriorIs = "share",
    weights: Annotated[str | None, typer.Option(help="Column of sample weights.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="Column of groups whose rows are left out of training together.")
    ] = None,
    row: Row = None,
    candidate_features: CandidateFeatures = None,
    match_score: MatchScore = None,
    record: Record = None,
    one_to_one: Annotated[
        bool, typer.Option("--one-to-one", help="No two rows can have the same record as their truth.")
    ] = False,
    known: Known = None,
    drop_empty: DropEmpty = False,
    loss: Annotated[str, typer.Option(help="What missing a candidate costs.")] = "squared",
    effort: Annotated[
        str | None, typer.Option(help="How much auto computes: low, normal or high.", show_default="normal")
    ] = None,
    folds: Annotated[int, typer.Option(help="Parts of the rows, each predicted by models fitted to the others.")] = 5,
    rows: Annotated[
        int | None, typer.Option(help="Compare on so many rows, drawn at random.", show_default="all")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same scores.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Fits at the same time; the scores do not depend on it.", show_default="1")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compare learners and weightings on a table, without true labels, and on checked rows.

    Each row is predicted by models that have not seen it. The likelihood says how well the candidate sets agree with
    these predictions; differences have standard errors.

    Example: plr compare readings.csv --target value --learners linear,boosting,auto -o comparison.html
    """
    check_files({"DATA": data}, {"--out": out})
    check_integer("folds", folds, low=2)
    named = {"learners": _names("learners", learners), "weightings": _names("weightings", weightings)}
    if out is not None:
        _check_out(out)
    for part, name in (("loss", loss), ("effort", effort)):
        if name is not None:
            check_choice(part, name, PARTS[part])
    asked = {"target": target, "ignore": ignore, "truth": truth, "prior": prior, "weights": weights, "groups": groups}
    asked |= {"text": text, "row": row, "candidate_features": candidate_features, "record": record}
    check_columns(data, {**asked, "match_score": match_score}, one_or_several(known))
    from plr.tables.comparison import compare_table

    with warnings_as_notes():
        found = compare_table(
            data,
            asked,
            **named,
            known=one_or_several(known),
            prior_is=prior_is,
            match_score=match_score,
            one_to_one=one_to_one,
            drop_empty=drop_empty,
            rows=rows,
            cv=folds,
            random_state=seed,
            n_jobs=jobs,
            front=TERMINAL,
            loss=loss,
            effort=effort,
        )
    if out is not None:
        if out.suffix.lower() in _PAGES:
            from plr.report.comparison_page import write_comparison_page

            write_comparison_page(found, out, data.name)
        else:
            from plr.tables import write_table

            write_table(found.to_table(), out)
    typer.echo(json.dumps(found.to_dict()) if as_json else found.summary())
    if out is not None and not as_json:
        typer.echo(f"Wrote {out}.")


def _names(option: str, typed: str) -> list[str]:
    names = [name.strip() for name in typed.split(",") if name.strip()]
    if not names:
        raise ParameterError("{parameter} names nothing; give names, separated by commas.", parameter=option)
    known = [name for name in PARTS[option.removesuffix("s")] if name != "module"]
    return [check_choice(option, name, known) for name in names]


def _check_out(out: Path) -> None:
    """Refuse an output that cannot be written, before any work is done."""
    if out.suffix.lower() not in _PAGES:
        from plr.sources.files import format_of

        format_of(out)
    check_writable(out)
