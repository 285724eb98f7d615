"""The networks of the paper's tables, and the one of its text."""

from __future__ import annotations

from dataclasses import dataclass

from plr._parameters import check_choice

__all__ = ["MODELS", "Model", "get_model"]


@dataclass(frozen=True)
class Model:
    """Units of the hidden layers and the activation after each."""

    hidden: tuple[int, ...]
    activations: tuple[str, ...]


MODELS: dict[str, Model] = {
    # Nothing after the first layer: what the tables of the paper were computed with.
    "mlp": Model((20, 30, 10), ("identity", "relu", "relu")),
    "mlp-relu": Model((20, 30, 10), ("relu", "relu", "relu")),
    # A chain of linear layers is a linear model, but reaches raw labels far from zero; one layer does not in time.
    "linear": Model((20, 30, 10), ("identity", "identity", "identity")),
}
"""The models of the paper, by name."""


def get_model(name: str) -> Model:
    """Return a model by name.

    >>> get_model("mlp").activations
    ('identity', 'relu', 'relu')
    """
    return MODELS[check_choice("model", name, MODELS)]
