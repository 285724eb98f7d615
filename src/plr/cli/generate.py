"""``plr generate``: turn a labelled table into a candidate-set one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["generate_command"]


def generate_command(
    data: Annotated[
        Path, typer.Argument(help="Table with true labels: CSV, Parquet, Feather, JSON Lines, or folder of Parquet.")
    ],
    target: Annotated[str, typer.Option("--target", help="Column that holds the true label.")],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Table to write; the ending says the format. For a folder also a folder."),
    ],
    false_labels: Annotated[
        int | None, typer.Option(help="False labels per row, at most or exactly.", show_default="4")
    ] = None,
    set_size: Annotated[
        str | None,
        typer.Option(help="upto: a random number of false labels per row; fixed: always all.", show_default="upto"),
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            help="Where false labels come from: uniform, gaussian, marginal, units, digits, folding or biased."
        ),
    ] = "uniform",
    option: Annotated[
        list[str] | None,
        typer.Option(help="Option of the mechanism, as NAME=VALUE, such as spread=0.2 or span=[0,10]; repeatable."),
    ] = None,
    missing: Annotated[float, typer.Option(help="Share of rows whose truth is left out.")] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same table.")] = 0,
    truth_column: Annotated[
        str | None, typer.Option(help="Keep the true labels under this name; otherwise they are not written.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Turn a labelled table into a candidate-set one.

    Example: plr generate concrete.csv --target compressive_strength --false-labels 4 -o candidates.parquet
    """
    from plr.cli.options import parse_options
    from plr.cli.streams import tell_written
    from plr.cli.tables import carries_recipe

    made = generate(
        data,
        target,
        out,
        false_labels=false_labels,
        set_size=set_size,
        mechanism=mechanism,
        options=parse_options(option or [], "spread=0.2", texts=False),
        missing=missing,
        seed=seed,
        truth_column=truth_column,
    )
    if as_json:
        typer.echo(json.dumps(made))
        return
    if "files" in made:
        tell_written(made, f"{made['rows']:,} rows", f", {made['candidates'] / made['rows']:.2f} candidates a row")
        if "sample_rows" in made["recipe"]:
            taken = " and ".join(made["recipe"]["from_sample"])
            typer.echo(f"Taken from a sample of {made['recipe']['sample_rows']:,} rows: {taken}.")
    else:
        typer.echo(f"Wrote {out}: {made['rows']} rows, {made['candidates'] / made['rows']:.2f} candidates a row.")
    if not out.is_dir() and not carries_recipe(out):
        typer.echo(f"Made by (a {out.suffix} file cannot carry it): {json.dumps(made['recipe'])}", err=True)
        if truth_column is not None:
            typer.echo(f"So tell the next command which column is the truth: --truth {truth_column}", err=True)


def generate(
    data: Path,
    target: str,
    out: Path,
    *,
    false_labels: int | None = None,
    set_size: str | None = None,
    mechanism: str = "uniform",
    options: dict[str, Any] | None = None,
    missing: float = 0.0,
    seed: int = 0,
    truth_column: str | None = None,
) -> dict[str, Any]:
    """Read a labelled table, hide its labels among false ones, write it; return what was done.

    The candidate column takes the target's name and place. Parquet and Feather files carry the recipe in their
    metadata, where :func:`plr.cli.tables.read_recipe` finds it.
    """
    from plr.cli.tables import check_output, read_table, write_table
    from plr.errors import ParameterError
    from plr.generation import make_candidates, recipe
    from plr.streaming.folder import is_stream

    settings: dict[str, Any] = {
        "false_labels": false_labels,
        "set_size": set_size,
        "mechanism": mechanism,
        "missing": missing,
        "random_state": seed,
        **(options or {}),
    }
    made = {**recipe(**settings), "source": data.name, "target": target, "truth_column": truth_column}
    if is_stream(data):
        return _generate_folder(data, target, out, settings, made, truth_column)
    check_output(out)
    if _is_same_file(data, out):
        raise ParameterError(f"--out {out} is the input itself, whose true labels would be lost; name another file.")
    table = read_table(data)
    _check_names(table, target, truth_column, data)
    y = _labels(table, target, data)
    sets = make_candidates(y, X=_features(table, target, mechanism), **settings)
    table = table.set_column(table.column_names.index(target), target, sets.to_arrow())
    if truth_column is not None:
        table = table.append_column(truth_column, [y])
    write_table(table, out, recipe=made)
    return {"out": str(out), "rows": len(sets), "candidates": len(sets.values), "recipe": made}


def _generate_folder(
    data: Path, target: str, out: Path, settings: dict[str, Any], made: dict[str, Any], truth_column: str | None
) -> dict[str, Any]:
    import dataclasses

    import pyarrow as pa

    from plr.cli.common import check_different, working
    from plr.cli.streams import Stream
    from plr.cli.tables import with_recipe
    from plr.errors import ParameterError
    from plr.streaming.generate_candidates import plan_generation
    from plr.streaming.writing import is_folder_output

    check_different(**{"DATA": data, "--out": out})
    truth = [] if truth_column is None else [pa.field(truth_column, pa.float64())]
    stream = Stream.open(data, out, "generate", [], {"recipe": made}, whole=True)
    folder = stream.folder
    _check_names(folder.schema.empty_table(), target, truth_column, data)
    if any(target in dict(file.keys) for file in folder.files) and is_folder_output(out):
        raise ParameterError(
            f"{target!r} is told by names of folders, which cannot hold candidates; let -o name a file."
        )
    given = {name: value for name, value in settings.items() if name != "random_state"}
    with working("Looking at the labels") as tell:
        generation = plan_generation(folder, target, given, settings["random_state"], tell)
    told = generation.describe()
    made = {**made, **told, "options": {**made["options"], **told["options"]}}
    schema = folder.schema.set(folder.schema.get_field_index(target), pa.field(target, pa.list_(pa.float64())))
    schema = pa.schema([*schema, *truth], metadata=folder.schema.metadata)
    stream = dataclasses.replace(stream, schema=with_recipe(schema, made))
    done = stream.write("Hiding the labels", generation.pieces(truth_column))
    candidates = int(done.pop("counts").get("candidates", 0))
    return {**done, "candidates": candidates, "recipe": made}


def _check_names(table: pa.Table, target: str, truth_column: str | None, data: Path) -> None:
    from plr.cli.tables import check_columns
    from plr.errors import ParameterError

    check_columns(table, [target], data)
    if truth_column is not None and not truth_column.strip():
        raise ParameterError("--truth-column needs a name, or leave it out; it was given an empty one.")
    if truth_column in table.column_names:
        raise ParameterError(f"--truth-column {truth_column}: {data} has a column of that name; choose another.")


def _labels(table: pa.Table, target: str, data: Path) -> NDArray[np.float64]:
    from plr.columns.targets import read_target
    from plr.errors import CandidateError, DataError

    try:
        return read_target(table, target, data)
    except DataError as error:
        raise CandidateError(str(error)) from None


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.expanduser().samefile(other)
    except OSError:
        return False


def _features(table: pa.Table, target: str, mechanism: str) -> NDArray[np.float64] | None:
    import numpy as np

    from plr.columns.dataset import dataset_of
    from plr.columns.matrix import encode
    from plr.generation import MECHANISMS

    if not MECHANISMS[mechanism].uses_features:
        return None
    return encode(dataset_of(table, target), np.arange(table.num_rows))
