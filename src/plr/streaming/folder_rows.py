"""Batches of a folder as rows to learn from: features, candidate sets, weights, and where each row came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.candidates.known import read_known
from plr.columns.candidates import SetColumns
from plr.columns.features import Features
from plr.columns.kinds import Mended
from plr.columns.targets import read_some_targets, read_target
from plr.errors import EmptySetError, ParameterError
from plr.priors.learned import LearnedPrior
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
    candidate_features : tuple of str
        Columns that describe each candidate.
    record : str or None
        The column that says which record each candidate is.
    prior_is : str
        What the numbers of the prior are.
    known : str or None
        The column of known labels.
    learned : LearnedPrior or None
        What takes the place of the given prior.
    """

    folder: Folder
    features: Features
    target: tuple[str, ...]
    prior: tuple[str, ...] = ()
    weights: str | None = None
    drop_empty: bool = False
    candidate_features: tuple[str, ...] = ()
    record: str | None = None
    prior_is: str = "share"
    known: str | None = None
    learned: LearnedPrior | None = None

    @property
    def sets(self) -> SetColumns:
        """The columns that hold the candidate sets."""
        return SetColumns(self.target, self.prior, self.candidate_features, self.record, prior_is=self.prior_is)

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        used = [column.name for column in self.features.used]
        more = [name for name in (self.weights, self.known) if name is not None]
        return list(dict.fromkeys([*used, *self.sets.names, *more]))

    def rows(self, files: Sequence[File] | None = None) -> Iterator[FolderRows]:
        """Give the rows of some files, or of all, a batch at a time; batches without any are passed over."""
        for batch in self.folder.batches(self.columns, files):
            found = self._read(batch)
            if len(found.index) or found.left_out:
                yield found

    def _read(self, batch: Batch) -> FolderRows:
        folder, (first, table) = self.folder, batch
        sets = self.sets.read(table, folder, first)
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
        return FolderRows(index, X, self._weigh(sets, table, place), weight, left, notes)

    def known_labels(self, table: pa.Table, place: Callable[[int], str]) -> Floats:
        """Return the known labels of some rows, NaN where there is none."""
        assert self.known is not None
        return read_some_targets(table, self.known, self.folder, place, "known")

    def _weigh(self, sets: CandidateSets, table: pa.Table, place: Callable[[int], str]) -> CandidateSets:
        """Return sets with the prior that was learned, and known labels in place of the candidates of their rows."""
        if len(sets) == 0 or not (sets.features or self.record or self.known):
            return sets
        checked = None if self.known is None else read_known(self.known_labels(table, place), sets)
        sets = sets if self.learned is None else self.learned.weigh(sets)
        sets = sets if checked is None else checked.settle(sets)
        # The prior holds what features of the candidates say: without them, all batches have the same columns.
        return CandidateSets._of_checked(sets.values, sets.offsets, sets.prior)
