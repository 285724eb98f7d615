"""``plr predict``: predictions for a table, with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["predict_command"]


def predict_command(
    model: Annotated[Path, typer.Argument(help="Model file that plr fit wrote, or plr.save_model.")],
    data: Annotated[Path, typer.Argument(help="Table with the columns of the training table; others are ignored.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Table to write; the ending says the format.", show_default="CSV on stdout"),
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: what was done, or without -o the rows.")] = False,
) -> None:
    """Predict a value for every row of a table; its columns are kept.

    Example: plr predict model.plr new.csv -o predicted.csv --interval 0.9
    """
    from plr.cli.common import spelled_as_options

    with spelled_as_options():
        done = predict(
            model, data, out, interval=interval, guaranteed=guaranteed, prefix=prefix, trust=trust, rows=as_json
        )
    if as_json:
        typer.echo(json.dumps(done))
    elif done["out"] is not None:
        typer.echo(f"Wrote {done['out']}: {done['rows']} predictions.")


def predict(
    model: Path,
    data: Path,
    out: Path | None = None,
    *,
    interval: float | None = None,
    guaranteed: bool = False,
    prefix: str = "",
    trust: str | None = None,
    rows: bool = False,
) -> dict[str, Any]:
    """Read a table, predict, write; return what was done, with all new cells where ``rows`` and there is no file."""
    from plr.cli.answers import check_fits_format
    from plr.cli.common import (
        add_columns,
        as_written,
        check_different,
        check_new_names,
        emit,
        features_of,
        load,
        to_stdout,
        working,
    )
    from plr.cli.tables import check_output, read_table
    from plr.errors import NotFittedError, ParameterError

    out = to_stdout(out)
    if guaranteed and interval is None:
        raise ParameterError("--guaranteed is about intervals; say how sure they are to be, such as --interval 0.9.")
    if interval is not None and not 0 < interval < 1:
        raise ParameterError(f"--interval must be above 0 and below 1, such as 0.9; got {interval:g}.")
    check_different(**{"MODEL": model, "DATA": data, "--out": out})
    if out is not None:
        check_output(out)
    trained = load(model, trust)
    table = read_table(data)
    names = ["prediction", *(["lower", "upper"] if interval is not None else [])]
    check_new_names(table, names, data, prefix)
    if not rows:
        check_fits_format(table, out)
    with working("Predicting"):
        X = features_of(trained, table, data)
        new: dict[str, Any] = {"prediction": trained.model.predict(X)}
        if interval is not None:
            try:
                ends = trained.model.predict_interval(X, interval, method="guaranteed" if guaranteed else "sharp")
            except NotFittedError as error:
                raise NotFittedError(
                    f"{model} cannot give intervals, since it was fitted without; fit it again, by plr fit without "
                    "--no-intervals, or call calibrate() before it is saved."
                ) from error
            new |= {"lower": ends[:, 0], "upper": ends[:, 1]}
    new = {prefix + name: values for name, values in new.items()}
    done: dict[str, Any] = {"out": None if out is None else str(out), "rows": table.num_rows, "columns": list(new)}
    if out is not None or not rows:
        emit(add_columns(as_written(table, data, out), new, data), out)
    else:
        done |= {name: values.tolist() for name, values in new.items()}
    return done
