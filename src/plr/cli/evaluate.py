"""``plr evaluate``: how good a model is, where some true labels are known after all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from plr.cli.common import TERMINAL, check_columns, check_files, loaded
from plr.cli.options import ModelFile, ModuleCode, TrainedRecord, TrainedRow, Trust

__all__ = ["evaluate_command"]


def evaluate_command(
    model: ModelFile,
    data: Annotated[
        Path, typer.Argument(help="Table with the columns of the training table and truths, or folder of Parquet.")
    ],
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
    row: TrainedRow = None,
    record: TrainedRecord = None,
    interval: Annotated[float, typer.Option(help="Share of true labels that intervals are to hold.")] = 0.9,
    trust: Trust = None,
    module: ModuleCode = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compare predictions with true labels, and where there are candidates, choices with the true ones.

    Example: plr evaluate model.plr test.parquet --truth true_value
    """
    check_files({"MODEL": model, "DATA": data}, {})
    check_columns(data, {"truth": truth, "target": target, "prior": prior, "row": row, "record": record})
    with loaded(model, data, None, trust, module) as trained:
        found = trained.evaluate(
            data, truth, target=target, prior=prior, row=row, record=record, interval=interval, front=TERMINAL
        )
    if as_json:
        typer.echo(json.dumps(found))
        return
    for line in _in_words(found):
        typer.echo(line)


def _trained_on_in_words(found: dict[str, Any]) -> list[str]:
    trained, rows = found["rows_trained_on"], found["rows"]
    if trained is None:
        return ["(whether the model was trained on some of them its file does not tell; if so, the figures flatter it)"]
    if not trained:
        return []
    whom = "all of them" if trained == rows else f"{trained:,} of them"
    was = "were" if trained > 1 else "was"
    if found["rows_scored_out_of_fold"]:
        return [f"{whom} {was} trained on, and scored by models that had not seen them (out of fold)"]
    return [
        f"{whom} {was} trained on, and scored by the model that has seen them, so these figures flatter it; evaluate "
        "it on other rows"
    ]


def _intervals_in_words(interval: dict[str, Any]) -> list[str]:
    score = f"{interval['interval_score']:.6g}"
    lines = [
        f"{interval['asked']:.0%} intervals         hold {interval['coverage']:.1%} of the truths "
        f"(standard error {interval['coverage_error']:.1%}), mean width {interval['mean_width']:.6g}",
        f"interval score        {score}   (width and a penalty for truths outside; lower is better)",
    ]
    if interval["by_width"]:
        lines.append("  by width, from the narrowest:")
        lines.append("      rows   mean width    hold")
    for part in interval["by_width"]:
        held = f"{part['coverage']:.1%} ± {part['coverage_error']:.1%}"
        lines.append(f"  {part['rows']:8,}   {part['mean_width']:<10.4g}    {held}")
    return lines


def _in_words(found: dict[str, Any]) -> list[str]:
    from plr.metrics import NEVER_AMONG, is_overconfident

    skipped = f" ({found['rows_without_truth']:,} more have no truth)" if found["rows_without_truth"] else ""
    r2 = "not defined, all truths are equal" if found["r2"] is None else f"{found['r2']:.4f}"
    lines = [
        f"{found['rows']:,} rows with a true label in {found['truth']!r}{skipped}",
        *_trained_on_in_words(found),
        f"mean squared error    {found['mse']:.6g}   (baseline, predicting the mean: {found['baseline_mse']:.6g})",
        f"RMSE                  {found['rmse']:.6g}",
        f"mean absolute error   {found['mae']:.6g}   (baseline, predicting the median: {found['baseline_mae']:.6g})",
        f"median absolute error {found['median_absolute_error']:.6g}",
        f"R²                    {r2}",
    ]
    if "medians_from_rows" in found:
        lines.append(f"(medians from a sample of {found['medians_from_rows']:,} of these rows)")
    if "interval" in found:
        lines += _intervals_in_words(found["interval"])
    if "identification" in found:
        choice = found["identification"]
        if not choice["rows_with_truth_among_candidates"]:
            return [*lines, f"choices {NEVER_AMONG}"]
        if choice["rows_scored_with_several"]:
            lines.append(
                f"true candidate chosen in {choice['accuracy_with_several']:.1%} of "
                f"{choice['rows_scored_with_several']:,} rows with several "
                f"(by chance {choice['by_chance_with_several']:.1%})"
            )
        lines.append(
            f"probabilities are off by {choice['calibration_error']:.3f} on average (expected calibration error)"
        )
        if choice["rows_scored_with_several"] and is_overconfident(
            choice["expected_with_several"], choice["accuracy_with_several"], choice["rows_scored_with_several"]
        ):
            lines.append(
                f"the probabilities promise {choice['expected_with_several']:.1%} right choices, far more than there "
                "are: do not take the choices as labels"
            )
        lacking = choice["rows"] - choice["rows_with_truth_among_candidates"]
        if lacking:
            lines.append(f"{lacking:,} rows are not counted: their truth is not among the candidates")
    return lines
