"""``plr evaluate``: how good a model is, where some true labels are known after all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from plr.candidates import CandidateSets

__all__ = ["evaluate_command"]


def evaluate_command(
    model: Annotated[Path, typer.Argument(help="Model file that plr fit wrote, or plr.save_model.")],
    data: Annotated[Path, typer.Argument(help="Table with the columns of the training table and a column of truths.")],
    truth: Annotated[
        str | None,
        typer.Option(
            help="Column of true labels; rows where it is empty are left out.", show_default="as the table says"
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column or columns of candidates, if there are any.", show_default="as in training"),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Column that says how likely each candidate is, in the form of the target.",
            show_default="as in training",
        ),
    ] = None,
    interval: Annotated[float, typer.Option(help="Share of true labels that intervals are to hold.")] = 0.9,
    trust: Annotated[
        str | None, typer.Option(help="Types of foreign estimators that the model file may hold: a,b,c.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compare predictions with true labels, and where there are candidates, choices with the true ones.

    Example: plr evaluate model.plr test.parquet --truth true_value
    """
    from plr.cli.common import spelled_as_options

    with spelled_as_options():
        found = evaluate(model, data, truth, target=target, prior=prior, interval=interval, trust=trust)
    if as_json:
        typer.echo(json.dumps(found))
        return
    for line in _in_words(found):
        typer.echo(line)


def evaluate(
    model: Path,
    data: Path,
    truth: str | None = None,
    *,
    target: str | None = None,
    prior: str | None = None,
    interval: float = 0.9,
    trust: str | None = None,
) -> dict[str, Any]:
    """Read a table, predict its rows, and compare with the truth."""
    import numpy as np
    import pyarrow as pa

    from plr.cli.common import check_different, digest, features_of, load, note, read_sets, working
    from plr.cli.model_report import prior_of
    from plr.cli.tables import check_columns, read_recipe, read_table, split_columns
    from plr.datasets.targets import read_target
    from plr.errors import DataError, NotFittedError, ParameterError
    from plr.persistence import read_manifest

    if not 0 < interval < 1:
        raise ParameterError(f"--interval must be above 0 and below 1, such as 0.9; got {interval:g}.")
    check_different(MODEL=model, DATA=data)
    trained = load(model, trust)
    table = read_table(data)
    known = [truth, (read_recipe(table) or {}).get("truth_column"), trained.truth]
    name = next((entry for entry in known if isinstance(entry, str)), None)
    if name is None:
        raise ParameterError("Which column holds the true labels? Name it with --truth.")
    check_columns(table, [name], data)
    there = np.asarray(table[name].is_valid())
    if not there.any():
        raise DataError(f"{data}: the column {name!r} is empty, so there is nothing to compare with.")
    skipped = int((~there).sum())
    table = table.filter(pa.array(there))
    y = read_target(table, name, data)
    columns = split_columns(target, table, data)
    if not columns and trained.target and set(trained.target) <= set(table.column_names):
        columns = list(trained.target)
    if name in columns:
        raise ParameterError(f"The column {name!r} is named by --truth and by --target; it can be only one.")
    if prior is not None and not columns:
        raise ParameterError("--prior needs candidates, and there are none; name their column with --target.")
    shares = prior_of(read_manifest(model), table, data, prior, target) if columns else []
    with working("Predicting"):
        X = features_of(trained, table, data, [name, *columns, *shares])
        prediction = trained.model.predict(X)
    found: dict[str, Any] = {"rows": len(y), "rows_without_truth": skipped, "truth": name, **errors_of(prediction, y)}
    try:
        ends = trained.model.predict_interval(X, interval)
    except NotFittedError:
        note("No intervals: the model was fitted without (plr fit --no-intervals).")
    else:
        found["interval"] = {
            "asked": interval,
            "coverage": float(np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))),
            "mean_width": float(np.mean(ends[:, 1] - ends[:, 0])),
        }
    if columns:
        sets = read_sets(table, columns, data, prior=shares, drop_empty=True)
        rows = np.arange(len(y)) if sets.kept is None else sets.kept
        judged = X if sets.kept is None else _take(X, rows)
        found["identification"] = choices_of(trained.model.identify(judged, sets), sets, y[rows])
        seen = trained.digest is not None and isinstance(judged, pa.Table) and digest(judged, sets) == trained.digest
        found["seen_in_training"] = bool(seen)
        if seen:
            note("Note: the model was trained on these very rows, so these figures flatter it; evaluate it on others.")
    return found


def errors_of(prediction: NDArray[np.float64], y: NDArray[np.float64]) -> dict[str, Any]:
    """Return how far predictions are from the truth, beside those of the one best constant."""
    import numpy as np

    off = np.abs(prediction - y)
    baseline = float(np.mean((y - y.mean()) ** 2))
    mse = float(np.mean(off**2))
    return {
        "mse": mse,
        "rmse": mse**0.5,
        "mae": float(off.mean()),
        "median_absolute_error": float(np.median(off)),
        "r2": 1.0 - mse / baseline if baseline > 0 else None,
        "baseline_mse": baseline,
        "baseline_mae": float(np.mean(np.abs(y - np.median(y)))),
    }


def choices_of(found: Any, sets: CandidateSets, y: NDArray[np.float64]) -> dict[str, Any]:
    """Return how often the likeliest candidate is the true one, and how far its probability can be believed.

    Only rows whose truth is among their candidates are judged.
    """
    import numpy as np

    from plr.report.truths import true_candidates

    is_true = true_candidates(sets.values, sets.offsets, y)
    judged = np.logical_or.reduceat(is_true, sets.offsets[:-1])
    several = sets.unique().sizes > 1
    told = several & judged
    right = is_true[sets.offsets[:-1] + found.index]
    among = judged[sets.row_index]
    probabilities = found.probabilities[among]
    bins = np.minimum((probabilities * 10).astype(int), 9)
    counts = np.bincount(bins, minlength=10)
    said = np.bincount(bins, probabilities, 10)
    came = np.bincount(bins, is_true[among], 10)
    filled = counts > 0
    return {
        "rows": len(sets),
        "rows_with_several": int(several.sum()),
        "rows_with_truth_among_candidates": int(judged.sum()),
        "rows_judged_with_several": int(told.sum()),
        "accuracy": float(right[judged].mean()) if judged.any() else None,
        "accuracy_with_several": float(right[told].mean()) if told.any() else None,
        "by_chance_with_several": float((1.0 / sets.sizes[told]).mean()) if told.any() else None,
        "calibration_error": float(np.abs(said - came).sum() / counts.sum()) if judged.any() else None,
        "calibration": [
            {"candidates": int(count), "said": float(one / count), "true": float(other / count)}
            for count, one, other in zip(counts[filled], said[filled], came[filled], strict=True)
        ],
    }


def _take(X: Any, rows: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    return X.take(pa.array(rows)) if isinstance(X, pa.Table) else X[rows]


def _in_words(found: dict[str, Any]) -> list[str]:
    from plr.report.truths import NEVER_AMONG

    skipped = f" ({found['rows_without_truth']} more have no truth)" if found["rows_without_truth"] else ""
    r2 = "not defined, all truths are equal" if found["r2"] is None else f"{found['r2']:.4f}"
    lines = [
        f"{found['rows']} rows with a true label in {found['truth']!r}{skipped}",
        f"mean squared error    {found['mse']:.6g}   (always the mean: {found['baseline_mse']:.6g})",
        f"root of it            {found['rmse']:.6g}",
        f"mean absolute error   {found['mae']:.6g}   (always the median: {found['baseline_mae']:.6g})",
        f"median absolute error {found['median_absolute_error']:.6g}",
        f"R²                    {r2}",
    ]
    if "interval" in found:
        interval = found["interval"]
        lines.append(
            f"{interval['asked']:.0%} intervals         hold {interval['coverage']:.1%} of the truths, mean width "
            f"{interval['mean_width']:.6g}"
        )
    if "identification" in found:
        choice = found["identification"]
        if not choice["rows_with_truth_among_candidates"]:
            return [*lines, f"choices {NEVER_AMONG}"]
        if choice["rows_judged_with_several"]:
            lines.append(
                f"true candidate chosen in {choice['accuracy_with_several']:.1%} of "
                f"{choice['rows_judged_with_several']} rows with several "
                f"(by chance {choice['by_chance_with_several']:.1%})"
            )
        lines.append(
            f"probabilities are off by {choice['calibration_error']:.3f} on average (expected calibration error)"
        )
        lacking = choice["rows"] - choice["rows_with_truth_among_candidates"]
        if lacking:
            lines.append(f"{lacking} rows are not judged so: their truth is not among the candidates")
    return lines
