"""Permutation importance: how much predictions depend on each column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.errors import DataError

__all__ = ["Importance", "measure_importance"]

_MOST_ROWS, _FEWEST_ROWS = 1000, 50
_TIMES = 2
# Rows predicted in all; with very many columns there are fewer rows of each.
_MOST_PREDICTED = 60_000
_MOST_COLUMNS = 600


@dataclass(frozen=True)
class Importance:
    """Mean absolute change of predictions when a column is shuffled.

    Attributes
    ----------
    names : tuple of str
        The columns, the most important first.
    changes : tuple of float
        The mean absolute change of the prediction, in label units.
    rows : int
        How many rows that was measured on.
    """

    names: tuple[str, ...]
    changes: tuple[float, ...]
    rows: int

    @classmethod
    def from_dict(cls, written: Any) -> Importance:
        """Read what a model file says, the fields by their names; raise `DataError` for anything else."""
        try:
            names = tuple(str(name) for name in written["names"])
            changes = tuple(float(change) for change in written["changes"])
            rows = int(written["rows"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError("What the model file says about the importance of columns cannot be read.") from error
        if len(names) != len(changes) or not np.isfinite(changes).all() or min(changes, default=0.0) < 0:
            raise DataError("What the model file says about the importance of columns does not go together.")
        return cls(names, changes, rows)


def measure_importance(
    predict: Callable[[Any], NDArray[np.float64]], X: Any, parts: Mapping[str, Sequence[str]], seed: int = 0
) -> Importance | None:
    """Shuffle one column after the other and measure the mean absolute change of the predictions.

    This needs no true labels. It shows what the model uses, not how much accuracy a column adds: columns with the same
    information share their importance.

    Parameters
    ----------
    predict : callable
        Returns predictions of rows such as those of X.
    X : pyarrow.Table
        The features.
    parts : mapping of str to sequence of str
        The features made of each column of the data, which are shuffled together.
    seed : int
        The same seed, the same shuffles.

    Returns
    -------
    Importance or None
        None where there are too many columns, or too few rows to shuffle.
    """
    import pyarrow as pa

    if not 0 < len(parts) <= _MOST_COLUMNS or X.num_rows < 2:
        return None
    random = np.random.default_rng(seed)
    count = min(X.num_rows, _MOST_ROWS, max(_FEWEST_ROWS, _MOST_PREDICTED // (_TIMES * len(parts))))
    rows = X.take(pa.array(np.sort(random.choice(X.num_rows, count, replace=False))))
    as_it_is = predict(rows)
    changes = {}
    for name, features in parts.items():
        moved = []
        for _ in range(_TIMES):
            order = pa.array(random.permutation(count))
            shuffled = rows
            for feature in features:
                place = shuffled.column_names.index(feature)
                shuffled = shuffled.set_column(place, feature, rows[feature].take(order))
            moved.append(float(np.abs(predict(shuffled) - as_it_is).mean()))
        changes[name] = float(np.mean(moved))
    names = sorted(changes, key=lambda name: (-changes[name], name))
    return Importance(tuple(names), tuple(changes[name] for name in names), count)
