"""What the command line answers: output, exit codes and files, for every verb, learner and kind of table."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from plr import make_candidates

__all__ = ["cases"]

ROWS, NEW_ROWS = 120, 30
LEARNERS = ("auto", "committee", "gaussian_process", "boosting", "mlp", "linear", "density")
WEIGHTINGS = ("average", "identification", "progressive", "posterior")
MECHANISMS = ("uniform", "gaussian", "marginal", "units", "digits", "folding", "biased")
_DRAWN = ("auto", "committee", "gaussian_process")
_TABLES = (".csv", ".parquet", ".feather", ".jsonl")

# What depends on the machine or the moment.
_MOMENTARY = ("seconds", "memory", "memory_before", "scratch_bytes")
_MOMENT = [
    (re.compile(r"\d+(\.\d+)? ?(ms|min|s|seconds|minutes|MiB|GiB|kB|MB)\b"), "# \\2"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?"), "#date"),
]


@dataclass(frozen=True)
class Case:
    """Commands that follow each other in one folder."""

    title: str
    steps: tuple[str, ...]
    drawn: bool = False

    @property
    def name(self) -> str:
        """What the record calls it."""
        return self.title

    def answer(self) -> dict[str, Any]:
        """Run the commands and return what each printed, how it ended, and what it wrote."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            _write_tables(folder)
            return {step: _run(step, folder) for step in self.steps}


def cases() -> Iterator[Case]:
    """Return all of them."""
    for source, target in _SOURCES.items():
        yield Case(
            f"source {source}",
            (
                f"plr check {source} --target {target} --truth truth --json",
                f"plr fit {source} --target {target} --truth truth --learner linear -o m.plr --json",
                f"plr identify m.plr {source} -o which.csv --json",
                "plr predict m.plr new.csv --interval 0.9 -o out.csv --json",
                "plr evaluate m.plr new.csv --truth truth --json",
                f"plr evaluate m.plr {source} --truth truth --json",
                "plr report m.plr -o page.html",
            ),
        )
    for learner in LEARNERS:
        drawn = learner in _DRAWN
        fit = f"plr fit sets.csv --target y --truth truth --learner {learner} -o m.plr"
        yield Case(
            f"learner {learner}",
            (
                f"{fit} --identified which.csv --jobs 2",
                "plr predict m.plr new.csv --interval 0.9",
                "plr identify m.plr new.csv --doubtful 5",
                "plr evaluate m.plr new.csv --truth truth",
            ),
            drawn,
        )
    for weighting in WEIGHTINGS:
        for learner in ("linear", "boosting", "mlp"):
            yield Case(
                f"weighting {weighting} learner {learner}",
                (
                    f"plr fit sets.csv --target y --ignore truth --learner {learner} --weighting {weighting} "
                    "--no-intervals -o m.plr --json",
                    "plr predict m.plr new.csv -o out.parquet",
                ),
            )
    for learner in ("linear", "mlp"):
        yield Case(
            f"folder in batches, {learner}",
            (
                f"plr fit folder --stream --target y --truth truth --learner {learner} -o m.plr --json",
                "plr predict m.plr folder -o predicted --interval 0.9 --json",
                "plr identify m.plr folder -o which --json",
                "plr evaluate m.plr folder --truth truth --json",
                "plr check folder --target y --truth truth --json",
                "plr generate folder --target truth -o made --json",
            ),
        )
    for mechanism in MECHANISMS:
        yield Case(
            f"generate {mechanism}",
            (f"plr generate labels.csv --target truth --mechanism {mechanism} --truth-column t -o made.csv --json",),
        )
    yield Case("starts and options", tuple(_OPTIONS))
    yield Case("benchmark", tuple(_BENCHMARK))
    yield Case("mistakes", tuple(_MISTAKES))


_SOURCES = {
    "sets.csv": "y",
    "brackets.csv": "y",
    "sets.parquet": "y",
    "sets.feather": "y",
    "sets.jsonl": "y",
    "folder": "y",
    "columns.csv": "y0,y1,y2,y3",
    "gaps.csv": "y",
}
_OPTIONS = [
    "plr fit sets.csv --target y --ignore truth --learner mlp --start density --option epochs=20 -o a.plr --json",
    "plr fit sets.csv --target y --ignore truth --learner linear --loss huber --option loss.delta=0.5 -o b.plr --json",
    "plr fit sets.csv --target y --ignore truth --learner boosting --weights weight -o c.plr --json",
    "plr fit sets.csv --target y --ignore truth --learner linear --groups kind -o d.plr --json",
    "plr fit priors.csv --target y --prior p --ignore truth --learner linear -o e.plr --json",
    "plr fit sets.csv --target y --ignore truth --effort low -o f.plr --no-intervals",
]
_BENCHMARK = [
    "plr datasets",
    "plr benchmark --datasets auto-mpg --methods IDent,PIDent --models linear --sizes 2 --trials 1 --epochs 3 "
    "--out run --json",
    "plr report run -o pages",
]
_MISTAKES = [
    "plr",
    "plr fitt sets.csv",
    "plr fit sets.csv -o m.plr",
    "plr fit nowhere.csv --target y -o m.plr",
    "plr fit sets.csv --target z -o m.plr",
    "plr fit sets.csv --target kind -o m.plr",
    "plr fit sets.csv --target y --learner forest -o m.plr",
    "plr fit sets.csv --target y --learner linear --weighting median -o m.plr",
    "plr fit sets.csv --target y --learner linear --option epochs=3 -o m.plr",
    "plr fit sets.csv --target y --learner boosting --effort high -o m.plr",
    "plr fit sets.csv --target y --learner linear -o nowhere/m.plr",
    "plr fit empty.csv --target y --learner linear -o m.plr",
    "plr predict sets.csv new.csv",
    "plr fit sets.csv --target y --ignore truth --learner linear -o m.plr",
    "plr predict m.plr labels.csv --interval 1.5",
    "plr predict m.plr partial.csv",
    "plr identify m.plr labels.csv",
    "plr evaluate m.plr new.csv --truth nothing",
    "plr generate labels.csv --target truth --mechanism magic -o made.csv",
    "plr benchmark --datasets nothing --out run2",
    "plr report nowhere -o page.html",
]


def _write_tables(folder: Path) -> None:
    random = np.random.default_rng(11)
    rows = ROWS + NEW_ROWS
    a, b = random.normal(size=(2, rows))
    kind = np.array(["red", "green", "blue"])[random.integers(0, 3, size=rows)]
    days = np.datetime64("2024-01-01") + random.integers(0, 300, size=rows)
    truth = np.round(10 + 3 * a - 2 * b + 2.0 * (kind == "red") + 0.1 * random.normal(size=rows), 3)
    sets = make_candidates(truth, 3, set_size="fixed", random_state=2)
    lists = [[round(value, 3) for value in row] for row in sets.to_lists()]
    features = {
        "a": a,
        "b": b,
        "kind": kind,
        "sold": [str(day) for day in days],
        "weight": np.round(random.uniform(1, 2, size=rows), 2),
    }
    base = pa.table({**features, "truth": truth})
    listed = base.append_column("y", pa.array(lists))
    text = base.append_column("y", pa.array(["|".join(map(str, row)) for row in lists]))
    train, new = slice(0, ROWS), slice(ROWS, rows)
    write = pyarrow.csv.write_csv
    write(_part(text, train), folder / "sets.csv")
    write(_part(text, new), folder / "new.csv")
    write(_part(base, train), folder / "labels.csv")
    write(_part(base, train).drop_columns(["a"]), folder / "partial.csv")
    write(_part(text, slice(0, 0)), folder / "empty.csv")
    write(_part(base.append_column("y", pa.array(list(map(str, lists)))), train), folder / "brackets.csv")
    split = base
    for place in range(4):
        split = split.append_column(f"y{place}", pa.array([row[place] for row in lists]))
    write(_part(split, train), folder / "columns.csv")
    priors = text.append_column("p", pa.array(["|".join(["0.4", "0.3", "0.2", "0.1"])] * rows))
    write(_part(priors, train), folder / "priors.csv")
    gaps = pa.table({**{name: text[name] for name in text.column_names}, "b": [None, *b[1:]]})
    write(_part(gaps, train), folder / "gaps.csv")
    pyarrow.parquet.write_table(_part(listed, train), folder / "sets.parquet")
    pyarrow.feather.write_feather(_part(listed, train), folder / "sets.feather")
    (folder / "sets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _part(listed, train).to_pylist()))
    (folder / "folder").mkdir()
    for part in range(3):
        rows_of_part = slice(part * ROWS // 3, (part + 1) * ROWS // 3)
        pyarrow.parquet.write_table(_part(listed, rows_of_part), folder / "folder" / f"part-{part}.parquet")


def _part(table: pa.Table, rows: slice) -> pa.Table:
    return table.slice(rows.start, rows.stop - rows.start)


def _run(step: str, folder: Path) -> dict[str, Any]:
    before = set(folder.rglob("*"))
    clean = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    found = subprocess.run(
        [sys.executable, "-m", "plr", *step.split()[1:]], cwd=folder, env=clean, capture_output=True, text=True
    )
    written = sorted(path for path in set(folder.rglob("*")) - before if path.is_file())
    answer: dict[str, Any] = {"exit_code": found.returncode}
    printed = _said(found.stdout, folder)
    try:
        answer["json"] = _lasting(json.loads(printed))
    except ValueError:
        answer["words"] = printed
    if errors := _said(found.stderr, folder):
        answer["words_stderr"] = errors
    answer["files"] = {str(path.relative_to(folder)): _content(path) for path in written if _kept(path)}
    return answer


def _said(text: str, folder: Path) -> str:
    # Progress overwrites its line; what stays is what was written last.
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in text.replace(str(folder), ".").splitlines()]
    said = "\n".join(line for line in lines if line)
    for pattern, replacement in _MOMENT:
        said = pattern.sub(replacement, said)
    return said


def _lasting(found: Any) -> Any:
    """Return it without times and sizes of memory."""
    if isinstance(found, dict):
        return {key: _lasting(value) for key, value in found.items() if not key.endswith(_MOMENTARY)}
    return [_lasting(one) for one in found] if isinstance(found, list) else found


def _kept(path: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.parts[-2:]) and path.suffix != ".sqlite"


def _content(path: Path) -> Any:
    """Return the columns of a table; of other files, that they are there."""
    if path.suffix not in _TABLES or path.stat().st_size == 0:
        return "written"
    if path.suffix == ".csv":
        table = pyarrow.csv.read_csv(path)
    elif path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()][:NEW_ROWS]
    else:
        table = pyarrow.feather.read_table(path) if path.suffix == ".feather" else pyarrow.parquet.read_table(path)
    return {name: [_plain(cell) for cell in table[name][:NEW_ROWS].to_pylist()] for name in table.column_names}


def _plain(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, (bool, int, float, str, list)) else str(cell)
