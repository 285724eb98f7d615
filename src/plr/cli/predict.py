"""``plr predict``: predictions for a table, with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from plr._parameters import check_number
from plr.cli.common import TERMINAL, loaded, tell_written
from plr.cli.options import JsonRows, ModelFile, ModuleCode, NewTable, Prefix, Trust

__all__ = ["predict_command"]


def predict_command(
    model: ModelFile,
    data: Annotated[
        Path,
        typer.Argument(
            help="Table with the columns of the training table, or folder of Parquet files; others are ignored."
        ),
    ],
    out: NewTable = None,
    interval: Annotated[
        float | None,
        typer.Option(help="Also write lower and upper ends that hold this share of the true values, such as 0.9."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="How intervals are made: adaptive, wider where the model knows less; constant, of one width; or "
            "guaranteed, with 95 % confidence where enough rows were checked, and else very wide.",
            autocompletion=lambda: ["adaptive", "constant", "guaranteed"],
            show_default="adaptive",
        ),
    ] = None,
    prefix: Prefix = "",
    trust: Trust = None,
    module: ModuleCode = None,
    as_json: JsonRows = False,
) -> None:
    """Predict a value for every row of a table; its columns are kept.

    Example: plr predict model.plr new.csv -o predicted.csv --interval 0.9
    """
    if interval is not None:
        check_number("coverage", interval, low=0.0, below=1.0, open_low=True)
    with loaded(model, data, out, trust, module) as trained:
        done = trained.write_predictions(
            data, out, interval=interval, method=method, prefix=prefix, cells=as_json, front=TERMINAL
        )
    if as_json:
        typer.echo(json.dumps({**done.to_dict(), "diagnosis": trained.diagnosis}))
    else:
        tell_written(done, f"{done.rows:,} predictions")
