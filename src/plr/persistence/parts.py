"""What surrounds every model: scaling, encoding, tables of categories, the noise, how the fit went."""

from __future__ import annotations

from typing import Any

import numpy as np

from plr.errors import ParameterError
from plr.persistence.kinds import (
    Check,
    Kind,
    MalformedError,
    a,
    every,
    flag,
    floats,
    home_of,
    integers,
    mapping,
    number,
    numbers,
    optional,
    positive,
    require,
    text,
    whole,
)

__all__ = ["AFFINE", "ENCODING", "PART_KINDS", "REPORT", "columns_of", "encoded_columns", "scalar_affine"]

AFFINE = "plr.preprocessing.scaling:Affine"
ENCODING = "plr.preprocessing.features:Encoding"
REPORT = "plr.contracts:Report"
_UNIFORM = "plr.weighting.false_labels:FalseLabelDensity"
_SMOOTH = "plr.weighting.false_labels:SmoothDensity"
_POSTERIOR = "plr.weighting.posterior:Posterior"


def scalar_affine(value: Any) -> bool:
    """Whether it scales labels: one centre, one scale."""
    return home_of(value) == AFFINE and number(value.centre) and positive(value.scale)


def columns_of(encoding: Any) -> int:
    """Return how many columns go into an encoding."""
    return len(encoding.numeric) + len(encoding.categories)


def encoded_columns(encoding: Any) -> int:
    """Return how many columns come out of it."""
    return len(encoding.numeric) + len(encoding.marked) + sum(len(codes) for codes in encoding.categories.values())


def _check_affine(fields: dict[str, Any]) -> None:
    require(np.shape(fields["centre"]) == np.shape(fields["scale"]), "a scaling has other centres than scales")
    require(bool(np.all(np.asarray(fields["scale"]) != 0)), "a scaling divides by zero")


def _check_encoding(fields: dict[str, Any]) -> None:
    numeric, marked, categories = fields["numeric"], fields["marked"], fields["categories"]
    places = [*numeric, *categories]
    require(sorted(places) == list(range(len(places))), "an encoding leaves out columns")
    require(list(numeric) == sorted(numeric) and set(marked) <= set(numeric), "an encoding has columns that are none")
    require(len(fields["fill"]) == len(numeric), "an encoding fills other columns than it has")
    width = len(numeric) + len(marked) + sum(len(codes) for codes in categories.values())
    require(np.shape(fields["scaling"].centre) == (width,), "an encoding scales other columns than it has")


def _take_columns(columns: Any) -> dict[str, Any]:
    for place, categories in columns.categories.items():
        odd = [entry for entry in categories if not _is_category(entry)]
        if odd:
            raise MalformedError(
                f"the column {columns.names[place]} has categories of the type {type(odd[0]).__name__}, and files hold "
                f"texts and numbers only"
            )
    return {"names": columns.names, "categories": columns.categories}


def _check_columns(fields: dict[str, Any]) -> None:
    places = fields["categories"]
    require(all(place < len(fields["names"]) for place in places), "a table has categories of a column that is none")


def _check_smooth(fields: dict[str, Any]) -> None:
    require(len(fields["knots"]) == len(fields["heights"]) > 0, "a density of false labels is none")


def _check_noise(fields: dict[str, Any]) -> None:
    try:
        fields["weighting"].encode()
    except (ParameterError, TypeError, ValueError) as error:
        raise MalformedError("the noise has parameters that are none") from error


def _check_calibration(fields: dict[str, Any]) -> None:
    for distances, covered in (("distances", "covered"), ("worst_distances", "worst_covered")):
        require(len(fields[distances]) == len(fields[covered]) > 0, "a calibration is none")


def _is_share(value: Any) -> bool:
    return number(value) and 0 <= value < 1


def _is_category(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | np.generic)


_LINE: Check = floats(1)
_SURE: Check = floats(1, finite=True)

PART_KINDS = (
    Kind("affine", AFFINE, {"centre": numbers, "scale": numbers}, _check_affine),
    Kind(
        "encoding",
        ENCODING,
        {
            "numeric": every(whole(0)),
            "fill": _SURE,
            "marked": every(whole(0)),
            "categories": mapping(whole(0), _SURE),
            "scaling": a(AFFINE),
        },
        _check_encoding,
    ),
    Kind(
        "columns",
        "plr.preprocessing.features:Columns",
        {"names": every(text), "categories": mapping(whole(0), every(_is_category))},
        _check_columns,
        take=_take_columns,
    ),
    Kind(
        "report",
        REPORT,
        {
            "rounds": whole(0),
            "loss": _LINE,
            "noise_scale": _LINE,
            "validation": _LINE,
            "best_round": optional(whole(0)),
            "movement": _LINE,
        },
    ),
    Kind("uniform false labels", _UNIFORM, {"low": number, "high": number}),
    Kind(
        "smooth false labels",
        _SMOOTH,
        {"low": number, "high": number, "knots": _SURE, "heights": _SURE},
        _check_smooth,
    ),
    Kind(
        "noise",
        "plr.noise:NoiseModel",
        {
            "weighting": a(_POSTERIOR),
            "scale": positive,
            "target": scalar_affine,
            "false_labels": a(_UNIFORM, _SMOOTH),
            "missing": _is_share,
        },
        _check_noise,
    ),
    Kind(
        "calibration",
        "plr.intervals:Calibration",
        {
            "distances": _SURE,
            "covered": _SURE,
            "worst_distances": _SURE,
            "worst_covered": _SURE,
            "rows": positive,
            "by_row": flag,
        },
        _check_calibration,
    ),
    Kind(
        "identification",
        "plr.identification:Identification",
        {
            "index": integers(1),
            "value": _LINE,
            "probability": _LINE,
            "probabilities": _LINE,
            "missing": _LINE,
            "caution": text,
        },
    ),
)
