"""Every script in examples/ runs, says how it is run, and shows candidates to be worth more than their average."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
LINE = re.compile(r"^  (\S.*?) {2,}([\d.e+-]+) +([\d.e+-]+) +([\d.]+)%$", flags=re.MULTILINE)
GUESS = re.compile(r"^  nothing: a guess +([\d.]+)%$", flags=re.MULTILINE)

# Each of these trains for long.
SLOW = {"grid_search", "images", "join", "mixed_table", "own_loop", "text"}


class Figures(NamedTuple):
    error: float
    median: float
    identified: float


@functools.cache
def output(script: Path) -> str:
    # One thread each, so that tests that run side by side do not wait for each other's.
    surroundings = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, "--small"], capture_output=True, text=True, env=surroundings, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


def tables(text: str) -> list[tuple[dict[str, Figures], float]]:
    """Return each table's lines by what was trained on, and the share that a guess identifies."""
    parts = GUESS.split(text)
    return [
        ({name: Figures(*map(float, figures)) for name, *figures in LINE.findall(part)}, float(guess))
        for part, guess in zip(parts[:-1:2], parts[1::2], strict=True)
    ]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            path, id=path.stem, marks=[pytest.mark.xdist_group(path.stem)] + [pytest.mark.slow] * (path.stem in SLOW)
        )
        for path in SCRIPTS
    ],
)
def test_candidates_beat_their_average(script):
    found = tables(output(script))
    assert found
    for lines, guess in found:
        supervised = lines["true labels"]
        (naive,) = (figures for name, figures in lines.items() if "naive" in name)
        candidates = [figures for name, figures in lines.items() if "candidates" in name and "naive" not in name]
        best = min(candidates)
        assert 0 < supervised.error < best.error < 0.95 * naive.error
        assert 0 < best.median < naive.median
        assert guess < naive.identified < best.identified <= 100
        assert supervised.identified > naive.identified


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_docstring_and_readme_name_the_command(script):
    described = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))
    assert f"python examples/{script.name}" in described
    assert re.search(r"(minutes?|seconds) on two cores", described)
    assert f"python examples/{script.name}" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_there_are_examples():
    assert {"grid_search", "images", "join", "mixed_table", "own_loop", "text"} <= {script.stem for script in SCRIPTS}


@pytest.mark.slow
@pytest.mark.xdist_group("grid_search")
def test_grid_search_orders_settings_as_labels_would():
    agreement = re.search(r"likelihood (-?[\d.]+), score", output(EXAMPLES / "grid_search.py"))
    assert float(agreement[1]) > 0.7


@pytest.mark.slow
@pytest.mark.xdist_group("own_loop")
def test_own_loop_gives_the_same_twice():
    script = EXAMPLES / "own_loop.py"
    first = output(script)
    output.cache_clear()
    assert output(script) == first
