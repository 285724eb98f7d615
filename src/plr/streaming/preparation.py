"""What is learned about all rows before training, and how rows become what a learner sees."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plr.contracts import Task
from plr.densities import choose_models
from plr.densities.mixture import Mixture, estimate
from plr.errors import CandidateError, ParameterError
from plr.learners import Learner
from plr.learners.starts import DensityStart
from plr.preprocessing.features import Columns, Encoding
from plr.preprocessing.scaling import Affine, rescaled
from plr.streaming.folder_rows import FolderRows, Reading
from plr.streaming.shuffled import EncodedRows
from plr.streaming.survey import Survey, matrix
from plr.weighting.false_labels import FalseLabelDensity
from plr.weighting.rule import Rule, row_sums

__all__ = ["HELD_ROWS", "SAMPLE_ROWS", "Preparation", "choose_rows", "prepare"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

HELD_ROWS = 20_000
"""Rows that no model is trained on, at most: noise, intervals and the best epoch come from them."""

SAMPLE_ROWS = 20_000
"""Rows of the training rows that a start, or an estimated density of false labels, is learned from, at most."""

_HELD_SHARE = 10
_FEWEST_ROWS = 20


def choose_rows(rows: int, seed: int, held: int | None = None) -> tuple[Integers, Integers]:
    """Return the sorted numbers of rows, chosen at random, to hold out of training, and of a sample of the others."""
    if rows < _FEWEST_ROWS:
        raise CandidateError(
            f"There are {rows} rows; training in batches needs at least {_FEWEST_ROWS}. Give them as one table."
        )
    held = min(HELD_ROWS, max(rows // _HELD_SHARE, 1)) if held is None else held
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x4E1D]))
    chosen = random.choice(rows, held + min(SAMPLE_ROWS, rows - held), replace=False)
    return np.sort(chosen[:held]), np.sort(chosen[held:])


@dataclass(frozen=True)
class Preparation:
    """What was learned about all rows, and how others are made ready by it.

    Attributes
    ----------
    names : tuple of str
        The features.
    columns : Columns or None
    encoding : Encoding
    target : Affine
    density : FalseLabelDensity or None
        None where weights do not depend on it.
    labels : FalseLabelDensity
        The uniform density over the range of the candidates.
    held, sample : FolderRows
        Rows held out, and the sample.
    held_index : ndarray
        The numbers of the rows held out.
    mean_weight : float
        Of a row.
    dtype : str
        Of the features.
    mixture : Mixture or None
        The density of labels that first weights come from, where there is a start.
    start_weights : ndarray or None
        The first weights of the sample, by models that have not seen its rows.
    """

    names: tuple[str, ...]
    columns: Columns | None
    encoding: Encoding
    target: Affine
    density: FalseLabelDensity | None
    labels: FalseLabelDensity
    held: FolderRows
    sample: FolderRows
    held_index: Integers
    mean_weight: float
    dtype: str
    mixture: Mixture | None = None
    start_weights: Floats | None = field(default=None, repr=False)

    def training(self, rows: FolderRows) -> EncodedRows:
        """Return rows ready for training, without those that are held out."""
        aside = np.isin(rows.index, self.held_index, kind="sort")
        if aside.any():
            rows = rows.take(np.flatnonzero(~aside))
        return self.ready(rows)

    def ready(self, rows: FolderRows) -> EncodedRows:
        """Return rows as the learner sees them."""
        raw = matrix(rows.X, self.columns)
        with np.errstate(over="ignore"):
            features = self.encoding.apply(raw).astype(self.dtype)
        return EncodedRows(
            features,
            rescaled(rows.S, self.target),
            None if rows.weight is None else rows.weight / self.mean_weight,
            None if self.density is None else self.density.log_scaled(rows.S.values, self.target),
            self._start(rows, raw),
        )

    def _start(self, rows: FolderRows, X: Floats) -> Floats | None:
        """Return the first weights of candidates, flat; None where there is no start."""
        S, mixture = rows.S, self.mixture
        if mixture is None or self.start_weights is None:
            return None
        if len(S) == 0:
            return np.empty(0)
        found = mixture.at(mixture.heights(X), S.row_index, mixture.target.apply(S.values))
        log_q = 0.0 if self.density is None else self.density.log(S.values)
        ratio = S.prior_or_uniform * np.exp(np.log(found) - log_q)
        weights = ratio / row_sums(ratio, S)[S.row_index]
        known = np.flatnonzero(np.isin(rows.index, self.sample.index))
        offsets = self.sample.S.offsets
        for row, place in zip(known, np.searchsorted(self.sample.index, rows.index[known]), strict=True):
            own = slice(offsets[place], offsets[place + 1])
            weights[S.offsets[row] : S.offsets[row + 1]] = self.start_weights[own]
        return weights


def prepare(
    found: Survey,
    reading: Reading,
    held_index: Integers,
    rule: Rule,
    learner: Learner,
    start: DensityStart | None,
    *,
    dtype: str,
    seed: int,
    cv: object = 5,
    n_jobs: int | None = None,
) -> Preparation:
    """Learn from a survey of all rows what rows are made ready by."""
    source, named = reading.folder.path, ", ".join(map(repr, reading.target))
    if found.labels is None:
        raise CandidateError(f"{source}: no row has a candidate in {named}.")
    if not found.weight > 0.0:
        raise ParameterError(
            f"{source}: {{parameter}} is zero in every row; at least one must count.",
            parameter="weights",
            source=source,
        )
    chosen = FolderRows.concatenate(found.chosen) if found.chosen else None
    aside = np.zeros(0, dtype=bool) if chosen is None else np.isin(chosen.index, held_index)
    if chosen is None or not aside.any() or aside.all():
        raise CandidateError(
            f"{source}: {found.rows:,} rows have a candidate in {named}, too few to train in batches; give them as one "
            "table."
        )
    held, sample = chosen.take(np.flatnonzero(aside)), chosen.take(np.flatnonzero(~aside))
    names = reading.features.names
    columns = found.columns(names)
    uniform = FalseLabelDensity(float(found.labels.low[0]), float(found.labels.high[0]))

    def density_of(weights: Floats | None) -> FalseLabelDensity | None:
        made = rule.weighting.density(sample.S, weights, sample.weight)
        # The range of all candidates is known, not only that of the sample's.
        return uniform if type(made) is FalseLabelDensity else made

    density = density_of(None)
    mixture = weights = None
    if start is not None:
        task = Task(
            matrix(sample.X, columns),
            sample.S,
            rule,
            sample_weight=sample.weight,
            log_q=None if density is None else density.log(sample.S.values),
            categorical=() if columns is None else columns.categorical,
            names=names,
            seed=seed,
            n_jobs=n_jobs,
        )
        made = estimate(task, cv, choose_models(start.models, len(sample.S)))
        mixture, weights = made.mixture, made.weights
        density = density_of(weights)
    return Preparation(
        names,
        columns,
        found.encoding(names, columns, learner.scale_features),
        found.target(learner.scale_target),
        density,
        uniform,
        held,
        sample,
        held_index,
        found.weight / found.rows,
        dtype,
        mixture,
        weights,
    )
