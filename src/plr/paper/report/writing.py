"""From a store to a folder of files, all of them whole or none of them there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from plr.atomic_file import write_files

if TYPE_CHECKING:
    from plr.paper.report.content import Content

__all__ = ["write_report"]


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
        How epoch and hyper-parameters are chosen, one of `plr.paper.SELECTIONS`; by default the protocol's.
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
    from plr.paper.agreement import read_notes
    from plr.paper.figures import require_matplotlib
    from plr.paper.report.content import gather
    from plr.paper.store import Store

    require_matplotlib()
    reasons = None if notes is None else read_notes(notes)
    with Store.open(store) as opened:
        content = gather(opened, selection, per, reasons)
    return content, write_files(Path(out), render_files(content))


def render_files(content: Content) -> dict[str, bytes]:
    """Return every file of a report by its name, the page last: it stands for the whole."""
    from plr.paper.figures import to_png, to_svg
    from plr.paper.report.page import render_benchmark_page
    from plr.paper.report.pictures import draw_pictures
    from plr.paper.table_formats import FORMATS, table1_text, table_text

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
    page = render_benchmark_page(content, [(picture, drawn[picture.name].decode()) for picture in pictures])
    files["index.html"] = page.encode()
    return files
