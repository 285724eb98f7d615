"""``plr identify``: which candidate of each row is the true one, and how sure that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["identify_command"]


def identify_command(
    model: Annotated[Path, typer.Argument(help="Model file that plr fit wrote, or plr.save_model.")],
    data: Annotated[Path, typer.Argument(help="Table with candidates, and with the columns of the training table.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Table to write; the ending says the format.", show_default="CSV on stdout"),
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: what was done, or without -o the rows.")] = False,
) -> None:
    """Say which candidate of each row is the true one, and how sure that is.

    Adds the columns value, probability and index (counted from 0), and source, the column it came from, where each
    candidate has a column of its own. Rows without a candidate get no answer.

    Example: plr identify model.plr readings.csv --doubtful 20
    """
    from plr.cli.common import spelled_as_options

    with spelled_as_options():
        done = identify(
            model,
            data,
            out,
            target=target,
            prior=prior,
            doubtful=doubtful,
            prefix=prefix,
            trust=trust,
            rows=as_json,
        )
    if as_json:
        typer.echo(json.dumps(done))
    elif done["out"] is not None:
        doubt = done["doubt"]
        typer.echo(
            f"Wrote {done['out']}: {done['rows']} rows. Of {doubt['rows_with_several']} with several candidates "
            f"{doubt['settled']} are settled and {doubt['doubtful']} in doubt."
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
    rows: bool = False,
) -> dict[str, Any]:
    """Read a table, identify, write; return what was done, with all new cells where ``rows`` and there is no file."""
    import numpy as np
    import pyarrow as pa

    from plr._parameters import check_integer
    from plr.cli.answers import answer_names, answers, check_fits_format, count_doubt
    from plr.cli.common import (
        add_columns,
        as_written,
        check_different,
        check_new_names,
        digest,
        emit,
        features_of,
        load,
        note,
        places_of,
        read_sets,
        to_stdout,
        working,
    )
    from plr.cli.model_report import prior_of
    from plr.cli.tables import check_columns, check_output, read_table, split_columns
    from plr.errors import ParameterError
    from plr.persistence import read_manifest

    out = to_stdout(out)
    if doubtful is not None:
        check_integer("--doubtful", doubtful, low=1)
    check_different(**{"MODEL": model, "DATA": data, "--out": out})
    if out is not None:
        check_output(out)
    trained = load(model, trust)
    table = read_table(data)
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
    names = [*(["row"] if doubtful is not None else []), *answer_names(columns)]
    check_new_names(table, names, data, prefix)
    if not rows:
        check_fits_format(table, out)
    prior_columns = prior_of(read_manifest(model), table, data, prior, target)
    sets = read_sets(table, columns, data, prior=prior_columns, drop_empty=True)
    kept = table if sets.kept is None else table.take(pa.array(sets.kept))
    if sets.kept is not None:
        note(f"{table.num_rows - len(sets)} of {table.num_rows} rows have no candidate and get no answer.")
    with working("Identifying"):
        X = features_of(trained, kept, data, [*columns, *prior_columns], places_of(sets, table, data))
        found = trained.model.identify(X, sets)
    if trained.digest is not None and isinstance(X, pa.Table) and digest(X, sets) == trained.digest:
        note(
            "Note: the model was trained on these rows and has seen their candidates; plr fit --identified OUT judges "
            "each row by models that have not."
        )
    new = answers(found, sets, columns, table.num_rows)
    if out is not None or not rows:
        table = as_written(table, data, out)
    if doubtful is not None:
        order = np.argsort(found.probability, kind="stable")[:doubtful]
        places = pa.array(order if sets.kept is None else sets.kept[order])
        table = table.take(places)
        new = {"row": places, **{name: values.take(places) for name, values in new.items()}}
    new = {prefix + name: values for name, values in new.items()}
    done: dict[str, Any] = {
        "out": None if out is None else str(out),
        "rows": table.num_rows,
        "columns": list(new),
        "doubt": count_doubt(found, sets),
    }
    if out is not None or not rows:
        emit(add_columns(table, new, data), out)
    else:
        done |= {name: values.to_pylist() for name, values in new.items()}
    return done
