"""Predictions and choices of a model beside true labels, batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr._parameters import check_number
from plr.candidates.matching import Precision, precision_of
from plr.columns.candidates import SetColumns
from plr.columns.targets import read_target
from plr.errors import DataError, ParameterError
from plr.front_end import FrontEnd, warn
from plr.metrics import ChoiceMetrics, CoverageMetrics, ErrorMetrics
from plr.sources.source import Batch, Source
from plr.tables.row_digests import SeenRows
from plr.tables.row_reader import RowReader, batches_of, no_candidates, place_in

if TYPE_CHECKING:
    from plr.tables.model import TableModel
    from plr.tables.roles import Asked

__all__ = ["evaluate"]


def evaluate(model: TableModel, source: Source, asked: Asked, interval: float, front: FrontEnd) -> dict[str, Any]:
    """Return the figures of a comparison with true labels, as plain values.

    Parameters
    ----------
    model : TableModel
    source : Source
    asked : mapping
        The columns ``truth``, ``target``, ``prior``, ``row`` and ``record``, as far as they are named.
    interval : float
        Share of true labels that intervals are to hold.
    front : FrontEnd
    """
    check_number("interval", interval, low=0, open_low=True, below=1)
    truth, columns = _roles(model, source, asked, front)
    source = model.one_line_per_row(source, columns, [truth], asked.get("row"), front)
    precision = Precision(0.0, 0)
    for batch in batches_of(source, "Looking at the truths", front, [truth]):
        _, y, _ = _rows_with_truth(batch, truth, source)
        precision = precision.joined(precision_of(y)) if len(y) else precision
    regressor, calibration = model.regressor, model.regressor.calibration_
    rows_in_all = source.rows if source.in_batches else 0
    errors, coverage = ErrorMetrics(rows_in_all), CoverageMetrics(interval, rows_in_all)
    choices = ChoiceMetrics(precision)
    reader = RowReader(model, source, [truth, *([] if columns is None else columns.names)])
    seen = None if regressor._row_digests is None else SeenRows(regressor)
    skipped = identified = trained_on = 0
    for batch in batches_of(source, "Predicting", front):
        table, y, numbers = _rows_with_truth(batch, truth, source)
        skipped += batch.table.num_rows - len(y)
        if not len(y):
            continue
        place = place_in(source, numbers)
        X = reader.read(table, place)
        sets = None if columns is None else columns.read(table, source, numbers)
        prediction, scale = regressor._predict_with_scale(X)
        of_training = None
        if seen is not None:
            of_training = seen.find(X, sets)
            prediction, scale = seen.predict(of_training, prediction, scale)
            trained_on += int((of_training >= 0).sum())
        errors.add(prediction, y, numbers=numbers)
        if calibration is not None:
            widths = regressor._row_widths(X, prediction, scale)
            ends = calibration.intervals(prediction, interval, widths=widths)
            coverage.add(ends, y, numbers=numbers)
        if sets is not None and len(sets):
            identified += len(sets)
            rows = np.arange(len(y)) if sets.kept is None else sets.kept
            by = prediction[rows], None if scale is None else scale[rows]
            part = X.take(pa.array(rows)) if isinstance(X, pa.Table) else X[rows]
            trained = None if of_training is None else of_training[rows] >= 0
            choices.add(regressor._identify_rows(part, sets, by, trained), sets, y[rows])
    if errors.rows == 0:
        raise DataError(f"{source}: the column {truth!r} is empty, so there is nothing to compare with.")
    if columns is not None and not identified:
        raise no_candidates(source, columns.target)
    reader.tell(front)
    # The very files the model was trained on, where it does not know its rows one by one.
    same = model.was_fitted_to_files(source)
    # None where the model does not know its training rows.
    known = errors.rows if same else None if seen is None else trained_on
    out_of_fold = 0 if seen is None or seen.prediction is None else trained_on
    if known and not out_of_fold and not same:
        warn(
            "The model has seen training rows among these, and scores them itself; for models that have not seen them, "
            f"fit with {front.option('identify', True)} or {front.option('intervals', True)}, and keep the training "
            "rows in the model file."
        )
    figures: dict[str, Any] = {
        "rows": errors.rows,
        "rows_without_truth": skipped,
        "truth": truth,
        "seen_in_training": None if known is None else known > 0,
        "rows_trained_on": known,
        "rows_scored_out_of_fold": out_of_fold,
        **errors.figures(),
    }
    if calibration is None:
        front.note(f"No intervals: the model was fitted with {front.option('intervals', False)}.")
    else:
        figures["interval"] = {"asked": interval, **coverage.figures(), "assumes": calibration.assumes}
    if columns is not None:
        figures["identification"] = choices.figures()
    return {**figures, "diagnosis": model.diagnosis}


def _roles(model: TableModel, source: Source, asked: Asked, front: FrontEnd) -> tuple[str, SetColumns | None]:
    """Return the column of truths, and the columns of candidates, if there are any."""
    named = asked.get("target") is not None
    there = named or (bool(model.target) and set(model.target) <= set(source.schema.names))
    target = model.target_columns(source, asked.get("target")) if there else []
    truth = model.truth_column(source, asked.get("truth"), target, front)
    if truth is None:
        lacks = (
            "" if model.truth is None else f"{source} lacks {model.truth!r}, which held the true labels in training. "
        )
        raise ParameterError(
            f"{lacks}Which column holds the true labels? Name it with {{parameter}}.", parameter="truth"
        )
    if not there:
        if asked.get("prior") is not None:
            raise ParameterError(
                f"{{parameter}} needs candidates, and there are none; name their column with {front.option('target')}.",
                parameter="prior",
            )
        return truth, None
    return truth, model.set_columns(source, asked, front)


def _rows_with_truth(
    batch: Batch, truth: str, source: Source
) -> tuple[pa.Table, NDArray[np.float64], NDArray[np.int64]]:
    """Return the rows that have a truth, their truths, and their numbers."""
    rows = np.flatnonzero(batch.table[truth].is_valid())
    table = batch.table if len(rows) == batch.table.num_rows else batch.table.take(pa.array(rows))
    numbers = rows + batch.first
    return table, read_target(table, truth, source, place_in(source, numbers), "truth"), numbers
