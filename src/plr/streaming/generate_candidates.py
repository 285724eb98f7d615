"""Candidate sets for the true labels of a folder, a block of rows at a time.

Rows are counted over all files in order and divided into blocks of `BLOCK_ROWS`, whatever the files and batches they
are read in. Options that a mechanism takes from the labels are found first, in a pass over them. Then each block gets
its candidates by ``make_candidates`` with these options and random numbers of its own: the first block those of the
seed, block ``k`` those of ``numpy.random.SeedSequence(seed, spawn_key=(k,))``. So a folder of at most one block has the
candidates that a single file would have, save for ``biased``, which draws its function in the first pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.columns.dataset import categories, dataset_of, encode
from plr.columns.kinds import plain
from plr.columns.targets import read_target
from plr.columns.texts import is_text
from plr.errors import CandidateError, DataError, PlrError
from plr.generation import MECHANISMS, make_candidates, resolve_options
from plr.sources.folder import Folder
from plr.sources.source import Batch, File
from plr.streaming.ahead import ahead
from plr.streaming.outputs import Piece
from plr.streaming.survey import Moments

__all__ = ["BLOCK_ROWS", "MOST_LABELS", "SAMPLE_ROWS", "CandidateGeneration", "blocks", "plan_generation"]

Floats = NDArray[np.float64]
Tell = Callable[[int, int, float], None]

BLOCK_ROWS = 65_536
"""Rows whose false labels are drawn together."""

MOST_LABELS = 50_000_000
"""Labels that are kept in memory where false labels are drawn from them; of more, some are taken at random."""

SAMPLE_ROWS = 20_000
"""Rows, evenly spaced, that functions of the features are learned from."""


@dataclass(frozen=True)
class CandidateGeneration:
    """How the labels of a folder become candidate sets.

    Attributes
    ----------
    folder : Folder
    target : str
    settings : dict
        Arguments of ``make_candidates``: the mechanism, its options with all filled in, and how many false labels.
    seed : int
    sample : pyarrow.Table or None
        Rows that the scaling of features is learned from, for mechanisms that look at them.
    sampled : int or None
        From how many rows options were taken, None where all were looked at, or none had to be.
    taken : tuple of str
        The options that were taken from them.
    """

    folder: Folder
    target: str
    settings: dict[str, Any]
    seed: int
    sample: pa.Table | None = None
    sampled: int | None = None
    taken: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return what a recipe must have for others to make the same sets, as plain values."""
        own = {field.name for field in dataclasses.fields(MECHANISMS[self.settings["mechanism"]])}  # type: ignore[arg-type]
        options = {name: value for name, value in self.settings.items() if name in own and name != "pool"}
        described: dict[str, Any] = {"block_rows": BLOCK_ROWS, "options": options}
        return (
            described
            if self.sampled is None
            else {**described, "sample_rows": self.sampled, "from_sample": list(self.taken)}
        )

    def pieces(self, files: Sequence[File], truth: str | None) -> Generator[Piece]:
        """Give the rows of some files with candidates for labels, and with the truth under a name."""
        wanted = {number for file in files for number in _numbers(file)}
        # A block may begin in a file whose rows are not asked for.
        read = [file for file in self.folder.files if not wanted.isdisjoint(_numbers(file))]
        for block in blocks(ahead(self.folder.batches(None, read))):
            if block.first // BLOCK_ROWS in wanted:
                table, sizes = self._generated(block, truth)
                for file in files:
                    low = max(file.first - block.first, 0)
                    high = min(file.first + file.rows - block.first, table.num_rows)
                    if low < high:
                        yield Piece(table.slice(low, high - low), {"candidates": int(sizes[low:high].sum())})

    def _generated(self, block: Batch, truth: str | None) -> tuple[pa.Table, NDArray[np.int64]]:
        y = _labels(self.folder, block, self.target)
        number = block.first // BLOCK_ROWS
        seed = np.random.SeedSequence(self.seed, spawn_key=(number,) if number else ())
        try:
            sets = make_candidates(y, X=self._features(block.table), random_state=seed, **self.settings)
        except PlrError as error:
            where = self.folder.place(block.first)
            raise type(error)(f"{self.folder.path}, in the {len(y):,} rows from {where}: {error}") from error
        table = block.table.set_column(block.table.column_names.index(self.target), self.target, sets.to_arrow())
        return table if truth is None else table.append_column(truth, [y]), sets.sizes

    def _features(self, table: pa.Table) -> Floats | None:
        if self.sample is None:
            return None
        table = _as_plain(table, self.target)
        for place, name in enumerate(table.column_names):
            kind = table[name].type
            if name != self.target and (is_text(kind) or pa.types.is_boolean(kind)):
                # A category that the sample does not have is as good as none.
                known = pc.is_in(table[name], pa.array(categories(self.sample[name]), kind))
                table = table.set_column(place, name, pc.if_else(known, table[name], pa.scalar(None, kind)))
        joined = pa.concat_tables([self.sample, table])
        return encode(dataset_of(joined, self.target), np.arange(self.sample.num_rows))[self.sample.num_rows :]


def plan_generation(
    folder: Folder, target: str, settings: Mapping[str, Any], seed: int, tell: Tell | None = None
) -> CandidateGeneration:
    """Fill in the options that a mechanism takes from all rows.

    Parameters
    ----------
    folder : Folder
    target : str
        The column of true labels.
    settings : mapping
        Arguments of ``make_candidates``, without ``y``, ``X`` and ``random_state``.
    seed : int
    tell : callable, optional
        Called with the rows done, all rows and 0.
    """
    kind = MECHANISMS[settings["mechanism"]]
    known = [entry.name for entry in dataclasses.fields(kind)]  # type: ignore[arg-type]
    given = {name: settings[name] for name in known if settings.get(name) is not None}
    others = {name: value for name, value in settings.items() if name not in known}
    if kind.uses_features:
        return _plan_from_sample(folder, target, given, others, seed, tell)
    started = kind(**given)
    open_ones = {name for name in known if getattr(started, name) is None}
    if not open_ones:
        return CandidateGeneration(folder, target, {**others, **given}, seed)
    found: Moments | None = None
    decimals, pool = 0, []
    for block in blocks(ahead(folder.batches([target]))):
        y = _labels(folder, block, target)
        if found is None:
            found = Moments.of(y[:, None])
        else:
            found.add(Moments.of(y[:, None]))
        if "decimals" in open_ones:
            decimals = max(decimals, resolve_options("digits", y)["decimals"])
        if "pool" in open_ones:
            pool.append(_some(y, folder.rows, seed, block.first // BLOCK_ROWS))
        if tell is not None:
            tell(block.first + block.table.num_rows, folder.rows, 0.0)
    assert found is not None
    if "deviation" in open_ones and found.low < found.high:
        given["deviation"] = float(np.sqrt(found.squares[0] / found.weight[0]))
    if "decimals" in open_ones:
        given["decimals"] = decimals
    if pool:
        given["pool"] = np.concatenate(pool)
    sampled = len(given["pool"]) if pool and len(given["pool"]) < folder.rows else None
    # A range is all that is left to take, and two labels tell it.
    options = resolve_options(settings["mechanism"], [found.low[0], found.high[0]], **given)
    return CandidateGeneration(
        folder, target, {**others, **options}, seed, sampled=sampled, taken=("pool",) if sampled else ()
    )


def blocks(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Divide rows into blocks of `BLOCK_ROWS`, counted from the first row of all; some may lack rows that do not come.

    >>> table = pa.table({"x": range(100_000)})
    >>> [(block.first, block.table.num_rows) for block in blocks([Batch(0, table), Batch(100_000, table)])]
    [(0, 65536), (65536, 65536), (131072, 65536), (196608, 3392)]
    """
    first = 0
    waiting: list[pa.Table] = []
    for batch in batches:
        start = 0
        while start < batch.table.num_rows:
            row = batch.first + start
            end = min((row // BLOCK_ROWS + 1) * BLOCK_ROWS - batch.first, batch.table.num_rows)
            if waiting and row // BLOCK_ROWS != first // BLOCK_ROWS:
                yield Batch(first, pa.concat_tables(waiting))
                waiting = []
            first = first if waiting else row
            waiting.append(batch.table.slice(start, end - start))
            start = end
    if waiting:
        yield Batch(first, pa.concat_tables(waiting))


def _some(y: Floats, rows: int, seed: int, number: int) -> Floats:
    """Return the labels of a block, or of very many rows so many at random that all blocks' can be kept."""
    if rows <= MOST_LABELS:
        return y.copy()
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 1)))
    return random.choice(y, max(len(y) * MOST_LABELS // rows, 1), replace=False)


def _plan_from_sample(
    folder: Folder, target: str, given: dict[str, Any], others: dict[str, Any], seed: int, tell: Tell | None
) -> CandidateGeneration:
    chosen = np.unique(np.linspace(0, folder.rows - 1, min(SAMPLE_ROWS, folder.rows)).astype(np.int64))
    parts = []
    for batch in ahead(folder.batches()):
        low, high = np.searchsorted(chosen, [batch.first, batch.first + batch.table.num_rows])
        if low < high:
            _labels(folder, batch, target)
            parts.append(batch.table.take(pa.array(chosen[low:high] - batch.first)))
        if tell is not None:
            tell(batch.first + batch.table.num_rows, folder.rows, 0.0)
    sample = _as_plain(pa.concat_tables(parts), target)
    X = encode(dataset_of(sample, target, source=folder.path), np.arange(sample.num_rows))
    options = resolve_options(others["mechanism"], sample[target].to_numpy(), X=X, random_state=seed, **given)
    taken = tuple(name for name in options if name not in given and name not in ("shift", "spread"))
    sampled = sample.num_rows if sample.num_rows < folder.rows else None
    return CandidateGeneration(folder, target, {**others, **options}, seed, sample, sampled, taken if sampled else ())


def _labels(folder: Folder, batch: Batch, target: str) -> Floats:
    try:
        return read_target(batch.table, target, folder.path, lambda row: folder.place(batch.first + row))
    except DataError as error:
        raise CandidateError(str(error)) from None


def _numbers(file: File) -> range:
    """Return the numbers of the blocks that a file has rows of."""
    return range(file.first // BLOCK_ROWS, -(-(file.first + file.rows) // BLOCK_ROWS)) if file.rows else range(0)


def _as_plain(table: pa.Table, target: str) -> pa.Table:
    """Return a table with dictionaries spelled out and labels as numbers."""
    columns = [table[name].cast(pa.float64()) if name == target else plain(table[name]) for name in table.column_names]
    return pa.table(columns, names=table.column_names)
