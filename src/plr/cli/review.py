"""``plr review``: the rows that are most worth checking next."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plr._parameters import check_integer
from plr.cli.common import TERMINAL, check_files, load, warnings_as_notes
from plr.cli.options import (
    ModelFile,
    ModuleCode,
    NewTable,
    Prior,
    TrainedRecord,
    TrainedRow,
    Trust,
    one_or_several,
)
from plr.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["review_command"]


def review_command(
    model: ModelFile,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Table with candidates to choose from, or folder of Parquet files.",
            show_default="the rows that the model was fitted to",
        ),
    ] = None,
    out: NewTable = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many rows to choose.")] = 20,
    target: Annotated[
        str | None, typer.Option(help="Column or columns of the candidates.", show_default="as in training")
    ] = None,
    prior: Prior = None,
    row: TrainedRow = None,
    record: TrainedRecord = None,
    known: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows of DATA that were checked before, as of plr fit: a column or files; they are not asked again.",
            show_default="those that the model was fitted with",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same rows of DATA.")] = 0,
    trust: Trust = None,
    module: ModuleCode = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Choose the rows that are most worth checking next, as a table to fill in.

    Each line has a row's id, or its number from 0 where there are no ids, its candidates with their probabilities, and
    empty cells: write the true one into value, or into answer "none of these" or "cannot tell", and leave the line as
    it is where nobody looked. Then fit again with --known and this file. Rows are chosen for what their answers teach
    about all rows, and some at random; chosen and probability say how, and are to be kept.

    Example: plr review model.plr -o review.csv
    """
    check_integer("n", n, low=1)
    check_files({"MODEL": model, "DATA": data}, {"--out": out})
    if data is None and (target or prior or row or record or known):
        raise ParameterError("--target, --prior, --row, --record and --known are about a table; name the table.")
    if as_json and out is None:
        raise ParameterError("--json tells what was written; name a file with --out.")
    with warnings_as_notes():
        trained, manifest = load(model, trust, module)
        if data is None:
            table = _kept(model, manifest, n)
        else:
            asked = {"target": target, "prior": prior, "row": row, "record": record}
            known_rows = one_or_several(known)
            table = trained.review(n, data, **asked, known=known_rows, random_state=seed, front=TERMINAL)
    if not table.num_rows:
        raise DataError("There is no row left to check: all that have several candidates were looked at.")
    from plr.sources.source import TableSource
    from plr.tables.output import TableOutput

    TableOutput(TableSource(table, model), out, [], {}, front=TERMINAL).write_one(table)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "rows": table.num_rows}))
    elif out is not None:
        typer.echo(
            f"Wrote {out}: {table.num_rows:,} rows to check. Fill in value or answer, and fit again with --known {out}."
        )


def _kept(model: Path, manifest: dict[str, Any], n: int) -> pa.Table:
    """Return the rows worth checking that the model file keeps."""
    from plr.report.model_page import read_review
    from plr.report.row_table import FIRST_COLUMNS

    queue = read_review(manifest)
    if queue is None:
        raise ParameterError(
            f"{model} keeps no rows to check: it was fitted with --no-page, or by a learner that knows which rows are "
            f"in doubt only with --identified. Give the table it was fitted to: plr review {model} DATA."
        )
    if n > len(queue):
        more = f"; for more, give the table it was fitted to: plr review {model} DATA -n {n}"
        TERMINAL.note(f"{model} keeps {len(queue)} rows to check{more}.")
    # The file keeps all columns, for the page; a table to fill in has those that tell rows apart.
    return replace(queue, columns=dict(islice(queue.columns.items(), FIRST_COLUMNS))).first(n).to_table()
