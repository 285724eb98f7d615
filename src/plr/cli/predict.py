"""``plr predict``: predictions for a table, with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from plr.tables import TableModel
    from plr.tables.writing import Done

__all__ = ["predict_command"]


def predict_command(
    model: Annotated[Path, typer.Argument(help="Model file that plr fit wrote, or plr.save_model.")],
    data: Annotated[
        Path,
        typer.Argument(
            help="Table with the columns of the training table, or folder of Parquet files; others are ignored."
        ),
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
    interval: Annotated[
        float | None,
        typer.Option(help="Also write lower and upper ends that hold this share of the true values, such as 0.9."),
    ] = None,
    guaranteed: Annotated[
        bool,
        typer.Option(
            "--guaranteed", help="Make the intervals so wide that they hold even if the worst candidate is true."
        ),
    ] = False,
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
    """Predict a value for every row of a table; its columns are kept.

    Example: plr predict model.plr new.csv -o predicted.csv --interval 0.9
    """
    from plr.cli.common import counted, piped, tell_caution, tell_written, warnings_as_notes

    with warnings_as_notes(), piped():
        trained, done = predict(
            model,
            data,
            out,
            interval=interval,
            guaranteed=guaranteed,
            prefix=prefix,
            trust=trust,
            module=module,
            cells=as_json,
        )
        tell_caution(trained)
    if as_json:
        typer.echo(json.dumps({**done.told(), "diagnosis": trained.diagnosis}))
    else:
        tell_written(done, f"{counted(done, done.rows)} predictions")


def predict(
    model: Path,
    data: Path,
    out: Path | None = None,
    *,
    interval: float | None = None,
    guaranteed: bool = False,
    prefix: str = "",
    trust: str | None = None,
    module: str | None = None,
    cells: bool = False,
) -> tuple[TableModel, Done]:
    """Load a model, predict the rows of a table, and write them; return the model, and what was done."""
    from plr.cli.common import check_different, load, terminal, to_stdout

    out = to_stdout(out)
    check_different(**{"MODEL": model, "DATA": data, "--out": out})
    trained, _ = load(model, trust, module)
    done = trained.write_predictions(
        data, out, interval=interval, guaranteed=guaranteed, prefix=prefix, cells=cells, front=terminal()
    )
    return trained, done
