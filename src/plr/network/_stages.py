"""The stages of training, compiled once for each precision."""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
from numba import types

from plr._jit import LOCK, pointer
from plr.losses import Squared
from plr.network._heads import Head, Sets, block_loss
from plr.network._passes import Layout, backward, forward, run
from plr.network._training import Stages
from plr.weighting._formula import evaluate
from plr.weighting._noise import evidence, spread
from plr.weighting.average import Average
from plr.weighting.rule import NOTHING, Rule, frozen

__all__ = ["get_stages"]


def get_stages(dtype: str) -> Stages:
    """Return pointers to the stages for networks in float32 or float64."""
    with LOCK:
        return _compile_stages(dtype)


@functools.lru_cache(maxsize=2)
def _compile_stages(dtype: str) -> Stages:
    number = types.Array(numba.from_dtype(np.dtype(dtype)), 1, "C")
    table = types.Array(numba.from_dtype(np.dtype(dtype)), 2, "C")
    real, whole, flag, nothing = types.float64, types.int64, types.boolean, types.none
    floats, columns, integers = types.float64[::1], types.float64[:, ::1], types.int64[::1]
    kept = _type(frozen(NOTHING))
    kept_integers = _type(frozen(np.zeros(1, np.int64)))
    layout = _type(Layout(np.zeros(1, np.int64), np.zeros(1, np.int64)))
    formula = _type(Rule(Average(), Squared()).formula)
    head = _type(Head(0, 0.0, 1.0))
    sets = _type(Sets(*(frozen(part) for part in (NOTHING, np.zeros(1, np.int64), NOTHING, NOTHING, NOTHING))))
    rows = (formula, floats, kept, kept_integers)
    return Stages(
        forward=pointer(forward, whole(layout, number, number, number, whole)),
        backward=pointer(backward, nothing(layout, number, number, number, number, number, whole)),
        run=pointer(run, nothing(layout, number, table, number, number, columns)),
        block_loss=pointer(
            block_loss,
            nothing(
                head,
                formula,
                sets,
                kept,
                integers,
                whole,
                flag,
                flag,
                number,
                whole,
                whole,
                number,
                floats,
                floats,
                floats,
                real,
            ),
        ),
        evaluate=pointer(evaluate, nothing(*rows, kept, kept, floats, floats, floats, floats, floats)),
        evidence=pointer(evidence, nothing(*rows, kept, kept, floats, floats, floats)),
        spread=pointer(spread, nothing(*rows, floats, floats, floats)),
    )


def _type(value: object) -> Any:
    return numba.typeof(value)
