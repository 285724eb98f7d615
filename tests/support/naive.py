"""The formula once more, slow and obvious: one row, plain Python floats, logarithms throughout.

Written from the design's formula and the docstrings, not from the kernels, and free of their short cuts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from plr.losses import Absolute, Huber, Loss, Pointwise, Squared
from plr.weighting import Average, Identify, Posterior, Progressive, Weighting


class Row(NamedTuple):
    weights: list[float]
    value: float
    gradient: float
    curvature: float


def loss_value(loss: Loss, prediction: float, value: float) -> float:
    residual = abs(prediction - value)
    if isinstance(loss, Squared):
        return residual * residual
    if isinstance(loss, Absolute):
        return residual
    if isinstance(loss, Huber):
        if residual <= loss.delta:
            return residual * residual / 2
        return loss.delta * (residual - loss.delta / 2)
    assert isinstance(loss, Pointwise)
    return loss.value(prediction, value)


def loss_derivative(loss: Loss, prediction: float, value: float) -> float:
    residual = prediction - value
    if isinstance(loss, Squared):
        return 2 * residual
    if isinstance(loss, Absolute):
        return 0.0 if residual == 0 else math.copysign(1.0, residual)
    if isinstance(loss, Huber):
        return max(-loss.delta, min(loss.delta, residual))
    assert isinstance(loss, Pointwise)
    return loss.derivative(prediction, value)


def loss_curvature(loss: Loss, prediction: float, value: float) -> float:
    residual = abs(prediction - value)
    if isinstance(loss, Squared):
        return 2.0
    if isinstance(loss, Absolute):
        return 1 / max(residual, 1e-8)
    if isinstance(loss, Huber):
        return 1.0 if residual <= loss.delta else loss.delta / residual
    assert isinstance(loss, Pointwise)
    return 1.0 if loss.curvature is None else loss.curvature(prediction, value)


def log_density(weighting: Posterior, residual: float, scale: float) -> float:
    """The log density of the posterior's noise, constants included."""
    ratio = residual / scale
    if weighting.noise == "gaussian":
        return -(ratio**2) / 2 - math.log(scale) - math.log(2 * math.pi) / 2 if abs(ratio) < 1e150 else -math.inf
    if weighting.noise == "laplace":
        return -abs(ratio) - math.log(2 * scale)
    df = weighting.degrees
    constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2 - math.log(scale)
    return constant - (df + 1) / 2 * math.log1p(ratio**2 / df)


def score(weighting: Weighting, loss: Loss, prediction: float, value: float, log_q: float, scale: float) -> float:
    if isinstance(weighting, Average):
        return 0.0
    if isinstance(weighting, Posterior):
        return log_density(weighting, value - prediction, scale) - log_q
    cost = loss_value(loss, prediction, value)
    if not isinstance(weighting, Progressive):
        return weighting.score(prediction, value, cost, *weighting.encode().numbers)
    if weighting.beta2 == 0:
        return 0.0
    return math.inf if cost == 0 else weighting.beta2 * cost**-weighting.beta1


def row(
    weighting: Weighting,
    loss: Loss,
    prediction: float,
    values: Sequence[float],
    prior: Sequence[float] | None = None,
    log_q: Sequence[float] | None = None,
    scale: float = 1.0,
) -> Row:
    """What the compiled row function should give."""
    prior = [1.0] * len(values) if prior is None else list(prior)
    densities = [0.0] * len(values) if log_q is None else list(log_q)
    if isinstance(weighting, Identify):
        costs = [loss_value(loss, prediction, value) for value in values]
        least = min(cost for cost, share in zip(costs, prior, strict=True) if share > 0)
        raw = [share if cost == least else 0.0 for cost, share in zip(costs, prior, strict=True)]
    else:
        scores = [
            score(weighting, loss, prediction, value, density, scale) + math.log(share) if share > 0 else -math.inf
            for value, share, density in zip(values, prior, densities, strict=True)
        ]
        best = max(scores)
        if best == math.inf:
            raw = [share if s == best else 0.0 for s, share in zip(scores, prior, strict=True)]
        else:
            raw = [math.exp(s - best) for s in scores]
    total = math.fsum(raw)
    weights = [share / total for share in raw]
    parts = [(w, value) for w, value in zip(weights, values, strict=True) if w > 0]
    return Row(
        weights,
        math.fsum(w * loss_value(loss, prediction, value) for w, value in parts),
        math.fsum(w * loss_derivative(loss, prediction, value) for w, value in parts),
        math.fsum(w * loss_curvature(loss, prediction, value) for w, value in parts),
    )


def evidence(
    weighting: Posterior,
    prediction: float,
    values: Sequence[float],
    prior: Sequence[float] | None = None,
    log_q: Sequence[float] | None = None,
    scale: float = 1.0,
) -> float:
    """log Σ_j prior_j · p(y_j | prediction) / q(y_j), constants included."""
    prior = [1.0 / len(values)] * len(values) if prior is None else [share / math.fsum(prior) for share in prior]
    densities = [0.0] * len(values) if log_q is None else list(log_q)
    terms = [
        math.log(share) + log_density(weighting, value - prediction, scale) - density
        for value, share, density in zip(values, prior, densities, strict=True)
        if share > 0
    ]
    best = max(terms)
    return -math.inf if best == -math.inf else best + math.log(math.fsum(math.exp(term - best) for term in terms))


def row_that_may_miss(
    weighting: Posterior,
    loss: Loss,
    prediction: float,
    values: Sequence[float],
    prior: Sequence[float] | None,
    log_q: Sequence[float],
    scale: float,
    missing: float,
) -> Row:
    """What the row function should give where the truth may be missing: the formula, word for word."""
    prior = [1.0 / len(values)] * len(values) if prior is None else [share / math.fsum(prior) for share in prior]
    raw = [
        (1 - missing) * share * math.exp(log_density(weighting, value - prediction, scale) - density)
        for value, share, density in zip(values, prior, log_q, strict=True)
    ]
    weights = [share / (math.fsum(raw) + missing) for share in raw]
    parts = list(zip(weights, values, strict=True))
    return Row(
        weights,
        math.fsum(w * loss_value(loss, prediction, value) for w, value in parts),
        math.fsum(w * loss_derivative(loss, prediction, value) for w, value in parts),
        math.fsum(w * loss_curvature(loss, prediction, value) for w, value in parts),
    )


def next_scale(
    weighting: Posterior,
    predictions: Sequence[float],
    rows: Sequence[Sequence[float]],
    weights: Sequence[Sequence[float]],
    scale: float,
) -> float:
    """The scale that maximises the expected log density of the residuals, for Student's t one step of its own EM."""
    parts = []
    for prediction, values, shares in zip(predictions, rows, weights, strict=True):
        residuals = [abs(prediction - value) for value in values]
        if weighting.noise == "laplace":
            parts.append(math.fsum(w * r for w, r in zip(shares, residuals, strict=True)))
        elif weighting.noise == "gaussian":
            parts.append(math.fsum(w * r**2 for w, r in zip(shares, residuals, strict=True)))
        else:
            df = weighting.degrees
            precision = [(df + 1) / (df + (r / scale) ** 2) for r in residuals]
            parts.append(math.fsum(w * u * r**2 for w, u, r in zip(shares, precision, residuals, strict=True)))
    mean = math.fsum(parts) / len(parts)
    return mean if weighting.noise == "laplace" else math.sqrt(mean)
