"""What many networks of one architecture predict for the same rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plr.paper.stacked.fits import IDENTITY, Layers

__all__ = ["predict_stack"]

# Units of one layer held at a time, over all networks and rows.
_MOST_UNITS = 1 << 25


def predict_stack(
    layers: Layers,
    parameters: NDArray[Any],
    activations: NDArray[Any],
    features: NDArray[Any],
    device: str | torch.device = "cpu",
) -> NDArray[np.float32]:
    """Return the predictions of each network for each row.

    Parameters
    ----------
    layers : Layers
    parameters : ndarray of shape (networks, parameters)
        As `StackedFit` lays them out.
    activations : ndarray of shape (networks, hidden layers)
        `IDENTITY` or `RELU`.
    features : ndarray of shape (n, d)
    device : device

    Returns
    -------
    ndarray of shape (networks, n)
    """
    rows = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)).to(device)
    many = max(1, _MOST_UNITS // (max(layers.sizes) * max(len(rows), 1)))
    found = []
    for begin in range(0, len(parameters), many):
        flat = torch.from_numpy(np.ascontiguousarray(parameters[begin : begin + many], dtype=np.float32)).to(device)
        codes = torch.from_numpy(np.ascontiguousarray(activations[begin : begin + many])).to(device)
        units, at = rows, 0
        for place, (n_in, n_out) in enumerate(pairwise(layers.sizes)):
            weights = flat[:, at : at + n_in * n_out].view(-1, n_out, n_in)
            at += n_in * n_out
            units = units @ weights.mT + flat[:, None, at : at + n_out]
            at += n_out
            if place < len(layers.hidden):
                units = torch.where(codes[:, place, None, None] == IDENTITY, units, units.clamp_min(0.0))
        found.append(units[..., 0].cpu().numpy())
    return np.concatenate(found) if found else np.empty((0, len(rows)), np.float32)
