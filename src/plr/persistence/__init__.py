"""Model files: one file that holds a fitted model, and that runs nothing when it is read.

A file is a ZIP of uncompressed members: ``manifest.json`` says what there is, ``model.json`` how it belongs together,
and the others are plain arrays, texts, and models of scikit-learn in the format of skops. All numbers are
little-endian, so that a file says the same on every machine.

Notes
-----
A file names kinds, not classes: each kind stands for one class of plr with its fields, and an object is made only after
all of it has been checked, since compiled code follows sizes and indices without looking. Nothing in a file is larger
than the file, and each member is named once. LightGBM's text is read strictly before LightGBM sees it, and forests are
kept as arrays and walked in NumPy. Regressors of others are made by skops from known types alone: those that predict in
NumPy, and those that `compiled` checks in full; a type that is added needs either, and a line in
``tests/persistence/test_hostile_estimators.py``.

Of a torch module a file holds the tensors, as arrays with a type and a shape, and a placeholder for those parameters of
its learner that were code; `load_model` joins them with the module it is given, after names, shapes and types agree. On
the command line ``--module`` names that code; what a file remembers of it is printed and never run.
"""

from __future__ import annotations

from plr.persistence.loading import load_model, read_manifest
from plr.persistence.saving import check_savable, save_model

__all__ = ["check_savable", "load_model", "read_manifest", "save_model"]
