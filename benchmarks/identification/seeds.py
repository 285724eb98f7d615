"""The protocol that cases are part of, and the seed that methods train with."""

from __future__ import annotations

from plr.paper.grid import seed_for
from plr.paper.protocol import Protocol

__all__ = ["SEED", "training_seed"]

SEED = Protocol().seed
"""What all seeds come from."""


def training_seed(dataset: str, trial: int) -> int:
    """Return the seed that all methods train with on a trial, whatever the candidates."""
    return int(seed_for(Protocol(), "training", dataset, "identification", trial).generate_state(1)[0] % 2**31)
