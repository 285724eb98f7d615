"""The file around a model: a ZIP whose members are not compressed, so that nothing in it is larger than the file.

All that a file claims about itself is compared with the file before anything is read: how many members there are, what
they are called, and that their sizes, with the ZIP's own headers, add up to the file to the byte.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from plr.errors import ModelFileError

__all__ = ["MANIFEST", "Members", "check_writable", "open_members", "write_members"]

MANIFEST = "manifest.json"

# The directory must fit into memory before anything is known about it.
_MOST_MEMBERS = 50_000
_LARGEST_DIRECTORY = 8_000_000
_NAMES = re.compile(r"[a-z0-9][a-z0-9_.]{0,60}")
_END = struct.Struct("<4s4H2LH")
# What stands before it where the directory begins beyond two gigabytes: its sizes in full, and where they are.
_LARGE_END, _LOCATOR = struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
_LOCAL_HEADER, _DIRECTORY_ENTRY = 30, 46
# Sizes of large members stand in full behind their headers: two in front of a member, up to three in the directory.
_LOCAL_SIZES, _MARK, _SIZE = 20, 4, 8
# One date for all, so that the same model makes the same file.
_DATE = (1980, 1, 1, 0, 0, 0)
_CHUNK = 1 << 20


class Members:
    """The members of an open model file, each as long as the ZIP's directory says."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self.sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        self.total = sum(self.sizes.values())

    def read(self, name: str, most: int) -> bytearray:
        """Return the bytes of a member; refuse one of more than ``most``."""
        size = self.sizes.get(name)
        if size is None:
            raise damaged(self.path, f"it has no {name}")
        if size > most:
            raise damaged(self.path, f"its {name} is larger than any plr writes")
        content = bytearray(size)
        self.read_into(name, memoryview(content))
        return content

    def read_into(self, name: str, view: memoryview) -> None:
        """Fill ``view``, which must be as long as the member is, and check the ZIP's own sum."""
        done = 0
        with _as_damage(self.path, name), self._archive.open(name) as member:
            while done < len(view):
                part = member.read(min(_CHUNK, len(view) - done))
                if not part:
                    raise damaged(self.path, f"its {name} ends too early")
                view[done : done + len(part)] = part
                done += len(part)
            # The sum is compared when the end has been seen.
            member.read(1)


def damaged(path: Path, why: str) -> ModelFileError:
    """Make the error for a model file that cannot be used."""
    return ModelFileError(
        f"{path} is no model file of plr's, or is damaged: {why}. Save the model again, or copy it anew."
    )


@contextmanager
def open_members(path: Path) -> Iterator[Members]:
    """Open a model file and check its directory."""
    with _opened(path) as file:
        size = _check_end(path, file)
        with _as_damage(path, "directory"):
            archive = zipfile.ZipFile(file)
        with archive:
            _check_directory(path, archive, size)
            yield Members(path, archive)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        # A pipe or a device would be waited for.
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            what = "a folder" if path.is_dir() else "not a file"
            raise ModelFileError(f"{path} is {what}; give the path of a model file.")
        file = path.open("rb")
    except ModelFileError:
        raise
    except FileNotFoundError as error:
        raise ModelFileError(f"{path} does not exist; give the path of a model file.") from error
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read: {_reason(error)}.") from error
    with file:
        yield file


def _check_end(path: Path, file: IO[bytes]) -> int:
    """Check the record at the file's end, which says how large the directory is, and return the file's size."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        raise ModelFileError(f"{path} is empty; save the model again.")
    file.seek(0)
    first = file.read(4)
    if size < _END.size or first != b"PK\x03\x04":
        raise ModelFileError(
            f"{path} is no model file of plr's; give a file that plr.save_model or plr fit has written."
        )
    file.seek(size - _END.size)
    mark, disk, directory_disk, here, members, length, start, comment = _END.unpack(file.read(_END.size))
    if mark != b"PK\x05\x06" or disk or directory_disk or comment or here != members:
        raise damaged(path, "its end is missing")
    end = _END.size
    if start > zipfile.ZIP64_LIMIT:
        end += _LARGE_END.size + _LOCATOR.size
        members, length, start = _read_large_end(path, file, size)
    if members > _MOST_MEMBERS or length > _LARGEST_DIRECTORY or start + length + end != size:
        raise damaged(path, "its directory does not fit")
    file.seek(0)
    return size


def _read_large_end(path: Path, file: IO[bytes], size: int) -> tuple[int, int, int]:
    """Return the number of members, and the directory's length and start, as the end of a large file has them."""
    place = size - _END.size - _LOCATOR.size - _LARGE_END.size
    if place < 0:
        raise damaged(path, "its end is missing")
    file.seek(place)
    mark, rest, _, _, disk, other_disk, here, members, length, start = _LARGE_END.unpack(file.read(_LARGE_END.size))
    locator = _LOCATOR.unpack(file.read(_LOCATOR.size))
    right = (mark, rest, disk, other_disk, here) == (b"PK\x06\x06", _LARGE_END.size - 12, 0, 0, members)
    if not right or locator != (b"PK\x06\x07", 0, place, 1):
        raise damaged(path, "its end is missing")
    return members, length, start


def _check_directory(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    entries = archive.infolist()
    total = _END.size
    if archive.start_dir > zipfile.ZIP64_LIMIT:
        total += _LARGE_END.size + _LOCATOR.size
    seen = set()
    for entry in entries:
        if not _NAMES.fullmatch(entry.filename) or entry.filename != entry.orig_filename:
            raise damaged(path, "it has a member with a name that plr does not give")
        if entry.filename in seen:
            raise damaged(path, f"it has two members called {entry.filename}")
        seen.add(entry.filename)
        plain = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
        if entry.file_size > size:
            raise damaged(path, "its members do not add up to its size")
        more = _sizes_in_full(entry)
        if not plain or entry.flag_bits or len(entry.extra) != more or entry.comment:
            raise damaged(path, f"its {entry.filename} is packed in a way that plr does not use")
        total += _LOCAL_HEADER + _DIRECTORY_ENTRY + 2 * len(entry.filename) + entry.file_size
        total += more + (_LOCAL_SIZES if _is_large(entry.file_size) else 0)
    if total != size:
        raise damaged(path, "its members do not add up to its size")


def _is_large(size: int) -> bool:
    """Return whether a member of so many bytes is written with room for its sizes, as zipfile does."""
    return size * 1.05 > zipfile.ZIP64_LIMIT


def _sizes_in_full(entry: zipfile.ZipInfo) -> int:
    """Return how many bytes an entry of the directory has behind it for what its header has no room for."""
    told = 2 * (entry.file_size > zipfile.ZIP64_LIMIT) + (entry.header_offset > zipfile.ZIP64_LIMIT)
    return _MARK + told * _SIZE if told else 0


@contextmanager
def _as_damage(path: Path, name: str) -> Iterator[None]:
    """Turn what the ZIP reader raises into one error."""
    try:
        yield
    except ModelFileError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, struct.error, ValueError) as error:
        raise damaged(path, f"its {name} cannot be read") from error
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {_reason(error)}.") from error


def write_members(path: Path, members: Mapping[str, memoryview], manifest: Callable[[dict[str, str]], bytes]) -> None:
    """Write a model file under a temporary name, and give it its own when it is on the disk.

    ``manifest`` makes the manifest from each member's SHA-256.
    """
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    first = manifest(digests)
    if len(members) >= _MOST_MEMBERS:
        raise ModelFileError(f"The model has more than the {_MOST_MEMBERS} parts that a model file may have.")
    with _temporary(path) as temporary:
        with temporary.open("xb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                _write(archive, MANIFEST, memoryview(first))
                for name, content in members.items():
                    _write(archive, name, content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)


def check_writable(path: Path) -> None:
    """Raise the error that writing a model file would end with, as far as it can be known before."""
    with _temporary(path) as temporary:
        temporary.touch(exist_ok=False)


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Give another name in the same folder, and remove what is left of it in the end."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            raise ModelFileError(f"The model cannot be written to {path}: it is not a file.")
        yield temporary
    except OSError as error:
        raise ModelFileError(f"The model cannot be written to {path}: {_reason(error)}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write(archive: zipfile.ZipFile, name: str, content: memoryview) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    entry.file_size = content.nbytes
    with archive.open(entry, "w", force_zip64=_is_large(content.nbytes)) as member:
        for start in range(0, content.nbytes, _CHUNK):
            member.write(content[start : start + _CHUNK])


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk; not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error)
