"""Regression from candidate sets: each training row carries several possible labels, exactly one of them true."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plr.candidates import CandidateSets
    from plr.comparison import Comparison, compare
    from plr.diagnosis import Diagnosis, check
    from plr.generation import make_candidates
    from plr.persistence import load_model, save_model
    from plr.regressor import Identification, PartialLabelRegressor
    from plr.review import Review
    from plr.tables import TableModel

__version__ = "0.1.0"
__all__ = [
    "CandidateSets",
    "Comparison",
    "Diagnosis",
    "Identification",
    "PartialLabelRegressor",
    "Review",
    "TableModel",
    "check",
    "compare",
    "load_model",
    "make_candidates",
    "save_model",
]

# Resolved on first use, so that ``import plr`` pays for nothing it does not need.
_HOMES = {
    "CandidateSets": "plr.candidates",
    "Comparison": "plr.comparison",
    "Diagnosis": "plr.diagnosis",
    "Identification": "plr.regressor",
    "PartialLabelRegressor": "plr.regressor",
    "Review": "plr.review",
    "TableModel": "plr.tables",
    "check": "plr.diagnosis",
    "compare": "plr.comparison",
    "load_model": "plr.persistence",
    "make_candidates": "plr.generation",
    "save_model": "plr.persistence",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'plr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["__version__", *_HOMES])
