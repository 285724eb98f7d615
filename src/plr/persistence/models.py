"""The fitted models of the learners that predict labels."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from plr.persistence.boosters import BOOSTER_KINDS, LIGHTGBM_HOMES, check_boosting
from plr.persistence.kinds import (
    Kind,
    a,
    every,
    flag,
    floats,
    home_of,
    integers,
    number,
    optional,
    require,
    whole,
)
from plr.persistence.parts import AFFINE, ENCODING, REPORT, encoded_columns, scalar_affine

__all__ = ["MODEL_KINDS", "NETWORK", "check_network"]

NETWORK = "plr.network.network:Network"
_LAYOUT = "plr.network._passes:Layout"
_KERNEL = "plr.learners.gaussian_process.kernel:Kernel"
_CHAIN = "plr.learners.gaussian_process.chain:Chain"
_PROCESS = "plr.learners.gaussian_process.learner:FittedGaussianProcess"
_TREES = "plr.learners.committee:_Trees"
_REFIT = "plr.learners.refit.learner:FittedRefit"
_MODEL = "plr.learners.refit.fits:Model"
_ROW_SCALE = "plr.learners.refit.row_scale:RowScale"
# Codes of activations that the compiled network knows.
_ACTIVATIONS = range(4)


def _parameters(value: Any) -> bool:
    right = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype in (np.float32, np.float64)
    return right and bool(np.isfinite(value).all())


def _predicts(value: Any) -> bool:
    # Parts of scikit-learn's models predict as well, but look at no row before they do.
    return hasattr(type(value), "predict") and (hasattr(type(value), "fit") or home_of(value) in LIGHTGBM_HOMES)


def check_network(fields: dict[str, Any]) -> None:
    """Check that a network has as many parameters as its layers need: compiled code does not look."""
    sizes, activations = fields["layout"].sizes.tolist(), fields["layout"].activations.tolist()
    require(len(sizes) >= 2 and all(size >= 0 for size in sizes) and min(sizes[1:]) >= 1, "a network has no layers")
    require(len(activations) == len(sizes) - 2, "a network has other activations than layers")
    require(all(code in _ACTIVATIONS for code in activations), "a network has an activation that is none")
    needed = sum((into + 1) * out for into, out in pairwise(sizes))
    require(needed == fields["parameters"].size, "a network has other parameters than layers")


def _check_linear(fields: dict[str, Any]) -> None:
    require(len(fields["coefficients"]) == encoded_columns(fields["features"]), "a linear model lacks coefficients")


def _check_fitted_network(fields: dict[str, Any]) -> None:
    sizes = fields["network"].layout.sizes
    require(sizes[0] == encoded_columns(fields["features"]) and sizes[-1] == 1, "a network has other columns")


def _check_chain(fields: dict[str, Any]) -> None:
    places, columns = fields["places"].shape
    require(len(fields["kernel"].parameters) == columns + 3, "a kernel has other columns")
    require(fields["root"].shape == (places, places), "a chain has other places")
    require(fields["coefficients"].shape == (places,), "a chain has other places")


def _check_process(fields: dict[str, Any]) -> None:
    width = encoded_columns(fields["encoding"])
    require(len(fields["chains"]) > 0, "a Gaussian process has no chains")
    require(all(chain.places.shape[1] == width for chain in fields["chains"]), "a chain has other columns")


def _check_refit(fields: dict[str, Any]) -> None:
    require(len(fields["models"]) > 0, "there is no regressor")


def _check_committee(fields: dict[str, Any]) -> None:
    width = encoded_columns(fields["process"].encoding)
    for model in () if fields["trees"] is None else fields["trees"].fitted.models:
        require(model.columns is None and model.regressor.n_features_in_ == width, "a committee has other columns")
    require(0 <= fields["share"] <= 1, "a committee's share is none")
    require(fields["trees"] is not None or fields["share"] == 1, "a committee without trees gives them a share")


def _check_trees(fields: dict[str, Any]) -> None:
    for model in fields["fitted"].models:
        require(home_of(model.regressor) in LIGHTGBM_HOMES, "a committee has other trees")


_LINE = floats(1)
# What predictions are made of.
_SURE, _TABLE = floats(1, finite=True), floats(2, finite=True)
_OF_ROWS = optional(_LINE)

MODEL_KINDS = (
    *BOOSTER_KINDS,
    Kind(
        "linear",
        "plr.learners.linear:FittedLinear",
        {"coefficients": _SURE, "intercept": number, "report": a(REPORT), "features": a(ENCODING)},
        _check_linear,
    ),
    Kind("layout", _LAYOUT, {"sizes": integers(1), "activations": integers(1)}),
    Kind("network", NETWORK, {"layout": a(_LAYOUT), "parameters": _parameters}, check_network),
    Kind(
        "mlp",
        "plr.learners.mlp:FittedNetwork",
        {"network": a(NETWORK), "features": a(ENCODING), "target": scalar_affine, "report": a(REPORT)},
        _check_fitted_network,
    ),
    Kind(
        "boosting",
        "plr.learners.boosting:FittedBoosting",
        {
            "booster": optional(a("lightgbm.basic:Booster")),
            "columns": whole(1),
            "initial_score": number,
            "target": scalar_affine,
            "report": a(REPORT),
            "n_jobs": optional(whole(-(2**31))),
        },
        check_boosting,
    ),
    Kind("kernel", _KERNEL, {"parameters": _SURE}),
    Kind(
        "chain",
        _CHAIN,
        {
            "kernel": a(_KERNEL),
            "places": _TABLE,
            "root": _TABLE,
            "coefficients": _SURE,
            "weights": _LINE,
            "out_of_fold": _LINE,
            "noise_scales": _LINE,
            "evidence": _LINE,
        },
        _check_chain,
        by_row=("weights", "out_of_fold"),
    ),
    Kind(
        "gaussian process",
        _PROCESS,
        {
            "chains": every(a(_CHAIN)),
            "encoding": a(ENCODING),
            "target": scalar_affine,
            "out_of_fold": _OF_ROWS,
            "weights": _LINE,
            "report": a(REPORT),
            "drawn": flag,
        },
        _check_process,
        by_row=("out_of_fold", "weights"),
    ),
    Kind("fitted regressor", _MODEL, {"regressor": _predicts, "columns": optional(integers(1))}),
    Kind("row scale", _ROW_SCALE, {"model": a(_MODEL), "level": number, "slope": number}),
    Kind(
        "refit",
        _REFIT,
        {
            "models": every(a(_MODEL)),
            "report": a(REPORT),
            "out_of_fold": _OF_ROWS,
            "row_scale": optional(a(_ROW_SCALE)),
            "relative_scale": _OF_ROWS,
        },
        _check_refit,
        by_row=("out_of_fold", "relative_scale"),
    ),
    Kind("scaled trees", _TREES, {"fitted": a(_REFIT), "target": a(AFFINE)}, _check_trees),
    Kind(
        "committee",
        "plr.learners.committee:FittedCommittee",
        {
            "process": a(_PROCESS),
            "trees": optional(a(_TREES)),
            "share": number,
            "out_of_fold": _LINE,
            "report": a(REPORT),
        },
        _check_committee,
        by_row=("out_of_fold",),
    ),
)
