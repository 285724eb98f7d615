"""How a network begins, and what is said when its training ends badly; without compiled code, for every engine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from plr.errors import DivergenceError

__all__ = ["NO_SCORE", "PARAMETERS", "diverged", "initial_parameters"]

PARAMETERS = "The network's parameters became infinite"
NO_SCORE = "No epoch has a finite score on the validation rows; look for values far out of range."


def initial_parameters(sizes: list[int], random: np.random.Generator) -> NDArray[np.float64]:
    """Draw weights and biases uniformly within 1/√(inputs), layer by layer, as PyTorch's linear layers do."""
    parts = []
    for n_in, n_out in pairwise(sizes):
        bound = 1.0 / np.sqrt(n_in)
        parts.append(random.uniform(-bound, bound, n_in * n_out))
        parts.append(random.uniform(-bound, bound, n_out))
    return np.concatenate(parts)


def diverged(what: str, epoch: int, epochs: int, learning_rate: float) -> DivergenceError:
    """Return the error that says what went out of range, and when."""
    return DivergenceError(
        f"{what} in epoch {epoch} of {epochs}, at learning rate {learning_rate:g}. Try a smaller learning_rate, or "
        f"scale_target=True if it is off."
    )
