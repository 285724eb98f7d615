"""``plr generate``: turn a labelled table into a candidate-set one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from plr.cli.common import TERMINAL, check_columns, check_files, tell_written
from plr.cli.options import parse_options

__all__ = ["generate_command"]


def generate_command(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table with true labels: CSV, TSV, Parquet, Feather, JSON Lines or Excel; - for standard input; or a "
            "folder of Parquet files."
        ),
    ],
    target: Annotated[str, typer.Option("--target", help="Column that holds the true label.")],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Table to write; the ending says the format. For a folder also a folder."),
    ],
    false_labels: Annotated[
        int | None, typer.Option(help="False labels per row, at most or exactly.", show_default="4")
    ] = None,
    set_size: Annotated[
        str | None,
        typer.Option(help="upto: a random number of false labels per row; fixed: always all.", show_default="upto"),
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            help="Where false labels come from: uniform, gaussian, marginal, units, digits, folding or biased."
        ),
    ] = "uniform",
    option: Annotated[
        list[str] | None,
        typer.Option(help="Option of the mechanism, as NAME=VALUE, such as spread=0.2 or span=[0,10]; repeatable."),
    ] = None,
    missing: Annotated[float, typer.Option(help="Share of rows whose truth is left out.")] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same table.")] = 0,
    truth_column: Annotated[
        str | None, typer.Option(help="Keep the true labels under this name; otherwise they are not written.")
    ] = None,
    row: Annotated[
        str | None,
        typer.Option(
            help="Write one line per candidate, with row ids in this column: one of the table, or a new one of numbers."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Turn a labelled table into a candidate-set one.

    Example: plr generate concrete.csv --target compressive_strength --false-labels 4 -o candidates.parquet
    """
    check_files({"DATA": data}, {"--out": out})
    check_columns(data, {"target": target})
    from plr.sources.recipe import carries_recipe
    from plr.tables.generation import generate_table

    settings: dict[str, Any] = {
        "false_labels": false_labels,
        "set_size": set_size,
        "mechanism": mechanism,
        "missing": missing,
        "random_state": seed,
        **parse_options(option or [], "spread=0.2", texts=False),
    }
    done, made = generate_table(data, target, out, settings, truth_column=truth_column, row=row, front=TERMINAL)
    candidates = int(done.counts.get("candidates", 0))
    if as_json:
        typer.echo(json.dumps({**done.to_dict(), "candidates": candidates, "recipe": made}))
        return
    tell_written(done, f"{done.rows:,} rows", f", {candidates / done.rows:.2f} candidates a row")
    if "sample_rows" in made:
        typer.echo(f"Taken from a sample of {made['sample_rows']:,} rows: {' and '.join(made['from_sample'])}.")
    if not out.is_dir() and not carries_recipe(out):
        TERMINAL.note(f"Made by (a {out.suffix} file cannot carry it): {json.dumps(made)}")
        if truth_column is not None:
            TERMINAL.note(f"So tell the next command which column is the truth: --truth {truth_column}")
