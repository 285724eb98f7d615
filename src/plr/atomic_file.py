"""Files that are complete or not there: written under another name in the same folder, and renamed at the end."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from plr.errors import DataError, DataNotFoundError, ParameterError, PlrError, StoreError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "AtomicFile",
    "atomic_file",
    "check_writable",
    "is_unfinished",
    "lock",
    "make_folder",
    "remove_unfinished",
    "write_errors",
    "write_files",
    "write_json",
]

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{12}\.part")


class AtomicFile:
    """A file to write, which gets its name by `commit`.

    Its process holds a lock on it, so that others can tell it from one that a killed process left behind.

    Parameters
    ----------
    path : Path
        Replaced by `commit` if it exists.

    Attributes
    ----------
    file : binary file
        To write to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
        self.file: BinaryIO = self._temporary.open("xb")
        lock(self.file)

    def sync(self) -> None:
        """Bring what has been written to the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def commit(self) -> None:
        """Put the file in its place."""
        self.sync()
        if fcntl is None:
            # Windows renames no file that is open.
            self.file.close()
        self._temporary.replace(self.path)
        self.file.close()
        # The new name, too, has to be on the disk; not every system can.
        with suppress(OSError):
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        """Remove what has been written, unless it is in its place."""
        # What could not be written before cannot be written now.
        with suppress(OSError):
            self.file.close()
        with suppress(OSError):
            self._temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written, before any work is done for it."""
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; name the file to write.")
    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} into.")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"Nothing may be written into the folder {path.parent}: permission denied.")


@contextmanager
def atomic_file(
    path: Path, what: str = "", *, failure: type[PlrError] = DataError, also: tuple[type[Exception], ...] = ()
) -> Iterator[BinaryIO]:
    """Give a binary file that takes the place of ``path`` when the block ends, and leaves no trace if it fails.

    Parameters
    ----------
    path, what, failure, also
        As of `write_errors`.
    """
    with write_errors(path, what, failure=failure, also=also):
        made = AtomicFile(path)
        try:
            yield made.file
            made.commit()
        finally:
            made.discard()


@contextmanager
def write_errors(
    path: Path, what: str = "", *, failure: type[PlrError] = DataError, also: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turn errors of the system into one that says what cannot be written, and why.

    Parameters
    ----------
    path : Path
    what : str
        What the file is, for the message.
    failure : type
        The error that is raised.
    also : tuple of types
        Further errors that mean the file cannot be written.
    """
    caught: tuple[type[Exception], ...] = (OSError, *also)
    try:
        yield
    except caught as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number else str(error).rstrip(".")
        raise failure(f"{what} {path} cannot be written: {reason}.".lstrip()) from error


def make_folder(folder: Path, failure: type[PlrError] = DataError) -> None:
    """Make a folder, and those it lies in, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise failure(f"{folder} is a file, or lies below one; name a folder.") from error
    except OSError as error:
        raise failure(f"The folder {folder} cannot be made: {error.strerror}.") from error


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write several files of a report; they get their names only when all are on the disk."""
    make_folder(folder, StoreError)
    made: list[AtomicFile] = []
    try:
        with write_errors(folder, "The report in", failure=StoreError):
            for name, content in files.items():
                made.append(AtomicFile(folder / name))
                made[-1].file.write(content)
                made[-1].sync()
            for file in made:
                file.commit()
    finally:
        for file in made:
            file.discard()
    return [file.path for file in made]


def write_json(path: Path, value: Any) -> None:
    """Write a small file of JSON, its keys sorted."""
    with atomic_file(path) as file:
        file.write(json.dumps(value, sort_keys=True).encode())


def is_unfinished(path: Path) -> bool:
    """Return whether a name is that of a file in the making.

    >>> is_unfinished(Path("out/.a.parquet.0123456789ab.part")), is_unfinished(Path("out/a.parquet"))
    (True, False)
    """
    return _UNFINISHED.fullmatch(path.name) is not None


def remove_unfinished(paths: Iterable[Path]) -> Path | None:
    """Remove files that killed processes left behind; return one that is still being written, if any."""
    busy = None
    for path in filter(is_unfinished, paths):
        with suppress(FileNotFoundError), path.open("rb") as file:
            if lock(file):
                path.unlink()
            else:
                busy = path
    return busy


def lock(file: BinaryIO | int) -> bool:
    """Lock an open file or folder until it is closed; return False where another process holds it."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # Some network file systems have no locks.
            return True
    return True
