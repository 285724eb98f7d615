"""What the examples share: their options, how models are scored, and the table they print."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Row", "judge", "options", "print_results"]


class Row(NamedTuple):
    """A line of the results."""

    trained_on: str
    root_mean_square: float
    median: float
    identified: float


def judge(trained_on: str, truth: Any, prediction: Any, identified: Any) -> Row:
    """Compare predictions and identified values with the truth."""
    error = np.abs(np.subtract(prediction, truth))
    found = float(np.mean(np.equal(identified, truth)))
    return Row(trained_on, float(np.sqrt(np.mean(error**2))), float(np.median(error)), found)


def options(description: str | None, **others: dict[str, Any]) -> argparse.Namespace:
    """Read the command line: --seed, --small, and the options of one example by name."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seeds data and training (default: 0)")
    parser.add_argument("--small", action="store_true", help="little data, short training: a few seconds")
    for name, settings in others.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **settings)
    return parser.parse_args()


def print_results(title: str, unit: str, chance: float, rows: Iterable[Row]) -> None:
    """Print the errors and what was identified; ``chance`` is the share that guessing finds."""
    print(title)
    print(f"\n  {'':<38}{f'error ({unit})':^26}{'true values':>14}")
    print(f"  {'trained on':<38}{'root mean sq.':>13}{'median':>13}{'identified':>14}")
    for row in rows:
        print(f"  {row.trained_on:<38}{row.root_mean_square:>13.4g}{row.median:>13.4g}{row.identified:>14.1%}")
    print(f"  {'nothing: a guess':<38}{'':>26}{chance:>14.1%}")
