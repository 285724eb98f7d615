"""What was found about the data that a model was fitted to."""

from __future__ import annotations

from typing import Any

from plr.persistence.kinds import Kind, a, every, flag, mapping, number, optional, require, text, whole

__all__ = ["DIAGNOSIS", "DIAGNOSIS_KINDS"]

DIAGNOSIS = "plr.diagnosis.findings:Diagnosis"
_ODD = "plr.diagnosis.ambiguity:Odd"
_RELATION = "plr.diagnosis.relations:Relation"
_SIGNAL = "plr.diagnosis.signal:Signal"
_TOGETHER = "plr.diagnosis.ambiguity:Together"

_COUNT = whole(0, 2**63 - 1)
_SIZES = {"least", "median", "mean", "most", "one"}


def _is_kind_of_relation(value: Any) -> bool:
    return value in ("ratio", "difference", "line", "digit")


def _check_diagnosis(fields: dict[str, Any]) -> None:
    require(fields["sizes"].keys() == _SIZES, "a diagnosis tells other sizes than it should")
    require(fields["rows"] > 0, "a diagnosis is of no rows")


DIAGNOSIS_KINDS = (
    Kind("odd value", _ODD, {"value": number, "rows": _COUNT}),
    Kind("together", _TOGETHER, {"value": number, "other": number, "rows": _COUNT, "share": number}),
    Kind(
        "relation",
        _RELATION,
        {
            "kind": _is_kind_of_relation,
            "value": number,
            "offset": number,
            "share": number,
            "by_chance": number,
            "words": text,
        },
    ),
    Kind(
        "signal",
        _SIGNAL,
        {
            "rows": _COUNT,
            "gain": number,
            "gain_error": number,
            "expected_right": number,
            "chance": number,
            "sure": number,
        },
    ),
    Kind(
        "diagnosis",
        DIAGNOSIS,
        {
            "rows": _COUNT,
            "candidates": _COUNT,
            "sizes": mapping(text, number),
            "labelled_rows": _COUNT,
            "rows_with_duplicates": _COUNT,
            "rows_all_equal": _COUNT,
            "all_alike": flag,
            "spread": number,
            "ambiguity_degree": number,
            "recurring_values": _COUNT,
            "together": every(a(_TOGETHER)),
            "always_together": every(a(_TOGETHER)),
            "relations": every(a(_RELATION)),
            "twins": optional(a(_RELATION)),
            "further_twins": every(a(_RELATION)),
            "telling_rows": _COUNT,
            "odd_values": every(a(_ODD)),
            "has_prior": flag,
            "plain": flag,
            "signal": optional(a(_SIGNAL)),
        },
        _check_diagnosis,
    ),
)
