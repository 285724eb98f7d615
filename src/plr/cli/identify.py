"""``plr identify``: which candidate of each row is the true one, and how sure that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["identify_command"]


def identify_command(
    model: Annotated[Path, typer.Argument(help="Model file that plr fit wrote, or plr.save_model.")],
    data: Annotated[
        Path,
        typer.Argument(help="Table with candidates and the columns of the training table, or folder of Parquet files."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Table to write; the ending says the format. For a folder also another folder.",
            show_default="CSV on stdout",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column or columns of the candidates.", show_default="as in training"),
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="Column that says how likely each candidate is, in the form of the target.")
    ] = None,
    doubtful: Annotated[
        int | None,
        typer.Option(help="Write only this many rows, the most doubtful first, each with its row number from 0."),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Put before the names of the new columns.")] = "",
    trust: Annotated[
        str | None, typer.Option(help="Types of foreign estimators that the model file may hold: a,b,c.")
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            help="FILE.py:NAME of the torch module, or of what makes it, where the model file holds its weights."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: what was done, or without -o the rows.")] = False,
) -> None:
    """Say which candidate of each row is the true one, and how sure that is.

    Adds the columns value, probability and index (counted from 0), and source, the column it came from, where each
    candidate has a column of its own. Rows without a candidate get no answer.

    Example: plr identify model.plr readings.csv --doubtful 20
    """
    from plr._parameters import check_integer
    from plr.cli.common import (
        check_different,
        load,
        piped,
        tell_caution,
        tell_written,
        terminal,
        to_stdout,
        warnings_as_notes,
    )
    from plr.tables.identification_columns import doubt_of

    out = to_stdout(out)
    with warnings_as_notes(), piped():
        if doubtful is not None:
            check_integer("--doubtful", doubtful, low=1)
        check_different(**{"MODEL": model, "DATA": data, "--out": out})
        trained, _ = load(model, trust, module)
        done = trained.write_identified(
            data, out, target=target, prior=prior, doubtful=doubtful, prefix=prefix, cells=as_json, front=terminal()
        )
        tell_caution(trained)
    doubt = doubt_of(done.counts)
    if as_json:
        typer.echo(json.dumps({**done.told(), "doubt": doubt, "diagnosis": trained.diagnosis}))
    elif out is not None:
        if done.source.in_batches:
            tell_written(done, f"{done.rows:,} rows")
        else:
            typer.echo(f"Wrote {out}: {done.rows} rows. ", nl=False)
        typer.echo(
            f"Of {doubt['rows_with_several']} with several candidates {doubt['settled']} are settled and "
            f"{doubt['doubtful']} in doubt."
        )
