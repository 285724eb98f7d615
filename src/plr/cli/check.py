"""``plr check``: can this data be learned from? In words, before fitting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from plr.cli.common import TERMINAL, check_columns, check_files, warnings_as_notes
from plr.cli.options import (
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

__all__ = ["check_command"]


def check_command(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table with candidates: CSV, TSV, Parquet, Feather, JSON Lines or Excel; - for standard input; or a "
            "folder of Parquet files."
        ),
    ],
    target: Candidates,
    ignore: Ignore = None,
    text: Text = None,
    truth: Truth = None,
    prior: Prior = None,
    prior_is: PriorIs = "share",
    row: Row = None,
    candidate_features: CandidateFeatures = None,
    match_score: MatchScore = None,
    record: Record = None,
    known: Known = None,
    drop_empty: DropEmpty = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same answer.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Say whether a table can be learned from: how ambiguous it is, and whether its features can tell.

    Takes seconds. The answer is fine, thin, or that the data cannot tell; the exit code is 0 in all three cases.

    Example: plr check readings.csv --target value
    """
    check_files({"DATA": data}, {})
    asked = {"target": target, "ignore": ignore, "truth": truth, "prior": prior}
    asked |= {"text": text, "row": row, "candidate_features": candidate_features, "record": record}
    check_columns(data, {**asked, "match_score": match_score}, one_or_several(known))
    from plr.tables.fit_table import check_table

    with warnings_as_notes():
        found, features = check_table(
            data,
            asked,
            drop_empty=drop_empty,
            seed=seed,
            front=TERMINAL,
            known=one_or_several(known),
            prior_is=prior_is,
            match_score=match_score,
        )
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "columns": features.describe()}))
    else:
        typer.echo(found.summary())
