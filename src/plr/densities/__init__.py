"""Estimates of the density of labels given features: forests, networks and neighbours over label bins, and mixtures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plr._parameters import check_choice
from plr.densities.forest import Forest
from plr.densities.mixture import DensityModel
from plr.densities.neighbours import Neighbours
from plr.densities.network import DensityNetwork
from plr.errors import ParameterError

__all__ = ["FEW_ROWS", "MODELS", "choose_models"]

# Up to so many rows several estimates of each kind compete. From there on, one of each kind is enough: networks
# can tell finer bins apart, and trees are fewer and see fewer rows each.
FEW_ROWS = 2_000


def _trees(rows: int) -> list[DensityModel]:
    if rows < FEW_ROWS:
        return [Forest(rows_per_leaf=5), Forest(rows_per_leaf=30)]
    return [Forest(rows_per_leaf=30, trees=40, most_rows=5_000)]


def _networks(rows: int) -> list[DensityModel]:
    if rows < FEW_ROWS:
        return [DensityNetwork(bins=12, weight_decay=5.0), DensityNetwork(bins=24, weight_decay=0.5)]
    return [
        DensityNetwork(bins=24, weight_decay=0.5, steps=1500),
        DensityNetwork(bins=48, weight_decay=0.2, steps=1500),
    ]


def _neighbours(_: int) -> list[DensityModel]:
    return [Neighbours(count=10), Neighbours(count=40)]


MODELS: dict[str, Callable[[int], list[DensityModel]]] = {
    "trees": _trees,
    "network": _networks,
    "neighbours": _neighbours,
}
"""Kinds of estimates, each by the number of rows it is for."""


def choose_models(models: str | Sequence[str], rows: int) -> list[DensityModel]:
    """Return the estimates that a parameter ``models`` stands for."""
    if isinstance(models, str):
        name = check_choice("models", models, ("auto", *MODELS))
        names = ["trees", "network"] if name == "auto" else [name]
    elif isinstance(models, Sequence) and len(models):
        names = [check_choice("models", name, MODELS) for name in models]
    else:
        raise ParameterError(
            f"models must be 'auto', one of {', '.join(sorted(MODELS))}, or a sequence of these, got {models!r}."
        )
    return [model for name in dict.fromkeys(names) for model in MODELS[name](rows)]
