"""``plr predict``: predictions for a table, with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from plr.cli.common import Trained
    from plr.streaming.folder import Batch

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
    from plr.cli.common import warnings_as_notes
    from plr.cli.streams import tell_written

    with warnings_as_notes():
        done = predict(
            model,
            data,
            out,
            interval=interval,
            guaranteed=guaranteed,
            prefix=prefix,
            trust=trust,
            module=module,
            rows=as_json,
        )
    if as_json:
        typer.echo(json.dumps(done))
    elif "files" in done:
        tell_written(done, f"{done['rows']:,} predictions")
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
    module: str | None = None,
    rows: bool = False,
) -> dict[str, Any]:
    """Read a table, predict, write; return what was done, with all new cells where ``rows`` and there is no file."""
    from plr.cli.answers import check_fits_format
    from plr.cli.common import (
        add_columns,
        as_written,
        check_different,
        check_new_names,
        diagnosis_of,
        emit,
        load,
        tell_caution,
        to_stdout,
        working,
    )
    from plr.cli.reading import features_of
    from plr.cli.tables import check_output, read_table_and_texts
    from plr.errors import ParameterError
    from plr.streaming.folder import is_stream

    out = to_stdout(out)
    if guaranteed and interval is None:
        raise ParameterError("--guaranteed is about intervals; say how sure they are to be, such as --interval 0.9.")
    if interval is not None and not 0 < interval < 1:
        raise ParameterError(f"--interval must be above 0 and below 1, such as 0.9; got {interval:g}.")
    check_different(**{"MODEL": model, "DATA": data, "--out": out})
    if is_stream(data):
        return _predict_folder(model, data, out, interval, guaranteed, prefix, trust, module, rows)
    if out is not None:
        check_output(out)
    trained = load(model, trust, module)
    table, texts = read_table_and_texts(data)
    check_new_names(table, _names(interval), data, prefix)
    if not rows:
        check_fits_format(table, out)
    with working("Predicting"):
        X = features_of(trained, table, data)
        made = predictions(trained, X, model, interval, guaranteed)
    new = {prefix + name: values for name, values in made.items()}
    tell_caution(trained.model)
    done: dict[str, Any] = {
        "out": None if out is None else str(out),
        "rows": table.num_rows,
        "columns": list(new),
        "diagnosis": diagnosis_of(trained.model),
    }
    if out is not None or not rows:
        emit(add_columns(as_written(table, texts, out), new, data), out)
    else:
        done |= {name: values.tolist() for name, values in new.items()}
    return done


def predictions(
    trained: Trained, X: Any, model: Path, interval: float | None = None, guaranteed: bool = False
) -> dict[str, NDArray[np.float64]]:
    """Return the columns that are added to some rows."""
    from plr.errors import NotFittedError

    made: dict[str, NDArray[np.float64]] = {"prediction": trained.model.predict(X)}
    if interval is not None:
        try:
            ends = trained.model.predict_interval(X, interval, method="guaranteed" if guaranteed else "sharp")
        except NotFittedError as error:
            raise NotFittedError(
                f"{model} cannot give intervals, since it was fitted without; fit it again, by plr fit without "
                "--no-intervals, or call calibrate() before it is saved."
            ) from error
        made |= {"lower": ends[:, 0], "upper": ends[:, 1]}
    return made


def _names(interval: float | None) -> list[str]:
    return ["prediction", *(["lower", "upper"] if interval is not None else [])]


def _predict_folder(
    model: Path,
    data: Path,
    out: Path | None,
    interval: float | None,
    guaranteed: bool,
    prefix: str,
    trust: str | None,
    module: str | None,
    rows: bool,
) -> dict[str, Any]:
    import pyarrow as pa

    from plr.cli.common import add_columns, diagnosis_of, load, tell_caution
    from plr.cli.reading import RowReader
    from plr.cli.streams import Stream
    from plr.streaming.mapping import Made

    names = [prefix + name for name in _names(interval)]
    options = {"interval": interval, "guaranteed": guaranteed, "prefix": prefix}
    trained = load(model, trust, module)
    stream = Stream.open(data, out, "predict", [pa.field(name, pa.float64()) for name in names], options, model=model)
    stream.refuse_rows(rows)
    reader = RowReader(trained, data)
    reader.prepare(stream.folder)

    def make(batch: Batch) -> Made:
        X = reader.read(batch.table, stream.place(batch))
        new = predictions(trained, X, model, interval, guaranteed)
        return Made(add_columns(batch.table, {prefix + name: values for name, values in new.items()}, data), {})

    done = stream.run("Predicting", make)
    stream.tell(reader.notes())
    tell_caution(trained.model)
    del done["counts"]
    return {**done, "columns": names, "diagnosis": diagnosis_of(trained.model)}
