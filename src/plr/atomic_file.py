"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from plr.errors import StoreError

__all__ = ["write_files"]


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files under temporary names, and give them their own only when all are on the disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreError(f"{folder} is a file, or lies below one; a report needs a folder.") from error
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be made: {error.strerror}.") from error
    written: list[tuple[Path, Path]] = []
    try:
        for name, content in files.items():
            handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
            written.append((Path(temporary), folder / name))
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # mkstemp lets nobody else read; a report is to be looked at.
            Path(temporary).chmod(0o644)
        for source, target in written:
            source.replace(target)
    except OSError as error:
        raise StoreError(f"The report cannot be written to {folder}: {error.strerror}.") from error
    finally:
        for source, _ in written:
            with suppress(OSError):
                source.unlink(missing_ok=True)
    return [target for _, target in written]
