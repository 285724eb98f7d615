"""The page of a model, as ``plr fit`` prepares it and ``plr report`` makes it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.columns.features import Features
    from plr.regressor import PartialLabelRegressor
    from plr.report.importance import Importance
    from plr.report.model_page import ModelContent
    from plr.report.rows import Rows
    from plr.tables import TableModel

__all__ = ["is_model", "page_of_training", "report_model", "summarise_page"]

# Besides the row's number, so many columns tell what a row is: names and numbers that are no features, then features.
_NAMING, _IN_ALL = 2, 3
_ENDINGS = (".html", ".htm")
# What the database of a benchmark begins with, as every file of SQLite's does.
_DATABASE = b"SQLite format 3\0"


def is_model(path: Path) -> bool:
    """Whether a path names a model file rather than the results of a benchmark."""
    from plr.errors import DataError, ParameterError

    if path.suffix == ".plr" and not path.is_dir():
        return True
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            begin = file.read(len(_DATABASE))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from error
    # A model file begins with the length of its header and a brace; those of earlier formats with "PK".
    if begin[8:9] != b"{" and not begin.startswith(b"PK") and begin != _DATABASE:
        raise ParameterError(
            f"{path} is neither a model file nor a folder of benchmark results; for a table: "
            f"plr report MODEL --data {path}"
        )
    return begin != _DATABASE


def check_page(out: Path) -> None:
    """Refuse a file that the page of a model could not be written to, before any work is done for it."""
    from plr.errors import DataError, DataNotFoundError, ParameterError

    if out.is_dir():
        raise ParameterError(f"{out} is a folder; name the file to write, such as {out / 'page.html'}.")
    if out.suffix.lower() not in _ENDINGS:
        raise ParameterError(f"The page of a model is an HTML file; let {out.name} end in .html or .htm.")
    if not out.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {out.parent} to write {out.name} into.")
    if not os.access(out.parent, os.W_OK):
        raise DataError(f"Nothing may be written into the folder {out.parent}: permission denied.")


def page_of_training(model: TableModel, seed: int = 0) -> dict[str, Any]:
    """Return what the file of a model, fitted to a table in memory, is to keep for its page."""
    from plr.report import training_rows
    from plr.tables.rows import read_some_truths

    found, truth = model.summary, model.truth
    assert found is not None
    assert found.table is not None
    assert found.sets is not None
    roles = found.roles
    ignored = [name for name in roles.aside if name not in {*roles.target, *roles.prior, *roles.truth}]
    importance = _importance(model.regressor, found.X, found.features, seed)
    columns, naming = _naming_columns(found.table, found.features, ignored, importance)
    return training_rows(
        model.regressor,
        found.X,
        found.sets,
        truth=None if truth is None else read_some_truths(found.table, truth, found.source),
        columns=columns,
        naming=naming,
        importance=importance,
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
    from plr.cli.common import check_different, load, working
    from plr.errors import ParameterError
    from plr.report import write_model_page
    from plr.report.model_page import ModelContent, read_training_rows

    check_different(MODEL=path, **{"--data": data, "--out": out})
    if data is None and (truth or target or prior):
        raise ParameterError("--truth, --target and --prior name columns of a table; name the table with --data.")
    check_page(out)
    trained, manifest = load(path, trust, module)
    rows, importance = read_training_rows(manifest)
    source = str(trained.description.get("source") or "")
    content = ModelContent(path.name, trained.regressor, manifest, rows, False, source, importance)
    if data is not None:
        with working("Looking at the rows"):
            content = _about_table(content, trained, data, truth, target, prior)
    write_model_page(content, out)
    return content


def summarise_page(content: ModelContent, out: Path) -> dict[str, Any]:
    """Return what a page says in numbers, as plain values."""
    diagnosis = content.model.diagnosis_
    return {
        "page": str(out),
        "new_rows": content.new,
        "facts": content.facts,
        "diagnosis": None if diagnosis is None else diagnosis.brief(),
    }


def _about_table(
    content: ModelContent, trained: TableModel, data: Path, truth: str | None, target: str | None, prior: str | None
) -> ModelContent:
    import numpy as np
    import pyarrow as pa

    from plr.cli.common import note, terminal
    from plr.errors import ParameterError
    from plr.report.rows import make_rows
    from plr.sources.recipe import read_recipe
    from plr.sources.source import TableSource
    from plr.tables.roles import check_columns
    from plr.tables.rows import RowReader, place_in, read_some_truths, take_with_candidates

    if data.expanduser().is_dir():
        raise ParameterError(
            f"{data} is a folder, and the page of a model is about one table; give one file, such as one of its own."
        )
    front = terminal()
    source = TableSource.read(data)
    table = source.table
    columns = trained.target_columns(source, target, front)
    if truth is not None:
        check_columns([truth], table.column_names, source)
    known = [truth, (read_recipe(table.schema, source) or {}).get("truth_column"), trained.truth]
    name = next((entry for entry in known if isinstance(entry, str) and entry in table.column_names), None)
    if name in columns:
        raise ParameterError(f"The column {name!r} is named by --truth and by --target; it can be only one.")
    shares = trained.prior_columns(source, prior, target, front)
    truths = None if name is None else read_some_truths(table, name, source)
    table, sets, place = take_with_candidates(
        table, columns, source, place_in(source, 0), shares, drop_empty=True, front=front
    )
    if truths is not None and sets.kept is not None:
        truths = truths[sets.kept]
    reader = RowReader(trained, source, [*columns, *shares, *([name] if name else [])])
    X = reader.read(table, place)
    for text in reader.notes():
        note(text)
    seen = trained.was_fitted_to(X, sets)
    if seen:
        note(_who_judges(content.rows))
    if seen and content.rows is not None:
        if truths is None:
            return content
        numbers = np.arange(len(sets)) if sets.kept is None else sets.kept
        where = np.minimum(np.searchsorted(numbers, content.rows.number), len(numbers) - 1)
        return replace(content, rows=replace(content.rows, truth=truths[where]), source=data.name)
    found = trained.regressor.identify(X, sets)
    importance = content.importance
    if importance is None and isinstance(X, pa.Table):
        importance = _importance(trained.regressor, X, trained.features, 0)
    relative = None
    if trained.regressor.calibration_ is not None:
        relative = trained.regressor._predict_with_scale(X)[1]
    shown, naming = _naming_columns(table, trained.features, [], importance)
    rows = make_rows(
        sets,
        found.probabilities,
        trained.regressor.predict(X),
        relative=relative,
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
    from plr.report.importance import measure_importance

    parts: dict[str, tuple[str, ...]]
    if features is None:
        parts = {name: (name,) for name in X.column_names}
    else:
        parts = {column.name: column.features for column in features.used}
    return measure_importance(model.predict, X, parts, seed)


def _naming_columns(
    table: pa.Table, features: Features | None, ignored: list[str], importance: Importance | None
) -> tuple[dict[str, list[Any]], int]:
    """Return the cells of the columns that tell a person best what a row is, and how many of them are names."""
    import pyarrow as pa

    left_out = [] if features is None else [column.name for column in features.columns if column.kind == "left out"]
    naming = [
        name
        for name in dict.fromkeys([*ignored, *left_out])
        if name in table.column_names and not pa.types.is_nested(table[name].type) and len(table[name].unique()) > 1
    ][:_NAMING]
    found = [*naming, *(() if importance is None else importance.names)]
    chosen = [name for name in found if name in table.column_names][:_IN_ALL]
    return {name: table[name].to_pylist() for name in chosen}, len(naming)
