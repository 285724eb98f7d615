"""Rows from a known function, written piece by piece into a folder of Parquet files, and what a model makes of them.

Features are uniform. The labels are Friedman's function of the first five (J. H. Friedman, 1991), which a network can
learn to any precision, plus normal noise; the other features tell nothing. What is random follows from the seed and the
number of the piece alone, so that a piece is the same whenever it is made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

__all__ = [
    "TARGET",
    "TRUTH",
    "identified_rightly",
    "make_folder",
    "make_sample",
    "make_test",
    "squared_errors",
    "uncompressed_bytes",
]

Floats = NDArray[np.float64]

TARGET, TRUTH = "y", "truth"
NOISE = 1.0
_TEST_PIECE, _SAMPLE = 1_000_000, 2_000_000
# Rows that are read, or made, at a time.
_BATCH = 100_000


def make_folder(folder: Path, rows: int, columns: int, piece_rows: int, seed: int) -> int:
    """Write a labelled folder, those of its files that are not there yet; return how many were."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe, told = {"rows": rows, "columns": columns, "piece_rows": piece_rows, "seed": seed}, folder / "_recipe.json"
    if told.exists() and json.loads(told.read_text()) != recipe:
        raise SystemExit(f"{folder} holds other data than is asked for; remove it, or name another folder with --work.")
    told.write_text(json.dumps(recipe))
    there = 0
    for piece, first in enumerate(range(0, rows, piece_rows)):
        path = folder / f"part-{piece:05d}.parquet"
        if path.exists():
            there += 1
            continue
        _write(path, _tables(min(piece_rows, rows - first), columns, seed, piece))
    return there


def make_test(path: Path, rows: int, columns: int, seed: int) -> None:
    """Write rows to test with: their features, and as ``truth`` the label without noise, as ``y`` the one with it."""
    if not path.exists():
        _write(path, _tables(rows, columns, seed, _TEST_PIECE, noiseless=True))


def make_sample(folder: Path, path: Path, rows: int, seed: int) -> None:
    """Write so many rows of a folder, chosen at random, into one file."""
    files = sorted(folder.glob("*.parquet"))
    sizes = [pyarrow.parquet.read_metadata(file).num_rows for file in files]
    chosen = np.sort(np.random.default_rng([seed, _SAMPLE]).choice(sum(sizes), min(rows, sum(sizes)), replace=False))

    def taken() -> Iterator[pa.Table]:
        first = 0
        for file in files:
            with pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 18) as source:
                for batch in source.iter_batches(_BATCH, use_threads=False):
                    inside = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, first + batch.num_rows)]
                    yield pa.Table.from_batches([batch]).take(pa.array(inside - first))
                    first += batch.num_rows

    _write(path, taken())


def uncompressed_bytes(folder: Path) -> int:
    """Return how many bytes the rows of a folder take before compression, as its files' footers say."""
    return sum(
        metadata.row_group(number).total_byte_size
        for metadata in map(pyarrow.parquet.read_metadata, folder.glob("*.parquet"))
        for number in range(metadata.num_row_groups)
    )


def squared_errors(predicted: Path) -> tuple[Floats, Floats]:
    """Return the squared errors of predictions of the test rows: against the function, and against noisy labels."""
    table = pyarrow.parquet.read_table(predicted, columns=["prediction", TRUTH, TARGET])
    prediction, exact, label = (np.asarray(table[name].to_numpy()) for name in ("prediction", TRUTH, TARGET))
    return (prediction - exact) ** 2, (prediction - label) ** 2


def identified_rightly(folder: Path) -> dict[str, Any]:
    """Return how often ``plr identify`` found the true candidate, what it said itself, and what chance would do."""
    counts = np.zeros(6)
    for value, truth, probability, sizes in _identified(folder):
        several = sizes > 1
        right = value == truth
        counts += [
            len(value),
            right.sum(),
            several.sum(),
            right[several].sum(),
            probability[several].sum(),
            (1.0 / sizes[several]).sum(),
        ]
    rows, right, several, right_of_several, claimed, chance = counts
    return {
        "rows": int(rows),
        "accuracy": right / rows,
        "rows_with_several": int(several),
        "accuracy_with_several": right_of_several / several,
        "standard_error": float(np.sqrt(right_of_several / several * (1 - right_of_several / several) / several)),
        "mean_probability": claimed / several,
        "chance": chance / several,
    }


def _identified(folder: Path) -> Iterator[tuple[Floats, ...]]:
    columns = ["value", TRUTH, "probability", TARGET]
    for file in sorted(folder.glob("*.parquet")):
        with pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 18) as source:
            for batch in source.iter_batches(_BATCH, columns=columns, use_threads=False):
                table = pa.Table.from_batches([batch]).combine_chunks()
                sizes = np.diff(table[TARGET].chunk(0).offsets.to_numpy())
                yield (*(np.asarray(table[name].to_numpy()) for name in columns[:3]), sizes)


def _tables(rows: int, columns: int, seed: int, piece: int, *, noiseless: bool = False) -> Iterator[pa.Table]:
    random = np.random.default_rng([seed, piece])
    for first in range(0, rows, _BATCH):
        count = min(_BATCH, rows - first)
        X = random.uniform(size=(columns, count))
        exact = 10.0 * np.sin(np.pi * X[0] * X[1]) + 20.0 * (X[2] - 0.5) ** 2 + 10.0 * X[3] + 5.0 * X[4]
        label = exact + NOISE * random.normal(size=count)
        made = {f"x{number}": X[number] for number in range(columns)} | {TARGET: label}
        yield pa.table(made | ({TRUTH: exact} if noiseless else {}))


def _write(path: Path, tables: Iterator[pa.Table]) -> None:
    """Write one file, whole or not at all, with one row group for up to a million rows, as pyarrow does by default."""
    temporary = path.with_name(f".{path.name}")
    with temporary.open("wb") as file:
        # Random numbers do not repeat, so that a dictionary of them would be tried in vain.
        pyarrow.parquet.write_table(pa.concat_tables(tables), file, use_dictionary=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
