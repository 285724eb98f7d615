"""A file that is there when it is complete, and not before: written under another name and renamed at the end."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from plr.errors import DataError
from plr.streaming.formats import WRITERS

__all__ = ["Part", "clear_parts", "is_part"]

_NAME = re.compile(r"\.(.+)\.[0-9a-f]{12}\.part")


class Part:
    """A file in the making.

    Parameters
    ----------
    path : Path
        Replaced when all is written.
    kind : str
        Its format.
    schema : pyarrow.Schema
        Of all tables that will be written.
    """

    def __init__(self, path: Path, kind: str, schema: pa.Schema) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
        with _told(path):
            self._file = self.temporary.open("xb")
            try:
                _lock(self._file)
                self._writer = WRITERS[kind](self._file, schema)
            except BaseException:
                self.temporary.unlink()
                raise

    def write(self, table: pa.Table) -> None:
        """Add some rows."""
        with _told(self.path):
            self._writer.write(table)

    def finish(self, notes: Mapping[str, str] | None = None) -> None:
        """Put the file in its place; a Parquet file keeps the notes in its metadata."""
        with _told(self.path):
            self._writer.finish(notes or {})
            self._file.flush()
            os.fsync(self._file.fileno())
            self.temporary.replace(self.path)
            self._file.close()

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._writer.abandon()
        self.temporary.unlink(missing_ok=True)
        # What could not be written before cannot be written now.
        with contextlib.suppress(OSError):
            self._file.close()


def is_part(path: Path) -> bool:
    """Return whether a file is one that was never finished.

    >>> is_part(Path("out/.a.parquet.0123456789ab.part")), is_part(Path("out/a.parquet"))
    (True, False)
    """
    return _NAME.fullmatch(path.name) is not None


def clear_parts(paths: Iterator[Path]) -> Path | None:
    """Remove files that a process left behind when it was killed; return one that is still being written, if any."""
    busy = None
    for path in paths:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            if _lock(file):
                path.unlink()
            else:
                busy = path
    return busy


def _lock(file: BinaryIO) -> bool:
    """Hold a file as long as it is open; return False where another process does."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some network file systems know no locks.
        return True
    return True


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error).rstrip(".")
        raise DataError(f"{path} cannot be written: {reason}.") from error
