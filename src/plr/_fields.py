"""What fitted dataclasses declare about their fields, for model files: ``field(metadata=BY_ROW)``."""

from __future__ import annotations

from typing import Any

__all__ = ["BY_ROW", "MATRIX", "NOT_KEPT", "WITH_GAPS", "require"]

BY_ROW: dict[str, Any] = {"by_row": True, "finite": False}
"""One entry for each training row or candidate; a model file may be written without."""

WITH_GAPS: dict[str, Any] = {"finite": False}
"""An array that may hold NaN or infinity; all others are finite."""

MATRIX: dict[str, Any] = {"ndim": 2}
"""An array of two dimensions; all others have one."""

NOT_KEPT: dict[str, Any] = {"kept": False}
"""Left out of model files; the field has a default."""


def require(holds: bool, what: str) -> None:
    """Raise ValueError unless an invariant holds."""
    if not holds:
        raise ValueError(what)
