"""Writing model files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from plr.errors import ModelFileError, ParameterError
from plr.learners import Boosting, Module, Refit
from plr.learners.trees import join_params
from plr.persistence.codec import Encoder, refusal
from plr.persistence.file import check_writable, write_file
from plr.persistence.regressor_schema import FittedAttributes
from plr.persistence.schema import REASONS
from plr.regressor import PartialLabelRegressor
from plr.weighting import Posterior

__all__ = ["check_savable", "save_model"]

_FEW_ROWS = 20


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
    _check_class(model)
    if extra is not None and not isinstance(extra, Mapping):
        raise ParameterError(f"extra must be a dictionary, got {type(extra).__name__}.")
    model._check_fitted()
    encoder = Encoder(training_rows)
    parameters = model.get_params(deep=False)
    if isinstance(model.learner_, Module) and not isinstance(parameters["learner"], Module):
        # A bare torch module, which is code.
        parameters["learner"] = model.learner_
    content = {
        "parameters": encoder.named(parameters),
        "attributes": encoder.encode(FittedAttributes.of(model), ""),
    }
    write_file(Path(path), encoder.arrays, content, dict(extra or {}), encoder.packages, encoder.kinds)


def check_savable(model: PartialLabelRegressor, path: str | os.PathLike[str] | None = None) -> None:
    """Raise the error that `save_model` would end with, as far as it can be known before the fit.

    It takes no longer than a fit to twenty rows: parameters are put into the form that files have, and a regressor of
    scikit-learn's kind is fitted to a few rows of noise, written and read. What only a fit can tell remains: that a
    torch dataset brings a function of its own, or what a regressor that cannot be fitted to such rows holds.

    Parameters
    ----------
    model : PartialLabelRegressor
        Fitted or not.
    path : path, optional
        Where it is to be written; a file is made there and removed.

    Raises
    ------
    ModelFileError

    Examples
    --------
    >>> import plr
    >>> plr.persistence.check_savable(plr.PartialLabelRegressor("linear"))
    >>> plr.persistence.check_savable(plr.PartialLabelRegressor("linear", weighting=lambda f, y, loss: -loss))
    Traceback (most recent call last):
    plr.errors.ModelFileError: The model cannot be written to a file because of its weighting: ...
    """
    _check_class(model)
    if path is not None:
        check_writable(Path(path))
    learner, weighting, loss = model._resolve()
    # Names stand for parts, and a bare regressor or torch module for the learner around it.
    given = {**model.get_params(deep=False), "learner": learner}
    encoder = Encoder(with_rows=False)
    for name, part in (*given.items(), ("weighting", weighting), ("loss", loss)):
        encoder.encode(part, name)
    if isinstance(weighting, Posterior) and hasattr(weighting.false_labels, "logpdf"):
        raise refusal("weighting.false_labels", REASONS["plr.weighting.false_labels:GivenDensity"])
    if isinstance(learner, Boosting):
        settings = join_params({}, learner.params)
        if settings.get("linear_tree"):
            raise refusal(
                "learner.params", "trees with linear models in their leaves are not kept; leave out linear_tree"
            )
    if isinstance(learner, Refit) and (fitted := _fitted_to_noise(learner.regressor)) is not None:
        encoder.encode(fitted, "learner.regressor")


def _fitted_to_noise(regressor: Any) -> Any:
    """Return a clone that has been fitted to a few rows; None where it takes no such rows."""
    random = np.random.default_rng(0)
    X, y = random.uniform(1, 2, size=(_FEW_ROWS, 3)), random.uniform(1, 2, size=_FEW_ROWS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return clone(regressor).fit(X, y)
    except Exception:
        # It may want texts, images or more rows; what is wrong with it the fit itself will tell.
        return None


def _check_class(model: Any) -> None:
    if not isinstance(model, PartialLabelRegressor):
        raise ParameterError(
            f"model must be a fitted PartialLabelRegressor, got {type(model).__name__}; a TableModel has a method save."
        )
    if type(model) is not PartialLabelRegressor:
        raise ModelFileError(
            f"{type(model).__name__} is a class of its own, and model files hold no code; save a PartialLabelRegressor."
        )
