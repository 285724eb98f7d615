"""The losses of `plr.losses` that have a vector form, joined into one compiled choice by their codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from plr._codes import CUSTOM, Formula
from plr._jit import inlined
from plr._vectors import splat
from plr.losses import LOSSES, Loss

__all__ = ["curvature_of", "loss_code", "loss_of", "root_of", "slope_of"]

_COMPILED = [loss for loss in LOSSES.values() if loss.vector_form and loss.__module__.startswith("plr.")]


def _functions(loss: type[Loss]) -> tuple[Any, ...]:
    return loss.vector_form, loss.value, loss.derivative, loss.curvature


_CODES = {_functions(loss): code for code, loss in enumerate(_COMPILED, start=1)}


def loss_code(loss: Loss) -> int:
    """Return the code of a loss; CUSTOM where its functions, or some of them, are not compiled here."""
    return _CODES.get(_functions(type(loss)), CUSTOM)


@inlined
def _unknown(_formula: Formula, _residual: Any) -> Any:
    return splat(np.nan)


def _either(code: int, this: Any, otherwise: Any) -> Any:
    @inlined
    def choose(formula: Formula, residual: Any) -> Any:
        if formula.loss == code:
            return this(residual, formula.number)
        return otherwise(formula, residual)

    return choose


# Compiled functions of (formula, residual): the loss, its derivative, its curvature and its square root.
loss_of = slope_of = curvature_of = root_of = _unknown
for _code, _loss in reversed(list(enumerate(_COMPILED, start=1))):
    _form = _loss.vector_form()
    loss_of = _either(_code, _form.value, loss_of)
    slope_of = _either(_code, _form.derivative, slope_of)
    curvature_of = _either(_code, _form.curvature, curvature_of)
    root_of = _either(_code, _form.root, root_of)
