"""The README's code runs, and says what is true."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_readme_code(capsys):
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    r_squared, found = (float(line) for line in capsys.readouterr().out.split())
    assert r_squared > 0.98
    assert found > 0.95


def test_readme_example_is_short():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 11


def test_readme_names_both_commands():
    assert re.search(r"^make run ", README, flags=re.MULTILINE)
    assert re.search(r"^make test ", README, flags=re.MULTILINE)
