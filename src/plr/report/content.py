"""What the page of a model shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plr.regressor import PartialLabelRegressor
from plr.report.facts import Facts, find_facts, half_width
from plr.report.importance import Importance
from plr.report.rows import Rows

__all__ = ["ModelContent"]

_MOST_NAMES, _LONGEST_NAME = 8, 60


@dataclass(frozen=True)
class ModelContent:
    """What the page of a model shows.

    Attributes
    ----------
    name : str
        What the model file is called.
    model : PartialLabelRegressor
    manifest : dict
        What the model file says about itself.
    rows : Rows or None
        The rows to show; None where there are none.
    new : bool
        Whether they are rows that the model was not fitted to.
    source : str
        Where they come from.
    importance : Importance or None
    trained : Rows or None
        The training rows, where ``rows`` are new ones.
    """

    name: str
    model: PartialLabelRegressor
    manifest: dict[str, Any]
    rows: Rows | None = None
    new: bool = False
    source: str = ""
    importance: Importance | None = None
    trained: Rows | None = None

    @property
    def table(self) -> dict[str, Any]:
        """What ``plr fit`` wrote down about its table; empty for models that were saved from Python."""
        found = (self.manifest.get("extra") or {}).get("table")
        return found if isinstance(found, dict) else {}

    @property
    def target(self) -> tuple[str, ...]:
        """The columns that the candidates are in."""
        found = self.table.get("target")
        return tuple(str(name) for name in found) if isinstance(found, list) else ()

    @property
    def label(self) -> str:
        """What is predicted, in a word."""
        return self.target[0] if len(self.target) == 1 and len(self.target[0]) <= 30 else "value"

    @property
    def predicted(self) -> str:
        """What is predicted, in a sentence."""
        names = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in self.target]
        if not names:
            return "The model predicts a value."
        if len(names) == 1:
            return f"The model predicts {names[0]}."
        if len(names) <= _MOST_NAMES:
            listed = f"{', '.join(names[:-1])} and {names[-1]}"
        else:
            listed = f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more columns"
        return f"The model predicts the true value, for which {listed} hold the candidates."

    @property
    def facts(self) -> Facts | None:
        """The figures about the rows."""
        return None if self.rows is None else find_facts(self.rows, self.model.calibration_, new=self.new)

    @property
    def half(self) -> float | None:
        """Half the width of a 90 % interval."""
        return half_width(self.model.calibration_)
