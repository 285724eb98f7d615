"""Functions of vectors that are made of several instructions."""

from __future__ import annotations

from plr._jit import inlined
from plr._vectors import Vector, choose_above, round_off, splat, times_power_of_two

__all__ = ["at_least", "exponential"]


@inlined
def at_least(values: Vector, floor: Vector) -> Vector:
    """Raise what is below ``floor`` to it; what is no number stays none."""
    return choose_above(floor, values, floor, values)


_ONE_OVER_LN2 = 1.4426950408889634
# ln 2 in two parts, the first so short that its product with a small integer is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@inlined
def exponential(x: Vector, lowest: float) -> Vector:
    """Return e to the power of float64 that are at most 0, to 1e-15, and 0 below ``lowest``, which is -708 at least."""
    bounded = at_least(x, splat(lowest))
    exponent = round_off(bounded * splat(_ONE_OVER_LN2))
    r = bounded - exponent * splat(_LN2_HIGH) - exponent * splat(_LN2_LOW)
    # The series to the twelfth power: |r| is at most ln 2 / 2, so what is left out is below 2e-16.
    p = splat(1.0 / 479001600.0)
    p = p * r + splat(1.0 / 39916800.0)
    p = p * r + splat(1.0 / 3628800.0)
    p = p * r + splat(1.0 / 362880.0)
    p = p * r + splat(1.0 / 40320.0)
    p = p * r + splat(1.0 / 5040.0)
    p = p * r + splat(1.0 / 720.0)
    p = p * r + splat(1.0 / 120.0)
    p = p * r + splat(1.0 / 24.0)
    p = p * r + splat(1.0 / 6.0)
    p = p * r + splat(0.5)
    p = p * r + splat(1.0)
    p = p * r + splat(1.0)
    return choose_above(splat(lowest), x, splat(0.0), times_power_of_two(p, exponent))
