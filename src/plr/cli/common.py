"""What the verbs for tables share: notes, progress, model files, and what is printed about results."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from plr.tables import FrontEnd, TableModel
    from plr.tables.writing import Done

__all__ = [
    "Watch",
    "check_different",
    "counted",
    "load",
    "note",
    "piped",
    "tell_caution",
    "tell_written",
    "terminal",
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


# Parameters whose options have other names, for a value or for what they are not.
_OPTIONS = {"in_batches": "--stream", "identify": "--identified"}


def terminal() -> FrontEnd:
    """Return the front end of the command line: notes and progress on stderr, parameters as options."""
    from plr.tables import FrontEnd

    class Terminal(FrontEnd):
        def note(self, text: str) -> None:
            note(text)

        def working(self, what: str) -> Any:
            return working(what)

        def option(self, name: str, value: object = None) -> str:
            option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
            if isinstance(value, bool):
                return option if value else option.replace("--", "--no-", 1)
            return option if value is None else f"{option} {value}"

    return Terminal()


def load(path: Path, trusted: str | None = None, module: str | None = None) -> tuple[TableModel, dict[str, Any]]:
    """Load a model, and what its file says about itself; ``module`` names the code of a torch module."""
    from plr import TableModel
    from plr.cli.modules import read_module, where_code_is
    from plr.errors import ModelFileError
    from plr.persistence import read_model

    types = tuple(name.strip() for name in (trusted or "").split(",") if name.strip())
    code = None if module is None else read_module(module)
    try:
        found, manifest = read_model(path, trusted=types, module=code)
    except ModelFileError as error:
        told = where_code_is(path) if module is None else None
        if told is None:
            raise
        raise ModelFileError(
            f"{path} holds the weights of a torch module and not its code; say where that is, as in training: "
            f"--module {told}"
        ) from error
    model = found if isinstance(found, TableModel) else TableModel(found)
    model.path = path
    return model, manifest


def tell_caution(model: TableModel) -> None:
    """Say where a model was fitted to data that cannot tell which candidates are true."""
    if model.caution:
        note(f"Caution: the model was fitted to data that cannot tell. {model.caution}")


@contextmanager
def piped() -> Iterator[None]:
    """Let whoever reads the rows on stdout stop before the last one, as head does."""
    try:
        yield
    except BrokenPipeError:
        # Python must not try to flush the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def tell_written(done: Done, what: str, more: str = "") -> None:
    """Say what was written, unless it went to stdout; of a source in batches, how much memory that took."""
    from plr.memory import peak_memory, readable

    if done.out is None:
        return
    read = f" of {done.files:,} files" if done.files > 1 else ""
    kept = f", {done.files_skipped:,} of which were there already" if done.files_skipped else ""
    typer.echo(f"Wrote {done.out}: {what}{read}{kept}{more}.")
    peak = peak_memory() if done.source.in_batches else None
    if peak is not None:
        typer.echo(f"Peak memory: {readable(peak)}.", err=True)


def counted(done: Done, rows: int) -> str:
    """Return a number of rows as it is printed: by thousands where rows come in batches."""
    return f"{rows:,}" if done.source.in_batches else str(rows)


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


class Watch:
    """A stopwatch."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return round(time.monotonic() - self._start, 2)
