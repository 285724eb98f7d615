"""The page of a model, as ``plr fit`` prepares it and ``plr report`` makes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from plr.candidates import CandidateSets
    from plr.cli.common import Trained
    from plr.regressor import PartialLabelRegressor
    from plr.report.importance import Importance
    from plr.report.model_page import ModelContent
    from plr.tables import Features

__all__ = ["is_model", "page_of_training", "report_model", "summarise_page"]

# Besides the row's number, so many columns tell what a row is: names and numbers that are no features, then features.
_NAMING, _IN_ALL = 2, 3


def is_model(path: Path) -> bool:
    """Whether a path names a model file rather than the results of a benchmark: model files are ZIPs."""
    if path.suffix == ".plr" and not path.is_dir():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


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
    trust: str | None = None,
) -> ModelContent:
    """Write the page of a model, about the rows it was trained on or those of another table; return what it shows."""
    from plr.cli.common import check_different, load, working
    from plr.errors import ParameterError
    from plr.persistence import read_manifest
    from plr.report import write_model_page
    from plr.report.model_page import ModelContent
    from plr.report.model_writing import read_training_rows

    check_different(MODEL=path, **{"--data": data, "--out": out})
    if data is None and (truth or target):
        raise ParameterError("--truth and --target name columns of a table; name the table with --data.")
    trained, manifest = load(path, trust), read_manifest(path)
    rows, importance = read_training_rows(manifest)
    source = manifest["extra"].get("table", {}).get("source") if trained.features is not None else ""
    content = ModelContent(path.name, trained.model, manifest, rows, False, str(source or ""), importance)
    if data is not None:
        with working("Looking at the rows"):
            content = _about_table(content, trained, data, truth, target)
    write_model_page(content, out)
    return content


def summarise_page(content: ModelContent, out: Path) -> dict[str, Any]:
    """Return what a page says in numbers, as plain values."""
    from dataclasses import asdict

    facts = content.facts
    return {"page": str(out), "new_rows": content.new, "facts": None if facts is None else asdict(facts)}


def _about_table(
    content: ModelContent, trained: Trained, data: Path, truth: str | None, target: str | None
) -> ModelContent:
    import numpy as np
    import pyarrow as pa

    from plr.cli.common import digest, features_of, note, read_sets
    from plr.cli.tables import check_columns, read_recipe, read_table, split_columns
    from plr.errors import ParameterError
    from plr.report.rows import make_rows

    table = read_table(data)
    columns = split_columns(target, table, data) or list(trained.target)
    if not columns:
        raise ParameterError("Which column holds the candidates? Name it with --target.")
    check_columns(table, columns, data)
    if truth is not None:
        check_columns(table, [truth], data)
    known = [truth, (read_recipe(table) or {}).get("truth_column"), trained.truth]
    name = next((entry for entry in known if isinstance(entry, str) and entry in table.column_names), None)
    if name in columns:
        raise ParameterError(f"The column {name!r} is named by --truth and by --target; it can be only one.")
    sets = read_sets(table, columns, data, drop_empty=True)
    if sets.kept is not None:
        note(f"Left out: {table.num_rows - len(sets)} of {table.num_rows} rows, which have no candidate.")
        table = table.take(pa.array(sets.kept))
    X = features_of(trained, table, data, [*columns, *([name] if name else [])])
    truths = None if name is None else _truths(table, name, data)
    if content.rows is not None and isinstance(X, pa.Table) and digest(X, sets) == trained.digest:
        note("These are the rows the model was trained on; the page shows what models that have not seen them say.")
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
    )
    return replace(content, rows=rows, new=True, source=data.name, importance=importance, trained=content.rows)


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

    from plr.datasets.targets import read_target

    there = np.asarray(table[name].is_valid())
    found = np.full(table.num_rows, np.nan)
    if there.any():
        found[there] = read_target(table.filter(pa.array(there)), name, source)
    return found
