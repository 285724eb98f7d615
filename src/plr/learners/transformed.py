"""A learner that sees labels on another scale: logarithms, a power, or what a transformer makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import BY_ROW, require
from plr.candidates import CandidateSets
from plr.contracts import Fitted, Learner, Report, Task
from plr.densities.mixture import estimate
from plr.learners.committee import Committee
from plr.learners.committee.members import learn_noise
from plr.preprocessing.label_scale import LabelScale, TransformedDensity, get_transform
from plr.preprocessing.scaling import Affine
from plr.progress import SILENT
from plr.weighting.base import Weighting

__all__ = ["FittedTransformed", "TransformedTarget"]

Floats = NDArray[np.float64]

_LEAST_NOISE = 1e-9


@dataclass(frozen=True)
class FittedTransformed(Fitted):
    """A model of transformed labels, whose predictions are means of labels.

    Attributes
    ----------
    model : Fitted
    scale : LabelScale
    noise : float
        The standard deviation of transformed labels around predictions of rows not seen.
    typical : float
        How wide that is in labels at a typical row.
    """

    model: Any
    scale: LabelScale
    noise: float
    typical: float
    report: Report
    out_of_fold: Floats | None = field(default=None, metadata=BY_ROW)
    held_out: Floats | None = field(default=None, metadata=BY_ROW)
    out_of_fold_weights: Floats | None = field(default=None, metadata=BY_ROW)
    relative_scale: Floats | None = field(default=None, metadata=BY_ROW)
    importance: Floats | None = None

    def __post_init__(self) -> None:
        require(self.noise >= 0 and self.typical > 0, "noise must not be negative, and its typical width positive")

    def predict(self, X: Any) -> Floats:
        """Return the mean label of each row."""
        return self.scale.mean(self.model.predict(X), self.noise)

    def predict_scale(self, X: Any) -> Floats:
        """Return how wide the noise is in labels, relative to that of a typical row."""
        found, own = self.model.predict(X), self.model.predict_scale(X)
        return self.scale.spread(found, self.noise) / self.typical * (1.0 if own is None else own)


class TransformedTarget(Learner):
    """A learner fitted to transformed labels.

    Candidates are transformed, and so is the density of false labels; predictions are means of labels, not labels at
    the mean of what is transformed. Rows have noise scales of their own, as wide in labels as the scale is steep.

    Parameters
    ----------
    learner : Learner
    transform : {"log", "yeo-johnson"} or scikit-learn transformer
        It must be increasing, and have ``inverse_transform``.
    """

    def __init__(self, learner: Learner, transform: object) -> None:
        self.learner = learner
        self.transform = transform

    takes = property(lambda self: self.learner.takes)
    takes_missing = property(lambda self: self.learner.takes_missing)
    takes_datasets = False
    gives_row_scale = property(lambda self: self.learner.gives_row_scale)
    draws = property(lambda self: self.learner.draws)
    minimises_loss = property(lambda self: self.learner.minimises_loss)
    takes_weights = property(lambda self: self.learner.takes_weights)
    few_rows = property(lambda self: self.learner.few_rows)

    def fit(self, task: Task) -> FittedTransformed:
        """Fit the learner to transformed labels."""
        transform = get_transform(self.transform, task.S, task.sample_weight)
        plain = Affine(np.float64(0.0), np.float64(1.0))
        scale = LabelScale.of(transform, task.S, task.sample_weight, plain)
        seen = self._transformed(task, transform)
        if task.density is not None and isinstance(self.learner, Committee):
            # The committee has it as a member, and begins without each fold only where there is one.
            unbegun = replace(seen, start=None, progress=SILENT)
            seen = replace(seen, density=estimate(unbegun, self.learner.cv, task.density.models))
        model = self.learner.fit(seen)
        unseen = model.out_of_fold if model.held_out is None else model.held_out
        found = model.predict(task.X) if unseen is None else unseen
        # In a unit of their spread: a transformer's may be of any size.
        prepared = seen.preprocess()
        target, unit = prepared.target, float(prepared.target.scale)
        _, noise, _ = learn_noise(target.apply(found), replace(seen, S=prepared.sets), self._log_q(seen) + np.log(unit))
        noise = max(noise * unit, _LEAST_NOISE * scale.width)
        spread = scale.spread(found, noise)
        counted = slice(None) if task.sample_weight is None else task.sample_weight > 0
        typical = float(np.exp(np.mean(np.log(spread[counted]))))
        own = model.relative_scale
        return FittedTransformed(
            model,
            scale,
            noise,
            typical,
            replace(model.report, noise_scale=model.report.noise_scale * (typical / noise)),
            None if model.out_of_fold is None else scale.mean(model.out_of_fold, noise),
            None if model.held_out is None else scale.mean(model.held_out, noise),
            model.out_of_fold_weights,
            spread / typical * (1.0 if own is None else own),
            model.importance,
        )

    def _transformed(self, task: Task, transform: Any) -> Task:
        S = task.S
        sets = CandidateSets._of_checked(transform.apply(S.values), S.offsets, S.prior)
        density, log_q = task.false_labels, task.log_q
        if density is not None:
            low, high = float(sets.values.min()), float(sets.values.max())
            density = TransformedDensity(low, high, density, transform)
        weight = task.sample_weight
        counted = S.values if weight is None else S.values[weight[S.row_index] > 0]
        span = float(counted.max() - counted.min())
        uniform = -np.log(span) if span > 0 else 0.0
        # Uniform over the range of labels is not uniform over that of what is transformed.
        log_q = (uniform if log_q is None else log_q) - transform.log_slope(S.values)
        validation = task.validation
        if validation is not None:
            rows, labels = validation
            own = CandidateSets._of_checked(transform.apply(labels.values), labels.offsets, labels.prior)
            validation = rows, own
        told = replace(
            task, S=sets, log_q=log_q, false_labels=density, density=None, validation=validation, preprocessing=None
        )
        return replace(told, preprocessing=told.preprocess())

    @staticmethod
    def _log_q(task: Task) -> Floats:
        assert task.log_q is not None
        return task.log_q

    def check_weighting(self, weighting: Weighting) -> None:
        """Refuse what the learner refuses."""
        self.learner.check_weighting(weighting)

    def for_folds(self, task: Task) -> Learner:
        """Return the learner that is fitted without each fold, on the same scale."""
        return TransformedTarget(self.learner.for_folds(task), self.transform)

    def caveat(self, model: Fitted) -> str:
        """Return what the learner says of its model."""
        assert isinstance(model, FittedTransformed)
        return self.learner.caveat(model.model)

    def effort_of_folds(self, model: Fitted) -> str | None:
        """Return what the learner says of its model."""
        assert isinstance(model, FittedTransformed)
        return self.learner.effort_of_folds(model.model)
