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
from typing import Any, ClassVar, NamedTuple

from sklearn.base import BaseEstimator

from plr._codes import Formula
from plr._parameters import check_number, register, resolve
from plr.errors import ParameterError

__all__ = ["LOSSES", "Absolute", "Huber", "Loss", "Pointwise", "Squared", "VectorLoss", "get_loss"]

# The absolute loss has unbounded curvature at zero; a residual below this counts as this.
_KINK = 1e-8

LOSSES: dict[str, type[Loss]] = {}
"""Losses that go by a name."""


class VectorLoss(NamedTuple):
    """A loss on vectors of residuals: compiled functions of (formula, residual).

    ``root`` is the square root of the value, where it can be had without taking one.
    """

    value: Any
    derivative: Any
    curvature: Any
    root: Any = None


class Loss(BaseEstimator):
    """Base of the losses.

    A loss is a class with a name, ``class LogCosh(Loss, name="log_cosh")``, and these functions, as static methods.
    ``number`` is the one that `encode` returns, if it returns one.

    - ``value(prediction, value, number)``, ``derivative`` and ``curvature`` with the same arguments: functions of
      floats that Numba can compile. Kernels call them through a pointer, which takes about 10 ns a candidate.
    - ``torch_value(prediction, value, number)``, the same of tensors; without it `plr.torch`, the module learner and
      the GPU stack refuse the loss.
    - ``vector_form()``, for plr's own alone: a `VectorLoss`, compiled into the kernels in place of the pointers.

    The name is registered when the class is defined. The constructor's parameters are what a model file stores.
    """

    name: ClassVar[str] = ""
    value: Any = None
    derivative: Any = None
    curvature: Any = None
    torch_value: Any = None
    vector_form: Any = None

    def __init_subclass__(cls, name: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.name = name
        if name:
            register(LOSSES, name, cls)

    def encode(self) -> tuple[float, ...]:
        """Check the parameters and return the number that the functions take, if they take one."""
        return ()


class Squared(Loss, name="squared"):
    """The squared error r², the paper's MSE."""

    @staticmethod
    def torch_value(prediction: Any, value: Any) -> Any:
        """Return r²."""
        residual = prediction - value
        return residual * residual

    @staticmethod
    def vector_form() -> VectorLoss:
        """Return the loss on vectors of residuals."""
        from plr._jit import inlined
        from plr._vectors import magnitude, splat

        @inlined
        def value(_: Formula, residual: Any) -> Any:
            return residual * residual

        @inlined
        def derivative(_: Formula, residual: Any) -> Any:
            return splat(2.0) * residual

        @inlined
        def curvature(_: Formula, _residual: Any) -> Any:
            return splat(2.0)

        @inlined
        def root(_: Formula, residual: Any) -> Any:
            return magnitude(residual)

        return VectorLoss(value, derivative, curvature, root)


class Absolute(Loss, name="absolute"):
    """The absolute error, the paper's MAE: a far candidate pulls no harder than a near one."""

    @staticmethod
    def torch_value(prediction: Any, value: Any) -> Any:
        """Return the absolute residual; its derivative at 0 is 0."""
        return (prediction - value).abs()

    @staticmethod
    def vector_form() -> VectorLoss:
        """Return the loss on vectors of residuals."""
        from plr._jit import inlined
        from plr._vectors import at_least, choose_above, magnitude, splat

        @inlined
        def value(_: Formula, residual: Any) -> Any:
            return magnitude(residual)

        @inlined
        def derivative(_: Formula, residual: Any) -> Any:
            zero, one = splat(0.0), splat(1.0)
            return choose_above(residual, zero, one, choose_above(zero, residual, zero - one, zero))

        @inlined
        def curvature(_: Formula, residual: Any) -> Any:
            return splat(1.0) / at_least(magnitude(residual), splat(_KINK))

        return VectorLoss(value, derivative, curvature)


class Huber(Loss, name="huber"):
    """Squared near zero, absolute beyond ``delta``.

    Parameters
    ----------
    delta : float, default=1.0
        Where the loss turns from squared to absolute, in the units of the labels as the learner sees them: standard
        deviations by default, raw units with ``scale_target=False``.
    """

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = delta

    def encode(self) -> tuple[float, ...]:
        """Check the parameters and return delta."""
        return (check_number("delta", self.delta, low=0.0, open_low=True),)

    @staticmethod
    def torch_value(prediction: Any, value: Any, delta: Any) -> Any:
        """Return r²/2 up to ``delta``, then a straight line."""
        residual = prediction - value
        length = residual.abs()
        return (0.5 * residual * residual).where(length <= delta, delta * (length - 0.5 * delta))

    @staticmethod
    def vector_form() -> VectorLoss:
        """Return the loss on vectors of residuals."""
        from plr._jit import inlined
        from plr._vectors import choose_above, magnitude, splat

        @inlined
        def value(formula: Formula, residual: Any) -> Any:
            length, half, bound = magnitude(residual), splat(0.5), splat(formula.number)
            return choose_above(length, bound, bound * (length - half * bound), half * length * length)

        @inlined
        def derivative(formula: Formula, residual: Any) -> Any:
            zero, bound = splat(0.0), splat(formula.number)
            inside = choose_above(residual, bound, bound, residual)
            return choose_above(zero - bound, residual, zero - bound, inside)

        @inlined
        def curvature(formula: Formula, residual: Any) -> Any:
            length, bound = magnitude(residual), splat(formula.number)
            return choose_above(length, bound, bound / length, splat(1.0))

        return VectorLoss(value, derivative, curvature)


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

    def encode(self) -> tuple[float, ...]:
        """Check that the functions are functions."""
        for name in ("value", "derivative"):
            if not callable(getattr(self, name)):
                raise ParameterError(f"Pointwise needs a function as its {name}, got {getattr(self, name)!r}.")
        return ()


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
