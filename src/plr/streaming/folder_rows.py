"""Batches of a folder as rows to learn from: features, candidate sets, weights, and where each row came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.columns.candidates import read_sets
from plr.columns.features import Features
from plr.columns.kinds import Mended
from plr.columns.targets import read_target
from plr.errors import EmptySetError, ParameterError
from plr.sources.folder import Folder
from plr.sources.source import Batch, File

__all__ = ["FolderRows", "Reading"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class FolderRows:
    """Some rows that have candidates."""

    index: Integers
    """Their numbers among all rows of the folder."""
    X: pa.Table
    """Features: numbers, NaN where missing, and texts."""
    S: CandidateSets
    weight: Floats | None
    left_out: int = 0
    """Rows without a candidate among them."""
    mended: Sequence[Mended] = ()
    """Cells that count as missing."""

    def take(self, places: NDArray[np.int64]) -> FolderRows:
        """Return some of them."""
        weight = None if self.weight is None else self.weight[places]
        return FolderRows(self.index[places], self.X.take(pa.array(places)), self.S[places], weight)

    @classmethod
    def concatenate(cls, parts: Sequence[FolderRows]) -> FolderRows:
        """Return the rows of all parts, which must be some."""
        weights = [part.weight for part in parts if part.weight is not None]
        return cls(
            np.concatenate([part.index for part in parts]),
            pa.concat_tables([part.X for part in parts]),
            CandidateSets.concatenate([part.S for part in parts]),
            np.concatenate(weights) if weights else None,
        )


@dataclass(frozen=True)
class Reading:
    """How batches become rows.

    Attributes
    ----------
    folder : Folder
    features : Features
        What becomes of each column.
    target, prior : tuple of str
        The columns of candidates, and of how likely each is.
    weights : str or None
        The column of sample weights.
    drop_empty : bool
        Whether rows without a candidate are left out; else they are an error.
    """

    folder: Folder
    features: Features
    target: tuple[str, ...]
    prior: tuple[str, ...] = ()
    weights: str | None = None
    drop_empty: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        used = [column.name for column in self.features.used]
        return list(dict.fromkeys([*used, *self.target, *self.prior, *([self.weights] if self.weights else [])]))

    def rows(self, files: Sequence[File] | None = None) -> Iterator[FolderRows]:
        """Give the rows of some files, or of all, a batch at a time; batches without any are passed over."""
        for batch in self.folder.batches(self.columns, files):
            found = self._read(batch)
            if len(found.index) or found.left_out:
                yield found

    def _read(self, batch: Batch) -> FolderRows:
        folder, (first, table) = self.folder, batch
        sets = read_sets(table, self.target, folder, first, self.prior)
        index = first + (np.arange(table.num_rows) if sets.kept is None else sets.kept)
        left = table.num_rows - len(index)
        if left:
            if not self.drop_empty:
                row = int(np.setdiff1d(first + np.arange(table.num_rows), index)[0])
                raise EmptySetError(
                    f"{folder}: {folder.place(row)}, has no candidate in {', '.join(map(repr, self.target))}; fill it "
                    "in, or leave such rows out with {parameter}.",
                    parameter="drop_empty",
                    row=row,
                    source=folder.path,
                )
            table = table.take(pa.array(sets.kept))

        def place(row: int) -> str:
            return folder.place(int(index[row]))

        X, notes = self.features.apply(table, folder.path, place=place, some=True)
        weight = None
        if self.weights is not None and len(index):
            weight = read_target(table, self.weights, folder.path, place, "weights")
            if (weight < 0).any():
                row = int(np.flatnonzero(weight < 0)[0])
                raise ParameterError(
                    f"{{parameter}} must not be negative; {place(row)}, of {folder} has {weight[row]:g}.",
                    parameter="weights",
                    row=int(index[row]),
                    column=self.weights,
                    value=weight[row],
                    source=folder.path,
                )
        return FolderRows(index, X, sets, weight, left, notes)
