"""What a benchmark compares: methods (the paper's, ours, any weighting × loss) and networks to try them with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plr._parameters import check_choice
from plr.errors import unknown_name
from plr.losses import LOSSES, Loss, get_loss
from plr.weighting import WEIGHTINGS, Weighting, get_weighting

if TYPE_CHECKING:
    from plr.paper.execution import BenchmarkProblem, Fit
    from plr.paper.protocol import Protocol

__all__ = [
    "METHODS",
    "MODELS",
    "PAPER_METHODS",
    "Architecture",
    "CustomFit",
    "Method",
    "Setting",
    "get_method",
    "get_model",
]

Setting = dict[str, float]
"""Hyper-parameters of one fit, by name."""

CustomFit = Callable[["BenchmarkProblem", Setting, "Protocol", int, Callable[[], None]], "list[Fit]"]
"""``fit(problem, setting, protocol, seed, check)`` returns one `Fit` for each epoch rule. It calls ``check()`` now and
then, which lets Ctrl-C through."""


@dataclass(frozen=True)
class Method:
    """What is trained, on what.

    Attributes
    ----------
    name : str
        As the paper's tables call it.
    weighting, loss : str
        Names that `plr.weighting.get_weighting` and `plr.losses.get_loss` know.
    target : {"candidates", "mean", "truth"}
        What the network is trained on: the candidate sets, the mean of each (the paper's AVGV), or the true labels.
    custom : callable, optional
        Fits in place of the network that `weighting` and `loss` describe.
    model : str, optional
        What the store calls the model of a method that brings its own; the protocol's models then do not apply.
    hyper : tuple of str, optional
        Hyper-parameters to vary, of ``learning_rate``, ``delta``, ``beta2``; None is what loss and weighting have.
    cost : float
        How much longer than a network a fit takes; decides the order of work and the time left, never a result.
    """

    name: str
    weighting: str = "average"
    loss: str = "squared"
    target: str = "candidates"
    custom: CustomFit | None = None
    model: str | None = None
    hyper: tuple[str, ...] | None = None
    cost: float = 1.0

    def settings(self, protocol: Protocol) -> list[Setting]:
        """Return every combination of the protocol's hyper-parameters that concerns this method.

        >>> from plr.paper.protocol import PRESETS
        >>> len(get_method("PIDent").settings(PRESETS["paper"])), len(get_method("IDent").settings(PRESETS["paper"]))
        (10, 2)
        """
        grid = {"learning_rate": protocol.learning_rates, "delta": protocol.deltas, "beta2": protocol.beta2s}
        relevant = {"learning_rate": True, "delta": self.loss == "huber", "beta2": self.weighting == "progressive"}
        names = self.hyper if self.hyper is not None else [name for name in grid if relevant[name]]
        settings: list[Setting] = [{}]
        for name in names:
            settings = [{**setting, name: value} for setting in settings for value in grid[name]]
        return settings

    def parts(self, setting: Setting, beta1: float) -> tuple[Weighting, Loss]:
        """Return the weighting and the loss at one setting."""
        weighting, loss = get_weighting(self.weighting), get_loss(self.loss)
        if "beta2" in setting:
            weighting.set_params(beta1=beta1, beta2=setting["beta2"])
        if "delta" in setting:
            loss.set_params(delta=setting["delta"])
        return weighting, loss


def _fit_default(
    problem: BenchmarkProblem, setting: Setting, protocol: Protocol, seed: int, check: Callable[[], None]
) -> list[Fit]:
    # The regressor is heavy to import.
    from plr.paper.default_method import fit_default

    return fit_default(problem, setting, protocol, seed, check)


PAPER_METHODS = (
    "Supervised",
    "AVGL-MSE",
    "AVGL-MAE",
    "AVGL-Huber",
    "AVGV-MSE",
    "AVGV-MAE",
    "AVGV-Huber",
    "IDent",
    "PIDent",
)

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("Supervised", "average", "squared", "truth"),
        Method("AVGL-MSE", "average", "squared"),
        Method("AVGL-MAE", "average", "absolute"),
        Method("AVGL-Huber", "average", "huber"),
        Method("AVGV-MSE", "average", "squared", "mean"),
        Method("AVGV-MAE", "average", "absolute", "mean"),
        Method("AVGV-Huber", "average", "huber", "mean"),
        Method("IDent", "identification", "squared"),
        Method("PIDent", "progressive", "squared"),
        Method("Posterior", "posterior", "squared"),
        Method("Default", custom=_fit_default, model="default", hyper=(), cost=20.0),
    )
}
"""The methods of the paper, `Posterior`, and `Default`: what the library does when nothing is chosen, by name."""


def get_method(name: str) -> Method:
    """Return a method by its name, or by ``weighting:loss``.

    >>> get_method("progressive:absolute").loss
    'absolute'
    """
    if name in METHODS:
        return METHODS[name]
    weighting, colon, loss = name.partition(":")
    if not colon:
        raise unknown_name("method", name, [*METHODS, "WEIGHTING:LOSS"])
    for kind, part, known in (("weighting", weighting, WEIGHTINGS), ("loss", loss, LOSSES)):
        if part not in known:
            raise unknown_name(kind, part, known)
    return Method(name, weighting, loss)


@dataclass(frozen=True)
class Architecture:
    """Units of the hidden layers and the activation after each."""

    hidden: tuple[int, ...]
    activations: tuple[str, ...]


MODELS: dict[str, Architecture] = {
    # Nothing after the first layer: what the tables of the paper were computed with.
    "mlp": Architecture((20, 30, 10), ("identity", "relu", "relu")),
    "mlp-relu": Architecture((20, 30, 10), ("relu", "relu", "relu")),
    # A chain of linear layers is a linear model, but reaches raw labels far from zero; one layer does not in time.
    "linear": Architecture((20, 30, 10), ("identity", "identity", "identity")),
}
"""The models of the paper, by name."""


def get_model(name: str) -> Architecture:
    """Return a model by name.

    >>> get_model("mlp").activations
    ('identity', 'relu', 'relu')
    """
    return MODELS[check_choice("model", name, MODELS)]
