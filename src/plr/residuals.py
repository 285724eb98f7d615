"""The density of residuals: how true labels lie around predictions, whatever its shape.

A bell of given shape would decide by itself how many far candidates are true. Here the density has steps, and is the
one under which the candidate sets are likeliest, smoothed: expectation-maximisation with a smoothing step in each round
(Silverman and others, 1990). It may be skewed, have several humps and long tails. Labels end where the candidates end,
so that a row predicted near one end of their range can have residuals on one side only; the likelihood allows for that
by dividing each row's density by what is left of it within the range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from plr._fields import require
from plr.candidates import CandidateSets
from plr.weighting.rule import row_sums

__all__ = ["ResidualDensity", "fit_residuals"]

Floats = NDArray[np.float64]

# Steps are equally wide on a scale that is linear near the prediction and logarithmic far from it.
_STEPS = 80
# How far smoothing reaches on that scale. Twice as much widens narrow noise by a tenth, half as much follows chance.
_REACH = 0.06
_ROUNDS = 150
_SETTLED = 1e-5
# Steps that less than this share of the rows can reach count as if so many could: otherwise the few that do would make
# them as high as they like, since all others have no say.
_LEAST_REACH = 0.1
# Weight of a uniform density in the mixture, in rows: no candidate is ever impossible.
_FLOOR_ROWS = 1.0
# Residuals of both signs are alike unless this is likelier, in all: what chance does is by up to about twenty.
_SKEWED = 30.0
_ROUNDING = 1e-9
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class ResidualDensity:
    """How residuals are distributed, in units of each row's own scale.

    Attributes
    ----------
    edges : ndarray
        Where the density has steps, increasing.
    shares : ndarray, one fewer
        The share of residuals between each two of them. Logarithms of densities are computed from these: densities
        themselves may overflow where labels are tiny.
    low, high : float
        The range of labels.
    floor : float
        Share of labels taken to lie anywhere in that range.
    missing : float
        Share of rows whose truth is not among their candidates.
    """

    edges: Floats
    shares: Floats
    low: float
    high: float
    floor: float = 0.0
    missing: float = 0.0

    def __post_init__(self) -> None:
        require(len(self.edges) == len(self.shares) + 1 > 1, "steps and shares of residuals differ in number")
        require(bool((np.diff(self.edges) > 0).all()), "steps of residuals must increase")
        require(bool((self.shares >= 0).all()) and self.low <= self.high, "invalid density of residuals")
        require(0 <= self.floor <= 1 and 0 <= self.missing < 1, "invalid shares of residuals")

    def log_likelihood(
        self, prediction: Floats, S: CandidateSets, log_q: Floats, scale: Floats | None = None
    ) -> Floats:
        """Return each row's log Σ prior · p / q, or with a share of missing truths ε, log((1 - ε) Σ … + ε)."""
        found = row_sums(S.prior_or_uniform * self._ratio(prediction, S, log_q, scale), S)
        missing = self.missing if S.missing is None else S.missing
        return np.log(np.maximum((1.0 - missing) * found + missing, _TINY))

    def probabilities(self, prediction: Floats, S: CandidateSets, log_q: Floats, scale: Floats | None = None) -> Floats:
        """Return how probable each candidate is to be the true one, flat.

        Parameters
        ----------
        prediction : ndarray of shape (n,)
        S : CandidateSets
        log_q : ndarray, one entry per candidate
            Log density of false labels.
        scale : ndarray of shape (n,), optional
            Each row's scale; 1 where it is not given.
        """
        missing = self.missing if S.missing is None else S.missing
        odds = S.prior_or_uniform * self._ratio(prediction, S, log_q, scale)
        odds *= np.broadcast_to(1.0 - np.asarray(missing), len(S))[S.row_index]
        return odds / np.maximum(row_sums(odds, S) + missing, _TINY)[S.row_index]

    @property
    def heights(self) -> Floats:
        """The density of each step, times the width of the widest."""
        wide = np.diff(self.edges)
        return self.shares / (wide / wide.max())

    def mirrored(self) -> ResidualDensity:
        """Return the mean of the density and its mirror image."""
        edges = np.unique(np.concatenate([self.edges, -self.edges]))
        below, above = self._below(edges), self._below(-edges)
        return replace(self, edges=edges, shares=np.maximum((np.diff(below) - np.diff(above)) / 2, 0.0))

    def _ratio(self, prediction: Floats, S: CandidateSets, log_q: Floats, scale: Floats | None) -> Floats:
        """Return p / q of each candidate."""
        unit = np.ones(len(S)) if scale is None else scale
        residual = (S.values - prediction[S.row_index]) / unit[S.row_index]
        place = np.clip(np.searchsorted(self.edges, residual, side="right") - 1, 0, len(self.shares) - 1)
        outside = (residual < self.edges[0]) | (residual > self.edges[-1])
        inside = np.maximum(
            self._below((self.high - prediction) / unit) - self._below((self.low - prediction) / unit), 1e-12
        )
        with np.errstate(divide="ignore"):
            log_density = np.where(outside, -np.inf, (np.log(self.shares) - np.log(np.diff(self.edges)))[place])
            log_density -= np.log(unit * inside)[S.row_index]
            span = self.high - self.low
            if span > 0:
                log_density = np.logaddexp(np.log1p(-self.floor) + log_density, np.log(self.floor) - np.log(span))
        return np.exp(log_density - log_q)

    def _below(self, residual: Floats) -> Floats:
        """Return the share of residuals below some."""
        # In shares of the whole: slopes between tiny edges would overflow.
        span = self.edges[-1] - self.edges[0]
        return np.interp(residual / span, self.edges / span, np.concatenate([[0.0], np.cumsum(self.shares)]))


def fit_residuals(
    prediction: Floats,
    S: CandidateSets,
    weight: Floats,
    log_q: Floats,
    scale: Floats | None = None,
    *,
    probabilities: Floats | None = None,
    missing: float = 0.0,
) -> tuple[ResidualDensity, Floats]:
    """Estimate the density of residuals; also return how probable each candidate is under it.

    Parameters
    ----------
    prediction : ndarray of shape (n,)
        By models that have not seen the row.
    S : CandidateSets
    weight : ndarray of shape (n,)
        How much each row counts.
    log_q : ndarray, one entry per candidate
        Log density of false labels.
    scale : ndarray of shape (n,), optional
        Each row's scale, which residuals are measured in.
    probabilities : ndarray, one entry per candidate, optional
        How probable each candidate is to be the true one, where that is known from elsewhere.
    missing : float
        The share of rows whose truth is missing; not used where the sets say it of each row.
    """
    prior, row = S.prior_or_uniform, S.row_index
    counts = weight > 0
    counted = counts[row] & (prior > 0)
    low, high = float(S.values[counted].min()), float(S.values[counted].max())
    unit = np.ones(len(S)) if scale is None else scale
    residual = (S.values - prediction[row]) / unit[row]
    weight = weight / weight.sum()
    floor = min(_FLOOR_ROWS / (float(1.0 / (weight @ weight)) + 1.0), 0.5)

    far = float(np.abs(residual[counted]).max(initial=0.0))
    if not far > 0.0:
        # All candidates are at the predictions.
        edge = max(float(np.abs(prediction).max(initial=0.0)), 1.0) * 1e-9
        found = ResidualDensity(np.array([-edge, edge]), np.ones(1), low, high, floor, missing)
        return found, np.array(prior)
    nearest = np.minimum.reduceat(np.where(counted, np.abs(residual), np.inf), S.offsets[:-1])
    bend = 2.0 * max(float(np.median(nearest[np.isfinite(nearest)])), far * 1e-9)
    bent = np.arcsinh(residual / bend)
    first, last = float(bent[counted].min()), float(bent[counted].max())
    first, last = first - 1e-6 * (last - first + 1.0), last + 1e-6 * (last - first + 1.0)
    width = (last - first) / _STEPS
    edges = bend * np.sinh(first + width * np.arange(_STEPS + 1))
    wide = np.diff(edges) / np.diff(edges).max()
    step = np.clip(((bent - first) / width).astype(np.int64), 0, _STEPS - 1)
    lowest, highest = (
        np.clip(((np.arcsinh((end - prediction) / unit / bend) - first) / width).astype(np.int64), 0, _STEPS - 1)
        for end in (low, high)
    )
    # Within each row relative to the least q: exponentials stay finite.
    least = np.minimum.reduceat(log_q, S.offsets[:-1])
    odds = np.where(counted, prior * np.exp(least[row] - log_q), 0.0)
    absent = np.minimum(missing if S.missing is None else S.missing, 1.0 - _ROUNDING)
    nobody = np.exp(least + np.log(np.diff(edges).max())) * (absent / (1.0 - absent)) * unit
    mass = np.full(_STEPS, 1.0 / _STEPS)
    for _ in range(_ROUNDS):
        until = np.concatenate([[0.0], np.cumsum(mass)])
        inside = np.maximum(until[highest + 1] - until[lowest], 1e-12)
        ratio = odds * (mass / wide)[step]
        evidence = np.maximum(row_sums(ratio, S) + nobody * inside, _TINY)
        shares = ratio / evidence[row] if probabilities is None else probabilities
        there = row_sums(shares, S) * weight
        # A row adds to the steps within its range alone, so that each step counts for as many rows as reach it.
        reach = np.zeros(_STEPS + 1)
        np.add.at(reach, lowest, there / inside)
        np.add.at(reach, highest + 1, -there / inside)
        reach = np.cumsum(reach)[:_STEPS]
        reach = np.maximum(reach, _LEAST_REACH * reach.max())
        updated = np.bincount(step, shares * weight[row], _STEPS) / reach
        updated = gaussian_filter1d(updated, _REACH / width, mode="nearest")
        updated /= updated.sum()
        change = float(np.abs(updated - mass).sum())
        mass = updated
        if change <= _SETTLED:
            break
    found = ResidualDensity(edges, mass, low, high, floor, missing)
    mirrored = found.mirrored()
    gained = found.log_likelihood(prediction, S, log_q, unit) - mirrored.log_likelihood(prediction, S, log_q, unit)
    if float(weight @ gained) * np.count_nonzero(weight) > _SKEWED:
        return found, shares
    if probabilities is None:
        shares = mirrored.probabilities(prediction, S, log_q, unit)
    return mirrored, shares
