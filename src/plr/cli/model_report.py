"""The page of a model, as ``plr fit`` prepares it and ``plr report`` makes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from plr.candidates import CandidateSets
    from plr.cli.common import Trained
    from plr.columns import Features
    from plr.regressor import PartialLabelRegressor
    from plr.report.content import ModelContent
    from plr.report.importance import Importance
    from plr.report.rows import Rows

__all__ = ["is_model", "page_of_training", "prior_of", "report_model", "summarise_page"]

# Besides the row's number, so many columns tell what a row is: names and numbers that are no features, then features.
_NAMING, _IN_ALL = 2, 3
_ENDINGS = (".html", ".htm")
# What the database of a benchmark begins with, as every file of SQLite's does.
_DATABASE = b"SQLite format 3\0"


def is_model(path: Path) -> bool:
    """Whether a path names a model file rather than the results of a benchmark: model files are ZIPs."""
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
    if not begin.startswith(b"PK") and begin != _DATABASE:
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


def prior_of(
    manifest: Mapping[str, Any], table: pa.Table, source: Path, asked: str | None, target: str | None
) -> list[str]:
    """Return the columns of priors: those asked for, or those of training where the candidates are those, too."""
    from plr.cli.common import note
    from plr.cli.tables import split_columns

    if asked is not None:
        return split_columns(asked, table, source)
    written = (manifest.get("extra") or {}).get("table")
    roles = written.get("roles") if isinstance(written, dict) else None
    trained = roles.get("prior") if isinstance(roles, dict) else None
    if not isinstance(trained, str):
        return []
    names = [trained] if trained in table.column_names else [name.strip() for name in trained.split(",")]
    if target is None and set(names) <= set(table.column_names):
        note(f"How likely each candidate is beforehand: {trained!r}, as in training.")
        return names
    note(f"Note: the model was trained with the prior {trained!r}, which is not used here; name it with --prior.")
    return []


def page_of_training(
    model: PartialLabelRegressor,
    X: pa.Table,
    S: CandidateSets,
    table: pa.Table,
    features: Features,
    *,
    ignored: list[str],
    truth: str | None,
    source: Path,
    seed: int = 0,
) -> dict[str, Any]:
    """Return what a model file is to keep for its page.

    Parameters
    ----------
    model : PartialLabelRegressor
    X : pyarrow.Table
        The features of the training rows.
    S : CandidateSets
    table : pyarrow.Table
        The training rows themselves.
    features : Features
    ignored : list of str
        Columns that the user left out of the features.
    truth : str, optional
        The column of true labels.
    source : path
        What the table was read from, for messages.
    seed : int
    """
    from plr.report import training_rows

    importance = _importance(model, X, features, seed)
    columns, naming = _naming_columns(table, features, ignored, importance)
    return training_rows(
        model,
        X,
        S,
        truth=None if truth is None else _truths(table, truth, source),
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
    from plr.persistence import read_manifest
    from plr.report import write_model_page
    from plr.report.content import ModelContent
    from plr.report.writing import read_training_rows

    check_different(MODEL=path, **{"--data": data, "--out": out})
    if data is None and (truth or target or prior):
        raise ParameterError("--truth, --target and --prior name columns of a table; name the table with --data.")
    check_page(out)
    trained, manifest = load(path, trust, module), read_manifest(path)
    rows, importance = read_training_rows(manifest)
    source = manifest["extra"].get("table", {}).get("source") if trained.features is not None else ""
    content = ModelContent(path.name, trained.model, manifest, rows, False, str(source or ""), importance)
    if data is not None:
        with working("Looking at the rows"):
            content = _about_table(content, trained, data, truth, target, prior)
    write_model_page(content, out)
    return content


def summarise_page(content: ModelContent, out: Path) -> dict[str, Any]:
    """Return what a page says in numbers, as plain values."""
    from dataclasses import asdict

    from plr.cli.common import diagnosis_of

    facts = content.facts
    return {
        "page": str(out),
        "new_rows": content.new,
        "facts": None if facts is None else asdict(facts),
        "diagnosis": diagnosis_of(content.model),
    }


def _about_table(
    content: ModelContent, trained: Trained, data: Path, truth: str | None, target: str | None, prior: str | None
) -> ModelContent:
    import numpy as np
    import pyarrow as pa

    from plr.cli.common import digest, note, read_sets
    from plr.cli.reading import features_of
    from plr.cli.streams import refuse_folder
    from plr.cli.tables import check_columns, read_recipe, read_table, split_columns
    from plr.errors import ParameterError
    from plr.report.rows import make_rows

    refuse_folder(data, "the page of a model", "give one file, such as one of its own")
    table = read_table(data)
    columns = split_columns(target, table, data) or list(trained.target)
    if not columns:
        raise ParameterError("Which column holds the candidates? Name it with --target.")
    check_columns(table, columns, data)
    if truth is not None:
        check_columns(table, [truth], data)
    known = [truth, (read_recipe(table, data) or {}).get("truth_column"), trained.truth]
    name = next((entry for entry in known if isinstance(entry, str) and entry in table.column_names), None)
    if name in columns:
        raise ParameterError(f"The column {name!r} is named by --truth and by --target; it can be only one.")
    shares = prior_of(content.manifest, table, data, prior, target)
    sets = read_sets(table, columns, data, prior=shares, drop_empty=True)
    if sets.kept is not None:
        note(f"Left out: {table.num_rows - len(sets)} of {table.num_rows} rows, which have no candidate.")
        table = table.take(pa.array(sets.kept))
    X = features_of(trained, table, data, [*columns, *shares, *([name] if name else [])])
    truths = None if name is None else _truths(table, name, data)
    seen = trained.digest is not None and isinstance(X, pa.Table) and digest(X, sets) == trained.digest
    if seen:
        note(_who_judges(content.rows))
    if seen and content.rows is not None:
        if truths is None:
            return content
        numbers = np.arange(len(sets)) if sets.kept is None else sets.kept
        where = np.minimum(np.searchsorted(numbers, content.rows.number), len(numbers) - 1)
        return replace(content, rows=replace(content.rows, truth=truths[where]), source=data.name)
    found = trained.model.identify(X, sets)
    importance = content.importance
    if importance is None and isinstance(X, pa.Table):
        importance = _importance(trained.model, X, trained.features, 0)
    relative = trained.model._judge(X, scale=True)[1] if trained.model.calibration_ is not None else None
    shown, naming = _naming_columns(table, trained.features, [], importance)
    rows = make_rows(
        sets,
        found.probabilities,
        trained.model.predict(X),
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


def _truths(table: pa.Table, name: str, source: Path) -> NDArray[np.float64]:
    """Return the true labels of a table, NaN where there is none."""
    import numpy as np
    import pyarrow as pa

    from plr.columns.targets import read_target

    there = np.asarray(table[name].is_valid())
    found = np.full(table.num_rows, np.nan)
    if there.any():
        found[there] = read_target(table.filter(pa.array(there)), name, source)
    return found
