r"""Pointwise losses: what missing one candidate costs.

With the residual r = prediction − value, every loss is non-negative and states three things:

================  ===========================  ==========================  ========================
loss              value                        derivative in prediction    curvature
================  ===========================  ==========================  ========================
``squared``       r²                           2r                          2
``absolute``      \|r\|                        sign(r), and 0 at r = 0     1 / max(\|r\|, 1e-8)
``huber``         r²/2 where \|r\| ≤ delta,    r, cut at ±delta            1, then delta / \|r\|
                  delta (\|r\| − delta/2)
================  ===========================  ==========================  ========================

The curvature is that of the tightest parabola that touches the loss at r and lies above it elsewhere, so a step to the
parabola's minimum never overshoots; for ``squared`` it is the second derivative. Learners reduce; losses never do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sklearn.base import BaseEstimator

from plr._codes import ABSOLUTE, CUSTOM, HUBER, SQUARED
from plr._parameters import check_number, resolve
from plr.errors import ParameterError

__all__ = ["LOSSES", "Absolute", "Huber", "Loss", "LossCode", "Pointwise", "Squared", "get_loss"]


class LossCode(NamedTuple):
    """A loss as the kernels know it."""

    code: int
    delta: float = 0.0
    value: Callable[..., float] | None = None
    derivative: Callable[..., float] | None = None
    curvature: Callable[..., float] | None = None


class Loss(BaseEstimator):
    """Base of the losses: an object with parameters that can say what the kernels need to know."""

    def encode(self) -> LossCode:
        """Return the checked loss as codes and numbers."""
        raise NotImplementedError


class Squared(Loss):
    """The squared error r², the paper's MSE.

    >>> Squared().encode().code == SQUARED
    True
    """

    def encode(self) -> LossCode:
        """Return the checked loss as codes and numbers."""
        return LossCode(SQUARED)


class Absolute(Loss):
    """The absolute error, the paper's MAE: a far candidate pulls no harder than a near one."""

    def encode(self) -> LossCode:
        """Return the checked loss as codes and numbers."""
        return LossCode(ABSOLUTE)


class Huber(Loss):
    """Squared near zero, absolute beyond ``delta``.

    Parameters
    ----------
    delta : float, default=1.0
        Where the loss turns from squared to absolute, in the units of the labels as the learner sees them: standard
        deviations by default, raw units with ``scale_target=False``.
    """

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = delta

    def encode(self) -> LossCode:
        """Return the checked loss as codes and numbers."""
        return LossCode(HUBER, check_number("Huber's delta", self.delta, low=0.0, open_low=True))


class Pointwise(Loss):
    """A loss of the user's own, from functions that Numba can compile.

    Parameters
    ----------
    value : callable
        ``value(prediction, value) -> float``, at least 0.
    derivative : callable
        Its derivative in the prediction, with the same arguments.
    curvature : callable, optional
        A positive curvature for learners that take Newton steps (``linear``, ``boosting``), with the same arguments;
        1 where not given.

    Examples
    --------
    >>> import math
    >>> from plr.losses import Pointwise
    >>> log_cosh = Pointwise(lambda f, y: math.log(math.cosh(f - y)), lambda f, y: math.tanh(f - y))
    """

    def __init__(
        self,
        value: Callable[..., float],
        derivative: Callable[..., float],
        curvature: Callable[..., float] | None = None,
    ) -> None:
        self.value = value
        self.derivative = derivative
        self.curvature = curvature

    def encode(self) -> LossCode:
        """Return the checked loss as codes and numbers."""
        for name in ("value", "derivative"):
            if not callable(getattr(self, name)):
                raise ParameterError(f"Pointwise needs a function as its {name}, got {getattr(self, name)!r}.")
        return LossCode(CUSTOM, 0.0, self.value, self.derivative, self.curvature or _one)


def _one(_prediction: float, _value: float) -> float:
    return 1.0


LOSSES: dict[str, Callable[[], Loss]] = {"absolute": Absolute, "huber": Huber, "squared": Squared}
"""Losses that go by a name."""


def get_loss(loss: object) -> Loss:
    """Turn a name or an instance into a loss.

    >>> get_loss("huber")
    Huber()
    """
    return resolve("loss", loss, LOSSES, Loss, _refuse_bare_callable)


def _refuse_bare_callable(given: object) -> Loss:
    if callable(given):
        raise ParameterError(
            "A loss needs its derivative too: give plr.losses.Pointwise(value, derivative) instead of a bare function."
        )
    raise ParameterError(f"loss must be a name ({', '.join(sorted(LOSSES))}) or a plr.losses.Loss, got {given!r}.")
