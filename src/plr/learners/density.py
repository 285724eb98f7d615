"""The density learner: where labels lie given the features, with no regression at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plr._fields import BY_ROW, require
from plr._parameters import check_choice
from plr.candidates import CandidateSets
from plr.contracts import Fitted, Learner, Report, Task
from plr.errors import LengthError, ParameterError
from plr.folds import check_folds

if TYPE_CHECKING:
    from plr.densities.mixture import Mixture

__all__ = ["Density", "FittedDensity", "point_of"]

Floats = NDArray[np.float64]

_POINTS = ("mean", "median", "mode")


@dataclass(frozen=True)
class FittedDensity(Fitted):
    """Densities of labels given features.

    Attributes
    ----------
    mixture : Mixture
        The estimates and their shares.
    point : str
        What ``predict`` returns.
    report : Report
    log_likelihood : float
        Mean of log Σ prior · p / q over the training rows, p by models that have not seen the row. Made without a true
        label, and comparable with the ``score`` of other models on held-out rows of the same data.
    out_of_fold : ndarray of shape (n,) or None
        Predictions of the training rows by models that have not seen them; None where nothing could be held out.
    """

    mixture: Mixture
    point: str
    report: Report
    log_likelihood: float
    out_of_fold: Floats | None = field(default=None, metadata=BY_ROW)

    def __post_init__(self) -> None:
        require(self.point in _POINTS, "the point must be mean, median or mode")

    def predict(self, X: Floats) -> Floats:
        """Return one prediction per row: the density's mean, median or mode."""
        return point_of(self.mixture, self.mixture.heights(X), self.point)

    def predict_density(self, X: Floats, labels: ArrayLike) -> Floats:
        """Return the density at given labels.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        labels : array-like of shape (m,) or (n, m)
            The same labels for all rows, or labels for each.

        Returns
        -------
        ndarray of shape (n, m)
        """
        given = np.asarray(labels, dtype=np.float64)
        if given.ndim not in (1, 2) or (given.ndim == 2 and len(given) != len(X)):
            raise LengthError(f"labels has shape {given.shape}; give one row of labels, or {len(X)}, one for each row.")
        given = np.broadcast_to(given, (len(X), given.shape[-1]))
        rows = np.repeat(np.arange(len(X)), given.shape[1])
        return self._at(X, rows, given.ravel()).reshape(given.shape)

    def predict_quantiles(self, X: Floats, levels: ArrayLike) -> Floats:
        """Return quantiles of the density, one column per level between 0 and 1.

        They stay within the range of the training candidates.
        """
        from plr.densities.bins import quantiles

        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if wanted.ndim != 1 or not ((wanted >= 0) & (wanted <= 1)).all():
            raise ParameterError(f"levels must be numbers from 0 to 1, got {levels!r}.")
        mixture = self.mixture
        return mixture.target.undo(quantiles(mixture.knots, mixture.heights(X), wanted))

    def score(self, X: Floats, S: CandidateSets) -> float:
        """Return the mean of log Σ prior · p / q over other rows."""
        densities = self._at(X, S.row_index, S.values) * float(self.mixture.target.scale)
        log_q = self.mixture.background.log(self.mixture.target.apply(S.values))
        ratios = S.prior_or_uniform * np.exp(np.log(densities) - log_q)
        return float(np.log(np.add.reduceat(ratios, S.offsets[:-1])).mean())

    def _at(self, X: Floats, rows: NDArray[np.int64], labels: Floats) -> Floats:
        mixture = self.mixture
        found = mixture.at(mixture.heights(X), rows, mixture.target.apply(labels))
        return found / float(mixture.target.scale)


class Density(Learner):
    """The density of labels given the features, estimated from candidate sets.

    No candidate is ever weighed by a prediction, so there is no first guess that could be confirmed. What is lost is
    resolution: the density is made of straight lines between a few dozen labels. It is the start of other learners
    (`plr.learners.starts.DensityStart`), and a learner by itself where a whole density is wanted, with several modes
    perhaps, or a score without labels to compare others with. Weighting and loss have no part in it, except for the
    density of false labels that `plr.weighting.Posterior` may bring.

    Parameters
    ----------
    point : {"mean", "median", "mode"}, default="mean"
        What to predict.
    models : str or sequence of str, default="auto"
        ``"trees"``, ``"network"``, ``"neighbours"``, or several of these. ``"auto"`` is trees and network.
    cv : int, scikit-learn splitter or iterable of (train, test), default=5
        The folds. They keep groups together.

    Notes
    -----
    The fitted model, ``model_`` of the regressor, has ``predict_density``, ``predict_quantiles``, ``log_likelihood``
    and ``score``. They take X as the regressor's ``columns_`` encode it, where it has columns of categories.

    Examples
    --------
    >>> import numpy as np
    >>> from plr import PartialLabelRegressor, make_candidates
    >>> from plr.learners import Density
    >>> X = np.random.default_rng(0).uniform(0, 1, size=(300, 1))
    >>> S = make_candidates(10 * X[:, 0], 2, set_size="fixed", random_state=0)
    >>> model = PartialLabelRegressor(Density("median", models="trees"), random_state=0).fit(X, S)
    >>> model.predict([[0.5]]).round()
    array([5.])
    >>> model.model_.predict_quantiles(np.array([[0.5]]), [0.05, 0.95]).shape
    (1, 2)
    """

    takes = "table"
    takes_missing = True
    minimises_loss = False
    has_folds = True

    def __init__(self, point: str = "mean", models: str | Sequence[str] = "auto", cv: object = 5) -> None:
        self.point = point
        self.models = models
        self.cv = cv

    def fit(self, task: Task) -> FittedDensity:
        """Estimate the densities."""
        from plr.densities import choose_models
        from plr.densities.mixture import estimate

        self.check_weighting(task.rule.weighting)
        point = check_choice("point", self.point, _POINTS)
        check_folds(self.cv)
        if task.validation is not None:
            raise ParameterError("The density learner holds out rows by itself and has no use for validation rows.")
        found = estimate(task, self.cv, choose_models(self.models, len(task.S)))
        mixture = found.mixture
        out_of_fold = None
        if found.out_of_fold is not None:
            out_of_fold = point_of(mixture, mixture.mix(found.out_of_fold, len(task.S)), point)
        report = Report(rounds=1, loss=np.array([-found.log_likelihood]))
        return FittedDensity(mixture, point, report, found.log_likelihood, out_of_fold)


def point_of(mixture: Mixture, heights: Floats, point: str) -> Floats:
    """Return the mean, median or mode of densities at the mixture's knots, as labels."""
    from plr.densities.bins import POINTS

    return mixture.target.undo(POINTS[point](mixture.knots, heights))
