"""``plr evaluate``: how good a model is, where some true labels are known after all."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from plr.candidates import CandidateSets
    from plr.cli.common import Trained
    from plr.label_matching import Precision
    from plr.streaming.folder import Folder

__all__ = ["evaluate_command"]


def evaluate_command(
    model: Annotated[Path, typer.Argument(help="Model file that plr fit wrote, or plr.save_model.")],
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
    interval: Annotated[float, typer.Option(help="Share of true labels that intervals are to hold.")] = 0.9,
    trust: Annotated[
        str | None, typer.Option(help="Types of foreign estimators that the model file may hold: a,b,c.")
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            help="FILE.py:NAME of the torch module, or of what makes it, where the model file holds its weights."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compare predictions with true labels, and where there are candidates, choices with the true ones.

    Example: plr evaluate model.plr test.parquet --truth true_value
    """
    from plr.cli.common import spelled_as_options

    with spelled_as_options():
        found = evaluate(model, data, truth, target=target, prior=prior, interval=interval, trust=trust, module=module)
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
    module: str | None = None,
) -> dict[str, Any]:
    """Read a table, predict its rows, and compare with the truth."""
    from plr.cli.common import check_different, load, working
    from plr.cli.tables import read_table
    from plr.errors import ParameterError
    from plr.streaming.folder import is_stream

    if not 0 < interval < 1:
        raise ParameterError(f"--interval must be above 0 and below 1, such as 0.9; got {interval:g}.")
    check_different(MODEL=model, DATA=data)
    trained = load(model, trust, module)
    asked = {"truth": truth, "target": target, "prior": prior}
    if is_stream(data):
        return _evaluate_folder(trained, model, data, asked, interval)
    table = read_table(data)
    comparison = Comparison(trained, data, *_roles(trained, model, table, data, asked), interval)
    with working("Predicting"):
        comparison.add(table)
    return comparison.figures()


def _evaluate_folder(
    trained: Trained, model: Path, data: Path, asked: dict[str, str | None], interval: float
) -> dict[str, Any]:
    import numpy as np

    from plr.cli.common import working
    from plr.columns.targets import read_target
    from plr.label_matching import Precision, precision_of
    from plr.streaming.ahead import ahead
    from plr.streaming.folder import Folder

    folder = Folder.open(data)
    name, columns, shares = _roles(trained, model, folder.schema.empty_table(), data, asked)
    precision = Precision(0.0, 0)
    with working("Looking at the truths") as tell:
        for first, table in ahead(folder.batches([name])):
            place = functools.partial(_place, folder, first + np.flatnonzero(table[name].is_valid()))
            y = read_target(table.drop_null(), name, data, place)
            precision = precision.joined(precision_of(y)) if len(y) else precision
            tell(first + table.num_rows, folder.rows, 0.0)
    comparison = Comparison(trained, data, name, columns, shares, interval, precision, folder.rows)
    comparison.reader.prepare(folder)
    with working("Predicting") as tell:
        for first, table in ahead(folder.batches(rows=folder.batch_rows)):
            comparison.add(table, first, folder)
            tell(first + table.num_rows, folder.rows, 0.0)
    return comparison.figures(trained.fingerprint is not None and trained.fingerprint == folder.fingerprint())


def _place(folder: Folder, numbers: NDArray[np.int64], row: int) -> str:
    return folder.place(int(numbers[row]))


def _roles(
    trained: Trained, model: Path, table: pa.Table, data: Path, asked: dict[str, str | None]
) -> tuple[str, list[str], list[str]]:
    """Return the columns of truths, of candidates if there are any, and of how likely each is."""
    from plr.cli.model_report import prior_of
    from plr.cli.tables import check_columns, read_recipe, split_columns
    from plr.errors import ParameterError
    from plr.persistence import read_manifest

    known = [asked["truth"], (read_recipe(table, data) or {}).get("truth_column"), trained.truth]
    name = next((entry for entry in known if isinstance(entry, str)), None)
    if name is None:
        raise ParameterError("Which column holds the true labels? Name it with --truth.")
    check_columns(table, [name], data)
    columns = split_columns(asked["target"], table, data)
    if not columns and trained.target and set(trained.target) <= set(table.column_names):
        columns = list(trained.target)
    if name in columns:
        raise ParameterError(f"The column {name!r} is named by --truth and by --target; it can be only one.")
    if asked["prior"] is not None and not columns:
        raise ParameterError("--prior needs candidates, and there are none; name their column with --target.")
    shares = prior_of(read_manifest(model), table, data, asked["prior"], asked["target"]) if columns else []
    return name, columns, shares


class Comparison:
    """Predictions beside truths, of one table or of one batch after another.

    Parameters
    ----------
    trained : Trained
    source : Path
        What the rows are read from, for messages.
    truth : str
        The column of true labels.
    target, prior : list of str
        The columns of candidates, if there are any, and of how likely each is.
    interval : float
        Share of true labels that intervals are to hold.
    precision : Precision, optional
        How exact the truths are, where not all come at once.
    rows : int
        How many rows may come, where not all come at once.
    """

    def __init__(
        self,
        trained: Trained,
        source: Path,
        truth: str,
        target: list[str],
        prior: list[str],
        interval: float,
        precision: Precision | None = None,
        rows: int = 0,
    ) -> None:
        from plr.cli.measuring import Choices, Errors
        from plr.cli.reading import RowReader
        from plr.cli.seen import SeenRows

        self.reader = RowReader(trained, source, [truth, *target, *prior])
        self._trained, self._source = trained, source
        self._truth, self._target, self._prior, self._interval = truth, target, prior, interval
        self._errors, self._choices = Errors(rows), Choices(precision)
        self._skipped = self._judged = self._held = self._trained_on = 0
        self._width = 0.0
        self._intervals = trained.model.calibration_ is not None
        self._seen = None if trained.model._row_digests is None else SeenRows(trained.model)

    def add(self, table: pa.Table, first: int = 0, folder: Folder | None = None) -> None:
        """Take in some rows."""
        import numpy as np
        import pyarrow as pa

        from plr.cli.common import read_sets
        from plr.columns.targets import read_target
        from plr.streaming.sets import read_sets_at

        numbers = np.flatnonzero(np.asarray(table[self._truth].is_valid()))
        self._skipped += table.num_rows - len(numbers)
        if not len(numbers):
            return
        table = table.take(pa.array(numbers)) if len(numbers) < table.num_rows else table
        numbers = numbers + first
        place = None if folder is None else functools.partial(_place, folder, numbers)
        y = read_target(table, self._truth, self._source, place)
        X = self.reader.read(table, place)
        if not self._target:
            sets = None
        elif place is None:
            sets = read_sets(table, self._target, self._source, prior=self._prior, drop_empty=True)
        else:
            sets = read_sets_at(table, self._target, self._source, place, self._prior)
        prediction, relative = self._judge(X, sets)
        self._errors.add(prediction, y, numbers)
        model = self._trained.model
        if model.calibration_ is not None:
            ends = model.calibration_.intervals(prediction, self._interval, relative=relative)
            self._held += int(((ends[:, 0] <= y) & (y <= ends[:, 1])).sum())
            self._width += float((ends[:, 1] - ends[:, 0]).sum())
        if sets is None or len(sets) == 0:
            return
        self._judged += len(sets)
        rows = np.arange(len(y)) if sets.kept is None else sets.kept
        found = model._identify_new(prediction[rows], sets, None if relative is None else relative[rows])
        self._choices.add(found, sets, y[rows])

    def _judge(self, X: Any, sets: CandidateSets | None) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Predict rows and their noise scales; those of training by models that had not seen them, where known."""
        prediction, relative = self._trained.model._judge(X, scale=True)
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

    def figures(self, same: bool = False) -> dict[str, Any]:
        """Return the figures, as plain values, and say what was ignored or mended on the way.

        Parameters
        ----------
        same : bool
            Whether these are the very files the model was trained on, where it does not know its rows one by one.
        """
        from plr.cli.common import diagnosis_of, note, tell_caution
        from plr.errors import DataError, EmptySetError

        rows = self._errors.rows
        if rows == 0:
            raise DataError(
                f"{self._source}: the column {self._truth!r} is empty, so there is nothing to compare with."
            )
        if self._target and not self._judged:
            raise EmptySetError(f"{self._source}: no row has a candidate in {', '.join(map(repr, self._target))}.")
        for text in self.reader.notes():
            note(text)
        found: dict[str, Any] = {"rows": rows, "rows_without_truth": self._skipped, "truth": self._truth}
        # None where the model file does not tell.
        trained = rows if same else None if self._seen is None else self._trained_on
        unseen = 0 if self._seen is None or self._seen.prediction is None else self._trained_on
        found |= {
            "seen_in_training": None if trained is None else trained > 0,
            "rows_trained_on": trained,
            "rows_judged_out_of_fold": unseen,
        }
        if trained and not unseen and not same:
            note(
                "Note: for training rows to be judged by models that have not seen them, fit with --identified OUT or "
                "without --no-intervals, and without --no-page."
            )
        found |= self._errors.figures()
        if self._intervals:
            found["interval"] = {
                "asked": self._interval,
                "coverage": self._held / rows,
                "mean_width": self._width / rows,
            }
        else:
            note("No intervals: the model was fitted without (plr fit --no-intervals).")
        if self._target:
            found["identification"] = self._choices.figures()
        found["diagnosis"] = diagnosis_of(self._trained.model)
        tell_caution(self._trained.model)
        return found


def _trained_on_in_words(found: dict[str, Any]) -> list[str]:
    trained, rows = found["rows_trained_on"], found["rows"]
    if trained is None:
        return ["(whether the model was trained on some of them its file does not tell; if so, the figures flatter it)"]
    if not trained:
        return []
    whom = "all of them" if trained == rows else f"{trained} of them"
    was = "were" if trained > 1 else "was"
    if found["rows_judged_out_of_fold"]:
        return [f"{whom} {was} trained on, and judged by models that had not seen them (out of fold)"]
    return [
        f"{whom} {was} trained on, and judged by the model that has seen them, so these figures flatter it; evaluate "
        "it on other rows"
    ]


def _in_words(found: dict[str, Any]) -> list[str]:
    from plr.label_matching import NEVER_AMONG, is_overconfident

    skipped = f" ({found['rows_without_truth']} more have no truth)" if found["rows_without_truth"] else ""
    r2 = "not defined, all truths are equal" if found["r2"] is None else f"{found['r2']:.4f}"
    lines = [
        f"{found['rows']} rows with a true label in {found['truth']!r}{skipped}",
        *_trained_on_in_words(found),
        f"mean squared error    {found['mse']:.6g}   (always the mean: {found['baseline_mse']:.6g})",
        f"root of it            {found['rmse']:.6g}",
        f"mean absolute error   {found['mae']:.6g}   (always the median: {found['baseline_mae']:.6g})",
        f"median absolute error {found['median_absolute_error']:.6g}",
        f"R²                    {r2}",
    ]
    if "medians_from_rows" in found:
        lines.append(f"(medians from a sample of {found['medians_from_rows']:,} of these rows)")
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
        if choice["rows_judged_with_several"] and is_overconfident(
            choice["expected_with_several"], choice["accuracy_with_several"], choice["rows_judged_with_several"]
        ):
            lines.append(
                f"the probabilities promise {choice['expected_with_several']:.1%} right choices, far more than there "
                "are: do not take the choices as labels"
            )
        lacking = choice["rows"] - choice["rows_with_truth_among_candidates"]
        if lacking:
            lines.append(f"{lacking} rows are not judged so: their truth is not among the candidates")
    return lines
