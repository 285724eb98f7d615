"""Everything that a model file may name: kinds of fitted parts, and the classes that have parameters alone."""

from __future__ import annotations

from plr.persistence.boosters import LIGHTGBM_HOMES
from plr.persistence.densities import DENSITY_KINDS
from plr.persistence.diagnoses import DIAGNOSIS_KINDS
from plr.persistence.models import MODEL_KINDS
from plr.persistence.modules import MODULE_KINDS
from plr.persistence.parts import PART_KINDS

__all__ = ["CLASSES", "KINDS", "KINDS_BY_HOME", "REASONS"]

KINDS = {kind.name: kind for kind in (*PART_KINDS, *MODEL_KINDS, *DENSITY_KINDS, *MODULE_KINDS, *DIAGNOSIS_KINDS)}
"""Fitted parts, by the names that files give them."""

KINDS_BY_HOME = {
    **{kind.home: kind for kind in KINDS.values()},
    **dict.fromkeys(LIGHTGBM_HOMES, KINDS["lightgbm regressor"]),
}

CLASSES = {
    "learner boosting": "plr.learners.boosting:Boosting",
    "learner committee": "plr.learners.committee:Committee",
    "learner density": "plr.learners.density:Density",
    "learner gaussian_process": "plr.learners.gaussian_process.learner:GaussianProcess",
    "learner linear": "plr.learners.linear:Linear",
    "learner mlp": "plr.learners.mlp:MLP",
    "learner refit": "plr.learners.refit.learner:Refit",
    "weighting average": "plr.weighting.average:Average",
    "weighting identification": "plr.weighting.identification:Identify",
    "weighting posterior": "plr.weighting.posterior:Posterior",
    "weighting progressive": "plr.weighting.progressive:Progressive",
    "loss absolute": "plr.losses:Absolute",
    "loss huber": "plr.losses:Huber",
    "loss squared": "plr.losses:Squared",
    "start density": "plr.learners.starts.density:DensityStart",
    "start sampled": "plr.learners.starts.sampled:SampledStart",
}
"""What is made from its parameters, by name."""

_COMPILED = "a function of one's own is code, and a model file holds none; keep the script that fits the model instead"

REASONS = {
    "plr.weighting.custom:Custom": _COMPILED,
    "plr.losses:Pointwise": _COMPILED,
    "plr.weighting.false_labels:GivenDensity": (
        "a density given as a function or a distribution is code, and a model file holds none; give false_labels as an "
        "array of draws from it"
    ),
}
"""Why some parts cannot be kept."""
