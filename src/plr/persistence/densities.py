"""The fitted models of the density learner: mixtures of forests, networks and neighbours over label bins."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np

from plr.persistence.kinds import (
    Kind,
    a,
    every,
    floats,
    home_of,
    integers,
    number,
    optional,
    positive,
    require,
    text,
    whole,
)
from plr.persistence.models import NETWORK
from plr.persistence.parts import ENCODING, REPORT, encoded_columns, scalar_affine
from plr.persistence.trees import joined, separated

__all__ = ["DENSITY_KINDS"]

_BINS = "plr.densities.bins:Bins"
_FOREST = "plr.densities.forest:FittedForest"
_NETWORKS = "plr.densities.network:FittedNetworks"
_NEIGHBOURS = "plr.densities.neighbours:FittedNeighbours"
_MIXTURE = "plr.densities.mixture:Mixture"
_BACKGROUND = "plr.densities.mixture:Background"
_POINTS = ("mean", "median", "mode")

_LINE, _TABLE = floats(1, finite=True), floats(2, finite=True)


def _small_integers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.int32 and value.ndim == 1


def _threads(asked: int) -> int:
    """Return how many threads to use here; the result does not depend on it."""
    return min(asked, int(joblib.cpu_count()))


def _take_forest(forest: Any) -> dict[str, Any]:
    return {"bins": forest.bins, "threads": forest.threads, **joined(forest.trees)}


def _make_forest(fields: dict[str, Any]) -> Any:
    from plr.densities.forest import FittedForest

    trees = separated(fields)
    require(fields["values"].shape[1] == fields["bins"].count, "a forest has other bins than its leaves")
    return FittedForest(fields["bins"], trees, _threads(fields["threads"]))


def _check_networks(fields: dict[str, Any]) -> None:
    require(len(fields["networks"]) > 0, "there is no network")
    for network in fields["networks"]:
        require(network.layout.sizes[-1] == fields["bins"].count, "a network has other bins")


def _check_background(fields: dict[str, Any]) -> None:
    require(len(fields["labels"]) == len(fields["log_density"]) > 0, "a density of false labels is none")


def _check_mixture(fields: dict[str, Any]) -> None:
    width = encoded_columns(fields["encoding"])
    require(len(fields["shares"]) == len(fields["models"]) + 1, "a mixture has other shares than models")
    require(fields["low"] <= fields["high"], "a mixture has no range")
    for model in fields["models"]:
        require(_columns_at_most(model, width), "a mixture has models of other columns")


def _columns_at_most(model: Any, width: int) -> bool:
    home = home_of(model)
    if home == _FOREST:
        return all(int(tree.feature.max()) < width for tree in model.trees)
    if home == _NETWORKS:
        return all(int(network.layout.sizes[0]) == width for network in model.networks)
    return bool(model.index.n_features_in_ == width)


DENSITY_KINDS = (
    Kind("bins", _BINS, {"low": number, "width": positive, "count": whole(2)}),
    Kind(
        "forest",
        _FOREST,
        {
            "bins": a(_BINS),
            "threads": whole(1),
            "nodes": integers(1),
            "left": _small_integers,
            "right": _small_integers,
            "feature": _small_integers,
            "threshold": _LINE,
            "values": _TABLE,
        },
        take=_take_forest,
        make=_make_forest,
    ),
    Kind("networks", _NETWORKS, {"bins": a(_BINS), "networks": every(a(NETWORK))}, _check_networks),
    Kind(
        "neighbours",
        _NEIGHBOURS,
        {"bins": a(_BINS), "count": whole(1), "rows": _TABLE, "target": _TABLE, "weight": _LINE, "threads": whole(1)},
    ),
    Kind("background", _BACKGROUND, {"labels": _LINE, "log_density": _LINE}, _check_background),
    Kind(
        "mixture",
        _MIXTURE,
        {
            "models": every(a(_FOREST, _NETWORKS, _NEIGHBOURS)),
            "shares": _LINE,
            "background": a(_BACKGROUND),
            "low": number,
            "high": number,
            "outside": number,
            "encoding": a(ENCODING),
            "target": scalar_affine,
        },
        _check_mixture,
    ),
    Kind(
        "density",
        "plr.learners.density:FittedDensity",
        {
            "mixture": a(_MIXTURE),
            "point": lambda value: text(value) and value in _POINTS,
            "report": a(REPORT),
            "log_likelihood": number,
            "out_of_fold": optional(_LINE),
        },
        by_row=("out_of_fold",),
    ),
)
