"""Networks over label bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from plr._fields import require
from plr.candidates import CandidateSets
from plr.densities.bins import Bins
from plr.densities.mixture import DensityTask
from plr.folds import average_folds

if TYPE_CHECKING:
    import plr.network.network

__all__ = ["DensityNetwork", "FittedNetworks"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class FittedNetworks:
    """One network per fold; new rows get the mean of what they say."""

    bins: Bins
    networks: tuple[plr.network.network.Network, ...]

    def __post_init__(self) -> None:
        outputs = {int(network.layout.sizes[-1]) for network in self.networks}
        require(outputs == {self.bins.count}, "outputs of the networks and bins differ in number")

    def heights(self, X: Floats) -> Floats:
        """Return each row's density at the bin centres."""
        total: Floats = sum(_heights(network, self.bins, X) for network in self.networks)  # type: ignore[assignment]
        return total / len(self.networks)


@dataclass(frozen=True)
class DensityNetwork:
    """A network with one output per label bin, trained on the likelihood of the candidates.

    Parameters
    ----------
    bins : int
    weight_decay : float
    hidden : tuple of int
    steps : int
        Gradient steps, about.
    fewest, most : int
        Epochs, at least and at most.
    """

    bins: int
    weight_decay: float
    hidden: tuple[int, ...] = (48, 48)
    steps: int = 2000
    fewest: int = 8
    most: int = 1000

    def __str__(self) -> str:
        return f"network, {self.bins} bins"

    def fit(self, problem: DensityTask) -> tuple[FittedNetworks, Floats]:
        """Train one network without each fold, and let it predict the fold."""
        bins = Bins.over(problem.S, self.bins, problem.weight)
        sets, log_ratio = self._sets(problem, bins)
        networks = Parallel(n_jobs=problem.threads, prefer="threads")(
            delayed(self._train)(problem, sets, log_ratio, bins, train, fold)
            for fold, (train, _) in enumerate(problem.folds)
        )
        parts = [
            _heights(network, bins, problem.X[test]) for network, (_, test) in zip(networks, problem.folds, strict=True)
        ]
        return FittedNetworks(bins, tuple(networks)), average_folds(problem.folds, parts, len(problem.S))

    def _sets(self, problem: DensityTask, bins: Bins) -> tuple[CandidateSets, Floats | None]:
        """Return the sets to train on and minus the log of their ratios.

        A density that is straight between bin centres is, at a candidate, a mean of two heights. So many candidates
        say no more than what they leave to each centre, and that is what is trained on where it is less.
        """
        S, uniform = problem.S, bool((problem.ratio == 1.0).all())
        if S.values.size <= len(S) * self.bins:
            return S, None if uniform else -np.log(problem.ratio)
        shares = bins.spread(S, S.prior_or_uniform * problem.ratio)
        offsets = np.arange(len(S) + 1, dtype=np.int64) * self.bins
        return CandidateSets(np.tile(bins.centres, len(S)), offsets, shares.ravel()), None

    def _train(
        self, problem: DensityTask, sets: CandidateSets, log_q: Floats | None, bins: Bins, train: Rows, fold: int
    ) -> Any:
        from plr.losses import Squared
        from plr.network.network import DENSITY, Head, NetworkSettings, kernel_sets, train_network
        from plr.weighting.posterior import Posterior
        from plr.weighting.rule import Rule

        batches = -(-len(train) // 256)
        settings = NetworkSettings(
            hidden=self.hidden,
            activations=("relu",) * len(self.hidden),
            epochs=int(np.clip(self.steps // batches, self.fewest, self.most)),
            optimizer="adamw",
            learning_rate=0.005,
            schedule="cosine",
            weight_decay=self.weight_decay,
        )
        if log_q is not None:
            sizes = sets.sizes[train]
            first = np.repeat(sets.offsets[train] - np.cumsum(sizes) + sizes, sizes)
            log_q = log_q[first + np.arange(sizes.sum())]
        return train_network(
            problem.X[train],
            kernel_sets(sets[train], log_q=log_q),
            Rule(Posterior(), Squared()),
            settings,
            seed=problem.seed + fold,
            head=Head(DENSITY, bins.low, bins.width),
            outputs=self.bins,
            sample_weight=problem.weight[train],
        ).last


def _heights(network: Any, bins: Bins, X: Floats) -> Floats:
    logits = network.outputs(X)
    masses = np.exp(logits - logits.max(axis=1, keepdims=True))
    heights: Floats = masses / masses.sum(axis=1, keepdims=True) / bins.areas
    return heights
