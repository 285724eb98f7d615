"""The page of a model, as ``plr fit`` prepares it and ``plr report`` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from plr.atomic_file import check_writable
from plr.cli.common import TERMINAL, check_files, load
from plr.columns.features import Features
from plr.errors import ParameterError
from plr.regressor import PartialLabelRegressor
from plr.report import training_rows, write_model_page
from plr.report.importance import Importance, measure_importance
from plr.report.model_page import ModelContent, read_review, read_training_rows
from plr.report.row_intervals import widths_of
from plr.report.rows import Rows, make_rows
from plr.sources.files import read_file
from plr.tables import TableModel
from plr.tables.long_table import columns_of_lines, name_rows
from plr.tables.row_reader import RowReader, read_some_truths, take_with_candidates

__all__ = ["page_of_training", "report_model"]

# So many columns that are no features may tell what a row is, before the features.
_NAMING = 2


def page_of_training(model: TableModel, seed: int = 0) -> dict[str, Any]:
    """Return what the file of a model, fitted to a table in memory, is to keep for its page."""
    found, truth = model.summary, model.truth
    assert found is not None
    assert found.table is not None
    assert found.sets is not None
    roles = found.roles
    of_lines = columns_of_lines(found.source)
    ignored = [name for name in (*roles.row, *roles.ignore, *roles.weights, *roles.groups) if name not in of_lines]
    importance = _importance(model.regressor, found.X, found.features, seed)
    columns, naming = _naming_columns(found.table, found.features, ignored, importance)
    numbers = np.arange(len(found.sets)) if found.sets.kept is None else found.sets.kept
    return training_rows(
        model.regressor,
        found.X,
        found.sets,
        truth=None if truth is None else read_some_truths(found.table, truth, found.source, numbers),
        columns=columns,
        naming=naming,
        importance=importance,
        names=name_rows(found.source, numbers),
    )


def report_model(
    path: Path,
    out: Path,
    *,
    data: Path | None = None,
    truth: str | None = None,
    target: str | None = None,
    prior: str | None = None,
    trust: str | None = None,
    module: str | None = None,
) -> ModelContent:
    """Write the page of a model, about the rows it was trained on or those of another table; return what it shows."""
    check_files({"MODEL": path, "--data": data}, {"--out": out})
    if data is None and (truth or target or prior):
        raise ParameterError("--truth, --target and --prior name columns of a table; name the table with --data.")
    check_writable(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"The page of a model is an HTML file; let {out.name} end in .html or .htm.")
    trained, manifest = load(path, trust, module)
    rows, importance = read_training_rows(manifest)
    source = str(trained.description.get("source") or "")
    review = read_review(manifest) if data is None else None
    content = ModelContent(path.name, trained.regressor, manifest, rows, False, source, importance, review=review)
    if data is not None:
        with TERMINAL.working("Looking at the rows"):
            content = _about_table(content, trained, data, truth, target, prior)
    write_model_page(content, out)
    return content


def _about_table(
    content: ModelContent, trained: TableModel, data: Path, truth: str | None, target: str | None, prior: str | None
) -> ModelContent:
    if data.expanduser().is_dir():
        raise ParameterError(
            f"{data} is a folder, and the page of a model is about one table; give one file, such as one of its own."
        )
    lines = read_file(data)
    columns = trained.set_columns(lines, {"target": target, "prior": prior}, TERMINAL)
    name = trained.truth_column(lines, truth, columns.target, TERMINAL)
    source = trained.one_line_per_row(lines, columns, [] if name is None else [name], front=TERMINAL)
    table = next(source.batches()).table
    truths = None if name is None else read_some_truths(table, name, source)
    table, sets, place = take_with_candidates(table, columns, source, 0, drop_empty=True, front=TERMINAL)
    if truths is not None and sets.kept is not None:
        truths = truths[sets.kept]
    reader = RowReader(trained, source, [*columns.names, *([name] if name else [])])
    X = reader.read(table, place)
    reader.tell(TERMINAL)
    seen = trained.was_fitted_to(X, sets)
    if seen:
        TERMINAL.note(_who_judges(content.rows))
    if seen and content.rows is not None:
        if truths is None:
            return content
        numbers = np.arange(len(sets)) if sets.kept is None else sets.kept
        where = np.minimum(np.searchsorted(numbers, content.rows.number), len(numbers) - 1)
        return replace(content, rows=replace(content.rows, truth=truths[where]), source=data.name)
    importance = content.importance
    if importance is None and isinstance(X, pa.Table):
        importance = _importance(trained.regressor, X, trained.features, 0)
    prediction, scale = trained.regressor._predict_with_scale(X)
    shown, naming = _naming_columns(table, trained.features, [], importance)
    rows = make_rows(
        sets,
        trained.regressor.identify(X, sets).probabilities,
        prediction,
        relative=widths_of(trained.regressor, X, prediction, scale),
        truth=truths,
        columns=shown,
        naming=naming,
        out_of_fold=not seen,
        out_of_fold_prediction=not seen,
    )
    return replace(content, rows=rows, new=not seen, source=data.name, importance=importance, trained=content.rows)


def _who_judges(rows: Rows | None) -> str:
    """Return whose answers a page about training rows shows."""
    begin = "These are the rows the model was trained on"
    if rows is None or not rows.out_of_fold:
        fit = "plr fit --identified OUT" + (", without --no-page," if rows is None else "")
        return (
            f"{begin}; it has seen them, so the page flatters it. {fit} keeps what models that have not seen them say."
        )
    if rows.out_of_fold_prediction:
        return f"{begin}; the page shows what models that have not seen them say."
    return f"{begin}; probabilities are by models that have not seen them, predictions by the model, which has."


def _importance(model: PartialLabelRegressor, X: pa.Table, features: Features | None, seed: int) -> Importance | None:
    if features is None:
        return measure_importance(model.predict, X, {name: (name,) for name in X.column_names}, seed)
    return measure_importance(model.predict, X, {column.name: column.features for column in features.used}, seed)


def _naming_columns(
    table: pa.Table, features: Features | None, ignored: list[str], importance: Importance | None
) -> tuple[dict[str, Sequence[Any]], int]:
    """Return the cells of the columns by what they tell a person about a row, and how many of them are names."""
    left_out = [] if features is None else [column.name for column in features.columns if column.kind == "left out"]
    naming = [
        name
        for name in dict.fromkeys([*ignored, *left_out])
        if name in table.column_names and not pa.types.is_nested(table[name].type) and len(table[name].unique()) > 1
    ][:_NAMING]
    found = [*naming, *(() if importance is None else importance.names)]
    chosen = [name for name in found if name in table.column_names]
    return {name: _Cells(table[name]) for name in chosen}, len(naming)


class _Cells(Sequence[Any]):
    """A column whose cells are read when they are asked for: of long tables, a page shows few rows."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, row: Any) -> Any:
        return self._column[int(row)].as_py()
