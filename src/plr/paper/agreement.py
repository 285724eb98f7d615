"""Whether a measured number agrees with the published one, for one cell, for all cells, for every selection rule."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from plr.errors import DataError, DataNotFoundError
from plr.paper.published import MISPRINTED_DEVIATIONS, MISPRINTED_MEANS, Place, published_cells

__all__ = [
    "COUNTED_CELLS",
    "RULE_IN_SHORT",
    "RULE_IN_WORDS",
    "Agreement",
    "Comparison",
    "Verdict",
    "agreement_of",
    "best_agreement",
    "compare",
    "read_notes",
]

Row = Mapping[str, Any]

_DEVIATIONS = 2.0
_SHARE = 0.15

# Methods that agree where they come out better than published; a baseline that does so was not reproduced.
_MAY_BE_BETTER = ("Supervised", "IDent", "PIDent")

COUNTED_CELLS = len(published_cells()) - len(MISPRINTED_MEANS)
"""Published means that can be compared: all but the misprinted."""

RULE_IN_SHORT = "within two published standard deviations or 15 %, whichever is larger"

RULE_IN_WORDS = (
    "A measured mean agrees if it lies within two published standard deviations or 15 % of the published mean, "
    "whichever is larger; for Supervised, IDent and PIDent also if it is lower. A baseline lower than that band "
    f"disagrees. {len(MISPRINTED_MEANS)} of the {len(published_cells())} published means repeat another method's, are "
    f"taken for misprints and left out, which leaves {COUNTED_CELLS}. One published deviation repeats its mean "
    "(Housing, linear model, AVGL-Huber at 4); there the 15 % alone decide."
)

# Of the misprinted deviations only this one is a wrong number; the others merely lack their brackets.
_UNUSABLE_DEVIATIONS = {place for place, reason in MISPRINTED_DEVIATIONS.items() if "repeats the mean" in reason}


class Verdict(StrEnum):
    """The result of a comparison."""

    AGREES = "agrees"
    BETTER = "better"
    HIGHER = "higher"
    LOWER = "lower"
    FAILED = "failed"
    MISPRINT = "misprint"


_AGREEING = (Verdict.AGREES, Verdict.BETTER)


@dataclass(frozen=True)
class Comparison:
    """A measured table cell beside the published one.

    Attributes
    ----------
    dataset, model, method : str
    false_labels : int
    measured, measured_std : float or None
        Mean and standard deviation of the test MSE over trials; None where no trial, or only one, trained.
    published, published_std : float
    deviation : float or None
        Measured less published mean, in published standard deviations; None where either cannot be used.
    verdict : Verdict
    reason : str
        Why the cell disagrees, where that is known; empty otherwise.
    """

    dataset: str
    model: str
    method: str
    false_labels: int
    measured: float | None
    measured_std: float | None
    published: float
    published_std: float
    deviation: float | None
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class Agreement:
    """How many published means one selection rule agrees with.

    Attributes
    ----------
    selection, per : str
        The rule, as `plr.paper.selection.choose` takes it.
    comparisons : tuple of Comparison
        Every measured cell the paper has a number for, misprints included.
    """

    selection: str
    per: str
    comparisons: tuple[Comparison, ...]

    @property
    def counted(self) -> int:
        """Cells measured and soundly published."""
        return sum(item.verdict is not Verdict.MISPRINT for item in self.comparisons)

    @property
    def agreeing(self) -> int:
        """Cells that agree."""
        return sum(item.verdict in _AGREEING for item in self.comparisons)

    @property
    def share(self) -> float | None:
        """Agreeing share of the counted cells; None where there are none."""
        return self.agreeing / self.counted if self.counted else None

    @property
    def unmeasured(self) -> int:
        """Soundly published cells that the store has no result for."""
        return COUNTED_CELLS - self.counted

    def disagreeing(self) -> list[Comparison]:
        """Return the counted cells that do not agree, the farthest off first."""

        def distance(item: Comparison) -> float:
            return float("inf") if item.measured is None else abs(item.measured / item.published - 1.0)

        apart = [item for item in self.comparisons if item.verdict not in (*_AGREEING, Verdict.MISPRINT)]
        return sorted(apart, key=distance, reverse=True)


def compare(row: Row, notes: Mapping[Place, str] | None = None) -> Comparison | None:
    """Compare a row that `plr.paper.selection.summarise` made with the published number; None where there is none.

    >>> row = dict(dataset="concrete", model="mlp", method="AVGL-MSE", false_labels=4, test_mse=100.0, test_mse_std=9.0,
    ...            published_mse=151.0, published_std=10.0)
    >>> found = compare(row)
    >>> found.verdict.value, round(found.deviation, 1)
    ('lower', -5.1)
    """
    if row["published_mse"] is None:
        return None
    place = (row["dataset"], row["model"], row["false_labels"], row["method"])
    measured, published, std = row["test_mse"], float(row["published_mse"]), float(row["published_std"])
    usable = place not in _UNUSABLE_DEVIATIONS and std > 0
    deviation = (measured - published) / std if usable and measured is not None else None
    return Comparison(
        dataset=row["dataset"],
        model=row["model"],
        method=row["method"],
        false_labels=row["false_labels"],
        measured=measured,
        measured_std=row["test_mse_std"],
        published=published,
        published_std=std,
        deviation=None if place in MISPRINTED_MEANS else deviation,
        verdict=_judge(place, measured, published, std if usable else 0.0),
        reason=(notes or {}).get(place, ""),
    )


def agreement_of(table: Iterable[Row], selection: str, per: str, notes: Mapping[Place, str] | None = None) -> Agreement:
    """Compare what `plr.paper.selection.summarise` found under one rule with the published cells.

    Parameters
    ----------
    table : iterable of dict
    selection, per : str
        The rule, as `plr.paper.selection.choose` took it.
    notes : mapping, optional
        Reasons by place, as `read_notes` returns them.
    """
    return Agreement(selection, per, tuple(item for row in table if (item := compare(row, notes)) is not None))


def best_agreement(agreements: Iterable[Agreement]) -> Agreement | None:
    """Return the rule that agrees with the most published cells; the first named wins a tie, None if nothing counts."""
    counted = [agreement for agreement in agreements if agreement.counted]
    return max(counted, key=lambda agreement: agreement.agreeing, default=None)


def read_notes(path: str | os.PathLike[str]) -> dict[Place, str]:
    """Read the known reasons for disagreeing cells of one store.

    Parameters
    ----------
    path : path
        A CSV file with the columns dataset, model, method, false_labels and note.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise DataNotFoundError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8.") from error
    notes: dict[Place, str] = {}
    rows = csv.DictReader(io.StringIO(text, newline=""))
    for row in rows:
        where = f"{path}, line {rows.line_num}"
        try:
            place = (row["dataset"], row["model"], int(row["false_labels"]), row["method"])
            note = row["note"].strip()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{where}: needs dataset, model, method, false_labels and note.") from error
        if place not in published_cells():
            raise DataError(f"{where}: the paper has no cell {', '.join(map(str, place))}.")
        notes[place] = note
    return notes


def _judge(place: Place, measured: float | None, published: float, std: float) -> Verdict:
    if place in MISPRINTED_MEANS:
        return Verdict.MISPRINT
    if measured is None:
        return Verdict.FAILED
    difference = measured - published
    if abs(difference) <= max(_DEVIATIONS * std, _SHARE * published):
        return Verdict.AGREES
    if difference > 0:
        return Verdict.HIGHER
    return Verdict.BETTER if place[3] in _MAY_BE_BETTER else Verdict.LOWER
