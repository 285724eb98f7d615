"""Starts: where true labels pile up, before any model exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from plr._parameters import resolve
from plr.contracts import Learner, Start, Task
from plr.densities import FEW_ROWS, choose_models
from plr.errors import ParameterError
from plr.folds import out_of_fold
from plr.learners.gaussian_process import GaussianProcess
from plr.losses import Squared
from plr.noise import fit_noise
from plr.preprocessing.features import learn_columns
from plr.weighting.average import Average
from plr.weighting.base import Weighting
from plr.weighting.posterior import Posterior
from plr.weighting.rule import Rule

if TYPE_CHECKING:
    from plr.densities.mixture import Estimate

__all__ = [
    "STARTS",
    "DensityStart",
    "SampledStart",
    "Start",
    "as_matrix",
    "choose_start",
    "first_weights",
    "get_start",
    "name_start",
]

Floats = NDArray[np.float64]


class DensityStart(Start):
    """Start from where candidates pile up.

    Rows that are alike share the place of their true labels, and false ones fall anywhere. So the density of candidates
    given the features has its bumps at the truth before any regression is fitted, and no first guess to be confirmed.
    Random forests over label bins and networks over label bins estimate it out of fold. Their mixture, weighed by the
    likelihood of held-out candidate sets, gives each candidate its first share. The density of false labels is part of
    the mixture: where features say nothing, it takes over, and the shares are the priors.

    Parameters
    ----------
    models : str or sequence of str, default="auto"
        ``"trees"``, ``"network"``, ``"neighbours"``, or several of these. ``"auto"`` is trees and network.

    Notes
    -----
    How much is computed depends on the number of rows alone, so the same seed gives the same weights, whatever
    ``n_jobs``. Bins are equally wide from the smallest candidate to the largest; where a few candidates lie far out,
    the shares say little and stay near the priors.

    Examples
    --------
    >>> import numpy as np
    >>> from plr import PartialLabelRegressor, make_candidates
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(200, 1))
    >>> S = make_candidates(np.abs(X[:, 0]), 3, set_size="fixed", random_state=0)
    >>> model = PartialLabelRegressor("linear", start="density", random_state=0).fit(X, S)
    >>> model.start_weights_.shape == S.values.shape
    True
    """

    def __init__(self, models: str | Sequence[str] = "auto") -> None:
        self.models = models

    @classmethod
    def for_draws(cls, rows: int) -> DensityStart:
        """Return the density that draws begin with: they get over a wrong beginning, so for few rows trees will do."""
        return cls("trees") if rows < FEW_ROWS else cls()

    def weights(self, task: Task, cv: object) -> Floats:
        """Return the first weights of all candidates."""
        return self.estimate(task, cv).weights

    def estimate(self, task: Task, cv: object) -> Estimate:
        """Return the density, which has the weights."""
        from plr.densities.mixture import estimate

        return estimate(task, cv, choose_models(self.models, len(task.S)))


class SampledStart(Start):
    """Start from what a Gaussian process makes of the candidates.

    A candidate's weight is how often it was drawn as the true one (`plr.learners.GaussianProcess`), each time from what
    all other rows said. The draws begin with the density start. It takes longer than the density alone and is far more
    confident where there are few rows; the learner keeps its weights as a prior.

    Parameters
    ----------
    trust : float, default=0.5
        The learner's priors are multiplied by the weights to this power. With 0 the learner begins with the weights and
        forgets them, with 1 it takes them for evidence as good as its own.
    process : GaussianProcess, optional

    Examples
    --------
    >>> from plr import PartialLabelRegressor
    >>> from plr.learners.starts import SampledStart
    >>> PartialLabelRegressor("mlp", start=SampledStart(trust=0.3))
    PartialLabelRegressor(learner='mlp', start=SampledStart(trust=0.3))
    """

    def __init__(self, trust: float = 0.5, process: GaussianProcess | None = None) -> None:
        self.trust = trust
        self.process = process

    def weights(self, task: Task, cv: object) -> Floats:
        """Return the first weights of all candidates."""
        process = GaussianProcess() if self.process is None else clone(self.process)
        # Draws have a noise of their own; whatever the learner goes by, they are what it begins with.
        given = task.rule.weighting
        weighting = clone(given).set_params(scale="common") if isinstance(given, Posterior) else Posterior()
        task = replace(task, rule=Rule(weighting, Squared()))
        looking, drawing = task.progress.split({name_start(DensityStart()): 1.0, name_start(self): 6.0})
        with looking:
            start = DensityStart.for_draws(len(task.S)).weights(replace(task, progress=looking), cv)
        task = replace(task, start=start, progress=drawing)
        if task.groups is None:
            return process.fit(task).weights
        # The other rows of a group would speak for each other, so each group is weighed by the noise around predictions
        # without it.
        prediction = out_of_fold(process, task, cv)
        noise = fit_noise(prediction, task.S, None, task.sample_weight, false_labels=task.false_labels)
        return noise.probabilities(prediction, task.S)


# A sparse matrix of at most this many entries may be written out in full.
_MOST_ENTRIES = 100_000_000

STARTS: dict[str, Callable[[], Start]] = {"density": DensityStart, "sampled": SampledStart}
"""Starts that go by a name."""


def get_start(start: object) -> Start | None:
    """Turn a name, an instance or None into a start.

    >>> get_start("density")
    DensityStart()
    """
    return None if start is None else resolve("start", start, STARTS, Start, _wrap)


def name_start(start: object) -> str:
    """Return what a start is called.

    >>> name_start(DensityStart("trees"))
    'density start'
    """
    return f"{next((name for name, made in STARTS.items() if made is type(start)), 'own')} start"


def choose_start(start: object, weighting: Weighting, learner: Learner, rows: int) -> Start | None:
    """Return the start that a regressor's parameter stands for; None where weights never move from the priors.

    ``"auto"`` is the density for the committee and the Gaussian process under a posterior weighting, and none
    elsewhere.
    """
    if isinstance(start, str) and start == "auto":
        return DensityStart.for_draws(rows) if learner.draws and weighting.learns_scale else None
    chosen = get_start(start)
    return None if isinstance(weighting, Average) else chosen


def _wrap(given: Any) -> Any:
    if callable(getattr(given, "weights", None)):
        return given
    raise ParameterError(
        f"start must be 'auto', None, a name ({', '.join(sorted(STARTS))}) or something with weights(task, cv), such "
        f"as a plr.learners.starts.DensityStart instance; got {given!r}."
    )


def first_weights(start: Any, task: Task, cv: object, learner: Learner) -> tuple[Floats, Estimate | None]:
    """Ask a start for weights, on features it can read, and check what it gives.

    The density comes with them where it is the start.
    """
    if (task.S.sizes == 1).all():
        # Plain labels: there is nothing to weigh.
        return np.ones(len(task.S)), None
    if learner.takes == "rows":
        matrix, categorical = as_matrix(task.X)
        task = replace(task, X=matrix, categorical=categorical)
    S, name = task.S, type(start).__name__
    asked, density = replace(task, validation=None, callback=None, start=None), None
    if type(start) is DensityStart:
        density = start.estimate(asked, cv)
        return density.weights, density
    given = start.weights(asked, cv)
    weights = np.array(given, dtype=np.float64)
    if weights.shape != S.values.shape:
        raise ParameterError(
            f"The start {name} gave weights of shape {weights.shape} for {S.values.size} candidates; give one each."
        )
    sums = np.add.reduceat(weights, S.offsets[:-1])
    wrong = ~(np.abs(sums - 1.0) <= 1e-6) | np.logical_or.reduceat(~(weights >= 0.0), S.offsets[:-1])
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ParameterError(
            f"The start {name} gave row {row} the weights {weights[S.offsets[row] : S.offsets[row + 1]]}; they must be "
            f"at least 0 and sum to 1."
        )
    return weights, None


def as_matrix(X: Any) -> tuple[Floats, tuple[int, ...]]:
    """Return features that a learner takes as they are as numbers, and which columns of them are categories."""
    columns = learn_columns(X)
    if columns is not None:
        return columns.encode(X), columns.categorical
    if sparse.issparse(X):
        if X.shape[0] * X.shape[1] > _MOST_ENTRIES:
            raise ParameterError(
                f"The density start needs X in full, and this sparse matrix of shape {X.shape} is too large for that. "
                f"Use start=None, or a start of your own on fewer columns."
            )
        X = X.toarray()
    try:
        matrix = np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        matrix = np.empty(0)
    if matrix.ndim != 2 or np.isinf(matrix).any():
        raise ParameterError(
            f"The density start needs a table of numbers and categories, and X, of type {type(X).__name__}, is none. "
            f"Use start=None, or a start of your own whose weights(task, cv) looks at features it can read."
        )
    return matrix, ()
