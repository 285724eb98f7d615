"""Small stacks for the tests: every weighting and loss, two sizes of sets, tables of different lengths."""

import numpy as np

from plr.losses import Absolute, Huber, Squared
from plr.network.initialisation import initial_parameters
from plr.paper.stacked.fits import Layers, StackedFit, ValidationRows
from plr.weighting import Average, Identify, Posterior, Progressive

LAYERS = Layers(3, (20, 30, 10))
METHODS = [
    (Average(), Squared()),
    (Average(), Absolute()),
    (Average(), Huber()),
    (Identify(), Squared()),
    (Progressive(0.5, 10.0), Squared()),
    (Progressive(0.7, 2.0), Huber()),
    (Posterior(), Squared()),
]


def table(rows, seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3)).astype(np.float32)
    return X, (2.0 * X[:, 0] + np.sin(X[:, 1])).astype(np.float32)


def hidden(y, most, seed):
    """Return labels among up to ``most`` false ones, padded with NaN, at random places."""
    random = np.random.default_rng(seed)
    sets = np.full((len(y), most + 1), np.nan, np.float32)
    for row, label in zip(sets, y, strict=True):
        values = [label, *random.uniform(-4, 4, random.integers(0, most + 1))]
        row[: len(values)] = random.permutation(values)
    return sets


def make_fits(methods=METHODS, *, rows=40, sizes=(2, 5), activations=((0, 1, 1),)):
    X, y = table(rows, 0)
    X_check, y_check = table(24, 1)
    parameters = initial_parameters(list(LAYERS.sizes), np.random.default_rng(2)).astype(np.float32)
    fits = []
    for size in sizes:
        targets, candidates = hidden(y, size, size), hidden(y_check, size, 10 + size)
        validation = ValidationRows(X_check, candidates, candidates, y_check)
        fits += [
            StackedFit(X, targets, validation, parameters, codes, 0.01, 7, weighting, loss, 2.0)
            for weighting, loss in methods
            for codes in activations
        ]
    return fits


def shorter(fit, rows):
    """Return the same fit on its first rows only."""
    kept = {**vars(fit), "features": fit.features[:rows].copy(), "targets": fit.targets[:rows].copy()}
    return StackedFit(**kept)
