"""A folder for what a long training keeps on the disk until it is over: the shuffled copy and its checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.atomic_file import atomic_file, lock, remove_unfinished, write_json
from plr.errors import DataError

__all__ = ["BusyError", "Scratch", "read_state", "write_state"]

_IDENTITY = "training.json"
# Settings that a message names.
_NAMED = 3


class BusyError(DataError):
    """The folder is another training's."""


class Scratch:
    """A folder that belongs to one training.

    Parameters
    ----------
    path : Path
        Made if needed. It is an error if it holds another training that could be resumed.
    identity : mapping
        What tells this training from others, as JSON can hold it.

    Attributes
    ----------
    resumed : bool
        Whether this training had been begun before.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        self._lock: int | None = None
        own, mark = json.dumps(identity, sort_keys=True), path / _IDENTITY
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._hold()
            if any(path.iterdir()) and not mark.is_file():
                raise DataError(f"{path} is not empty and not of an unfinished training; name another place.")
            before = mark.read_text() if mark.exists() else own
            self.resumed = mark.exists() and before == own
            if before != own:
                if self.is_begun:
                    raise BusyError(
                        f"{path} holds an unfinished training with other settings{_differences(before, own)}. Resume "
                        "it by the command that began it, or delete the folder to begin anew."
                    )
                # There is no copy yet, and so there are no folders.
                for place in path.iterdir():
                    place.unlink()
            remove_unfinished(path.glob(".*.part"))
            write_json(mark, identity)
        except OSError as error:
            self.release()
            raise DataError(f"The folder {path} cannot be used: {error.strerror}.") from error
        except DataError:
            self.release()
            raise

    @property
    def is_begun(self) -> bool:
        """Whether there is something to resume from."""
        return any(self.path.glob("part-*.json"))

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()

    def release(self) -> None:
        """Let others use the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _hold(self) -> None:
        """Keep others out for as long as this process lives; Windows opens no folders."""
        if os.name != "nt":
            self._lock = os.open(self.path, os.O_RDONLY)
            if not lock(self._lock):
                raise BusyError(
                    f"Another fit is at work in {self.path}; wait until it is over, or write the model under another "
                    "name."
                )


def _differences(before: str, now: str) -> str:
    """Return in words which settings differ, if that can be known."""
    try:
        identities = [json.loads(text) for text in (before, now)]
        there, here = ({**(identity.pop("model", None) or {}), **identity} for identity in identities)
    except ValueError:
        return ""
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    words = [f"{name} {there.get(name)!s:.40}, now {here.get(name)!s:.40}" for name in names if name != "folder"]
    if "folder" in names:
        words.insert(0, "the files have changed")
    return f" ({'; '.join(words[:_NAMED])}{'; and more' if len(words) > _NAMED else ''})" if words else ""


def write_state(path: Path, state: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file."""
    with atomic_file(path) as file:
        np.savez(file, allow_pickle=False, **state)


def read_state(path: Path) -> dict[str, NDArray[Any]] | None:
    """Return the arrays of a file; None where there is no such file."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is damaged; remove it to train from the beginning.") from error
