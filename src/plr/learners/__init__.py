"""Learners: what model is fitted to weighted candidates, and how."""

from __future__ import annotations

import sys
from collections.abc import Callable

from plr._parameters import resolve
from plr.contracts import Fitted, Learner, Report, Task
from plr.errors import ParameterError
from plr.learners.boosting import Boosting
from plr.learners.committee import Committee
from plr.learners.density import Density
from plr.learners.gaussian_process import GaussianProcess
from plr.learners.linear import Linear
from plr.learners.mlp import MLP
from plr.learners.module import Module
from plr.learners.refit.learner import Refit

__all__ = [
    "LEARNERS",
    "MLP",
    "Boosting",
    "Committee",
    "Density",
    "Fitted",
    "GaussianProcess",
    "Learner",
    "Linear",
    "Module",
    "Refit",
    "Report",
    "Task",
    "get_learner",
]

LEARNERS: dict[str, Callable[[], Learner]] = {
    "boosting": Boosting,
    "committee": Committee,
    "density": Density,
    "gaussian_process": GaussianProcess,
    "linear": Linear,
    "mlp": MLP,
}
"""Learners that go by a name. `Refit` and `Module` need a model to wrap and go by it."""


def get_learner(learner: object) -> Learner:
    """Turn a name, an instance, a scikit-learn regressor or a torch module into a learner.

    >>> from sklearn.linear_model import Ridge
    >>> get_learner("linear"), get_learner(Ridge())
    (Linear(), Refit(regressor=Ridge()))
    """
    return resolve("learner", learner, LEARNERS, Learner, _wrap)


def _wrap(given: object) -> Learner:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.nn.Module):
        return Module(given)
    # Asked of the class: some regressors hide their methods until they are fitted.
    if hasattr(type(given), "fit") and hasattr(type(given), "predict"):
        return Refit(given)
    raise ParameterError(
        f"learner must be a name ({', '.join(sorted(LEARNERS))}), a plr.learners.Learner, a scikit-learn regressor or "
        f"a torch module, got {given!r}."
    )
