"""Model files: one file that holds a fitted model, and that runs nothing when it is read.

A file is a ZIP of uncompressed members: ``manifest.json`` says what there is, ``model.json`` how it belongs together,
and the others are plain arrays, texts, and models of scikit-learn in the format of skops. All numbers are
little-endian, so that a file says the same on every machine.
"""

from __future__ import annotations

from plr.persistence.loading import load_model, read_manifest
from plr.persistence.saving import check_savable, save_model

__all__ = ["check_savable", "load_model", "read_manifest", "save_model"]
