"""Writing model files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plr.errors import ModelFileError, ParameterError
from plr.learners import Module
from plr.persistence.container import write_members
from plr.persistence.encoding import Encoder
from plr.persistence.manifest import MODEL, make_manifest, model_json
from plr.persistence.whole import ATTRIBUTES, OF_ROWS
from plr.regressor import PartialLabelRegressor

__all__ = ["save_model"]


def save_model(
    model: PartialLabelRegressor,
    path: str | os.PathLike[str],
    *,
    extra: Mapping[str, Any] | None = None,
    training_rows: bool = True,
) -> None:
    """Write a fitted model to a file that can be read without running anything.

    Parameters
    ----------
    model : PartialLabelRegressor
        Fitted. Models with code of one's own in them cannot be written: functions as weighting, loss or density, and
        functions that collate. Of a torch module the numbers are kept, and `load_model` is given the module again.
        Regressors of scikit-learn's kind are kept with skops (``pip install 'plr[skops]'``).
    path : path
        Replaced if it exists; a crash leaves the old file whole.
    extra : mapping, optional
        Anything that JSON can hold, to be read again by `plr.persistence.read_manifest`.
    training_rows : bool, default=True
        Whether to keep what was found for each training row: first weights, probabilities of its candidates,
        predictions out of fold, and ``identify()`` where it has been called. They include the labels identified. The
        rows themselves are never kept.

    Notes
    -----
    Predictions of the loaded model are the same to the bit with the same versions of the packages on the same kind of
    processor. Elsewhere the numbers in the file are the same, and the last bits of predictions may differ as those of
    matrix products do.

    Examples
    --------
    >>> import tempfile, pathlib, plr
    >>> model = plr.PartialLabelRegressor("linear").fit([[0.0], [1.0], [2.0]], [[1.0, 9.0], [2.0], [3.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "line.plr"
    ...     plr.save_model(model, path, extra={"unit": "mm"})
    ...     plr.load_model(path).predict([[3.0]]).round(3), plr.persistence.read_manifest(path)["extra"]
    (array([4.]), {'unit': 'mm'})
    """
    if not isinstance(model, PartialLabelRegressor):
        raise ParameterError(f"model must be a fitted PartialLabelRegressor, got {type(model).__name__}.")
    if type(model) is not PartialLabelRegressor:
        raise ModelFileError(
            f"{type(model).__name__} is a class of its own, and model files hold no code; save a PartialLabelRegressor."
        )
    if extra is not None and not isinstance(extra, Mapping):
        raise ParameterError(f"extra must be a dictionary, got {type(extra).__name__}.")
    model._check_fitted()
    encoder = Encoder(training_rows)
    names = [name for name in ATTRIBUTES if name in vars(model) and (training_rows or name not in OF_ROWS)]
    parameters = model.get_params(deep=False)
    if isinstance(model.learner_, Module) and not isinstance(parameters["learner"], Module):
        # A bare torch module, which is code.
        parameters["learner"] = model.learner_
    content = {
        "parameters": {name: encoder.encode(part, name) for name, part in parameters.items()},
        "attributes": {name: encoder.encode(vars(model)[name], name) for name in names},
    }
    members = {MODEL: memoryview(model_json(content)), **encoder.members}
    sizes = {name: part.nbytes for name, part in members.items()}
    described, packages, more = encoder.described, encoder.packages, dict(extra or {})
    write_members(Path(path), members, lambda digests: make_manifest(described, sizes, digests, more, packages))
