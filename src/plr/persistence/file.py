"""The file around a model: one safetensors file of arrays, with texts as arrays of bytes.

Two of the arrays have names: ``manifest`` says what wrote the file and has the digest of every other array, ``model``
is the JSON that says how they belong together. The header's metadata has the digest of the manifest. safetensors checks
that the arrays cover the file to the byte; nothing in it is compressed, so nothing is larger than the file.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

import plr
from plr.atomic_file import AtomicFile, atomic_file, write_errors
from plr.errors import ModelFileError

__all__ = [
    "ARRAY_TYPES",
    "MODEL",
    "ModelFile",
    "check_writable",
    "damaged",
    "differences",
    "digest_of",
    "open_file",
    "write_file",
]

FORMAT, VERSION = "plr model", 3
MANIFEST, MODEL = "manifest", "model"

_TYPES = (np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
ARRAY_TYPES: dict[str, type[np.generic]] = {"BOOL": np.bool_} | {
    f"{np.dtype(kind).kind.upper()}{8 * np.dtype(kind).itemsize}": kind for kind in _TYPES
}
"""Types of arrays that a file may hold, as safetensors calls them."""

_WHAT = "The model file"
_LARGEST_HEADER, _MOST_DIMENSIONS = 16_000_000, 4
# So much JSON there may be in every file, and more in one that is large itself. A value costs some hundred bytes once
# it is read, and in a file it may be two.
_LARGEST_JSON, _LARGEST_SHARE = 16_000_000, 2
_MOST_VALUES, _BYTES_A_VALUE = 300_000, 40
# Open ends count as ends: looked for from every quote, a missing one would take time without bound.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
# Formats 1 and 2 were ZIP files that began with their manifest.
_ZIP, _ZIP_NAME = b"PK\x03\x04", slice(30, 43)
_PACKAGES = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "lightgbm": "lightgbm", "skops": "skops"}
_RELEASE = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,40}")


def damaged(path: Path, why: str) -> ModelFileError:
    """Make the error for a model file that cannot be used."""
    return ModelFileError(
        f"{path} is not a plr model file, or is damaged: {why}. Save the model again, or copy it anew."
    )


def _foreign(path: Path) -> ModelFileError:
    return ModelFileError(f"{path} is not a plr model file; give a file that plr.save_model or plr fit has written.")


def _unreleased(path: Path, format_: str) -> ModelFileError:
    return ModelFileError(
        f"{path} cannot be read: {format_} was written by a development version of plr; no release has it: fit again."
    )


class ModelFile:
    """An open model file, with its manifest read; each array can be taken once."""

    def __init__(self, path: Path, handle: Any, size: int) -> None:
        self.path, self._handle, self._size = path, handle, size
        self.left = set(handle.keys())
        metadata = handle.metadata()
        if not isinstance(metadata, dict) or "plr" not in metadata or MANIFEST not in self.left:
            raise _foreign(path)
        self._digests = {MANIFEST: metadata["plr"]}
        self.manifest = found = self.json(MANIFEST)
        self._require(isinstance(found, dict) and found.get("format") == FORMAT, "not a plr manifest")
        version, digests = found.get("version"), found.get("digests")
        self._require(type(version) is int and version >= 1, "its manifest has no version")
        if version > VERSION:
            raise ModelFileError(
                f"{path} has format {version}, written by plr {str(found.get('plr'))[:20]}; this plr, "
                f"{plr.__version__}, reads format {VERSION}. Install a newer plr."
            )
        if version < VERSION:
            raise _unreleased(path, f"Format {version}")
        complete = isinstance(digests, dict) and isinstance(found.get("extra"), dict)
        self._require(complete, "its manifest is incomplete")
        self._require(digests.keys() == self.left, "its arrays are not those of its manifest")
        self._digests = digests

    def _require(self, holds: bool, why: str) -> None:
        if not holds:
            raise damaged(self.path, why)

    def take(self, name: Any) -> NDArray[Any]:
        """Return an array, compared with its digest."""
        # A small file that names one array a million times would fill the memory.
        there = isinstance(name, str) and name in self.left
        self._require(there, f"it has no array {name!r:.40}, or names it twice")
        with _reading(self.path, f"its array {name} cannot be read"):
            part = self._handle.get_slice(name)
            known = part.get_dtype() in ARRAY_TYPES and len(part.get_shape()) <= _MOST_DIMENSIONS
            self._require(known, f"its array {name} has a type or shape that plr does not write")
            found: NDArray[Any] = self._handle.get_tensor(name)
        self._require(digest_of(found) == self._digests.get(name), f"its array {name} is not what was written")
        is_bool = found.dtype != np.bool_ or bool((found.view(np.uint8) <= 1).all())
        self._require(is_bool, f"its array {name} is neither true nor false")
        self.left.discard(name)
        return found

    def bytes(self, name: Any) -> bytes:
        """Return an array of bytes."""
        found = self.take(name)
        self._require(found.dtype == np.uint8 and found.ndim == 1, f"its {name} is not made of bytes")
        return found.tobytes()

    def json(self, name: str) -> Any:
        """Return what an array of JSON holds, provided it is small enough to be parsed."""
        most, most_values = _limits(self._size)
        length = max([0, *self._handle.get_slice(name).get_shape()]) if name in self.left else 0
        self._require(length <= most, f"its {name} is larger than any that plr writes")
        content = self.bytes(name)
        self._require(_count_values(content) <= most_values, f"its {name} has more values than any that plr writes")
        with _reading(self.path, f"its {name} cannot be read"):
            # NaN and Infinity, which are not JSON, are no integers.
            return json.loads(content, parse_constant=int)


@contextmanager
def open_file(path: Path) -> Iterator[ModelFile]:
    """Open a model file and check its manifest."""
    with _reading(path, "its arrays do not cover it"):
        # A pipe or a device would be waited for.
        if path.exists() and not path.is_file():
            raise ModelFileError(
                f"{path} is {'a folder' if path.is_dir() else 'not a file'}; give the path of a model file."
            )
        with path.open("rb") as file:
            head, size = file.read(64), file.seek(0, os.SEEK_END)
        if size == 0:
            raise ModelFileError(f"{path} is empty; save the model again.")
        if head.startswith(_ZIP) and head[_ZIP_NAME] == b"manifest.json":
            raise _unreleased(path, "Format 1 or 2")
        length = struct.unpack("<Q", head[:8])[0] if len(head) > 8 else 0
        if not 1 < length <= _LARGEST_HEADER or head[8:9] != b"{":
            raise _foreign(path)
        # Not mapped into memory: a file that is cut off meanwhile would end the interpreter.
        handle = safe_open(path, "np", backend="pread")
    with handle as opened:
        yield ModelFile(path, opened, size)


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """Turn what the system, safetensors and numpy raise about a file or its content into one error."""
    try:
        yield
    except ModelFileError:
        raise
    except FileNotFoundError as error:
        raise ModelFileError(f"{path} does not exist; give the path of a model file.") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ModelFileError(f"{path} cannot be read: {reason}.") from error
    except (SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise damaged(path, what) from error


def write_file(
    path: Path, arrays: Mapping[str, NDArray[Any]], model: Any, extra: Any, modules: Iterable[str], kinds: Iterable[str]
) -> None:
    """Write a model file.

    ``modules`` are those of other packages that made parts of the model, ``kinds`` what it consists of.
    """
    size = sum(part.nbytes for part in arrays.values())
    content = {MODEL: _to_json(model, "The model", size), **arrays}
    packages = dict.fromkeys([*_PACKAGES.values(), *(_PACKAGES.get(name, name) for name in sorted(modules))])
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "plr": plr.__version__,
        "packages": {name: version for name in packages if (version := _version(name))},
        "kinds": sorted(kinds),
        "extra": extra,
        "digests": {name: digest_of(part) for name, part in content.items()},
    }
    content[MANIFEST] = _to_json(manifest, "extra", size + content[MODEL].nbytes)
    if sum(len(name) + 100 for name in content) > _LARGEST_HEADER:
        raise ModelFileError(f"The model has more arrays, {len(content):,}, than a model file may have.")
    check_writable(path)
    with atomic_file(path, _WHAT, failure=ModelFileError, also=(SafetensorError,)) as file:
        file.write(save(content, {"plr": digest_of(content[MANIFEST])}))


def check_writable(path: Path) -> None:
    """Raise the error that writing a model file would end with, as far as it can be known before."""
    with write_errors(path, _WHAT, failure=ModelFileError):
        if path.exists() and not path.is_file():
            what = "a folder" if path.is_dir() else "not a file"
            raise ModelFileError(f"{_WHAT} {path} cannot be written: it is {what}.")
        AtomicFile(path).discard()


def digest_of(array: NDArray[Any]) -> str:
    """Return the SHA-256 of an array, its type and its shape."""
    found = hashlib.sha256(f"{array.dtype.name} {array.shape}".encode())
    found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _to_json(data: Any, what: str, beside: int) -> NDArray[np.uint8]:
    """Return data as JSON; refuse what could not be read again."""
    try:
        content = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{what} must be made of texts, finite numbers, lists and dictionaries: {error}."
        ) from error
    values, (most, most_values) = _count_values(content), _limits(beside + len(content))
    if len(content) > most or values > most_values:
        raise ModelFileError(
            f"{what} is too large for a model file: {len(content):,} bytes in {values:,} values, where {most:,} bytes "
            f"in {most_values:,} values are read."
        )
    return np.frombuffer(content, np.uint8)


def _limits(size: int) -> tuple[int, int]:
    """Return how many bytes and values the JSON of a file may have."""
    return max(_LARGEST_JSON, size // _LARGEST_SHARE), max(_MOST_VALUES, size // _BYTES_A_VALUE)


def _count_values(content: bytes) -> int:
    """Return how many values JSON has, about; what stands inside texts does not count."""
    bare = _TEXT.sub(b"", content)
    return sum(bare.count(mark) for mark in (b"[", b"{", b","))


def differences(manifest: dict[str, Any], modules: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return packages that had another major or minor version when the file was written.

    Each with the version that wrote the file and the one that is installed.
    """
    versions = manifest.get("packages")
    found = []
    for package in sorted({_PACKAGES.get(name, name) for name in modules}):
        written, installed = versions.get(package) if isinstance(versions, dict) else None, _version(package) or "none"
        known = isinstance(written, str) and _RELEASE.fullmatch(written) is not None
        if known and str(written).split(".")[:2] != installed.split(".")[:2]:
            found.append((package, str(written), installed))
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
