"""``plr check``: can this data be learned from? In words, before fitting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["check_command"]

# Of a folder with more rows, so many are looked at.
_SAMPLE = 100_000


def check_command(
    data: Annotated[
        Path, typer.Argument(help="Table with candidates: CSV, Parquet, Feather, JSON Lines, or folder of Parquet.")
    ],
    target: Annotated[
        str, typer.Option("--target", help="Column of candidate sets, or several columns with a candidate each: a,b,c.")
    ],
    ignore: Annotated[str | None, typer.Option(help="Columns that are no features: a,b,c.")] = None,
    truth: Annotated[
        str | None, typer.Option(help="Column of true labels, if there is one; it is left out of the features.")
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="Column that says how likely each candidate is, in the form of the target.")
    ] = None,
    drop_empty: Annotated[bool, typer.Option("--drop-empty", help="Leave out rows without a candidate.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same answer.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Say whether a table can be learned from: how ambiguous it is, and whether its features can tell.

    Takes seconds. The answer is fine, thin, or that the data cannot tell; the exit code is 0 in all three cases.

    Example: plr check readings.csv --target value
    """
    from plr.cli.common import warnings_as_notes

    asked = {"target": target, "ignore": ignore, "truth": truth, "prior": prior}
    with warnings_as_notes():
        found, columns = check_table(data, asked, drop_empty=drop_empty, seed=seed)
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "columns": columns}))
    else:
        typer.echo(found.summary())


def check_table(
    data: Path, asked: dict[str, str | None], *, drop_empty: bool = False, seed: int = 0
) -> tuple[Any, list[dict[str, Any]]]:
    """Read a table and look at it; return the diagnosis, and what its columns are."""
    from plr import check
    from plr.cli.common import note, terminal, working
    from plr.columns.features import learn_features
    from plr.sources.folder import open_source
    from plr.tables.fitting import tell_columns
    from plr.tables.roles import read_roles
    from plr.tables.rows import take_with_candidates

    front = terminal()
    source = open_source(data)
    with working("Reading"):
        table, numbers = source.sample(_SAMPLE, seed)
    if table.num_rows < source.rows:
        note(f"Looked at a sample: {table.num_rows:,} of {source.rows:,} rows, from all over the folder.")
    roles = read_roles(table, source, asked, front)
    table, sets, place = take_with_candidates(
        table, roles.target, source, numbers, roles.prior, drop_empty=drop_empty, front=front
    )
    features = learn_features(table, roles.aside, source)
    tell_columns(features, front)
    with working("Looking"):
        X, _ = features.apply(table, source, place=place)
        found = check(X, sets, random_state=seed)
    return found, features.to_dict()["columns"]
