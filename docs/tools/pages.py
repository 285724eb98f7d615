"""Run the code on the pages, and compare or renew the output that they show.

    python docs/tools/pages.py                  run every page, and say where its output has changed
    python docs/tools/pages.py --write          run every page, and write down what it prints
    python docs/tools/pages.py docs/start.md    the same for some pages

On a page, ``python`` blocks run in order in one namespace, and lines of ``sh`` blocks that begin with ``plr`` in the
same empty folder. A ``text`` block right after one of them is what it prints. Blocks of other kinds, such as
``console``, are only shown.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Block", "alike", "all_pages", "blocks", "run_page"]

DOCS = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", flags=re.DOTALL | re.MULTILINE)
# How long something took says nothing about what it does.
_DURATION = re.compile(r"\d+(\.\d+)? s\b")
_NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Block:
    """Code on a page, and the output that the page shows for it, if it does."""

    kind: str
    code: str
    shown: str | None
    line: int


def all_pages() -> list[Path]:
    """Return every page that has code to run."""
    return [page for page in sorted(DOCS.rglob("*.md")) if blocks(page)]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that run."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], found[3], text.count("\n", 0, found.start()) + 1) for found in _BLOCK.finditer(text)
    ]


def run_page(page: Path) -> Iterator[tuple[Block, str]]:
    """Run a page's code in an empty folder, and give each block with what it printed."""
    names: dict[str, Any] = {"__name__": "__page__"}
    home, found = Path.cwd(), blocks(page)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in found:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    if block.kind == "python":
                        # As many lines ahead as the page has, so that a traceback names the page's own.
                        exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
                    else:
                        _run_commands(block, page)
                yield block, "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())
        finally:
            os.chdir(home)


def _run_commands(block: Block, page: Path) -> None:
    from typer.testing import CliRunner

    from plr.cli import app

    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0] != "plr":
            continue
        done = CliRunner().invoke(app, words[1:], catch_exceptions=False)
        if done.exit_code:
            raise AssertionError(f"{page.name}, line {block.line}: {line} ended with {done.exit_code}: {done.output}")
        sys.stdout.write(done.stdout)


def alike(shown: str, printed: str) -> bool:
    """Say whether two outputs have the same words, and nearly the same numbers.

    Sums come out differently on other processors, and what follows from them a little more so.
    """
    shown, printed = (_DURATION.sub("", text) for text in (shown, printed))
    if _NUMBER.sub("#", shown).split() != _NUMBER.sub("#", printed).split():
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(_near(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs)


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 0.05 + 0.3 * max(abs(a), abs(b))


def _renew(page: Path) -> bool:
    """Write down what a page prints."""
    printed = dict(run_page(page))
    text = page.read_text(encoding="utf-8")
    outputs = iter(printed.values())

    def renewed(found: re.Match[str]) -> str:
        output = next(outputs)
        return f"```{found[1]}\n{found[2]}```\n" + (f"\n```text\n{output}```\n" if found[3] is not None else "")

    new = _BLOCK.sub(renewed, text)
    if new != text:
        page.write_text(new, encoding="utf-8")
    return new != text


def main() -> None:
    """Run pages as the arguments say."""
    parser = argparse.ArgumentParser(description="Run the code on the pages.")
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="write down what is printed")
    given = parser.parse_args()
    changed = False
    for page in [page.resolve() for page in given.pages] or all_pages():
        if given.write:
            print(f"{page.relative_to(DOCS)}: {'renewed' if _renew(page) else 'as it was'}")
            continue
        for block, printed in run_page(page):
            if block.shown is not None and not alike(block.shown, printed):
                changed = True
                print(f"{page.relative_to(DOCS)}, line {block.line} prints:\n{printed}")
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
