"""Notebooks as pages of the site, run again and compared with what they show.

    python docs/tools/notebooks.py            run every notebook, and say where its output has changed
    python docs/tools/notebooks.py --write    run every notebook, and keep what it gives

The site shows notebooks with the outputs that are kept in them. Running takes the packages `nbclient` and `ipykernel`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from pages import alike

__all__ = ["all_notebooks", "changes", "page_of", "run"]

DOCS = Path(__file__).resolve().parents[1]
# The forms of an output, the best first.
_FORMS = ("image/png", "text/html", "text/plain")


def all_notebooks() -> list[Path]:
    """Return every notebook of the site."""
    return sorted((DOCS / "notebooks").glob("*.ipynb"))


def run(path: Path) -> Any:
    """Return a notebook with the outputs that it gives in an empty folder."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        # When each cell ran says nothing about it.
        cell.metadata = {}
    return notebook


def changes(path: Path, new: Any) -> list[str]:
    """Return the texts that cells of a notebook print now, where they differ from those that are kept."""
    kept = nbformat.read(path, as_version=4)
    texts = [["".join(map(_text, cell.get("outputs", []))) for cell in one.cells] for one in (kept, new)]
    return [now for before, now in zip(*texts, strict=True) if not alike(before, now)]


def page_of(path: Path) -> str:
    """Return a notebook as Markdown."""
    parts = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += filter(None, map(_shown, cell.outputs))
    parts.append(f"[Download this notebook]({path.name})")
    return "\n\n".join(parts) + "\n"


def _text(output: Any) -> str:
    return output.text if output.output_type == "stream" else output.data.get("text/plain", "")


def _shown(output: Any) -> str:
    data = {"text/plain": output.text} if output.output_type == "stream" else output.data
    kind = next(kind for kind in _FORMS if kind in data)
    if kind == "image/png":
        return f'<img alt="What the code above draws" src="data:image/png;base64,{"".join(data[kind].split())}">'
    if kind == "text/html":
        # The page has a style for tables; those of pandas bring one of their own.
        bare = re.sub(r"<style.*?</style>|(?<=<table) [^>]*", "", data[kind], flags=re.DOTALL)
        return "\n".join(line for line in bare.splitlines() if line.strip())
    return f"```text\n{data[kind].rstrip()}\n```"


def main() -> None:
    """Run notebooks as the arguments say."""
    parser = argparse.ArgumentParser(description="Run the notebooks.")
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="keep what they give")
    given = parser.parse_args()
    changed = False
    for path in [path.resolve() for path in given.notebooks] or all_notebooks():
        new = run(path)
        if given.write:
            nbformat.write(new, path)
            continue
        for text in changes(path, new):
            changed = True
            print(f"{path.name} gives:\n{text}")
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
