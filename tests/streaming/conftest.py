"""Folders of Parquet files with candidate sets, made of a smooth function, categories and gaps."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plr import make_candidates
from plr.columns.features import learn_features
from plr.sources.folder import Folder
from plr.streaming.folder_rows import Reading

SHIFTS = np.array([0.0, 1.0, -1.0])


def truth(X, group):
    return np.tanh(X @ [1.0, -0.5, 0.25]) * 2 + SHIFTS[group]


@pytest.fixture(scope="session")
def rows():
    """Return a function that makes a table of rows with their true labels."""

    def make(count, seed=0, plain=False):
        random = np.random.default_rng(seed)
        X, group = random.normal(size=(count, 3)), random.integers(0, 3, count)
        y = truth(X, group if not plain else 0 * group) + 0.05 * random.normal(size=count)
        columns = {f"x{k}": X[:, k] for k in range(3)}
        if not plain:
            gaps = random.random(count) < 0.1
            columns["x2"] = pa.array(np.where(gaps, np.nan, X[:, 2]), from_pandas=True)
            columns["kind"] = np.array(["a", "b", "c"])[group]
        S = make_candidates(y, false_labels=3, random_state=seed)
        return pa.table({**columns, "y": S.to_arrow()}), S, y

    return make


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """Return a function that writes a table to a folder of several files."""

    def write(table, files=3):
        place = tmp_path_factory.mktemp("folder")
        each = -(-table.num_rows // files)
        for number in range(files):
            part = table.slice(number * each, each)
            pq.write_table(part, place / f"part-{number}.parquet", row_group_size=500)
        return place

    return write


@pytest.fixture(scope="session")
def reading_of():
    """Return a function that says how a folder becomes rows."""

    def make(place, **roles):
        folder = Folder.open(place)
        aside = ["y", *(name for name in ("weight", "prior") if name in folder.schema.names)]
        some = folder.sample(5_000, 0)[0]
        return Reading(folder, learn_features(some, aside, place).settled(some), ("y",), **roles)

    return make


@pytest.fixture(scope="session")
def mixed(rows, folder_of, reading_of):
    """Return a folder with categories and gaps, and its rows as they are in memory."""
    table, S, y = rows(6_000)
    reading = reading_of(folder_of(table))
    X, _ = reading.features.apply(table, "table")
    return reading, X, S, y
