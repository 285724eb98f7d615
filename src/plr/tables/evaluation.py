"""Predictions and choices of a model beside true labels, batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.columns.targets import read_target
from plr.errors import DataError, EmptySetError, ParameterError
from plr.metrics import ChoiceMetrics, CoverageMetrics, ErrorMetrics, Precision, precision_of
from plr.sources.recipe import read_recipe
from plr.sources.source import Batch, Source
from plr.streaming.ahead import ahead
from plr.tables.front_end import FrontEnd
from plr.tables.roles import check_columns, split_columns
from plr.tables.row_digests import SeenRows
from plr.tables.rows import RowReader, place_in, read_sets

if TYPE_CHECKING:
    from plr.candidates import CandidateSets
    from plr.tables.model import TableModel
    from plr.tables.roles import Asked

__all__ = ["evaluate"]

Floats = NDArray[np.float64]


def evaluate(model: TableModel, source: Source, asked: Asked, interval: float, front: FrontEnd) -> dict[str, Any]:
    """Return the figures of a comparison with true labels, as plain values.

    Parameters
    ----------
    model : TableModel
    source : Source
    asked : mapping
        The columns ``truth``, ``target`` and ``prior``, as far as they are named.
    interval : float
        Share of true labels that intervals are to hold.
    front : FrontEnd
    """
    if not 0 < interval < 1:
        raise ParameterError(f"{front.option('interval')} must be above 0 and below 1, such as 0.9; got {interval:g}.")
    comparison = _Comparison(model, source, *_roles(model, source, asked, front), interval, front)
    with front.working("Predicting") as tell:
        for batch in ahead(source.batches()):
            comparison.add(batch)
            tell(batch.first + batch.table.num_rows, source.rows, 0.0)
    return comparison.figures()


def _roles(model: TableModel, source: Source, asked: Asked, front: FrontEnd) -> tuple[str, list[str], list[str]]:
    """Return the columns of truths, of candidates if there are any, and of how likely each is."""
    names = source.schema.names
    known = [asked.get("truth"), (read_recipe(source.schema, source) or {}).get("truth_column"), model.truth]
    truth = next((entry for entry in known if isinstance(entry, str)), None)
    if truth is None:
        raise ParameterError(f"Which column holds the true labels? Name it with {front.option('truth')}.")
    check_columns([truth], names, source)
    target = split_columns(asked.get("target"), names, source)
    if not target and model.target and set(model.target) <= set(names):
        target = list(model.target)
    if truth in target:
        raise ParameterError(
            f"The column {truth!r} is named by {front.option('truth')} and by {front.option('target')}; it can be only "
            "one."
        )
    if asked.get("prior") is not None and not target:
        raise ParameterError(
            f"{front.option('prior')} needs candidates, and there are none; name their column with "
            f"{front.option('target')}."
        )
    prior = model.prior_columns(source, asked.get("prior"), asked.get("target"), front) if target else []
    return truth, target, prior


class _Comparison:
    """Predictions beside truths, of one batch after another."""

    def __init__(
        self,
        model: TableModel,
        source: Source,
        truth: str,
        target: list[str],
        prior: list[str],
        interval: float,
        front: FrontEnd,
    ) -> None:
        self._model, self._regressor, self._source, self._front = model, model.regressor, source, front
        self._truth, self._target, self._prior, self._interval = truth, target, prior, interval
        self._errors = ErrorMetrics(source.rows if source.in_batches else 0)
        self._coverage, self._choices = CoverageMetrics(), ChoiceMetrics(self._precision())
        self._reader = RowReader(model, source, [truth, *target, *prior])
        self._skipped = self._judged = self._trained_on = 0
        self._seen = None if self._regressor._row_digests is None else SeenRows(self._regressor)

    def _precision(self) -> Precision:
        found = Precision(0.0, 0)
        with self._front.working("Looking at the truths") as tell:
            for batch in ahead(self._source.batches([self._truth])):
                y = self._truths(batch)[1]
                found = found.joined(precision_of(y)) if len(y) else found
                tell(batch.first + batch.table.num_rows, self._source.rows, 0.0)
        return found

    def _truths(self, batch: Batch) -> tuple[pa.Table, Floats, NDArray[np.int64]]:
        """Return the rows that have a truth, their truths, and their numbers."""
        rows = np.flatnonzero(np.asarray(batch.table[self._truth].is_valid()))
        table = batch.table if len(rows) == batch.table.num_rows else batch.table.take(pa.array(rows))
        numbers = rows + batch.first
        return table, read_target(table, self._truth, self._source, place_in(self._source, numbers)), numbers

    def add(self, batch: Batch) -> None:
        """Take in some rows."""
        table, y, numbers = self._truths(batch)
        self._skipped += batch.table.num_rows - len(y)
        if not len(y):
            return
        place = place_in(self._source, numbers)
        X = self._reader.read(table, place)
        sets = read_sets(table, self._target, self._source, place, self._prior) if self._target else None
        prediction, relative = self._judge(X, sets)
        self._errors.add(prediction, y, numbers=numbers)
        calibration = self._regressor.calibration_
        if calibration is not None:
            self._coverage.add(calibration.intervals(prediction, self._interval, relative=relative), y)
        if sets is None or len(sets) == 0:
            return
        self._judged += len(sets)
        rows = np.arange(len(y)) if sets.kept is None else sets.kept
        found = self._regressor._identify_new(prediction[rows], sets, None if relative is None else relative[rows])
        self._choices.add(found, sets, y[rows])

    def _judge(self, X: Any, sets: CandidateSets | None) -> tuple[Floats, Floats | None]:
        """Predict rows and their noise scales; training rows out-of-fold, where that is known."""
        prediction, relative = self._regressor._predict_with_scale(X)
        if self._seen is None:
            return prediction, relative
        trained = self._seen.find(X, sets)
        among = trained >= 0
        self._trained_on += int(among.sum())
        if self._seen.prediction is not None:
            prediction = prediction.copy()
            prediction[among] = self._seen.prediction[trained[among]]
        if self._seen.scale is not None and relative is not None:
            relative = relative.copy()
            relative[among] = self._seen.scale[trained[among]]
        return prediction, relative

    def figures(self) -> dict[str, Any]:
        """Return the figures, and say what was ignored or mended on the way."""
        rows, note = self._errors.rows, self._front.note
        if rows == 0:
            raise DataError(
                f"{self._source}: the column {self._truth!r} is empty, so there is nothing to compare with."
            )
        if self._target and not self._judged:
            raise EmptySetError(f"{self._source}: no row has a candidate in {', '.join(map(repr, self._target))}.")
        for text in self._reader.notes():
            note(text)
        # The very files the model was trained on, where it does not know its rows one by one.
        same = self._model.fingerprint is not None and self._model.fingerprint == self._source.fingerprint()
        # None where the model does not know its training rows.
        trained = rows if same else None if self._seen is None else self._trained_on
        out_of_fold = 0 if self._seen is None or self._seen.prediction is None else self._trained_on
        if trained and not out_of_fold and not same:
            note(
                "Note: for training rows to be judged by models that have not seen them, fit with --identified OUT or "
                "without --no-intervals, and without --no-page."
            )
        found: dict[str, Any] = {
            "rows": rows,
            "rows_without_truth": self._skipped,
            "truth": self._truth,
            "seen_in_training": None if trained is None else trained > 0,
            "rows_trained_on": trained,
            "rows_judged_out_of_fold": out_of_fold,
            **self._errors.figures(),
        }
        if self._regressor.calibration_ is not None:
            found["interval"] = {"asked": self._interval, **self._coverage.figures()}
        else:
            note("No intervals: the model was fitted without (plr fit --no-intervals).")
        if self._target:
            found["identification"] = self._choices.figures()
        return {**found, "diagnosis": self._model.diagnosis}
