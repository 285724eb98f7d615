"""``plr generate``: turn a labelled table into a candidate-set one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["generate_command"]

# How messages about parameters read to somebody who typed options.
_SPELLINGS = {
    "random_state": "--seed",
    "false_labels": "--false-labels",
    "set_size": "--set-size",
    "missing is": "--missing is",
    "missing must": "--missing must",
    "Use missing=0": "Use --missing 0",
    "pass span=(low, high)": "say --option 'span=[0,10]', for one from 0 to 10",
}


def generate_command(
    data: Annotated[Path, typer.Argument(help="Table with true labels: CSV, Parquet, Feather or JSON Lines.")],
    target: Annotated[str, typer.Option("--target", help="Column that holds the true label.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write; the ending says the format.")],
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
    from plr.cli.tables import carries_recipe

    with _spelled_as_options():
        made = generate(
            data,
            target,
            out,
            false_labels=false_labels,
            set_size=set_size,
            mechanism=mechanism,
            options=_parse_options(option or []),
            missing=missing,
            seed=seed,
            truth_column=truth_column,
        )
    if as_json:
        typer.echo(json.dumps(made))
        return
    typer.echo(f"Wrote {out}: {made['rows']} rows, {made['candidates'] / made['rows']:.2f} candidates a row.")
    if not carries_recipe(out):
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
    from plr.cli.tables import check_columns, check_output, read_table, write_table
    from plr.errors import ParameterError
    from plr.generation import make_candidates, recipe

    settings: dict[str, Any] = {
        "false_labels": false_labels,
        "set_size": set_size,
        "mechanism": mechanism,
        "missing": missing,
        "random_state": seed,
        **(options or {}),
    }
    made = {**recipe(**settings), "source": data.name, "target": target, "truth_column": truth_column}
    check_output(out)
    if truth_column is not None and not truth_column.strip():
        raise ParameterError("--truth-column needs a name, or leave it out; it was given an empty one.")
    if _is_same_file(data, out):
        raise ParameterError(f"--out {out} is the input itself, whose true labels would be lost; name another file.")
    table = read_table(data)
    check_columns(table, [target], data)
    if truth_column in table.column_names:
        raise ParameterError(f"--truth-column {truth_column}: {data} has a column of that name; choose another.")
    y = _labels(table, target, data)
    sets = make_candidates(y, X=_features(table, target, mechanism), **settings)
    table = table.set_column(table.column_names.index(target), target, sets.to_arrow())
    if truth_column is not None:
        table = table.append_column(truth_column, [y])
    write_table(table, out, recipe=made)
    return {"out": str(out), "rows": len(sets), "candidates": len(sets.values), "recipe": made}


def _labels(table: pa.Table, target: str, data: Path) -> NDArray[np.float64]:
    from plr.datasets.targets import read_target
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


@contextmanager
def _spelled_as_options() -> Iterator[None]:
    """Let messages about parameters speak of the options that set them."""
    from plr.errors import ParameterError

    try:
        yield
    except ParameterError as error:
        text = str(error)
        for parameter, option in _SPELLINGS.items():
            text = text.replace(parameter, option)
        raise ParameterError(text) from error


def _features(table: pa.Table, target: str, mechanism: str) -> NDArray[np.float64] | None:
    import numpy as np

    from plr.datasets import dataset_of, encode
    from plr.generation import MECHANISMS

    if not MECHANISMS[mechanism].uses_features:
        return None
    return encode(dataset_of(table, target), np.arange(table.num_rows))


def _parse_options(given: list[str]) -> dict[str, Any]:
    from plr.errors import ParameterError

    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(f"--option {text}: write NAME=VALUE, such as spread=0.2.")
        try:
            options[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            raise ParameterError(f"--option {text}: {value!r} is not a number or a list of numbers.") from None
    return options
