"""Thousands of small networks trained at once, on a GPU or wherever PyTorch runs.

A fit of a thousand parameters leaves a GPU idle, and starting its kernels takes longer than running them. So fits of
one architecture, however they differ in data, method and hyper-parameters, are packed into one stack (`packing`) and
trained together: by a kernel that holds one network per block of threads for as long as it trains (`fused`, needs
Triton and a GPU), or by batched tensor operations (`plain`, any device). Both choose the best epochs on the way, on the
device, and give what `plr.network` gives for each fit by itself, up to rounding and the order of the rows.

Needs PyTorch, NumPy and scikit-learn and nothing else that plr depends on.
"""

from __future__ import annotations

from plr.paper.stacked.fits import Layers, StackedFit, StackedResult, Validation
from plr.paper.stacked.prediction import predict_stack
from plr.paper.stacked.training import train_stack

__all__ = ["Layers", "StackedFit", "StackedResult", "Validation", "predict_stack", "train_stack"]
