"""Regression from candidate sets: each training row carries several possible labels, exactly one of them true."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plr.candidates import CandidateSets
    from plr.generation import make_candidates
    from plr.regressor import Identification, PartialLabelRegressor

__version__ = "0.1.0"
__all__ = ["CandidateSets", "Identification", "PartialLabelRegressor", "make_candidates"]

# Resolved on first use, so that ``import plr`` pays for nothing it does not need.
_HOMES = {
    "CandidateSets": "plr.candidates",
    "Identification": "plr.regressor",
    "PartialLabelRegressor": "plr.regressor",
    "make_candidates": "plr.generation",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'plr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["__version__", *_HOMES])
