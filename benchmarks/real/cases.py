"""Cases: tables of rows and candidates, read from a folder, made up, or of the paper's benchmark; and their folds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.identification.cases import Case as PaperCase
from benchmarks.identification.cases import make_problem
from numpy.typing import NDArray

from plr import CandidateSets

__all__ = [
    "FOLDS",
    "MADE_UP",
    "OWN",
    "PAPER",
    "SEED",
    "Part",
    "Problem",
    "digest",
    "folds_of",
    "problem",
    "tables_in",
]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

SEED = 0
"""What all seeds come from."""

FOLDS = 5
OWN = "+own"
"""Ends the name of a case whose features include the row's own price."""

_COMPONENTS = 40
_ROWS, _COLUMNS = 500, 6
_TRIALS = 3

MADE_UP = {
    "made-up/uniform": "false labels uniform over the range of labels, as the paper's; a score that helps a little",
    "made-up/leaning": "guesses around the truth, most of them too high; nothing else is known of them",
    "made-up/sources": "one candidate from each of four sources, which are right in 60, 25, 10 and 5 % of rows",
    "made-up/near-and-far": "false labels near the truth, and far from it; a score that helps",
    "made-up/lookalikes": "false labels are the labels of similar rows; a score that helps",
}
"""Made-up tables, and how their candidates come about."""

PAPER = {
    f"paper/{dataset}-{set_size}": PaperCase(dataset, "uniform", 4, set_size)
    for dataset in ("auto-mpg", "concrete")
    for set_size in ("upto", "fixed")
}
"""Cells of the paper's benchmark; their folds are its trials."""


@dataclass(frozen=True, eq=False)
class Part:
    """Rows with candidates, and the truth: a table, or a part of one.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    truth : ndarray of shape (n,)
    S : CandidateSets
        With what is known of each candidate as features, and records where there are some.
    is_true : ndarray of bool, one entry per candidate
    """

    X: Floats
    truth: Floats
    S: CandidateSets
    is_true: Booleans

    def take(self, rows: NDArray[np.int64]) -> Part:
        """Return some of the rows."""
        return Part(self.X[rows], self.truth[rows], self.S[rows], _of_rows(self.S, rows, self.is_true))


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows to train with, and those to judge by."""

    train: Part
    test: Part

    def known(self, count: int, draw: int, fold: int) -> Floats | None:
        """Return the true labels of so many rows to train with, drawn at random, and NaN for the others."""
        if not count:
            return None
        known = np.full(len(self.train.truth), np.nan)
        chosen = np.random.default_rng([SEED, draw, fold]).permutation(len(known))[:count]
        known[chosen] = self.train.truth[chosen]
        return known


def tables_in(folder: Path | None) -> list[str]:
    """Return the names of all real cases of a folder."""
    found = sorted(path.name.removesuffix(".rows.csv") for path in folder.glob("*.rows.csv")) if folder else []
    if folder and not found:
        raise SystemExit(f"{folder} has no file NAME.rows.csv; `python -m benchmarks.real --help` says what it needs.")
    return [f"{name}{own}" for name in found for own in ("", OWN)]


def digest(name: str, folder: Path | None) -> str:
    """Return a hash of the files of a case; empty where it has none."""
    if "/" in name or folder is None:
        return ""
    content = b"".join(path.read_bytes() for path in _files(name, folder))
    return hashlib.sha256(content).hexdigest()[:16]


def problem(name: str, fold: int, folder: Path | None) -> Problem:
    """Return one fold of a case."""
    if name in PAPER:
        return _paper(PAPER[name], fold)
    table = _made_up(name) if name in MADE_UP else _read(name, folder or Path())
    from sklearn.model_selection import KFold

    train, test = list(KFold(FOLDS, shuffle=True, random_state=SEED).split(table.X))[fold]
    return Problem(table.take(train), table.take(test))


def folds_of(name: str) -> Iterable[int]:
    """Return the folds of a case."""
    return range(_TRIALS if name in PAPER else FOLDS)


def _files(name: str, folder: Path) -> tuple[Path, Path]:
    name = name.removesuffix(OWN)
    return folder / f"{name}.rows.csv", folder / f"{name}.pairs.csv"


@lru_cache(4)
def _read(name: str, folder: Path) -> Part:
    import pandas as pd
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    rows, pairs = (pd.read_csv(path) for path in _files(name, folder))
    titles = rows["title"].fillna("")
    words = TfidfVectorizer().fit_transform(titles)
    columns = [TruncatedSVD(_COMPONENTS, random_state=SEED).fit_transform(words), titles.str.len().to_numpy()]
    if name.endswith(OWN):
        columns.append(np.log(rows["own_price"].to_numpy(dtype=float)))
    place = pairs["row"].map({row: number for number, row in enumerate(rows["row"])})
    if place.isna().any():
        raise SystemExit(f"{name}.pairs.csv has the row {pairs['row'][place.isna()].iloc[0]!r}, which has no line.")
    pairs = pairs.assign(place=place).sort_values("place", kind="stable")
    S = CandidateSets(
        np.log(pairs["price"].to_numpy(dtype=float)),
        np.searchsorted(pairs["place"].to_numpy(), np.arange(len(rows) + 1)),
        features={"score": pairs["score"].to_numpy(dtype=float)},
        record=pairs["record"].to_numpy(),
    )
    truth = np.log(rows["true_price"].to_numpy(dtype=float))
    return Part(np.column_stack(columns).astype(float), truth, S, pairs["is_match"].to_numpy().astype(bool))


def _paper(case: PaperCase, trial: int) -> Problem:
    found = make_problem(PaperCase(case.dataset, case.mechanism, case.false_labels, case.set_size, trial))
    test = CandidateSets.from_labels(found.y_test)
    is_true = found.S.values == found.truth[found.S.row_index]
    everywhere = np.ones(len(found.y_test), dtype=bool)
    return Problem(
        Part(found.X.astype(float), found.truth, found.S, is_true),
        Part(found.X_test.astype(float), found.y_test, test, everywhere),
    )


@lru_cache(8)
def _made_up(name: str) -> Part:
    rng = np.random.default_rng([SEED, list(MADE_UP).index(name)])
    X = rng.normal(size=(_ROWS, _COLUMNS))
    truth = np.sin(2.0 * X[:, 0]) + 0.7 * X[:, 1] + 0.5 * X[:, 2] * (X[:, 3] > 0) + 0.3 * rng.normal(size=_ROWS)
    return {
        "made-up/uniform": _uniform,
        "made-up/leaning": _leaning,
        "made-up/sources": _sources,
        "made-up/near-and-far": _near_and_far,
        "made-up/lookalikes": _lookalikes,
    }[name](X, truth, rng)


def _uniform(X: Floats, truth: Floats, rng: np.random.Generator) -> Part:
    false = rng.uniform(truth.min(), truth.max(), (_ROWS, 4))
    return _shuffled(X, truth, false, rng, helpful=0.5)


def _leaning(X: Floats, truth: Floats, rng: np.random.Generator) -> Part:
    false = truth[:, None] + 0.8 * rng.normal(0.8, 1.0, (_ROWS, 4))
    return _shuffled(X, truth, false, rng, helpful=None)


def _near_and_far(X: Floats, truth: Floats, rng: np.random.Generator) -> Part:
    near = truth[:, None] + 0.6 * rng.normal(size=(_ROWS, 4))
    far = rng.uniform(truth.min(), truth.max(), (_ROWS, 2))
    return _shuffled(X, truth, np.hstack([near, far]), rng, helpful=1.5)


def _lookalikes(X: Floats, truth: Floats, rng: np.random.Generator) -> Part:
    distance = ((X[:, None, :4] - X[None, :, :4]) ** 2).sum(axis=2)
    similar = np.argsort(distance, axis=1)[:, 1:7]
    return _shuffled(X, truth, truth[similar], rng, helpful=1.5)


def _sources(X: Floats, truth: Floats, rng: np.random.Generator) -> Part:
    sources = np.array(["first", "second", "third", "fourth"])
    right = rng.choice(4, size=_ROWS, p=[0.6, 0.25, 0.1, 0.05])
    values = truth[:, None] + 0.7 * rng.normal(size=(_ROWS, 4))
    is_true = np.arange(4) == right[:, None]
    values = np.where(is_true, truth[:, None], values)
    S = CandidateSets(values.ravel(), 4 * np.arange(_ROWS + 1), features={"source": np.tile(sources, _ROWS)})
    return Part(X, truth, S, is_true.ravel())


def _shuffled(X: Floats, truth: Floats, false: Floats, rng: np.random.Generator, helpful: float | None) -> Part:
    """Return a table of the truth and false labels in random order; the score of the truth is so much higher."""
    values = np.column_stack([truth, false])
    score = rng.normal(size=values.shape)
    score[:, 0] += helpful or 0.0
    order = np.argsort(rng.random(values.shape), axis=1)
    values, score = (np.take_along_axis(part, order, axis=1) for part in (values, score))
    is_true = order == 0
    features: dict[str, Any] = {} if helpful is None else {"score": 1.0 / (1.0 + np.exp(-score)).ravel()}
    size = values.shape[1]
    return Part(
        X, truth, CandidateSets(values.ravel(), size * np.arange(_ROWS + 1), features=features), is_true.ravel()
    )


def _of_rows(S: CandidateSets, rows: NDArray[np.int64], each: Any) -> Any:
    """Return the entries of the candidates of some rows."""
    return np.concatenate([each[S.offsets[row] : S.offsets[row + 1]] for row in rows])
