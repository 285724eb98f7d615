"""``plr datasets``: which of the paper's data sets are at hand, and where."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plr.atomic_file import make_folder
from plr.cli.common import TERMINAL

if TYPE_CHECKING:
    from plr.paper.datasets import Availability

__all__ = ["datasets_command"]


def datasets_command(
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder to look in first; by default the one PLR_DATA_HOME names, if any.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write all data sets into this folder as Parquet, to be used as --data-dir.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the paper's data sets: source, rows, columns, checksum state.

    Example: plr datasets --export data
    """
    from plr.paper.datasets import available

    if export is not None:
        for path in export_datasets(export, data_dir):
            TERMINAL.note(f"Wrote {path}")
    rows = available(data_dir)
    if as_json:
        typer.echo(json.dumps({"datasets": [dataclasses.asdict(row) for row in rows]}))
    else:
        _print_listing(rows)


def export_datasets(folder: Path, data_home: Path | None = None) -> list[Path]:
    """Write every data set, features and target, as ``<name>.parquet``; all are loaded before the first is written."""
    from plr.paper.datasets import REGISTRY, load
    from plr.tables import write_table

    tables = {}
    for name, info in REGISTRY.items():
        dataset = load(name, data_home)
        tables[folder / f"{name}.parquet"] = dataset.table.append_column(info.target, [dataset.target])
    make_folder(folder)
    for path, table in tables.items():
        write_table(table, path)
    return list(tables)


def _print_listing(rows: list[Availability]) -> None:
    from rich.console import Console
    from rich.table import Table

    listing = Table("name", box=None, pad_edge=False)
    for heading in ("rows", "columns"):
        listing.add_column(heading, justify="right")
    listing.add_column("checksum")
    listing.add_column("source", overflow="fold")
    for row in rows:
        listing.add_row(row.name, str(row.rows), str(row.columns), row.checksum, row.source or "-")
    Console().print(listing)
    for row in rows:
        if row.problem is not None:
            TERMINAL.note(f"{row.name}: {row.problem}")
