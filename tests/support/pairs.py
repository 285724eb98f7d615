"""Parametrised tests that try every pair of values by default, and every combination in the full run."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def all_pairs(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrise a test by the product of some axes, of which enough for every pair of values is not slow.

    Most faults need one value or two to show; the combinations that add neither are marked ``slow`` and left to
    ``make test-all``. With two axes every combination is a pair, and none is slow.

    Parameters
    ----------
    **axes : iterable
        The values of each argument, in the order in which tests are to be named; ``pytest.param(value, id=...)``
        names one.

    Examples
    --------
    >>> @all_pairs(weighting=["average", "posterior"], loss=["squared", "huber"], prior=[False, True])
    ... def test_something(weighting, loss, prior): ...
    >>> [case.id for case in test_something.pytestmark[0].args[1] if not case.marks]
    ['average-squared-False', 'average-huber-True', 'posterior-squared-True', 'posterior-huber-False']
    """
    values = [[_as_param(value) for value in axis] for axis in axes.values()]
    needed = covering([len(axis) for axis in values])
    cases = []
    for place in product(*(range(len(axis)) for axis in values)):
        chosen = [axis[k] for axis, k in zip(values, place, strict=True)]
        marks = [mark for param in chosen for mark in param.marks]
        cases.append(
            pytest.param(
                *(param.values[0] for param in chosen),
                id="-".join(_name(*part) for part in zip(axes, place, chosen, strict=True)),
                marks=marks if place in needed else [*marks, pytest.mark.slow],
            )
        )
    return pytest.mark.parametrize(tuple(axes), cases)


def covering(sizes: list[int]) -> set[tuple[int, ...]]:
    """Return combinations of indices, few of them, in which every pair of indices of two axes occurs."""
    axes = list(combinations(range(len(sizes)), 2))
    rows = {row: {(i, j, row[i], row[j]) for i, j in axes} for row in product(*map(range, sizes))}
    missing = set().union(*rows.values())
    chosen = set() if missing else set(rows)
    while missing:
        # The first of the best, so that the choice is the same everywhere.
        best = max(rows, key=lambda row: len(rows[row] & missing))
        missing -= rows[best]
        chosen.add(best)
    return chosen


def _as_param(value: Any) -> Any:
    return value if hasattr(value, "marks") and hasattr(value, "values") else pytest.param(value)


def _name(axis: str, place: int, param: Any) -> str:
    """Name a value as pytest does."""
    if param.id is not None:
        return str(param.id)
    (value,) = param.values
    if value is None or isinstance(value, str | int | float | bool):
        return str(value)
    return getattr(value, "__name__", f"{axis}{place}")
