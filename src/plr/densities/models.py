"""What an estimate of the density of labels given features is made from, and what it gives.

Each kind of estimate turns rows and candidate sets into something that gives a density over label bins for new rows,
and gives one for each training row that was made without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.densities.bins import Bins, evidence_of_prior
from plr.folds import Folds

if TYPE_CHECKING:
    from plr.densities.mixture import Background

__all__ = ["DensityModel", "DensityTask", "FittedModel"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class DensityTask:
    """What densities are learned from: encoded features, scaled candidate sets, and what goes with each row.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    S : CandidateSets of n rows
    weight : ndarray of shape (n,)
        With mean 1 over the rows that count.
    folds : list of (train, test)
    units : ndarray of shape (n,) or None
        What is left out as a whole where rows are left out at random: numbers of rows, or of groups of rows. None where
        only the folds may be left out.
    ratio : ndarray, one entry per candidate
        One over the density of false labels at each candidate, up to a common factor; all 1 where it is uniform.
    background : Background
        The density of false labels at any label.
    seed, threads : int
    """

    X: Floats
    S: CandidateSets
    weight: Floats
    folds: Folds
    units: Rows | None
    ratio: Floats
    background: Background
    seed: int
    threads: int

    def excess(self, bins: Bins) -> tuple[Floats, Floats]:
        """Return each row's histogram of candidates less what false ones add to it, and how much to trust the row.

        A row's candidates, counted by their priors, are to a share of Σ prior² draws from the density of true labels
        given its features, and otherwise from that of false ones. Less these, and divided by the share, what is left
        is on average over rows that are alike the density of true labels. The noise of a row grows with one over the
        share.
        """
        share = evidence_of_prior(self.S)
        false = np.exp(self.background.log(bins.centres))
        histogram = (bins.histogram(self.S) - (1.0 - share)[:, None] * false) / share[:, None]
        return histogram, self.weight * share


class FittedModel(Protocol):
    """Densities for new rows."""

    @property
    def bins(self) -> Bins:
        """Where the heights stand."""
        ...

    def heights(self, X: Floats) -> Floats:
        """Return each row's density at the bin centres."""
        ...


class DensityModel(Protocol):
    """One way to estimate densities."""

    def fit(self, problem: DensityTask) -> tuple[FittedModel, Floats]:
        """Fit; also return each training row's density, at the bin centres, by what was fitted without the row."""
        ...
