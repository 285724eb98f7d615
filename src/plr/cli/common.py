"""What the verbs for tables share: notes, progress, model files, and columns that are added to a table."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.candidates import CandidateSets
    from plr.columns import Features
    from plr.regressor import PartialLabelRegressor

__all__ = [
    "Trained",
    "Watch",
    "add_columns",
    "as_written",
    "caution_of",
    "check_different",
    "check_new_names",
    "diagnosis_of",
    "digest",
    "emit",
    "listed",
    "load",
    "note",
    "places_of",
    "read_sets",
    "tell_caution",
    "tell_columns",
    "to_stdout",
    "warnings_as_notes",
    "working",
]

# Nothing is shown of what takes less than this, in seconds.
_PATIENCE = 1.0


def note(text: str) -> None:
    """Tell the user something on stderr."""
    typer.echo(text, err=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show each warning once, as a note of one line."""
    from plr.errors import AmbiguousDataWarning, PlrWarning

    told: set[str] = set()

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if not issubclass(category, PlrWarning):
            text = f"{_library(filename)} warns: {text}"
        if text not in told:
            told.add(text)
            note(f"Note: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        # What libraries tell the authors of programs, and what arithmetic comes across on the way to a result.
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        warnings.filterwarnings("ignore", r".* encountered in ", RuntimeWarning)
        # Said with what was done, as all that a model knows about its data.
        warnings.simplefilter("ignore", AmbiguousDataWarning)
        warnings.showwarning = show
        yield


def _library(filename: str) -> str:
    """Return which installed package a file is of, as far as its path tells."""
    parts = Path(filename).parts
    place = max((at for at, part in enumerate(parts) if part in ("site-packages", "dist-packages")), default=-1)
    return parts[place + 1].removesuffix(".py") if 0 <= place < len(parts) - 1 else Path(filename).stem


@contextmanager
def working(what: str) -> Iterator[Callable[[int, int, float], None]]:
    """Show that something is going on, on a terminal and from one second on; give what tells how far it is."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar = progress.add_task(what, total=None)
    timer = threading.Timer(_PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done, total, _: progress.update(bar, completed=done, total=total)
    finally:
        timer.cancel()
        # The timer may be starting it at this moment.
        timer.join()
        progress.stop()


def read_sets(
    table: pa.Table,
    columns: Sequence[str],
    source: Path,
    *,
    prior: Sequence[str] = (),
    drop_empty: bool = False,
    advice: str = "fill them in, or leave them out with --drop-empty",
    place: Callable[[int], str] | None = None,
) -> CandidateSets:
    """Return a table's candidate sets; rows without a candidate are an error, or left out, as ``kept`` then says."""
    import numpy as np

    from plr.cli.tables import read_candidates
    from plr.columns.targets import place_of_row
    from plr.errors import CandidateError, EmptySetError, PriorError
    from plr.streaming.sets import read_sets_at

    try:
        if place is not None:
            sets = read_sets_at(table, columns, source, place, prior)
        else:
            sets = read_candidates(table, columns, prior=prior, empty="drop")
    except (CandidateError, PriorError) as error:
        if place is not None:
            raise
        raise type(error)(f"{source}: {error}") from error
    if sets.kept is None:
        return sets
    names = ", ".join(map(repr, columns))
    if len(sets) == 0:
        raise EmptySetError(f"{source}: no row has a candidate in {names}.")
    if not drop_empty:
        hollow = np.setdiff1d(np.arange(table.num_rows), sets.kept)
        raise EmptySetError(
            f"{source}: {len(hollow)} of {table.num_rows} rows have no candidate in {names}, the first in "
            f"{(place or (lambda row: place_of_row(row, table, source)))(int(hollow[0]))}; {advice}."
        )
    return sets


def places_of(
    sets: CandidateSets, table: pa.Table, source: Path, place: Callable[[int], str] | None = None
) -> Callable[[int], str]:
    """Return what says where a row that has candidates is, in the user's own file unless ``place`` tells."""
    from plr.columns.targets import place_of_row

    at = place or (lambda row: place_of_row(row, table, source))
    return lambda row: at(row if sets.kept is None else int(sets.kept[row]))


def tell_columns(features: Features) -> None:
    """Say what was done with each column that is more than a plain number."""
    plain = [column for column in features.columns if column.kind == "number" and not column.note]
    if plain:
        note(f"{len(plain)} column{'s' if len(plain) > 1 else ''} of numbers: {listed([c.name for c in plain])}.")
    for column in features.columns:
        if column.kind == "left out":
            note(f"Left out: {column.name!r} {column.note}.")
        elif column not in plain:
            note(f"{column.name!r}: {'time' if column.kind == 'clock' else column.kind}, {column.note}.")


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return some names in words, of many the first ones."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True)
class Trained:
    """A model from a file, and what the file says about the table it was trained on."""

    model: PartialLabelRegressor
    features: Features | None
    target: tuple[str, ...]
    aside: tuple[str, ...]
    truth: str | None
    digest: str | None
    fingerprint: str | None = None


def diagnosis_of(model: PartialLabelRegressor) -> dict[str, str] | None:
    """Return what was found about the data a model was fitted to, for programs; None where nothing was."""
    return None if model.diagnosis_ is None else model.diagnosis_.told()


def caution_of(model: PartialLabelRegressor) -> str:
    """Return what to know about a model that was fitted to data that cannot tell; empty where it can."""
    return "" if model.diagnosis_ is None else model.diagnosis_.caution


def tell_caution(model: PartialLabelRegressor) -> None:
    """Say where a model was fitted to data that cannot tell which candidates are true."""
    if caution := caution_of(model):
        note(f"Caution: the model was fitted to data that cannot tell. {caution}")


def load(path: Path, trusted: str | None = None, module: str | None = None) -> Trained:
    """Load a model, with what ``plr fit`` wrote down about its table; ``module`` names the code of a torch module."""
    from plr import load_model
    from plr.cli.modules import code_for
    from plr.columns import Features
    from plr.persistence import read_manifest

    types = tuple(name.strip() for name in (trusted or "").split(",") if name.strip())
    written = (read_manifest(path).get("extra") or {}).get("table")
    model = load_model(path, trusted=types, module=code_for(path, written, module))
    if not isinstance(written, dict):
        return Trained(model, None, (), (), None, None)
    return Trained(
        model,
        Features.from_dict(written.get("features")),
        _texts(written.get("target")),
        _texts(written.get("aside")),
        written.get("truth") if isinstance(written.get("truth"), str) else None,
        written.get("digest") if isinstance(written.get("digest"), str) else None,
        written.get("fingerprint") if isinstance(written.get("fingerprint"), str) else None,
    )


def _texts(written: Any) -> tuple[str, ...]:
    return tuple(entry for entry in written if isinstance(entry, str)) if isinstance(written, list) else ()


def add_columns(table: pa.Table, new: Mapping[str, Any], source: Path, prefix: str = "") -> pa.Table:
    """Return a table with new columns at its end; a name that is taken is an error."""
    from plr.errors import ParameterError

    for name, values in new.items():
        if prefix + name in table.column_names:
            raise ParameterError(
                f"{source} has a column {prefix + name!r} already; name the new ones otherwise: --prefix plr_."
            )
        table = table.append_column(prefix + name, [values])
    return table


def check_new_names(table: pa.Table, names: Sequence[str], source: Path, prefix: str = "") -> None:
    """Refuse names that are taken before any work is done."""
    add_columns(table.slice(0, 0), {name: [] for name in names}, source, prefix)


def as_written(table: pa.Table, texts: Callable[[], pa.Table] | None, out: Path | None) -> pa.Table:
    """Return a table that was read from a CSV file with its cells as they are there, if it is to be written as CSV.

    ``texts`` gives these cells, as `read_table_and_texts` returns it.
    """
    from plr.cli.tables import keep_texts
    from plr.sources.files import format_of

    if texts is None or (out is not None and format_of(out) != "csv"):
        return table
    return keep_texts(texts())


def emit(table: pa.Table, out: Path | None) -> None:
    """Write a table to a file, or as CSV to stdout."""
    from plr.cli.tables import write_csv, write_table

    # What pandas wrote down about its frame does not fit the columns that were added.
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"pandas"}
    table = table.replace_schema_metadata(metadata)
    if out is not None:
        write_table(table, out)
        return
    sys.stdout.flush()
    try:
        write_csv(table, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough, as head has; Python must not try to flush the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_different(**files: Path | None) -> None:
    """Refuse two options that name the same file, of which one would replace the other."""
    from plr.errors import ParameterError

    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        resolved = path.expanduser().resolve()
        if resolved in seen:
            raise ParameterError(f"{path} is given as {seen[resolved]} and as {option}; name two different files.")
        seen[resolved] = option


def to_stdout(out: Path | None) -> Path | None:
    """Return None where an output is to go to stdout: left out, or ``-``."""
    return None if out is None or str(out) == "-" else out


def digest(table: pa.Table, sets: CandidateSets) -> str:
    """Return a fingerprint of some rows and their candidates."""
    found = hashlib.sha256(sets.values.tobytes() + sets.offsets.tobytes())
    for name in table.column_names:
        found.update(repr(table[name].to_pylist()).encode() if table[name].type == "string" else _bytes(table[name]))
    return found.hexdigest()


def _bytes(column: Any) -> bytes:
    import numpy as np

    return np.ascontiguousarray(column.to_numpy()).tobytes()


class Watch:
    """A stopwatch."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return round(time.monotonic() - self._start, 2)
