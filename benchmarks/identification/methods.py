"""Methods: each is given training rows with candidate sets, and predicts test rows.

    method(inputs) -> Outcome

``inputs.truth`` holds the training rows' true labels. Only methods that are `told` them get them; to all others it is
None.

To change what is compared, edit `SETTINGS` (what the same-network methods choose from), `make_default` (the default
under test, used by every method whose name begins with ``default`` and by the oracle) or `run_oracle`. Everything that
decides a method's result besides plr itself belongs in its ``options``: they are part of a line's identity, so that
lines measured with others are not taken for its own.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr import CandidateSets, PartialLabelRegressor
from plr.learners import MLP, Refit, Task
from plr.learners.committee import boosted_trees
from plr.learners.starts import DensityStart
from plr.noise import fit_noise
from plr.weighting import Posterior, Progressive
from plr.weighting.base import Weighting

__all__ = ["METHODS", "SETTINGS", "Inputs", "Method", "Outcome", "Selection", "get_method", "make_default"]

Floats = NDArray[np.float64]

SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "progressive": (
        {"weighting": {"beta2": 10.0}, "weight_decay": 1.0},
        {"weighting": {"beta2": 10.0}, "weight_decay": 0.1},
        {"weighting": {"beta2": 3.0}, "weight_decay": 1.0},
        {"weighting": {"beta2": 3.0}, "weight_decay": 0.1},
    ),
    "posterior": (
        {"weighting": {"noise": "gaussian"}, "weight_decay": 1.0},
        {"weighting": {"noise": "gaussian"}, "weight_decay": 0.1},
        {"weighting": {"noise": "student"}, "weight_decay": 1.0},
        {"weighting": {"noise": "student"}, "weight_decay": 0.1},
    ),
}
"""What each weighting chooses from, label-free: two of the weighting's own settings, two of the network's decay."""

NETWORK: dict[str, Any] = {"hidden": (20, 30, 10), "activation": "relu", "scale_target": True}
"""The paper's network, all ReLU, with scaled labels."""

NETWORKS = 3
HELD_OUT = 0.2
_SUPERVISED_DECAY = 0.1
TRUST = 0.5


class Inputs(NamedTuple):
    """What a method is given: training rows with candidate sets, test rows, a seed, and true labels or None."""

    X: NDArray[np.float32]
    S: CandidateSets
    X_test: NDArray[np.float32]
    seed: int
    truth: Floats | None


@dataclass(frozen=True, eq=False)
class Selection:
    """A choice made without labels, in full, so that it can be compared with the choice that labels would have made.

    Attributes
    ----------
    settings : sequence of dict
        What there was to choose from.
    scores : ndarray of shape (settings,)
        Label-free scores, the higher the better.
    rows : ndarray
        The training rows held out.
    held_out : ndarray of shape (settings, held-out rows)
        Predictions of these by models that have not seen them.
    chosen : int
    predict_test : callable
        Predictions of the test rows with the setting of that number.
    """

    settings: tuple[dict[str, Any], ...]
    scores: Floats
    rows: NDArray[np.int64]
    held_out: Floats
    chosen: int
    predict_test: Callable[[int], Floats]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method gives back.

    Attributes
    ----------
    prediction : ndarray
        Of the test rows.
    probabilities : ndarray or None
        Of the training rows' candidates, flat, by models that have not seen the row.
    score : float or None
        Mean log likelihood of held-out candidates: known without labels, comparable on the same rows.
    details : dict
        Anything worth keeping, as plain values.
    selection : Selection or None
    """

    prediction: Floats
    probabilities: Floats | None = None
    score: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    selection: Selection | None = None


@dataclass(frozen=True)
class Method:
    """A named method.

    Attributes
    ----------
    run : callable
        Fits and predicts: ``run(inputs, **options)``.
    options : dict
        Part of a line's identity.
    told : bool
        Whether it gets the true labels.
    candidates : bool
        Whether it looks at candidate sets; one that does not is measured once for all ways to hide the labels.
    """

    run: Callable[..., Outcome]
    options: Mapping[str, Any] = field(default_factory=dict)
    told: bool = False
    candidates: bool = True

    def __call__(self, inputs: Inputs) -> Outcome:
        """Run the method; true labels go no further than to methods that are told them."""
        return self.run(inputs if self.told else inputs._replace(truth=None), **self.options)


# The same network


def run_network(
    inputs: Inputs,
    *,
    weighting: str,
    start: bool,
    settings: tuple[dict[str, Any], ...],
    network: dict[str, Any],
    networks: int,
    held_out: float,
) -> Outcome:
    """Choose a weighting's setting by held-out likelihood, then average networks fitted to all rows with it."""
    X, S, X_test, seed, _ = inputs
    weights = _start_weights(X, S, seed) if start else None

    def fit(rows: NDArray[np.int64] | slice, setting: dict[str, Any], number: int) -> PartialLabelRegressor:
        # A row's start weights were made without the row, and a held-out row's own are never looked at.
        given = None if weights is None else KnownWeights(weights[_candidates_of(S, rows)])
        chosen = network | {"weight_decay": setting["weight_decay"]}
        model = _network_regressor(_weighting(weighting, setting["weighting"]), chosen, seed + number, given)
        return model.fit(X[rows], S[rows])

    order = np.random.default_rng(seed).permutation(len(S))
    held = round(held_out * len(S))
    rest, train = np.sort(order[:held]), np.sort(order[held:])
    predictions = np.array([fit(train, setting, 100).predict(X[rest]) for setting in settings])
    sets = S[rest]
    noises = [fit_noise(prediction, sets) for prediction in predictions]
    scores = np.array(
        [np.mean(noise.log_likelihood(p, sets)) for noise, p in zip(noises, predictions, strict=True)], dtype=np.float64
    )
    chosen = int(scores.argmax())

    def predict_test(number: int) -> Floats:
        found = [fit(slice(None), settings[number], member).predict(X_test) for member in range(networks)]
        return np.asarray(np.mean(found, axis=0))

    return Outcome(
        predict_test(chosen),
        None,
        float(scores[chosen]),
        {"noise_scale": noises[chosen].scale},
        Selection(settings, scores, rest, predictions, chosen, predict_test),
    )


def run_supervised(
    inputs: Inputs,
    *,
    network: dict[str, Any],
    networks: int,
) -> Outcome:
    """Average networks fitted to the true labels."""
    X, _, X_test, seed, truth = inputs
    network = network | {"weight_decay": _SUPERVISED_DECAY}
    models = [_network_regressor(Posterior(), network, seed + number).fit(X, truth) for number in range(networks)]
    return Outcome(np.mean([model.predict(X_test) for model in models], axis=0))


class KnownWeights:
    """A start whose weights are known already."""

    trust = TRUST

    def __init__(self, flat: Floats) -> None:
        self.flat = flat

    def weights(self, task: Task, cv: object) -> Floats:  # noqa: ARG002
        """Return the weights that were given."""
        return self.flat


_DRAWN: dict[tuple[bytes, int], Floats] = {}
"""Weights drawn in this process, by problem and seed."""


def _start_weights(X: NDArray[np.float32], S: CandidateSets, seed: int) -> Floats:
    """Return the sampled start's weights, once for all settings and networks, since they do not depend on either."""
    key = _key(X, S), seed
    if key not in _DRAWN:
        _DRAWN.clear()
        _DRAWN[key] = make_default(seed, learner="gaussian_process").fit(X, S).model_.weights
    return _DRAWN[key]


def _key(X: NDArray[np.float32], S: CandidateSets) -> bytes:
    return hashlib.sha256(X.tobytes() + S.values.tobytes() + S.offsets.tobytes()).digest()


def _network_regressor(
    weighting: Weighting, network: dict[str, Any], seed: int, start: KnownWeights | None = None
) -> PartialLabelRegressor:
    # None rather than left out: what is left out may come to mean a start.
    return PartialLabelRegressor(MLP(**network), weighting, start=start, random_state=seed % 2**31, n_jobs=1)


def _weighting(name: str, setting: dict[str, Any]) -> Weighting:
    return Progressive(**setting) if name == "progressive" else Posterior(**setting)


def _candidates_of(S: CandidateSets, rows: NDArray[np.int64] | slice) -> NDArray[np.int64]:
    """Return the flat places of some rows' candidates, row after row."""
    chosen = np.arange(len(S))[rows]
    return np.concatenate([np.arange(S.offsets[row], S.offsets[row + 1]) for row in chosen])


# Out of the box


def make_default(seed: int, **parameters: Any) -> PartialLabelRegressor:
    """Return the default under test."""
    return PartialLabelRegressor(random_state=seed, n_jobs=1, **parameters)


def run_default(
    inputs: Inputs,
    **parameters: Any,
) -> Outcome:
    """Fit the default, with or without some parameter changed."""
    X, S, X_test, seed, _ = inputs
    begun = time.perf_counter()
    model = make_default(seed, **parameters).fit(X, S)
    details: dict[str, Any] = {"fit_seconds": round(time.perf_counter() - begun, 3)}
    details |= {"learner": _describe(model.learner_), "weighting": _describe(model.weighting_)}
    details["noise_scale"] = float(model.noise_scale_)
    if hasattr(model.model_, "members"):
        details |= _members(model, X_test)
    return Outcome(model.predict(X_test), model.identify().probabilities, None, details)


def run_trees(
    inputs: Inputs,
) -> Outcome:
    """Fit the default's trees from the density start, without its Gaussian process, for twice as many rounds."""
    X, S, X_test, seed, _ = inputs
    learner = Refit(boosted_trees(), max_rounds=8, last_fits=3)
    start = DensityStart.for_draws(len(S))
    model = PartialLabelRegressor(learner, Posterior(noise="gaussian"), start=start, random_state=seed, n_jobs=1)
    return Outcome(model.fit(X, S).predict(X_test), model.identify().probabilities)


def _members(model: PartialLabelRegressor, X_test: NDArray[np.float32]) -> dict[str, Any]:
    """Return what the members of the committee predict by themselves, each kind by its shares, and what these are."""
    fitted = model.model_
    rows = fitted.encoding.apply(np.asarray(X_test, dtype=np.float64))
    shares: dict[str, float] = {}
    predicted: dict[str, Any] = {}
    for member, share in zip(fitted.members, fitted.shares, strict=True):
        shares[member.kind] = shares.get(member.kind, 0.0) + float(share)
        predicted[member.kind] = predicted.get(member.kind, 0.0) + float(share) * member.predict(rows)
    return {"shares": shares} | {kind: found / shares[kind] for kind, found in predicted.items()}


def run_default_supervised(
    inputs: Inputs,
    **parameters: Any,
) -> Outcome:
    """Fit the default to the true labels."""
    X, _, X_test, seed, truth = inputs
    model = _fit_supervised(X, truth, seed, **parameters)
    return Outcome(model.predict(X_test), details={"learner": _describe(model.learner_)} | _members(model, X_test))


_SUPERVISED: dict[tuple[bytes, int], PartialLabelRegressor] = {}


def _fit_supervised(
    X: NDArray[np.float32], truth: Floats | None, seed: int, **parameters: Any
) -> PartialLabelRegressor:
    """Fit the default to true labels, once for all ways to hide them."""
    assert truth is not None
    key = hashlib.sha256(X.tobytes() + truth.tobytes()).digest(), seed
    if key not in _SUPERVISED:
        _SUPERVISED.clear()
        _SUPERVISED[key] = make_default(seed, **parameters).fit(X, truth)
    return _SUPERVISED[key]


def run_oracle(
    inputs: Inputs,
    **parameters: Any,
) -> Outcome:
    """Fit the default to labels weighed by a model that knows the truth of all rows but the one it weighs.

    Squared loss with weights that stay is squared loss on the weighted mean label, so that one plain fit does it.
    """
    X, S, X_test, seed, truth = inputs
    assert truth is not None
    unseen = _fit_supervised(X, truth, seed, **parameters).model_.out_of_fold
    noise = fit_noise(unseen, CandidateSets(truth, np.arange(len(truth) + 1)))
    weights = noise.probabilities(unseen, S)
    label = np.bincount(S.row_index, weights * S.values, len(S))
    prediction = make_default(seed, **parameters).fit(X, label).predict(X_test)
    return Outcome(prediction, weights, None, {"noise_scale": noise.scale})


def _describe(part: object) -> str:
    return " ".join(str(part).split())


_SAME = {"network": NETWORK, "networks": NETWORKS}


def _same_network(weighting: str, start: bool = False) -> Method:
    options = {"weighting": weighting, "start": start, "settings": SETTINGS[weighting], "held_out": HELD_OUT}
    return Method(run_network, options | _SAME)


METHODS: dict[str, Method] = {
    "supervised": Method(run_supervised, _SAME, told=True, candidates=False),
    "progressive": _same_network("progressive"),
    "posterior": _same_network("posterior"),
    "posterior+start": _same_network("posterior", start=True),
    "default": Method(run_default),
    "default-no-start": Method(run_default, {"start": None}),
    "trees-density": Method(run_trees),
    "density": Method(run_default, {"learner": "density"}),
    "gaussian-process": Method(run_default, {"learner": "gaussian_process"}),
    "network-density": Method(run_default, {"learner": "mlp", "start": "density"}),
    "default-supervised": Method(run_default_supervised, told=True, candidates=False),
    "default-progressive": Method(run_default, {"weighting": "progressive"}),
    "oracle": Method(run_oracle, told=True),
}
"""Every method by name."""


def get_method(name: str, *, quick: bool = False) -> Method:
    """Return a method by name; a quick one trains one network for few epochs, to see that everything runs."""
    if name not in METHODS:
        raise SystemExit(f"There is no method {name!r}; there are {', '.join(METHODS)}.")
    method = METHODS[name]
    if not quick:
        return method
    options = dict(method.options)
    if "network" in options:
        options |= {"network": options["network"] | {"epochs": 10}, "networks": 1}
    else:
        options |= {"learner": MLP(epochs=10)}
    return replace(method, options=options)
