"""The noise families of the posterior: what their constants are, and what they are on tensors.

`plr.weighting.formula` has their compiled densities, by code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from plr._codes import GAUSSIAN, LAPLACE, STUDENT

__all__ = ["NOISES", "NoiseFamily"]


class NoiseFamily(NamedTuple):
    """A family of densities with a scale; ``degrees`` is Student's degrees of freedom, the others ignore it.

    Attributes
    ----------
    code : int
    log_constant : callable
        ``log_constant(degrees)``: the log of the normalising constant at scale 1.
    torch_log_density : callable
        ``torch_log_density(ratio, degrees)`` of residuals over the scale, the constant left out.
    torch_spread : callable
        ``torch_spread(residual, scale, degrees)``: the weighted mean is the next scale, or its square.
    squared : bool
        Whether it is the square.
    """

    code: int
    log_constant: Callable[[float], float]
    torch_log_density: Callable[[Any, Any], Any]
    torch_spread: Callable[[Any, Any, Any], Any]
    squared: bool


def _student_constant(degrees: float) -> float:
    # Beyond this it is the normal density, and the difference of the two terms below would be lost in rounding.
    half = 0.5 * min(degrees, 1e6)
    return math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(2.0 * half * math.pi)


def _student_log_density(ratio: Any, degrees: Any) -> Any:
    return -0.5 * (degrees + 1.0) * (ratio * ratio / degrees).log1p()


def _student_spread(residual: Any, scale: Any, degrees: Any) -> Any:
    # (ν + 1) r² / (ν + (r/σ)²), written so that a huge residual does not overflow.
    ratio = residual / scale
    return (degrees + 1.0) * scale * scale / (1.0 + degrees / (ratio * ratio))


NOISES = {
    "gaussian": NoiseFamily(
        GAUSSIAN,
        lambda _: -0.5 * math.log(2.0 * math.pi),
        lambda ratio, _: -0.5 * ratio * ratio,
        lambda residual, _scale, _: residual * residual,
        squared=True,
    ),
    "laplace": NoiseFamily(
        LAPLACE,
        lambda _: -math.log(2.0),
        lambda ratio, _: -ratio.abs(),
        lambda residual, _scale, _: residual.abs(),
        squared=False,
    ),
    "student": NoiseFamily(STUDENT, _student_constant, _student_log_density, _student_spread, squared=True),
}
"""The families by name."""
