"""``plr identify``: which candidate of each row is the true one, and how sure that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from plr._parameters import check_integer
from plr.cli.common import TERMINAL, check_columns, check_files, loaded, tell_written
from plr.cli.options import (
    JsonRows,
    ModelFile,
    ModuleCode,
    NewTable,
    Prefix,
    Prior,
    TrainedRecord,
    TrainedRow,
    Trust,
)

__all__ = ["identify_command"]


def identify_command(
    model: ModelFile,
    data: Annotated[
        Path,
        typer.Argument(help="Table with candidates and the columns of the training table, or folder of Parquet files."),
    ],
    out: NewTable = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column or columns of the candidates.", show_default="as in training"),
    ] = None,
    prior: Prior = None,
    row: TrainedRow = None,
    record: TrainedRecord = None,
    all_candidates: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Write one line for each candidate, with its probability, in place of one for each row.",
        ),
    ] = False,
    doubtful: Annotated[
        int | None,
        typer.Option(help="Write only this many rows, the most doubtful first, each with its row number from 0."),
    ] = None,
    prefix: Prefix = "",
    trust: Trust = None,
    module: ModuleCode = None,
    as_json: JsonRows = False,
) -> None:
    """Say which candidate of each row is the true one, and how sure that is.

    Adds the columns value, probability and index (counted from 0), and source, the column it came from, where each
    candidate has a column of its own. Rows without a candidate get no answer. Of a table with one line per candidate,
    the line of the likeliest candidate is written for each row, and with --all every line; of other tables --all
    writes each row once for each of its candidates.

    Example: plr identify model.plr readings.csv --doubtful 20
    """
    if doubtful is not None:
        check_integer("doubtful", doubtful, low=1)
    check_files({"MODEL": model, "DATA": data}, {"--out": out})
    check_columns(data, {"target": target, "prior": prior, "row": row, "record": record})
    with loaded(model, data, out, trust, module) as trained:
        done = trained.write_identified(
            data,
            out,
            target=target,
            prior=prior,
            row=row,
            record=record,
            all_candidates=all_candidates,
            doubtful=doubtful,
            prefix=prefix,
            cells=as_json,
            front=TERMINAL,
        )
    from plr.tables.identification_columns import doubt_of

    doubt = doubt_of(done.counts)
    if as_json:
        typer.echo(json.dumps({**done.to_dict(), "doubt": doubt, "diagnosis": trained.diagnosis}))
    elif out is not None:
        if done.source.in_batches:
            tell_written(done, f"{done.rows:,} rows")
        else:
            typer.echo(f"Wrote {out}: {done.rows:,} {'candidates' if all_candidates else 'rows'}. ", nl=False)
        several = f"{doubt['rows_with_several']:,} {'rows ' if all_candidates else ''}with several candidates"
        typer.echo(f"Of {several} {doubt['settled']:,} are settled and {doubt['doubtful']:,} in doubt.")
