"""The Gaussian-process learner: a smooth function, and draws of which candidates are true, in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from plr.folds import Folds, features_of, take_rows
from plr.learners.gaussian_process.chain import Chain, ChainFold, ChainSettings, ChainTask, run_chain
from plr.losses import Squared
from plr.preprocessing.features import Encoding
from plr.preprocessing.scaling import Affine
from plr.progress import timed
from plr.threads import one_blas_thread
from plr.weighting.rule import row_sums, thread_count

__all__ = ["FittedGaussianProcess", "Functions", "GaussianProcess", "without_rows"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Beyond this many rows a chain is shorter.
_MANY = 2000
# A chain goes on for up to so many times its rounds, for so many in all, and while it has drawn no more rows than that.
_TIMES_ROUNDS, _MOST_ROUNDS, _MOST_DRAWN = 4, 80, 40_000
# A chain counts if it agrees with the start so well, compared with the chain that agrees best.
_AGREEMENT = 0.75
# A chain does not count if its rows are less likely than those of the likeliest chain by so much and so many standard
# errors.
_FAR_BEHIND, _ERRORS_BEHIND = 0.15, 2.5
# A chain with a smaller share of the largest share is not worth the time that it takes to predict.
_LEAST_SHARE = 0.02
# Keeps logarithms and the noise of rows with hardly any weight finite.
_NOTHING = 1e-12
# Scaled features beyond this would overflow in distances.
_FARTHEST = 1e4
# Rows that are predicted at a time: the features of all of them would not fit into memory.
_BLOCK = 5_000


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
        rows = self.encoding.apply(X)
        with one_blas_thread():
            found = np.mean([_by_blocks(chain.predict, rows) for chain in self.chains], axis=0)
        return self.target.undo(found)


@dataclass(frozen=True)
class FoldDraws:
    """What the chains say of all rows without the candidates of one fold.

    Attributes
    ----------
    weights : ndarray, one entry per candidate
        How often each was drawn; in rows out of the fold, each time from what other rows say.
    prediction : ndarray of shape (n,)
        Of the rows of the fold, by functions that have not seen them.
    """

    weights: Floats
    prediction: Floats


@dataclass(frozen=True, eq=False)
class Functions:
    """The functions that chains found with all rows and without folds, and what they say of the rows that chains saw.

    Attributes
    ----------
    chains : tuple of Chain
        Those that a function is of.
    of_chain : ndarray, one entry per function
        The number of its chain among these.
    rows : ndarray
        The rows that the chains saw.
    coefficients : tuple of ndarray
    predictions : ndarray of shape (functions, rows)
        Where a function was made of all rows, it is what the other ones say of each.
    """

    chains: tuple[Chain, ...]
    of_chain: Rows
    rows: Rows
    coefficients: tuple[Floats, ...]
    predictions: Floats

    @classmethod
    def of(
        cls, chains: Sequence[Chain], kept: Sequence[int], parts: Sequence[_Part], rows: Rows, target: Affine
    ) -> Functions:
        """Collect the functions of the chains that are kept, with all rows and without folds."""
        numbers = sorted(kept)
        found = [(chain, chains[chain].coefficients, chains[chain].out_of_fold) for chain in kept]
        found += [(of.chain, of.found.coefficients, of.found.prediction) for of in parts if of.chain in kept]
        of_chain, coefficients, predictions = zip(*found, strict=True)
        return cls(
            tuple(chains[number] for number in numbers),
            np.searchsorted(numbers, of_chain),
            rows,
            coefficients,
            target.undo(np.array(predictions)),
        )

    @property
    def even_shares(self) -> Floats:
        """Shares by which each chain counts the same."""
        counts = np.bincount(self.of_chain)
        return np.asarray(1.0 / (len(counts) * counts[self.of_chain]))

    def mixed(self, shares: Floats) -> tuple[Chain, ...]:
        """Return chains whose mean predicts what the mixture of functions does, but for those of hardly any share."""
        by_chain = np.bincount(self.of_chain, shares)
        kept = np.flatnonzero(by_chain >= _LEAST_SHARE * by_chain.max())
        whole = by_chain[kept].sum() / len(kept)
        mixed = []
        for number in kept:
            own = np.flatnonzero(self.of_chain == number)
            coefficients = sum(shares[place] / whole * self.coefficients[place] for place in own)
            mixed.append(replace(self.chains[number], coefficients=np.asarray(coefficients)))
        return tuple(mixed)


class GaussianProcess(Learner):
    """A Gaussian process, for some hundred to some thousand rows.

    The function is smooth, with a length for each column, plus linear. Which candidate of a row is true is drawn, again
    and again, from what the labels drawn for all other rows predict for it; the kernel and the noise are learned
    from the labels drawn. As the function takes shape the noise narrows by itself, and a row never weighs its own
    candidates. Several such chains, begun differently, are averaged: where they disagree, the candidates have not
    decided. Where some have found far more than others, those others do not count.

    Parameters
    ----------
    chains : int or "auto", default="auto"
        ``"auto"``: 4, and 2 above 2,000 rows. Where there is a start, chains that end up far from it are left out.
    rounds : int or "auto", default="auto"
        How often the kernel is learned in each chain, at least. ``"auto"``: 40, and 16 above 2,000 rows.
    most_rounds : int or "auto", default="auto"
        A chain goes on for up to so many rounds while its rows become likelier. ``"auto"``: four times ``rounds``, but
        no more than 80, and fewer above 500 rows; above 2,000 rows just ``rounds``.
    features : int, default=500
        Number of rows whose covariances the function is made of, at most. While labels are drawn it is three
        fifths of that.
    most_rows : int, default=10000
        A chain sees so many rows, at most, drawn at random; the others are weighed by the function found.
    outliers : float, default=0.01
        Share of the rows whose truth may be far from what the function allows, so that no candidate has to be believed.
        Where the weighting says how often the truth is missing, that counts instead.
    ranks : bool, default=True
        Whether each column is also seen by its ranks, which spread out what is crowded, with a length of its own.

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
        most_rounds: int | str = "auto",
        features: int = 500,
        most_rows: int = 10_000,
        outliers: float = 0.01,
        ranks: bool = True,
    ) -> None:
        self.chains = chains
        self.rounds = rounds
        self.most_rounds = most_rounds
        self.features = features
        self.most_rows = most_rows
        self.outliers = outliers
        self.ranks = ranks

    def fit(self, task: Task) -> FittedGaussianProcess:
        """Run the chains."""
        process, *_ = self.fit_folds(task, [])
        return process

    def fit_folds(
        self, task: Task, folds: Folds, fold_starts: Sequence[Floats | None] = ()
    ) -> tuple[FittedGaussianProcess, list[FoldDraws], Functions]:
        """Run the chains, and in each of them draws without some of the folds; none where no labels are drawn.

        Draws without a fold share the chain's kernel and places, so that they cost little more than their sweeps. What
        they find goes into the prediction as well. They begin with the task's start, or each with ``fold_starts``.
        The functions are those that the prediction is the mean of.
        """
        self.check_weighting(task.rule.weighting)
        if not isinstance(task.rule.loss, Squared):
            raise ParameterError("GaussianProcess has the squared loss only; for others there are mlp and boosting.")
        if task.validation is not None:
            raise ParameterError("GaussianProcess has no epochs to choose from, and no use for validation rows.")
        most = check_integer("most_rows", self.most_rows, low=2)
        chosen = np.arange(len(task.S)) if task.sample_weight is None else np.flatnonzero(task.sample_weight)
        if len(chosen) > most:
            chosen = np.sort(np.random.default_rng(task.seed).permutation(chosen)[:most])
        seen, starts = task, list(fold_starts)
        if len(chosen) < len(task.S):
            seen = take_rows(task, chosen)
            starts = [None if start is None else start[np.isin(task.S.row_index, chosen)] for start in starts]
        chains, plan = self._plan(len(seen.S))
        drawn = task.rule.learns_scale and (task.rule.may_miss or seen.S.values.size > len(seen.S))
        if not drawn:
            # Chains would hardly differ.
            chains, folds = 1, []
        prepared = seen.preprocess()
        encoding, features = prepared.ranked if self.ranks else (prepared.encoding, prepared.features)
        problem = self._problem(seen, features, prepared.robust)
        masks = [np.isin(chosen, train) for train, _ in folds]
        left_out = _deal(len(folds), chains)
        seeds = np.random.SeedSequence(task.seed).generate_state(chains)
        pieces = task.progress.parts(chains)
        # The last bits of a product depend on the number of threads, so each chain has one.
        with one_blas_thread():
            running = Parallel(n_jobs=thread_count(task.n_jobs), prefer="threads", return_as="generator")(
                delayed(timed(run_chain))(_without(problem, own, masks, starts), plan, task.rule, int(seed), piece)
                for own, seed, piece in zip(left_out, seeds, pieces, strict=True)
            )
            found: list[Chain] = []
            parts: list[_Part] = []
            seconds: list[float] = []
            by_row: list[Floats] = []
            for own, (taken, (chain, of_folds, likelihoods)) in zip(left_out, running, strict=True):
                by_row.append(likelihoods)
                seconds.append(taken)
                parts += [_Part(len(found), fold, part) for fold, part in zip(own, of_folds, strict=True)]
                found.append(chain)
                task.tell(len(found), chains, -float(chain.evidence[-1]))
        kept, parts = _agreeing(found, parts, problem, masks)
        kept = _likely(kept, by_row, problem.weight)
        for number, chain in enumerate(found):
            evidence_found = float(chain.evidence[-1]) if drawn else None
            share = 1.0 / len(kept) if number in kept else 0.0
            task.progress.record(f"chain {number + 1}", evidence_found, share, seconds[number])
        whole = [found[number] for number in kept]
        target = prepared.robust[0]
        functions = Functions.of(found, kept, parts, chosen, target)
        # Some chains had settled earlier than others.
        rounds = min(map(len, [chain.evidence for chain in whole]))
        traces = [(chain.evidence[-rounds:], chain.noise_scales[-rounds:]) for chain in whole]
        evidence, scales = np.mean(traces, axis=0)
        model = FittedGaussianProcess(
            functions.mixed(functions.even_shares),
            encoding,
            target,
            np.mean([chain.weights for chain in whole], axis=0),
            Report(rounds=rounds, loss=-evidence, noise_scale=scales * float(target.scale)),
            drawn,
            target.undo(np.mean([chain.out_of_fold for chain in whole], axis=0)),
        )
        draws = []
        for fold in range(len(folds)):
            own_parts = [part.found for part in parts if part.fold == fold]
            prediction = np.mean([part.prediction for part in own_parts], axis=0)
            draws.append(FoldDraws(np.mean([part.weights for part in own_parts], axis=0), target.undo(prediction)))
        if seen is not task:
            model, draws = _add_other_rows(model, draws, task, chosen, found, kept, parts)
        return (model if task.groups is None else replace(model, out_of_fold=None)), draws, functions

    def _plan(self, rows: int) -> tuple[int, ChainSettings]:
        many = rows > _MANY
        chains = (2 if many else 4) if self.chains == "auto" else check_integer("chains", self.chains, low=1)
        rounds = (16 if many else 40) if self.rounds == "auto" else check_integer("rounds", self.rounds, low=1)
        features = check_integer("features", self.features, low=1)
        if self.most_rounds == "auto":
            most = rounds if many else max(rounds, min(_TIMES_ROUNDS * rounds, _MOST_ROUNDS, _MOST_DRAWN // rows))
        else:
            most = check_integer("most_rounds", self.most_rounds, low=rounds)
        return chains, ChainSettings(
            rounds, most, 10 if many else 20, 4, 300 if many else 200, -(-3 * features // 5), features
        )

    def _problem(self, task: Task, features: Floats, robust: tuple[Affine, CandidateSets]) -> ChainTask:
        target, S = robust
        share = check_number("outliers", self.outliers, low=0.0, below=1.0)
        if task.rule.may_miss:
            missing = np.full(len(S), float(task.rule.initial_state()[MISSING]))
        else:
            missing = np.where(S.sizes > 1, share, 0.0)
        weight = np.ones(len(S))
        if task.sample_weight is not None:
            weight = np.maximum(task.sample_weight / task.sample_weight.mean(), _NOTHING)
        odds = S.prior_or_uniform * (1.0 - missing[S.row_index]) * _inverse_density(task, S, target)
        return ChainTask(np.clip(features, -_FARTHEST, _FARTHEST), S, weight, odds, missing, task.start)


@dataclass(frozen=True)
class _Part:
    """What a chain found without a fold; both by number."""

    chain: int
    fold: int
    found: ChainFold


def _deal(folds: int, chains: int) -> list[list[int]]:
    """Return the folds that each chain leaves out: each fold once, or each chain one, whichever are more."""
    dealt: list[list[int]] = [[] for _ in range(chains)]
    for place in range(max(folds, chains) if folds else 0):
        dealt[place % chains].append(place % folds)
    return dealt


def _without(problem: ChainTask, own: list[int], masks: Sequence[Mask], starts: Sequence[Floats | None]) -> ChainTask:
    """Return the task of a chain that leaves some of the folds out."""
    of_folds = tuple(starts[fold] for fold in own) if starts else ()
    return replace(problem, folds=tuple(masks[fold] for fold in own), fold_starts=of_folds)


def _agreeing(
    chains: Sequence[Chain], parts: Sequence[_Part], problem: ChainTask, masks: Sequence[Mask]
) -> tuple[list[int], list[_Part]]:
    """Return the numbers of the chains that agree with the start, and the parts that do.

    With many false labels, chains may settle on a function that fits candidates by chance. Its likelihood may be no
    worse than the right one's, but the start, which has come about without any function, knows better. Of each fold
    the part that agrees best is kept in any case.
    """
    if problem.start is None:
        return list(range(len(chains))), list(parts)
    S, start = problem.S, problem.start
    # By how much likelier the start makes what a chain has drawn than a draw at random would be.
    by_chance = np.maximum(row_sums(start * S.prior_or_uniform, S), _NOTHING)

    def gain(weights: Floats, weight: Floats) -> float:
        shared = row_sums(start * weights, S) / by_chance
        return float(np.average(np.log(np.maximum(shared, _NOTHING)), weights=weight))

    of_chains = np.array([gain(chain.weights, problem.weight) for chain in chains])
    of_parts = [gain(part.found.weights, problem.weight * masks[part.fold]) for part in parts]
    # Where none agrees with it, or it says no more than the priors do, the start cannot tell them apart.
    least = _AGREEMENT * of_chains.max() if of_chains.max() > 0 else -np.inf
    best: dict[int, float] = {}
    for part, agreement in zip(parts, of_parts, strict=True):
        best[part.fold] = max(best.get(part.fold, -np.inf), agreement)
    kept = [part for part, own in zip(parts, of_parts, strict=True) if own >= min(least, best[part.fold])]
    return np.flatnonzero(of_chains >= least).tolist(), kept


def _likely(kept: list[int], by_row: Sequence[Floats], weight: Floats) -> list[int]:
    """Return the numbers of the chains that are no further behind the likeliest than chance would have it.

    Where there is little noise, chains find the function or parts of it or not at all, and rows are far likelier around
    those that have found more.
    """
    rows = np.array(by_row)[kept]
    mean = np.average(rows, axis=1, weights=weight)
    behind = rows[mean.argmax()] - rows
    mean = mean.max() - mean
    variance = np.average((behind - mean[:, None]) ** 2, axis=1, weights=weight)
    error = np.sqrt(variance / np.count_nonzero(weight > _NOTHING))
    return list(np.array(kept)[mean <= np.maximum(_ERRORS_BEHIND * error, _FAR_BEHIND)])


def without_rows(chain: Chain) -> Chain:
    """Return what predicts, without what is known of each training row."""
    return replace(chain, weights=np.empty(0), out_of_fold=np.empty(0))


def _by_blocks(predict: Callable[[Floats], Floats], rows: Floats) -> Floats:
    """Return what a function of scaled features says of many rows; their covariances take memory."""
    blocks = range(0, max(len(rows), 1), _BLOCK)
    return np.concatenate([predict(np.clip(rows[first : first + _BLOCK], -_FARTHEST, _FARTHEST)) for first in blocks])


def _add_other_rows(
    model: FittedGaussianProcess,
    draws: list[FoldDraws],
    task: Task,
    chosen: Rows,
    chains: Sequence[Chain],
    kept: Sequence[int],
    parts: Sequence[_Part],
) -> tuple[FittedGaussianProcess, list[FoldDraws]]:
    """Weigh the candidates of rows that no chain has seen by the noise around their predictions."""
    S = task.S
    rest = np.setdiff1d(np.arange(len(S)), chosen)
    rows = model.encoding.apply(features_of(task.X, rest))
    scale = float(model.report.noise_scale[-1])
    seen = np.isin(S.row_index, chosen)
    inverse = _inverse_density(task, S, Affine(np.float64(0.0), np.float64(1.0)))

    def add(of_chosen: Floats, of_rest: Floats, weights_of_chosen: Floats) -> tuple[Floats, Floats]:
        prediction = np.empty(len(S))
        prediction[chosen], prediction[rest] = of_chosen, of_rest
        distance = (S.values - prediction[S.row_index]) / scale
        nearest = np.minimum.reduceat(np.abs(distance), S.offsets[:-1])[S.row_index]
        weights = S.prior_or_uniform * np.exp(-0.5 * (distance * distance - nearest * nearest)) * inverse
        total = row_sums(weights, S)[S.row_index]
        weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), S.prior_or_uniform)
        weights[seen] = weights_of_chosen
        return weights, prediction

    mixed = dict(zip(kept, model.chains, strict=True))
    numbers = sorted({*kept, *(part.chain for part in parts)})

    def predict(number: int) -> Floats:
        """Return what a chain's functions without a fold say of the other rows, and last the model's, if it has one."""
        chain = chains[number]
        several = [part.found.coefficients for part in parts if part.chain == number]
        several += [mixed[number].coefficients] if number in mixed else []
        # What is drawn from these is noisy anyway, and single precision is three times as fast.
        return _by_blocks(lambda block: chain.predict_several(block, np.column_stack(several), np.float32), rows)

    with one_blas_thread():
        running = Parallel(n_jobs=thread_count(task.n_jobs), prefer="threads")(map(delayed(predict), numbers))
    found = dict(zip(numbers, running, strict=True))
    of_folds: dict[int, list[Floats]] = {}
    for number, predicted in found.items():
        own_parts = (part for part in parts if part.chain == number)
        for part, column in zip(own_parts, predicted.T, strict=False):
            of_folds.setdefault(part.fold, []).append(column)
    target = model.target
    added = [
        FoldDraws(*add(own.prediction, target.undo(np.mean(of_folds[fold], axis=0)), own.weights))
        for fold, own in enumerate(draws)
    ]
    assert model.out_of_fold is not None
    whole = target.undo(np.mean([found[number][:, -1] for number in kept], axis=0))
    weights, prediction = add(model.out_of_fold, whole, model.weights)
    return replace(model, out_of_fold=prediction, weights=weights), added


def _inverse_density(task: Task, S: CandidateSets, target: Affine) -> Any:
    """Return one over the density of false labels at each candidate, in the units of ``S``."""
    log_q = task.scaled_log_q(target)
    if log_q.size:
        return np.exp(-log_q)
    span = float(S.values.max() - S.values.min())
    return span if span > 0 else 1.0
