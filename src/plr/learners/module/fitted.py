"""A trained module with the scaling around it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plr.contracts import Fitted, Report
from plr.errors import DependencyError
from plr.preprocessing.scaling import Affine

if TYPE_CHECKING:
    from plr.learners.module.features import FeatureReader

__all__ = ["FittedModule"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FittedModule(Fitted):
    """A trained module with the scaling around it.

    Attributes
    ----------
    module : torch.nn.Module
        On the processor, in evaluation mode. It predicts scaled labels; ``target`` has the scale.
    reader : FeatureReader
        How features become what the module takes.
    target : Affine
    report : Report
    """

    module: Any
    reader: FeatureReader
    target: Affine
    report: Report
    batch_size: int = 128
    device: str = "cpu"
    autocast: bool = False
    loader: dict[str, Any] = field(default_factory=dict)

    def predict(self, X: Any) -> Floats:
        """Return one prediction per row, in the units of the labels.

        Parameters
        ----------
        X : array, tensor, or torch dataset
            As in training. After ``fit_dataset``, the items of a dataset may still carry their candidates, which are
            passed over.
        """
        import torch

        from plr.learners.module.features import feature_batches
        from plr.learners.module.forward import call_module, find_device, on_device

        try:
            device = find_device(self.device)
        except DependencyError:
            # Trained where there was a CUDA device, used where there is none.
            device = torch.device("cpu")
        net = self.module.eval()
        if device.type != "cpu":
            # A copy moves, so that several threads can predict at once and `module` stays where it is.
            net = copy.deepcopy(net).to(device)
        parts = [np.empty(0)]
        with torch.no_grad():
            for features, rows in feature_batches(self.reader, X, self.batch_size, self.loader):
                output = call_module(net, on_device(features, device), rows, device, self.autocast)
                parts.append(output.to("cpu", torch.float64).numpy())
        return self.target.undo(np.concatenate(parts))
