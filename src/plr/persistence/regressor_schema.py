"""What is kept of a fitted `PartialLabelRegressor`, and what it must be."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import BY_ROW, MATRIX, require
from plr.contracts import Fitted, Learner
from plr.diagnosis import Diagnosis
from plr.identification import Identification
from plr.intervals import Calibration
from plr.learners.module.learner import Module
from plr.losses import Loss
from plr.noise import NoiseModel
from plr.persistence.modules import StoredModule
from plr.preprocessing.columns import Columns
from plr.regressor import PartialLabelRegressor
from plr.weighting.base import Weighting

__all__ = ["TRANSIENT", "FittedAttributes"]

Floats = NDArray[np.float64]

TRANSIENT = ("_training", "_given")
"""What no file holds: the training rows themselves."""

_ONLY_IF_KNOWN = ("n_features_in_", "feature_names_in_", "columns_", "candidate_probabilities_")


@dataclass(frozen=True)
class FittedAttributes:
    """The attributes of a fitted regressor, besides its parameters."""

    learner_: Learner
    weighting_: Weighting
    loss_: Loss
    model_: StoredModule | Fitted
    n_iter_: int
    noise_: NoiseModel
    noise_scale_: float
    missing_share_: float
    n_features_in_: int | None
    feature_names_in_: Any
    columns_: Columns | None
    calibration_: Calibration | None
    diagnosis_: Diagnosis | None
    start_weights_: Floats | None = field(metadata=BY_ROW)
    candidate_probabilities_: Floats | None = field(metadata=BY_ROW)
    _identified: Identification | None = field(metadata=BY_ROW)
    _out_of_fold: Floats | None = field(metadata=BY_ROW)
    _row_digests: NDArray[np.uint64] | None = field(metadata=MATRIX)

    @classmethod
    def of(cls, model: PartialLabelRegressor) -> FittedAttributes:
        """Return what is kept of a fitted regressor."""
        found: dict[str, Any] = {each.name: getattr(model, each.name, None) for each in fields(cls)}
        return cls(**found)

    def __post_init__(self) -> None:
        names, columns = self.feature_names_in_, self.n_features_in_
        if names is not None:
            right = isinstance(names, np.ndarray) and names.dtype == object and all(isinstance(n, str) for n in names)
            require(right and len(names) == columns, "names and columns differ in number")
        require(self.columns_ is None or len(self.columns_.names) == columns, "its table has other columns")
        digests = self._row_digests
        require(digests is None or (len(digests) == 2 and digests.size > 0), "there must be two digests for each row")
        self._check_model()

    def _check_model(self) -> None:
        """Check that the model goes with its learner, and wants the columns that are let through to it."""
        model: Any = self.model_
        is_module = hasattr(model, "reader")
        right = is_module == isinstance(self.learner_, Module)
        if self.learner_.takes == "rows" and not is_module:
            right = right and hasattr(model, "models")
        require(right, "its learner and its model do not belong together")
        if is_module:
            scaling = model.reader.scaling
            right = scaling is None or self.n_features_in_ is None or np.shape(scaling.centre) == (self.n_features_in_,)
            require(right, "the module's features are scaled by other columns")
            return
        encoding = getattr(getattr(model, "mixture", model), "encoding", None) or getattr(model, "features", None)
        wanted = getattr(model, "columns", None) if encoding is None else encoding.columns
        require(wanted is None or self.n_features_in_ == wanted, "its model wants other columns than it is given")

    def regressor(self, parameters: dict[str, Any]) -> PartialLabelRegressor:
        """Return the fitted regressor."""
        found = PartialLabelRegressor(**parameters)
        for name in (*(each.name for each in fields(self)), *TRANSIENT):
            value = getattr(self, name, None)
            looked_at = name == "columns_" and self.learner_.takes == "table"
            if value is not None or looked_at or name not in _ONLY_IF_KNOWN:
                setattr(found, name, value)
        return found
