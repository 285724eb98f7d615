"""``plr identify``: which candidate of each row is the true one, and how sure that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.cli.common import Trained
    from plr.streaming.folder import Batch

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
    from plr.cli.common import warnings_as_notes
    from plr.cli.streams import tell_written

    with warnings_as_notes():
        done = identify(
            model,
            data,
            out,
            target=target,
            prior=prior,
            doubtful=doubtful,
            prefix=prefix,
            trust=trust,
            module=module,
            rows=as_json,
        )
    if as_json:
        typer.echo(json.dumps(done))
    elif done["out"] is not None:
        doubt = done["doubt"]
        if "files" in done:
            tell_written(done, f"{done['rows']:,} rows")
        else:
            typer.echo(f"Wrote {done['out']}: {done['rows']} rows. ", nl=False)
        typer.echo(
            f"Of {doubt['rows_with_several']} with several candidates {doubt['settled']} are settled and "
            f"{doubt['doubtful']} in doubt."
        )


def identify(
    model: Path,
    data: Path,
    out: Path | None = None,
    *,
    target: str | None = None,
    prior: str | None = None,
    doubtful: int | None = None,
    prefix: str = "",
    trust: str | None = None,
    module: str | None = None,
    rows: bool = False,
) -> dict[str, Any]:
    """Read a table, identify, write; return what was done, with all new cells where ``rows`` and there is no file."""
    import pyarrow as pa

    from plr._parameters import check_integer
    from plr.cli.answers import Judge, MostDoubtful, answer_names, check_fits_format, doubt_of
    from plr.cli.common import (
        add_columns,
        as_written,
        check_different,
        check_new_names,
        diagnosis_of,
        digest,
        emit,
        load,
        note,
        tell_caution,
        to_stdout,
        working,
    )
    from plr.cli.reading import RowReader
    from plr.cli.tables import check_output, read_table_and_texts
    from plr.streaming.folder import is_stream

    out = to_stdout(out)
    if doubtful is not None:
        check_integer("--doubtful", doubtful, low=1)
    check_different(**{"MODEL": model, "DATA": data, "--out": out})
    if is_stream(data):
        return _identify_folder(model, data, out, target, prior, doubtful, prefix, trust, module, rows)
    if out is not None:
        check_output(out)
    trained = load(model, trust, module)
    table, texts = read_table_and_texts(data)
    columns, prior_columns = _roles(trained, model, table, data, target, prior)
    check_new_names(table, [*(["row"] if doubtful is not None else []), *answer_names(columns)], data, prefix)
    if not rows:
        check_fits_format(table, out)
    reader = RowReader(trained, data, [*columns, *prior_columns])
    with working("Identifying"):
        found = Judge(trained, reader, columns, prior_columns, data).judge(table)
    if found.counts["without"]:
        note(f"{found.counts['without']} of {table.num_rows} rows have no candidate and get no answer.")
    for text in reader.notes():
        note(text)
    if trained.digest is not None and isinstance(found.X, pa.Table) and digest(found.X, found.sets) == trained.digest:
        note(
            "Note: the model was trained on these rows and has seen their candidates; plr fit --identified OUT judges "
            "each row by models that have not."
        )
    if out is not None or not rows:
        table = as_written(table, texts, out)
    new = found.new
    if doubtful is not None:
        new = {"row": pa.array(range(table.num_rows), pa.int64()), **new}
    table = add_columns(table, new, data, prefix)
    if doubtful is not None:
        chosen = MostDoubtful(doubtful, prefix + "probability")
        chosen.add(table)
        table = chosen.table(table)
    tell_caution(trained.model)
    names = [prefix + name for name in new]
    done: dict[str, Any] = {
        "out": None if out is None else str(out),
        "rows": table.num_rows,
        "columns": names,
        "doubt": doubt_of(found.counts),
        "diagnosis": diagnosis_of(trained.model),
    }
    if out is not None or not rows:
        emit(table, out)
    else:
        done |= {name: table[name].to_pylist() for name in names}
    return done


def _roles(
    trained: Trained, model: Path, table: pa.Table, data: Path, target: str | None, prior: str | None
) -> tuple[list[str], list[str]]:
    """Return the columns of candidates, and those of how likely each is."""
    from plr.cli.model_report import prior_of
    from plr.cli.tables import check_columns, split_columns
    from plr.errors import ParameterError
    from plr.persistence import read_manifest

    columns = split_columns(target, table, data) or list(trained.target)
    if not columns:
        raise ParameterError(f"{model} does not say which column holds the candidates; name it with --target.")
    absent = [name for name in columns if name not in table.column_names]
    if absent and target is None:
        raise ParameterError(
            f"{data} lacks {', '.join(map(repr, absent))}, which held the candidates in training; name "
            f"{'it' if len(columns) == 1 else 'the columns'} with --target."
        )
    check_columns(table, columns, data)
    return columns, prior_of(read_manifest(model), table, data, prior, target)


def _identify_folder(
    model: Path,
    data: Path,
    out: Path | None,
    target: str | None,
    prior: str | None,
    doubtful: int | None,
    prefix: str,
    trust: str | None,
    module: str | None,
    rows: bool,
) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    from plr.cli.answers import Judge, MostDoubtful, answer_fields, doubt_of
    from plr.cli.common import add_columns, diagnosis_of, emit, load, note, tell_caution
    from plr.cli.reading import RowReader
    from plr.cli.streams import Stream
    from plr.errors import EmptySetError
    from plr.streaming.folder import Folder
    from plr.streaming.mapping import Made

    trained = load(model, trust, module)
    folder = Folder.open(data)
    columns, prior_columns = _roles(trained, model, folder.schema.empty_table(), data, target, prior)
    fields = [*([pa.field("row", pa.int64())] if doubtful is not None else []), *answer_fields(columns)]
    fields = [field.with_name(prefix + field.name) for field in fields]
    options = {"target": columns, "prior": prior_columns, "prefix": prefix}
    one_table = doubtful is not None
    stream = Stream.open(data, out, "identify", fields, options, folder=folder, model=model, one_table=one_table)
    if doubtful is None:
        stream.refuse_rows(rows)
    reader = RowReader(trained, data, [*columns, *prior_columns])
    reader.prepare(stream.folder)
    judge = Judge(trained, reader, columns, prior_columns, data)

    def make(batch: Batch) -> Made:
        found = judge.judge(batch.table, stream.place(batch))
        new = found.new
        if doubtful is not None:
            new = {"row": pa.array(np.arange(batch.first, batch.first + batch.table.num_rows)), **new}
        return Made(add_columns(batch.table, new, data, prefix), found.counts)

    names = [field.name for field in fields]
    if doubtful is None:
        done = {**stream.run("Identifying", make), "columns": names}
    else:
        chosen = MostDoubtful(doubtful, prefix + "probability")
        done = {**stream.scan("Identifying", make, chosen.add), "columns": names}
        table = chosen.table(stream.schema.empty_table())
        done["rows"] = table.num_rows
    without = int(done["counts"].get("without", 0))
    if without == stream.folder.rows:
        raise EmptySetError(f"{data}: no row has a candidate in {', '.join(map(repr, columns))}.")
    if without:
        note(f"{without:,} of {stream.folder.rows:,} rows have no candidate and get no answer.")
    stream.tell(reader.notes())
    if trained.fingerprint is not None and trained.fingerprint == stream.folder.fingerprint():
        note(
            "Note: the model was trained on this very folder and has seen these candidates, which matters little where "
            "rows are many."
        )
    tell_caution(trained.model)
    if doubtful is not None:
        if out is not None or not rows:
            emit(table.cast(stream.schema), out)
        else:
            done |= {name: table[name].to_pylist() for name in names}
    done["doubt"] = doubt_of(done.pop("counts"))
    done["diagnosis"] = diagnosis_of(trained.model)
    return done
