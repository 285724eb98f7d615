"""The Gaussian-process learner: a smooth function, and draws of which candidates are true, in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from plr._codes import MISSING
from plr._fields import BY_ROW, require
from plr._parameters import check_integer, check_number
from plr.candidates import CandidateSets
from plr.contracts import Fitted, Learner, Report, Task
from plr.errors import ParameterError
from plr.folds import take_rows
from plr.learners.gaussian_process.chain import Chain, ChainSettings, ChainTask, run_chain
from plr.losses import Squared
from plr.preprocessing import Preprocessing
from plr.preprocessing.features import Encoding
from plr.preprocessing.scaling import Affine
from plr.threads import one_blas_thread
from plr.weighting.rule import row_sums, thread_count

__all__ = ["FittedGaussianProcess", "GaussianProcess"]

Floats = NDArray[np.float64]

# Beyond this many rows a chain is shorter.
_MANY = 2000
# A chain counts if it agrees with the start so well, compared with the chain that agrees best.
_AGREEMENT = 0.75
# Keeps logarithms and the noise of rows with hardly any weight finite.
_NOTHING = 1e-12
# Scaled features beyond this would overflow in distances.
_FARTHEST = 1e4
# Rows that are predicted at a time: the features of all of them would not fit into memory.
_BLOCK = 20_000


@dataclass(frozen=True)
class FittedGaussianProcess(Fitted):
    """The functions that the chains found, with the scaling around them.

    Attributes
    ----------
    chains : tuple of Chain
    weights : ndarray, one entry per candidate of the training rows
        How often each was drawn, or would have been.
    report : Report
        Its loss is minus the mean log likelihood of the candidate sets, given the labels drawn for other rows.
    drawn : bool
        Whether labels were drawn.
    out_of_fold : ndarray of shape (n,) or None
        Predictions of the training rows, each from what all other rows say. None where rows come in groups, whose other
        rows say too much.
    """

    chains: tuple[Chain, ...]
    encoding: Encoding
    target: Affine
    weights: Floats = field(metadata=BY_ROW)
    report: Report
    drawn: bool = True
    out_of_fold: Floats | None = field(default=None, metadata=BY_ROW)

    def __post_init__(self) -> None:
        columns = {chain.places.shape[1] for chain in self.chains}
        require(columns == {self.encoding.width}, "the chains have other columns than the encoding")

    @property
    def out_of_fold_weights(self) -> Floats | None:  # type: ignore[override]
        """The weights, where they were drawn and no row of a row's own group had a say in them."""
        return self.weights if self.drawn and self.out_of_fold is not None else None

    def predict(self, X: Floats) -> Floats:
        """Return one prediction per row, in the units of the labels."""
        return self.predict_encoded(self.encoding.apply(X))

    def predict_encoded(self, rows: Floats) -> Floats:
        """Return one prediction per row of encoded features."""
        found = np.empty(len(rows))
        with one_blas_thread():
            for first in range(0, len(rows), _BLOCK):
                part = np.clip(rows[first : first + _BLOCK], -_FARTHEST, _FARTHEST)
                found[first : first + _BLOCK] = np.mean([chain.predict(part) for chain in self.chains], axis=0)
        return self.target.undo(found)


class GaussianProcess(Learner):
    """A Gaussian process, for some hundred to some thousand rows.

    The function is smooth, with a length for each column, plus linear. Which candidate of a row is true is drawn, again
    and again, from what the labels drawn for all other rows predict for it; the kernel and the noise are learned
    from the labels drawn. As the function takes shape the noise narrows by itself, and a row never weighs its own
    candidates. Several such chains, begun differently, are averaged: where they disagree, the candidates have not
    decided.

    Parameters
    ----------
    chains : int or "auto", default="auto"
        ``"auto"``: 4, and 2 above 2,000 rows. Where there is a start, chains that end up far from it are left out.
    rounds : int or "auto", default="auto"
        How often the kernel is learned in each chain. ``"auto"``: 40, and 16 above 2,000 rows.
    features : int, default=500
        Number of rows whose covariances the function is made of, at most. While labels are drawn it is three
        fifths of that.
    most_rows : int, default=10000
        A chain sees so many rows, at most, drawn at random; the others are weighed by the function found.
    outliers : float, default=0.01
        Share of the rows whose truth may be far from what the function allows, so that no candidate has to be believed.
        Where the weighting says how often the truth is missing, that counts instead.

    Notes
    -----
    The noise is Gaussian whatever the weighting's family is, and the loss is squared. Under a weighting other than
    ``posterior`` nothing is drawn: labels are the candidates' means under the rule's weights, and there is one chain,
    as there is on plain labels.

    With the same seed the result is the same to the bit, whatever ``n_jobs`` is.

    Examples
    --------
    >>> from plr.learners import GaussianProcess
    >>> GaussianProcess(chains=12, rounds=60)
    GaussianProcess(chains=12, rounds=60)
    """

    takes = "table"
    takes_missing = True
    draws = True

    def __init__(
        self,
        chains: int | str = "auto",
        rounds: int | str = "auto",
        features: int = 500,
        most_rows: int = 10_000,
        outliers: float = 0.01,
    ) -> None:
        self.chains = chains
        self.rounds = rounds
        self.features = features
        self.most_rows = most_rows
        self.outliers = outliers

    def fit(self, task: Task) -> FittedGaussianProcess:
        """Run the chains."""
        self.check_weighting(task.rule.weighting)
        if not isinstance(task.rule.loss, Squared):
            raise ParameterError("GaussianProcess has the squared loss only; for others there are mlp and boosting.")
        if task.validation is not None:
            raise ParameterError("GaussianProcess has no epochs to choose from, and no use for validation rows.")
        most = check_integer("most_rows", self.most_rows, low=2)
        chosen = np.arange(len(task.S)) if task.sample_weight is None else np.flatnonzero(task.sample_weight)
        if len(chosen) > most:
            chosen = np.sort(np.random.default_rng(task.seed).permutation(chosen)[:most])
        all_seen = len(chosen) == len(task.S)
        seen = task if all_seen else take_rows(task, chosen)
        chains, plan = self._plan(len(seen.S))
        drawn = task.rule.learns_scale and (task.rule.may_miss or seen.S.values.size > len(seen.S))
        if not drawn:
            # Chains would hardly differ.
            chains = 1
        prepared = seen.preprocess()
        problem = self._problem(seen, prepared)
        seeds = np.random.SeedSequence(task.seed).generate_state(chains)
        # The last bits of a product depend on the number of threads, so each chain has one.
        with one_blas_thread():
            running = Parallel(n_jobs=thread_count(task.n_jobs), prefer="threads", return_as="generator")(
                delayed(run_chain)(problem, plan, task.rule, int(seed)) for seed in seeds
            )
            found = []
            for chain in running:
                found.append(chain)
                if task.callback is not None:
                    task.callback(len(found), chains, -float(chain.evidence[-1]))
        kept = _agreeing(found, problem)
        target = prepared.robust[0]
        evidence = np.mean([chain.evidence for chain in kept], axis=0)
        scales = np.mean([chain.noise_scales for chain in kept], axis=0) * float(target.scale)
        model = FittedGaussianProcess(
            kept,
            prepared.encoding,
            target,
            np.mean([chain.weights for chain in kept], axis=0),
            Report(rounds=len(evidence), loss=-evidence, noise_scale=scales),
            drawn,
            target.undo(np.mean([chain.out_of_fold for chain in kept], axis=0)),
        )
        if not all_seen:
            model = self._add_other_rows(model, task, chosen)
        return model if task.groups is None else replace(model, out_of_fold=None)

    def _plan(self, rows: int) -> tuple[int, ChainSettings]:
        many = rows > _MANY
        chains = (2 if many else 4) if self.chains == "auto" else check_integer("chains", self.chains, low=1)
        rounds = (16 if many else 40) if self.rounds == "auto" else check_integer("rounds", self.rounds, low=1)
        features = check_integer("features", self.features, low=1)
        return chains, ChainSettings(
            rounds, 10 if many else 20, 4, 300 if many else 200, -(-3 * features // 5), features
        )

    def _problem(self, task: Task, prepared: Preprocessing) -> ChainTask:
        target, S = prepared.robust
        share = check_number("outliers", self.outliers, low=0.0, below=1.0)
        if task.rule.may_miss:
            missing = np.full(len(S), float(task.rule.initial_state()[MISSING]))
        else:
            missing = np.where(S.sizes > 1, share, 0.0)
        weight = np.ones(len(S))
        if task.sample_weight is not None:
            weight = np.maximum(task.sample_weight / task.sample_weight.mean(), _NOTHING)
        odds = S.prior_or_uniform * (1.0 - missing[S.row_index]) * _inverse_density(task, S, target)
        return ChainTask(np.clip(prepared.features, -_FARTHEST, _FARTHEST), S, weight, odds, missing, task.start)

    @staticmethod
    def _add_other_rows(model: FittedGaussianProcess, task: Task, chosen: NDArray[np.int64]) -> FittedGaussianProcess:
        """Weigh the candidates of rows that no chain has seen by the noise around their predictions."""
        prediction = model.predict(task.X)
        assert model.out_of_fold is not None
        prediction[chosen] = model.out_of_fold
        scale = float(model.report.noise_scale[-1])
        S = task.S
        distance = (S.values - prediction[S.row_index]) / scale
        nearest = np.minimum.reduceat(np.abs(distance), S.offsets[:-1])[S.row_index]
        weights = S.prior_or_uniform * np.exp(-0.5 * (distance * distance - nearest * nearest))
        weights *= _inverse_density(task, S, Affine(np.float64(0.0), np.float64(1.0)))
        total = row_sums(weights, S)[S.row_index]
        weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), S.prior_or_uniform)
        seen = np.isin(S.row_index, chosen)
        weights[seen] = model.weights
        return replace(model, out_of_fold=prediction, weights=weights)


def _agreeing(chains: Sequence[Chain], problem: ChainTask) -> tuple[Chain, ...]:
    """Return the chains that agree with the start.

    With many false labels, chains may settle on a function that fits candidates by chance. Its likelihood may be no
    worse than the right one's, but the start, which has come about without any function, knows better.
    """
    if problem.start is None:
        return tuple(chains)
    S, start = problem.S, problem.start
    # By how much likelier the start makes what a chain has drawn than a draw at random would be.
    by_chance = np.maximum(row_sums(start * S.prior_or_uniform, S), _NOTHING)
    shared = [row_sums(start * chain.weights, S) / by_chance for chain in chains]
    gains = np.array([np.average(np.log(np.maximum(each, _NOTHING)), weights=problem.weight) for each in shared])
    # Where none agrees with it, or it says no more than the priors do, the start cannot tell them apart.
    least = _AGREEMENT * gains.max() if gains.max() > 0 else -np.inf
    return tuple(chain for chain, gain in zip(chains, gains, strict=True) if gain >= least)


def _inverse_density(task: Task, S: CandidateSets, target: Affine) -> Any:
    """Return one over the density of false labels at each candidate, in the units of ``S``."""
    log_q = task.scaled_log_q(target)
    if log_q.size:
        return np.exp(-log_q)
    span = float(S.values.max() - S.values.min())
    return span if span > 0 else 1.0
