"""Options that several verbs take, and values as NAME=VALUE."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from plr.errors import ParameterError

__all__ = [
    "PARTS",
    "CandidateFeatures",
    "Candidates",
    "DropEmpty",
    "Ignore",
    "JsonRows",
    "Known",
    "MatchScore",
    "ModelFile",
    "ModuleCode",
    "NewTable",
    "Prefix",
    "Prior",
    "PriorIs",
    "Record",
    "Row",
    "Text",
    "TrainedRecord",
    "TrainedRow",
    "Trust",
    "Truth",
    "one_or_several",
    "parse_options",
]

PARTS = {
    "learner": ("auto", "boosting", "committee", "density", "gaussian_process", "linear", "mlp", "module"),
    "weighting": ("auto", "average", "identification", "posterior", "progressive"),
    "loss": ("absolute", "huber", "squared"),
    "start": ("auto", "density", "none", "sampled"),
    "prior_model": ("auto", "boosted_logit", "given", "learned"),
    "effort": ("low", "normal", "high"),
}
"""What each part of a model may be, by the name of its option: written down here as well, to be known at once."""

ModelFile = Annotated[Path, typer.Argument(help="Model file that plr fit wrote, or plr.save_model.")]
Candidates = Annotated[
    str,
    typer.Option(
        "--target",
        help="Column of candidate sets, or several columns with a candidate each: a,b,c; with --row, the column of "
        "candidate values.",
    ),
]
Ignore = Annotated[str | None, typer.Option(help="Columns that are no features: a,b,c.")]
Text = Annotated[
    str | None, typer.Option(help="Columns of free texts, of which numbers are made (TF-IDF and SVD): a,b,c.")
]
Truth = Annotated[
    str | None, typer.Option(help="Column of true labels, if there is one; it is left out of the features.")
]
Prior = Annotated[
    str | None, typer.Option(help="Column that says how likely each candidate is, in the form of the target.")
]
PriorIs = Annotated[
    str,
    typer.Option(
        help="What the numbers of --prior are: share, probability of each pair, or match_weight (Splink's).",
        autocompletion=lambda: ["share", "probability", "match_weight"],
    ),
]
Row = Annotated[
    str | None,
    typer.Option(
        help="Column of row ids, where the table has one line per candidate, as a join gives it; the lines of a row "
        "may be anywhere."
    ),
]
CandidateFeatures = Annotated[
    str | None,
    typer.Option(help="Columns that describe each candidate, such as a match score, in the form of the target: a,b,c."),
]
MatchScore = Annotated[
    str | None,
    typer.Option(help="Column of a match score, the larger the more believable; it counts before any row is checked."),
]
Record = Annotated[
    str | None,
    typer.Option(help="Column that says which record each candidate is, in the form of the target."),
]
TrainedRow = Annotated[
    str | None,
    typer.Option(help="Column of row ids, where the table has one line per candidate.", show_default="as in training"),
]
TrainedRecord = Annotated[
    str | None,
    typer.Option(help="Column that says which record each candidate is.", show_default="as in training"),
]
Known = Annotated[
    list[str] | None,
    typer.Option(
        help="True labels of rows that somebody looked up: a column, empty elsewhere; or a file, as plr review writes "
        "it, with the columns value and row, which is the row id of --row, or else the number of the row from 0; "
        "repeatable."
    ),
]
DropEmpty = Annotated[bool, typer.Option("--drop-empty", help="Leave out rows without a candidate.")]
NewTable = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="Table to write; the ending says the format. For a folder also another folder.",
        show_default="CSV on stdout",
        callback=lambda out: None if str(out) == "-" else out,
    ),
]
Prefix = Annotated[str, typer.Option(help="Put before the names of the new columns.")]
Trust = Annotated[str | None, typer.Option(help="Types of foreign estimators that the model file may hold: a,b,c.")]
ModuleCode = Annotated[
    str | None,
    typer.Option(help="FILE.py:NAME of the torch module, or of what makes it, where the model file holds its weights."),
]
JsonRows = Annotated[bool, typer.Option("--json", help="Print JSON: what was done, or without -o the rows.")]


def one_or_several(given: list[str] | None) -> str | list[str] | None:
    """Return the one text of an option that is repeatable, or all of them."""
    return given[0] if given and len(given) == 1 else given or None


def parse_options(given: Sequence[str], example: str, *, texts: bool = True) -> dict[str, Any]:
    """Read what was typed after ``--option``: a value is JSON, or else a text as it stands.

    Parameters
    ----------
    given : sequence of str
        Each as NAME=VALUE.
    example : str
        One to show in messages.
    texts : bool, default=True
        Whether a value may be a text that is no JSON.

    Examples
    --------
    >>> parse_options(["epochs=50", "hidden=[8, 8]", "activation=silu"], "epochs=50")
    {'epochs': 50, 'hidden': [8, 8], 'activation': 'silu'}
    """
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ParameterError(f"--option {text}: write NAME=VALUE, such as {example}.")
        if name in options:
            raise ParameterError(f"--option {text}: {name} is given twice; give it once.")
        try:
            options[name] = json.loads(value, parse_constant=_refuse)
        except ValueError:
            if not texts:
                raise ParameterError(f"--option {text}: {value!r} is not a number or a list of numbers.") from None
            options[name] = value.strip()
        if not _is_finite(options[name]):
            raise ParameterError(f"--option {text}: the number is too large.")
    return options


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
