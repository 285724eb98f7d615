"""Rows worth checking as a person sees them: in a table to fill in, and as plain values that a model file keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plr.errors import DataError
from plr.review import RANDOM, REVIEW, Review

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ReviewQueue"]

_MOST_CANDIDATES = 100
_LONGEST_TEXT = 200
# Columns of the table that a person fills in; others of these names are left out of it.
_OWN = ("row", "candidates", "value", "record", "answer", "chosen", "probability")


@dataclass(frozen=True)
class ReviewQueue:
    """Rows worth checking.

    Attributes
    ----------
    row : list of int or str
        What each row goes by: its number from 0, or its key.
    candidates : list of list of dict
        Those of each row, the likeliest first: ``value``, ``probability`` and, where it has one, ``record``.
    chosen : list of str
        How each row was chosen: ``"review"`` or ``"random"``.
    probability : list of float
        With which probability each row was chosen.
    columns : dict of str to list of str
        What tells a person which row it is.
    """

    row: list[int | str]
    candidates: list[list[dict[str, Any]]]
    chosen: list[str]
    probability: list[float]
    columns: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        review: Review,
        row: Sequence[int | str] | None = None,
        columns: Mapping[str, Sequence[object]] | None = None,
    ) -> ReviewQueue:
        """Make it of chosen rows.

        Parameters
        ----------
        review : Review
        row : sequence, optional
            What each row that could be chosen goes by; its number from 0, unless given.
        columns : mapping of str to sequence, optional
            What tells a person which row it is, one entry for each row that could be chosen.
        """
        places = review.row.tolist()
        return cls(
            [place if row is None else row[place] for place in places],
            [review.candidates(place)[:_MOST_CANDIDATES] for place in range(len(review))],
            review.chosen.tolist(),
            review.probability.tolist(),
            {name: [_text(cells[place]) for place in places] for name, cells in (columns or {}).items()},
        )

    def __len__(self) -> int:
        return len(self.row)

    def first(self, n: int) -> ReviewQueue:
        """Return the first rows; as they are in random order, each has its part of the probability."""
        if n >= len(self):
            return self
        return ReviewQueue(
            self.row[:n],
            self.candidates[:n],
            self.chosen[:n],
            [probability * n / len(self) for probability in self.probability[:n]],
            {name: cells[:n] for name, cells in self.columns.items()},
        )

    def scaled(self, share: float) -> ReviewQueue:
        """Return the same rows, chosen from a random sample of all rows."""
        return replace(self, probability=[probability * share for probability in self.probability])

    def to_table(self) -> pa.Table:
        """Return one line per row to fill in: ``value`` or ``answer``, beside the candidates as a text."""
        import pyarrow as pa

        empty = pa.nulls(len(self), pa.string())
        with_records = any("record" in candidate for row in self.candidates for candidate in row)
        own = {
            "candidates": [" | ".join(map(_describe, row)) for row in self.candidates],
            "value": empty,
            **({"record": empty} if with_records else {}),
            "answer": empty,
            "chosen": pa.array(self.chosen, pa.string()),
            "probability": pa.array(self.probability, pa.float64()),
        }
        row = pa.array(self.row, None if self.row else pa.int64())
        return pa.table({"row": row, **{k: v for k, v in self.columns.items() if k not in _OWN}, **own})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, written: Any) -> ReviewQueue:
        """Read what `to_dict` wrote; raise `DataError` for anything else, since model files may come from anywhere."""
        try:
            queue = cls(
                _row_names(written["row"]),
                [[_candidate(candidate) for candidate in row] for row in written["candidates"]],
                [str(how) for how in written["chosen"]],
                [float(probability) for probability in written["probability"]],
                {_encodable(name): [_encodable(cell) for cell in cells] for name, cells in written["columns"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError("What the model file says about rows worth checking cannot be read.") from error
        lengths = {len(queue.candidates), len(queue.chosen), len(queue.probability), *map(len, queue.columns.values())}
        sound = (
            lengths == {len(queue)},
            all(queue.candidates),
            set(queue.chosen) <= {REVIEW, RANDOM},
            all(0.0 < probability <= 1.0 + 1e-6 for probability in queue.probability),
        )
        if not all(sound):
            raise DataError("What the model file says about rows worth checking does not go together.")
        return queue


def _row_names(written: Any) -> list[int | str]:
    kinds = set(map(type, written))
    if kinds <= {str}:
        return list(map(_encodable, written))
    if kinds != {int} or not -(2**63) <= min(written) <= max(written) < 2**63:
        raise ValueError("rows are neither all numbers of 64 bits nor all texts")
    return list(written)


def _encodable(written: Any) -> str:
    text = str(written)
    text.encode()
    return text


def _candidate(written: Any) -> dict[str, Any]:
    value, probability = float(written["value"]), float(written["probability"])
    if not (math.isfinite(value) and 0.0 <= probability <= 1.0 + 1e-6):
        raise ValueError("value or probability out of range")
    return {
        "value": value,
        "probability": probability,
        **({"record": _encodable(written["record"])} if "record" in written else {}),
    }


def _describe(candidate: Mapping[str, Any]) -> str:
    record = candidate.get("record")
    return f"{candidate['value']:.12g} ({f'{record}, ' if record else ''}{candidate['probability']:.0%})"


def _text(cell: object) -> str:
    if isinstance(cell, float | np.floating):
        return "" if cell != cell else f"{cell:.7g}"
    text = "" if cell is None else str(cell).encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
