"""Pointwise losses on vectors of residuals, as `plr.losses` defines them; a user's own loss has no vector form."""

from __future__ import annotations

from typing import Any

from plr._codes import ABSOLUTE, SQUARED, Formula
from plr._jit import inlined
from plr._vector_math import at_least
from plr._vectors import choose_above, magnitude, splat

__all__ = ["curvature_of", "loss_of", "slope_of"]

# The absolute loss has unbounded curvature at zero; a residual below this counts as this.
_KINK = 1e-8


@inlined
def loss_of(formula: Formula, residual: Any) -> Any:
    """Return what residuals cost under a loss that is not the user's own."""
    if formula.loss == SQUARED:
        return residual * residual
    length = magnitude(residual)
    if formula.loss == ABSOLUTE:
        return length
    half, delta = splat(0.5), splat(formula.delta)
    return choose_above(length, delta, delta * (length - half * delta), half * length * length)


@inlined
def slope_of(formula: Formula, residual: Any) -> Any:
    """Return the derivative of `loss_of`."""
    zero, one, two = splat(0.0), splat(1.0), splat(2.0)
    if formula.loss == SQUARED:
        return two * residual
    if formula.loss == ABSOLUTE:
        return choose_above(residual, zero, one, choose_above(zero, residual, zero - one, zero))
    delta = splat(formula.delta)
    inside = choose_above(residual, delta, delta, residual)
    return choose_above(zero - delta, residual, zero - delta, inside)


@inlined
def curvature_of(formula: Formula, residual: Any) -> Any:
    """Return the curvature of the tightest quadratic bound of `loss_of`."""
    if formula.loss == SQUARED:
        return splat(2.0)
    length = magnitude(residual)
    if formula.loss == ABSOLUTE:
        return splat(1.0) / at_least(length, splat(_KINK))
    delta = splat(formula.delta)
    return choose_above(length, delta, delta / length, splat(1.0))
