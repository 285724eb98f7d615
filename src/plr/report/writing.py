"""From a store to a folder of files, all of them whole or none of them there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from plr.errors import StoreError

if TYPE_CHECKING:
    from plr.report.content import Content

__all__ = ["write_files", "write_report"]


def write_report(
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    selection: str | None = None,
    per: str = "trial",
    notes: str | os.PathLike[str] | None = None,
) -> tuple[Content, list[Path]]:
    """Write tables, figures and the page of a store into a folder.

    Parameters
    ----------
    store : path
        Folder of the store, or the file in it.
    out : path
        Folder to write into; made if needed, files of an earlier report are replaced.
    selection : str, optional
        How epoch and hyper-parameters are chosen, one of `plr.benchmark.SELECTIONS`; by default the protocol's.
    per : {"trial", "cell"}, default="trial"
        Whether trials choose hyper-parameters each or together.
    notes : path, optional
        CSV file of reasons for cells that disagree, with the columns dataset, model, method, false_labels and note.

    Returns
    -------
    content : Content
        What the report shows.
    paths : list of Path
        What was written; the page is the last.
    """
    from plr.benchmark.agreement import read_notes
    from plr.benchmark.figures import require_matplotlib
    from plr.benchmark.store import Store
    from plr.report.content import gather

    require_matplotlib()
    reasons = None if notes is None else read_notes(notes)
    with Store.open(store) as opened:
        content = gather(opened, selection, per, reasons)
    return content, write_files(Path(out), render_files(content))


def render_files(content: Content) -> dict[str, bytes]:
    """Return every file of a report by its name, the page last: it stands for the whole."""
    from plr.benchmark.figures import to_png, to_svg
    from plr.benchmark.table_formats import FORMATS, table1_text, table_text
    from plr.report.page import render_page
    from plr.report.pictures import draw_pictures

    pictures = draw_pictures(content)
    drawn = {picture.name: to_svg(picture.figure) for picture in pictures}
    files: dict[str, bytes] = {}
    for form in FORMATS:
        files[f"table1.{form}"] = table1_text(content.table1, form).encode()
        for table in content.chosen.tables:
            files[f"{table.name}.{form}"] = table_text(table, form).encode()
    for picture in pictures:
        files[f"{picture.name}.svg"] = drawn[picture.name]
        files[f"{picture.name}.png"] = to_png(picture.figure)
    page = render_page(content, [(picture, drawn[picture.name].decode()) for picture in pictures])
    files["index.html"] = page.encode()
    return files


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
