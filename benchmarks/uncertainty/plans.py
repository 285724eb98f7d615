"""What is to be fitted: the parts of the benchmark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.harness import job_key
from benchmarks.identification.data import FINAL, HELD_BACK, MAIN, training_rows
from benchmarks.uncertainty.laws import FALSE_LABELS, LAWS, SEED

__all__ = ["PARTS", "REAL_TRIALS", "TIME", "Fit", "Plan", "planned", "plans"]

TIME = "time"
PARTS = ("seven", "tables", "laws", "guaranteed", "real", TIME, "final")
"""The parts by name."""

SET_SIZES = ("upto", "fixed")
SIZES = (4, 16)
REAL_TRIALS = 15
"""Five folds, each with three draws of checked rows."""

_SMALL = 2_000
_ROWS_OF_REAL = 1_000
_TRIALS, _TRIALS_OF_LARGE = 10, 3
_LAW_ROWS = (300, 1_000, 5_000)
_PROMISE_ROWS, _PROMISE_TRIALS, _PROMISE_FALSE_LABELS = 500, 200, 4
_TIMED_ROWS, _TIMED_FALSE_LABELS, _ROUNDS = (1_000, 10_000), 4, 3

# Raised whenever the same fit would give other numbers for a reason outside of plr.
_ENGINE = 2


@dataclass(frozen=True)
class Fit:
    """Something to be fitted.

    Attributes
    ----------
    part : str
        One of `PARTS`.
    name : str
        A data set, a law, a table of the folder, or how false labels come about.
    trial : int
    false_labels, set_size : optional
        How labels are hidden, where this is not up to the table.
    rows : int
        How many are trained with, where this can be chosen.
    effort : str
    digest : str
        Of the files, or the revision that times are compared with.
    path : Path, optional
        The folder of tables, or the checkout that times are compared with.
    """

    part: str
    name: str
    trial: int
    false_labels: int | None = None
    set_size: str | None = None
    rows: int = 0
    effort: str = "normal"
    digest: str = ""
    path: Path | None = None

    @property
    def decisive(self) -> dict[str, Any]:
        """All that decides the result, plr's revision aside."""
        return asdict(replace(self, path=None)) | {"path": None}

    @property
    def key(self) -> str:
        """Hash of all that decides the result."""
        return job_key(_ENGINE, SEED, self.decisive)

    @property
    def cell(self) -> Fit:
        """The same for all trials."""
        return replace(self, trial=0, path=None)

    @property
    def cost(self) -> float:
        """Roughly how long it takes, compared with other fits."""
        rows = self.rows or (_ROWS_OF_REAL if self.part == "real" else training_rows(self.name))
        return rows * (2.0 + (self.false_labels or 0))


@dataclass(frozen=True)
class Plan:
    """The cells of a part, each with its trials."""

    cells: tuple[Fit, ...]
    trials: tuple[range, ...]

    def fits(self) -> Iterator[Fit]:
        """Return all fits."""
        for cell, trials in zip(self.cells, self.trials, strict=True):
            for trial in trials:
                yield replace(cell, trial=trial)


def plans(
    parts: Iterable[str] | None = None,
    *,
    names: tuple[str, ...] | None = None,
    rows: tuple[int, ...] | None = None,
    sizes: tuple[int, ...] = SIZES,
    trials: int | None = None,
    first_trial: int = 0,
    effort: str = "normal",
    data: Path | None = None,
    against: Path | None = None,
) -> dict[str, Plan]:
    """Return the plans of some parts; without any of all those that need nothing else, or have what they need.

    ``trials`` is the largest number of trials; ``names`` and ``rows`` leave out all others, where there is a choice.
    """
    if parts is None:
        parts = [part for part in PARTS if (part != "real" or data) and (part != TIME or against)]
    found = {}
    for part in parts:
        cells = _cells(part, sizes, effort, data, against)
        cells = [cell for cell in cells if names is None or cell.name in names]
        cells = [cell for cell in cells if rows is None or not cell.rows or cell.rows in rows]
        counts = [_trials(cell) if trials is None else min(trials, _trials(cell)) for cell in cells]
        first = first_trial if part in ("seven", "tables", "final", "laws") else 0
        found[part] = Plan(tuple(cells), tuple(range(first, first + count) for count in counts))
    return found


def planned(plans: Iterable[Plan]) -> list[Fit]:
    """Return the fits of several plans: all begin with their first trials, long ones first."""
    placed = [
        (place / len(trials), -cell.cost, replace(cell, trial=trial))
        for plan in plans
        for cell, trials in zip(plan.cells, plan.trials, strict=True)
        for place, trial in enumerate(trials)
    ]
    return [fit for _, _, fit in sorted(placed, key=lambda part: part[:2])]


def _cells(part: str, sizes: tuple[int, ...], effort: str, data: Path | None, against: Path | None) -> list[Fit]:
    if part == "seven":
        every = product(MAIN, SET_SIZES, sizes)
        return [Fit(part, name, 0, size, set_size, effort=effort) for name, set_size, size in every]
    if part in ("tables", "final"):
        tables = HELD_BACK if part == "tables" else FINAL
        return [Fit(part, name, 0, size, "fixed", effort=effort) for name, size in product(tables, sizes)]
    if part == "laws":
        every_law = product(LAWS, _LAW_ROWS, sizes)
        return [Fit(part, name, 0, size, "fixed", rows, effort) for name, rows, size in every_law]
    if part == "guaranteed":
        # Its learner is a linear one, which has no efforts.
        return [Fit(part, kind, 0, _PROMISE_FALSE_LABELS, "fixed", _PROMISE_ROWS) for kind in FALSE_LABELS]
    if part == "real":
        from benchmarks.real.cases import digest, tables_in

        if data is None:
            raise SystemExit(
                "The part real needs --data FOLDER; `python -m benchmarks.real --help` says what is in it."
            )
        return [Fit(part, name, 0, effort="low", digest=digest(name, data), path=data) for name in tables_in(data)]
    if part == TIME:
        if against is None:
            raise SystemExit("The part time needs --against CHECKOUT, another checkout of plr.")
        return [
            Fit(part, "made-up", 0, _TIMED_FALSE_LABELS, "fixed", rows, effort, revision_of(against), against)
            for rows in _TIMED_ROWS
        ]
    raise SystemExit(f"There is no part {part!r}; there are {', '.join(PARTS)}.")


def _trials(cell: Fit) -> int:
    if cell.part == "real":
        return REAL_TRIALS
    if cell.part == TIME:
        return _ROUNDS
    if cell.part == "guaranteed":
        return _PROMISE_TRIALS
    rows = cell.rows or training_rows(cell.name)
    return _TRIALS if rows < _SMALL else _TRIALS_OF_LARGE


def revision_of(checkout: Path) -> str:
    """Return what tells the plr of a checkout from others: a hash of its files."""
    files = sorted((checkout / "src" / "plr").rglob("*.py"))
    if not files:
        raise SystemExit(f"{checkout} has no src/plr.")
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
