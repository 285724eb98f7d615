"""The page of a model, from what it shows."""

from __future__ import annotations

from typing import Any

from plr.identification import DOUBTFUL, SETTLED
from plr.label_matching import NEVER_AMONG, is_overconfident
from plr.report.content import ModelContent
from plr.report.facts import Facts, half_width
from plr.report.model_charts import (
    candidates_chart,
    coverage_chart,
    probability_chart,
    reliability_chart,
    rounds_charts,
    stages_of,
    state_bar,
    truth_chart,
)
from plr.report.pages import render_page
from plr.report.provenance import columns_of, command_of, settings_of
from plr.report.row_table import first_rows, rows_data
from plr.training import effort_of_folds

__all__ = ["render_model_page"]


def render_model_page(content: ModelContent) -> str:
    """Return the page of a model.

    Parameters
    ----------
    content : ModelContent
    """
    facts, rows, model = content.facts, content.rows, content.model
    checks = None if facts is None else facts.checks
    calibration, diagnosis = model.calibration_, model.diagnosis_
    several = facts is not None and facts.several > 0
    return render_page(
        "plr.report",
        "model",
        content=content,
        facts=facts,
        rows=rows,
        checks=checks,
        never_among=NEVER_AMONG,
        settled=SETTLED,
        doubtful=DOUBTFUL,
        caution="" if diagnosis is None else diagnosis.caution,
        advice="" if diagnosis is None else diagnosis.advice,
        overconfident=facts is not None and _is_overconfident(facts),
        state_bar=state_bar(facts.counts) if facts is not None else [],
        noise_scale=model.noise_scale_,
        calibration=calibration,
        interval={share: half_width(calibration, share) for share in (0.5, 0.9)},
        fold_effort=effort_of_folds(model.learner_, model.model_) if calibration is not None else None,
        drawn=None if rows is None else candidates_chart(rows, content.half, content.label),
        truth_drawn=None if rows is None or checks is None else truth_chart(rows, content.label),
        stages=_stages(content),
        rounds=rounds_charts(model.model_.report),
        after_process=hasattr(model.model_, "process"),
        probabilities_drawn=probability_chart(rows) if rows is not None and several else None,
        reliability_drawn=reliability_chart(checks) if checks is not None and checks.reliability else None,
        coverage_drawn=None if calibration is None else coverage_chart(calibration, content.label),
        table=None if rows is None else first_rows(rows, content.half, content.label, content.target),
        data=None if rows is None else rows_data(rows, content.half, content.target),
        cut=rows is not None and bool((rows.given > rows.sizes).any()),
        settings=settings_of(content),
        command=command_of(content),
        columns=columns_of(content),
    )


def _is_overconfident(facts: Facts) -> bool:
    checks = facts.checks
    if checks is None or checks.right is None:
        return False
    return is_overconfident(facts.expected or 0.0, checks.right, checks.several)


def _stages(content: ModelContent) -> list[dict[str, Any]]:
    rows = content.trained if content.new else content.rows
    return stages_of(rows) if rows is not None and rows.several.any() else []
