"""What tells one training from another: names that are the same in every process, and differ where it matters."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from plr.learners.module.checkpoint import name_of


class Told:
    def __init__(self, power: Any) -> None:
        self.power = power

    def __call__(self, value: Any) -> Any:
        return value**self.power


class Power(nn.Module):
    def __init__(self, power: Any) -> None:
        super().__init__()
        self.inner, self.power = nn.ReLU(), power
        # Not registered: a reference back to the whole.
        self.__dict__["whole"] = self


def closure(power: Any) -> Any:
    return lambda value: value**power


def default(power: Any) -> Any:
    return lambda value, power=power: value**power


def keyword(power: Any) -> Any:
    return lambda value, *, power=power: value**power


def with_constant(power: Any) -> Any:
    return eval(f"lambda value: [value ** {power!r} for _ in range(1)]")


def with_global(power: Any) -> Any:
    return eval("lambda value: value ** POWER", {"POWER": power})


def recursive(power: Any) -> Any:
    def again(value: Any) -> Any:
        return again(value - power) if value > 0 else value

    return again


MAKERS = [
    closure, default, keyword, with_constant, with_global, recursive, Told, Power,
    lambda power: Told(power).__call__,
    lambda power: functools.partial(Told, power),
    lambda power: closure(np.full(5000, power)),
    lambda power: closure(torch.full((2,), power)),
    lambda power: closure([{power}, {"key": closure(power)}]),
    lambda power: nn.SmoothL1Loss(beta=power),
    lambda power: nn.BCEWithLogitsLoss(pos_weight=torch.tensor(power)),
]  # fmt: skip


class TestNameOf:
    @pytest.mark.parametrize("make", MAKERS, ids=range(len(MAKERS)))
    def test_equal_for_the_same_and_else_not(self, make: Any) -> None:
        assert name_of(make(2.0)) == name_of(make(2.0)) != name_of(make(3.0))

    def test_training_mode_is_not_part_of_it(self) -> None:
        assert name_of(nn.Dropout().train()) == name_of(nn.Dropout().eval())

    def test_order_of_sets_is_not_part_of_it(self) -> None:
        """It differs between processes for texts, and here for numbers that collide."""
        one, other = {0, 8}, {8, 0}
        assert list(one) != list(other)
        assert name_of(one) == name_of(other)
        assert name_of(closure(frozenset([0, 8]))) == name_of(closure(frozenset([8, 0])))

    def test_addresses_are_not_part_of_it(self) -> None:
        first = name_of([Told(object()), closure(object())])
        assert first == name_of([Told(object()), closure(object())])
        assert "0x" not in first
