"""Model files: one file that holds a fitted model, and that runs nothing when it is read.

A file is in the format of safetensors: a manifest that says what there is, JSON that says how it belongs together, and
beside them plain arrays, LightGBM's texts, and models of scikit-learn in the format of skops.
"""

from __future__ import annotations

from plr.persistence.models import check_savable, load_model, read_manifest, read_model, save_model

__all__ = ["check_savable", "load_model", "read_manifest", "read_model", "save_model"]
