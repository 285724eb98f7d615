"""Made-up tables whose false candidates depend on the features, as those of joins and guesses do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plr import CandidateSets


@dataclass
class Problem:
    """Features, candidates and true labels of training rows and of others."""

    X: np.ndarray
    S: CandidateSets
    y: np.ndarray

    def known(self, count, seed=0):
        """Return the labels of some rows, drawn at random, and NaN elsewhere."""
        found = np.full(len(self.y), np.nan)
        rows = np.random.default_rng(seed).permutation(len(self.y))[:count]
        found[rows] = self.y[rows]
        return found

    def take(self, rows):
        return Problem(self.X[rows], self.S[rows], self.y[rows])


def _features(rows, random):
    X = random.normal(size=(rows, 3))
    return X, 2.0 * X[:, 0] + np.sin(2.0 * X[:, 1])


def join(rows=240, seed=0, matches=5, missing=0.0):
    """Candidates are the labels of the rows that look most alike, with a score that is higher for the true one."""
    random = np.random.default_rng(seed)
    X, smooth = _features(rows, random)
    y = np.round(smooth + random.normal(0.0, 1.0, rows), 4)
    away = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    nearest = np.argsort(away, axis=1)[:, :matches]
    scores = np.where(nearest == np.arange(rows)[:, None], 1.0, 0.0) + random.normal(0.0, 0.5, nearest.shape)
    order = np.argsort(random.uniform(size=nearest.shape), axis=1)
    nearest, scores = np.take_along_axis(nearest, order, 1), np.take_along_axis(scores, order, 1)
    values, records = y[nearest], nearest.astype(str)
    lost = random.uniform(size=rows) < missing
    if missing:
        held = nearest == np.arange(rows)[:, None]
        values = np.where(held & lost[:, None], np.round(values + 3.0, 4), values)
    sets = CandidateSets.from_padded(values, features={"score": scores}, record=records)
    return Problem(X, sets, y)


def guesses(rows=240, seed=0, count=5):
    """Candidates lie near the truth and lean to one side: the truth is mostly the second smallest."""
    random = np.random.default_rng(seed)
    X, smooth = _features(rows, random)
    y = np.round(smooth + random.normal(0.0, 1.0, rows), 4)
    false = y[:, None] + random.gamma(2.0, 1.0, size=(rows, count - 1)) - 0.5
    values = random.permuted(np.column_stack([y, np.round(false, 4)]), axis=1)
    return Problem(X, CandidateSets.from_padded(values), y)


def sources(rows=240, seed=0):
    """One source out of three is right; the others are off by an amount that depends on the features."""
    random = np.random.default_rng(seed)
    X, smooth = _features(rows, random)
    y = np.round(smooth + random.normal(0.0, 0.5, rows), 4)
    values = np.column_stack([y, y + 1.0 + random.normal(0.0, 0.7, rows), y - 0.5 + random.normal(0.0, 1.0, rows)])
    names = np.tile(["register", "survey", "guess"], (rows, 1))
    order = np.argsort(random.uniform(size=values.shape), axis=1)
    values, names = np.take_along_axis(values, order, 1), np.take_along_axis(names, order, 1)
    return Problem(X, CandidateSets.from_padded(np.round(values, 4), features={"source": names}), y)
