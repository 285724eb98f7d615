"""``plr benchmark``: the paper's experiments, and others like them."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plr.cli.common import TERMINAL
from plr.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from plr.paper import Protocol

__all__ = ["benchmark_command"]


def benchmark_command(
    preset: Annotated[
        str, typer.Option(help="What to run unless options below say otherwise: quick, paper or hard.")
    ] = "quick",
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, comma-separated; a file of your own as FILE:TARGET.")
    ] = None,
    sizes: Annotated[str | None, typer.Option(help="Numbers of false labels, comma-separated.")] = None,
    set_size: Annotated[
        str | None, typer.Option(help="upto: a random number of false labels per row; fixed: always all.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods, comma-separated: the paper's, Posterior, Default (as plr fit unless told otherwise), or "
            "WEIGHTING:LOSS."
        ),
    ] = None,
    models: Annotated[str | None, typer.Option(help="Models, comma-separated: mlp, mlp-relu, linear.")] = None,
    trials: Annotated[int | None, typer.Option(help="Repetitions, each with its own split.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training rows.")] = None,
    fractions: Annotated[
        str | None, typer.Option(help="Shares of the training rows to train on, comma-separated, such as 0.2,1.")
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="Where false labels come from: uniform, gaussian, marginal, units, digits, folding or biased."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same results.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Fits at a time on the CPU; with --engine ray the largest number of tasks at a time.",
            show_default="all cores",
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="What computes: cpu; cuda, or cuda:N for GPU number N, which trains all networks of a data set at "
            "once; torch, which does that on the CPU."
        ),
    ] = "cpu",
    engine: Annotated[
        str, typer.Option(help="What cells are given to: local, this process; ray, a Ray cluster. The same results.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="With --engine ray: a cluster that is running, as auto, HOST:PORT or ray://HOST:PORT.",
            show_default="one is started on this machine",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results. Run again with the same settings, it goes on where it was.",
            show_default="plr-benchmark/PRESET-DIGEST",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder to look for data sets in first, as plr datasets --export makes.")
    ] = None,
    selection: Annotated[
        str | None,
        typer.Option(
            help="How epoch and hyper-parameters are chosen: last, loss, evidence, truth, two of them such as "
            "last+evidence, or all.",
            show_default="the preset's",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Run the paper's experiments, or others like them, and print measured next to published errors.

    Results are kept in a folder. Stopped at any moment and started again with the same options, the run goes on.

    Example: plr benchmark --preset paper --datasets concrete,housing --trials 3 --out results
    """
    overrides = {
        "datasets": datasets,
        "models": models,
        "methods": methods,
        "sizes": sizes,
        "set_size": set_size,
        "mechanism": mechanism,
        "trials": trials,
        "epochs": epochs,
        "fractions": fractions,
        "seed": seed,
    }
    given = {name: value for name, value in overrides.items() if value is not None}
    protocol = make_protocol(preset, given)
    answer = benchmark(
        protocol,
        out or Path("plr-benchmark") / f"{preset}-{protocol.digest[:8]}",
        title=preset,
        workers=workers,
        device=device,
        engine=engine,
        address=address,
        data_dir=data_dir,
        selection=selection,
        command=_command(preset, given, engine),
    )
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        _print_tables(answer["cells"])
        TERMINAL.note(f"Results: {answer['store']}")
    for failure in answer["failures"]:
        TERMINAL.note(f"Failed: {failure}")
    if answer["failures"]:
        raise typer.Exit(1)


def make_protocol(preset: str, given: dict[str, Any]) -> Protocol:
    """Return a preset with the settings given in its place, lists as comma-separated text."""
    from plr.paper import get_preset

    changes = dict(given)
    for name, kind in (("models", str), ("methods", str), ("sizes", int), ("fractions", float)):
        if name in changes:
            changes[name] = _parse_list(name, changes[name], kind)
    if "fractions" in changes:
        changes["figure_fractions"] = ()
    if "datasets" in changes:
        changes["datasets"], changes["files"] = _parse_datasets(changes["datasets"])
    return dataclasses.replace(get_preset(preset), **changes)


def benchmark(
    protocol: Protocol,
    out: Path,
    *,
    title: str = "benchmark",
    workers: int | None = None,
    device: str = "cpu",
    engine: str = "local",
    address: str | None = None,
    data_dir: Path | None = None,
    selection: str | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Run what is left of a protocol, with progress on stderr, and return its table, the failures and the folder."""
    from plr.paper import Store, run_benchmark, tabulate
    from plr.paper.display import show_progress
    from plr.paper.selection import SELECTIONS, in_order, parse_selection

    chosen = protocol.selection if selection is None else selection
    if chosen != "all":
        try:
            parse_selection(chosen)
        except ParameterError:
            raise unknown_name("--selection", chosen, ("all", *SELECTIONS)) from None
    try:
        with show_progress(title) as callback:
            run_benchmark(
                protocol,
                out,
                workers=workers,
                device=device,
                engine=engine,
                address=address,
                data_home=data_dir,
                command=command,
                callback=callback,
            )
    except KeyboardInterrupt:
        TERMINAL.note(f"Stopped. Finished cells are in {out}; run the same command again to resume.")
        raise typer.Exit(130) from None
    with Store.open(out) as store:
        failures = []
        for cell in store.failures():
            size = "" if cell["false_labels"] is None else f" at {cell['false_labels']}"
            where = f"{cell['dataset']} {cell['model']} {cell['method']}{size}, trial {cell['trial']}"
            failures.append(f"{where}: {cell['error']}")
        return {
            "cells": in_order(tabulate(store.rows(), chosen), protocol),
            "failures": failures,
            "store": str(out),
        }


def _parse_list(name: str, text: str, kind: Callable[[str], Any]) -> tuple[Any, ...]:
    values = []
    for part in text.split(","):
        try:
            values.append(kind(part.strip()))
        except ValueError:
            raise ParameterError(f"--{name} {text}: {part.strip()!r} is not a number.") from None
    return tuple(values)


def _parse_datasets(text: str) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    from plr.paper import DataFile
    from plr.sources.files import FORMATS

    names, files = [], []
    for part in _parse_list("datasets", text, str):
        path, colon, target = part.rpartition(":")
        if colon:
            files.append(DataFile.read(path, target))
            names.append(files[-1].name)
        elif Path(part).suffix.lower() in FORMATS:
            raise ParameterError(
                f"--datasets {part}: a file of your own needs the column of its true labels too, as FILE:TARGET, such "
                f"as {part}:price."
            )
        else:
            names.append(part)
    return tuple(names), tuple(files)


def _command(preset: str, given: dict[str, Any], engine: str) -> str:
    """Return the command that repeats the run, less the paths that differ from machine to machine."""
    words = ["plr", "benchmark", "--preset", preset]
    for name, value in given.items():
        if name == "datasets":
            value = ",".join(part.strip().rpartition("/")[2] for part in value.split(","))
        words += [f"--{name.replace('_', '-')}", str(value)]
    if engine != "local":
        words += ["--engine", engine]
    return shlex.join(words)


def _print_tables(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # A file has no width to fit into; cut columns would be lost.
        console = Console(width=240)
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["fraction"], row["selection"]), []).append(row)
    for group in groups.values():
        sizes = sorted({row["false_labels"] for row in group if row["false_labels"]}) or [None]
        console.print(_title(group), style="bold", highlight=False)
        tables = _fitting_tables(console, group, sizes)
        for table in tables:
            console.print(table)
        beside = any(column.header == "published" for column in tables[0].columns)
        spread = "" if all(row["test_mse_std"] is None for row in group) else "; ±: standard deviation over trials"
        published = any(row["published_mse"] is not None for row in group)
        paper = "; the line below each: as published" if published and not beside else ""
        legend = f"Bold: the least mean of a data set in its column, Supervised aside{spread}{paper}."
        console.print(legend, style="dim", highlight=False)
        console.print()


def _title(rows: list[dict[str, Any]]) -> str:
    from plr.paper.tables import describe_selection, model_title

    first = rows[0]
    share = "" if first["fraction"] == 1.0 else f" on {first['fraction']:.0%} of the training rows"
    number = max(row["trials"] for row in rows)
    trials = "1 trial" if number == 1 else f"{number} trials"
    many = {"upto": "up to that many a row", "fixed": "that many in every row"}.get(first["set_size"], "")
    sized = any(row["false_labels"] for row in rows)
    columns = f", by the number of false labels ({many})" if sized else ""
    return (
        f"Test MSE of the {model_title(first['model'])}{share}, mean of {trials}{columns}. "
        f"Chosen: {describe_selection(first['selection'])}."
    )


def _fitting_tables(console: Console, rows: list[dict[str, Any]], sizes: list[Any]) -> list[Table]:
    """Return a table that fits the screen: published numbers beside, else below, else in one table per few sizes."""
    for below in (False, True):
        table = _make_table(rows, sizes, below=below)
        if console.measure(table, options=console.options.update(width=10_000)).maximum <= console.width:
            return [table]
    if len(sizes) == 1:
        return [table]
    half = (len(sizes) + 1) // 2
    return [table for part in (sizes[:half], sizes[half:]) for table in _fitting_tables(console, rows, part)]


def _make_table(rows: list[dict[str, Any]], sizes: list[Any], *, below: bool) -> Table:
    from rich.table import Table

    found = {(row["dataset"], row["method"], row["false_labels"]): row for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    published = any(row["published_mse"] is not None for row in rows)
    table = Table(box=None, pad_edge=False)
    table.add_column("data", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for size in sizes:
        table.add_column("measured" if size is None else str(size), justify="right", no_wrap=True)
        if published and not below:
            table.add_column("published", justify="right", style="dim", no_wrap=True)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        least = {}
        for size in sizes:
            here = [found.get((dataset, method, size), {}).get("test_mse") for method in methods]
            least[size] = min((error for error in here if error is not None), default=None)
        for method in methods:
            texts = []
            for size in sizes:
                row = found.get((dataset, method, size))
                best = row is not None and row["test_mse"] is not None and row["test_mse"] == least[size]
                # Supervised has no size of its own; it is what all sizes are measured against.
                row = row or found.get((dataset, method, 0)) or {}
                measured = _short(row.get("test_mse"), row.get("test_mse_std"))
                printed = _short(row.get("published_mse"), row.get("published_std"))
                measured = f"[bold]{measured}[/bold]" if best else measured
                texts.append(f"{measured}\n[dim]{printed}[/dim]" if published and below else measured)
                if published and not below:
                    texts.append(printed)
            name = dataset if method == methods[0] else ""
            table.add_row(name, method, *texts, end_section=method == methods[-1])
    return table


def _short(mean: float | None, std: float | None) -> str:
    """Return a mean with three digits at least, and its deviation with as many decimals; a dash where there is none.

    >>> _short(39.66, 10.31), _short(9.1, 2.32), _short(412.4, None), _short(0.01234, 0.0005), _short(1.5e7, 2.1e6)
    ('39.7±10.3', '9.10±2.32', '412', '0.0123±0.0005', '1.5e+07±2.1e+06')
    """
    if mean is None:
        return "-"
    if not 1e-4 <= mean < 1e6:
        return f"{mean:.3g}" + ("" if std is None else f"±{std:.2g}")
    decimals = max(0, 2 - math.floor(math.log10(mean)))
    return f"{mean:.{decimals}f}" + ("" if std is None else f"±{std:.{decimals}f}")
