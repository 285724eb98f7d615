"""What the verbs share: names of options, notes, progress, model files, and what is printed about results."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from plr.errors import AmbiguousDataWarning, DataNotFoundError, ModelFileError, ParameterError, PlrError, PlrWarning
from plr.front_end import FrontEnd
from plr.progress import Progress, describe_seconds

if TYPE_CHECKING:
    from plr.tables import TableModel
    from plr.tables.output import Done

__all__ = [
    "TERMINAL",
    "check_columns",
    "check_files",
    "load",
    "loaded",
    "logged",
    "spell_option",
    "spell_parameter",
    "tell_written",
    "warnings_as_notes",
]

# Nothing is shown of what takes less than this, in seconds.
_PATIENCE = 1.0
_LONGEST_NAME = 200
# Parameters whose option has another name.
_OTHER_NAMES = {
    "all_candidates": "all",
    "columns": "target",
    "coverage": "interval",
    "identify": "identified",
    "in_batches": "stream",
    "n_jobs": "jobs",
    "random_state": "seed",
    "sample_weight": "weights",
    "target_transform": "log",
    "trusted": "trust",
}


def spell_option(name: str, value: object = None) -> str:
    """Return the option that sets a parameter, and a value for it.

    >>> spell_option("truth", "y"), spell_option("in_batches", False), spell_option("drop_empty", True)
    ('--truth y', '--no-stream', '--drop-empty')
    """
    option = _OTHER_NAMES.get(name, name).replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    return f"--{option}" if value is None else f"--{option} {value}"


def spell_parameter(error: PlrError, options: Iterable[Any]) -> None:
    """Let an error name the option that sets its parameter, given the options of the command (click's parameters).

    Parameters without an option of their own are given by ``--option``, where the command has that.
    """
    if error.parameter is None or not error.parameter.isidentifier():
        return
    known = {option.opts[0] for option in options}
    if spell_option(error.parameter) in known:
        error.parameter = spell_option(error.parameter)
    elif "--option" in known:
        error.parameter = f"--option {error.parameter}"


class Terminal(FrontEnd):
    """The front end of the command line: notes and progress on stderr, parameters as options."""

    def note(self, text: str) -> None:
        """Tell the user something on stderr."""
        typer.echo(text, err=True)

    @contextmanager
    def working(self, what: str, verbose: int = 0) -> Iterator[Progress]:  # noqa: ARG002
        """Show how far something is, on a terminal and from one second on; give its progress."""
        with Progress(_TerminalBar(what) if sys.stderr.isatty() else None, what) as progress:
            yield progress

    def option(self, name: str, value: object = None) -> str:
        """Return a parameter, and a value for it, as it is typed."""
        return spell_option(name, value)


class _TerminalBar:
    """A bar that moves, with the stage, and is gone when all is done."""

    def __init__(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(what, total=None, left="")
        self._timer = threading.Timer(_PATIENCE, self._bar.start)
        self._timer.daemon = True
        self._timer.start()

    def show(self, share: float, stage: str, left: float | None) -> None:
        """Show the share that is done, the stage, and the seconds that are left where they can be told."""
        text = "" if left is None else f"about {describe_seconds(left)} left"
        # Before anything is told, it moves to and fro.
        self._bar.update(self._task, description=stage, completed=share, total=1.0 if share else None, left=text)

    def close(self, seconds: float | None) -> None:  # noqa: ARG002
        """Take the bar away."""
        self._timer.cancel()
        # The timer may be starting it at this moment.
        self._timer.join()
        self._bar.stop()


class _Notes(logging.Handler):
    """Shows what is logged as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show one message."""
        TERMINAL.note(record.getMessage())


@contextmanager
def logged(wanted: bool) -> Iterator[None]:
    """Show on stderr, if it is wanted, the stages of a fit and what it finds about members."""
    if not wanted:
        yield
        return
    logger, handler = logging.getLogger("plr"), _Notes()
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


TERMINAL = Terminal()


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show each warning once, as a note of one line."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if not issubclass(category, PlrWarning):
            text = f"{_library(filename)} warns: {text}"
        if text not in shown:
            shown.add(text)
            TERMINAL.note(f"Note: {text}")

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


def check_files(read: dict[str, Path | None], written: dict[str, Path | None]) -> None:
    """Refuse files that are not there, and an output that would replace what is read or another output.

    Nothing else is imported for it, so that such mistakes are named at once.
    """
    for option, path in read.items():
        if option == "DATA" and str(path) == "-":
            # Standard input.
            continue
        if path is not None and not path.expanduser().exists() and not path.is_symlink():
            if option == "MODEL":
                raise ModelFileError(f"{path} does not exist; give the path of a model file.")
            raise DataNotFoundError(f"There is no {'file' if path.suffix else 'file or folder'} {path}.")
    given = {option: path for option, path in (read | written).items() if path is not None and str(path) != "-"}
    for (option, path), (other, again) in itertools.combinations(given.items(), 2):
        if _is_same_file(path.expanduser(), again.expanduser()):
            raise ParameterError(f"{again} is given as {option} and as {other}; name two different files.")


def check_columns(data: Path | None, named: Mapping[str, str | None], known: str | list[str] | None = None) -> None:
    """Refuse columns that a table has not, and known labels that are nowhere, before what fits models is imported.

    Parameters
    ----------
    data : Path, optional
        A folder, or a file that takes longer to look at, is not looked at.
    named : mapping of str to str
        Columns, separated by commas, by parameter.
    known : str or list of str, optional
        A column, or files.
    """
    if data is None:
        return
    from plr.sources.files import column_names
    from plr.sources.named import is_known_column, named_columns

    columns = column_names(data)
    if columns is None:
        return
    for parameter, names in named.items():
        named_columns(parameter, names, columns, data)
    if known is not None:
        is_known_column(known, columns, data)


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()


@contextmanager
def loaded(
    model: Path, data: Path, out: Path | None = None, trust: str | None = None, module: str | None = None
) -> Iterator[TableModel]:
    """Give a model to be used on a table, with warnings as notes; say in the end where it is not to be trusted."""
    check_files({"MODEL": model, "DATA": data}, {"--out": out})
    with warnings_as_notes():
        trained, _ = load(model, trust, module)
        yield trained
        if trained.caution:
            TERMINAL.note(f"Caution: the model was fitted to data that cannot tell. {trained.caution}")


def load(path: Path, trusted: str | None = None, module: str | None = None) -> tuple[TableModel, dict[str, Any]]:
    """Load a model, and what its file says about itself; ``module`` names the code of a torch module."""
    from plr.persistence import read_model
    from plr.tables import TableModel

    types = tuple(name.strip() for name in (trusted or "").split(",") if name.strip())
    code = None
    if module is not None:
        from plr.cli.modules import read_module

        code = read_module(module)
    try:
        found, manifest = read_model(path, trusted=types, module=code)
    except ModelFileError as error:
        location = _where_code_is(path) if module is None else None
        if location is None:
            raise
        raise ModelFileError(
            f"{path} holds the weights of a torch module and not its code; say where that is, as in training: "
            f"--module {location}"
        ) from error
    model = found if isinstance(found, TableModel) else TableModel(found)
    model.path = path
    return model, manifest


def _where_code_is(path: Path) -> str | None:
    """Return where a model file says the code of its torch module is, for a message alone; None where it does not."""
    from plr.persistence import read_manifest

    written = (read_manifest(path).get("extra") or {}).get("table")
    options = written.get("options") if isinstance(written, dict) else None
    name = options.get("module") if isinstance(options, dict) else None
    return name if isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME else None


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
        TERMINAL.note(f"Peak memory: {readable(peak)}.")
