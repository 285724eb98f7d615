"""The page of a model: what it shows, what a model file keeps for it, and how it is written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plr.atomic_file import write_files
from plr.candidates import CandidateSets
from plr.diagnosis import Diagnosis, measured
from plr.diagnosis.findings import NOT_MEASURED
from plr.errors import ParameterError
from plr.identification import DOUBTFUL, SETTLED
from plr.learners.committee import FittedCommittee
from plr.metrics import NEVER_AMONG, is_overconfident
from plr.regressor import PartialLabelRegressor
from plr.report.facts import find_facts
from plr.report.importance import Importance
from plr.report.model_charts import (
    candidates_chart,
    coverage_chart,
    intervals_chart,
    probability_chart,
    reliability_chart,
    rounds_charts,
    stages_of,
    state_bar,
    truth_chart,
    width_chart,
)
from plr.report.numbers import decimals_of
from plr.report.pages import render_page
from plr.report.provenance import columns_of, command_of, settings_of, table_of
from plr.report.review_data import review_data
from plr.report.row_intervals import intervals_of, reach, widths_differ, widths_of
from plr.report.row_table import first_rows, rows_data
from plr.report.rows import Rows, make_rows
from plr.review_queue import ReviewQueue

__all__ = [
    "ModelContent",
    "read_review",
    "read_training_rows",
    "render_model_page",
    "training_rows",
    "write_model_page",
]

_MOST_NAMES, _LONGEST_NAME = 8, 60
_VERDICT = ("verdict", "headline", "reason", "advice")
# Rows worth checking that a model file keeps.
_REVIEWED = 50


@dataclass(frozen=True)
class ModelContent:
    """What the page of a model shows.

    Attributes
    ----------
    name : str
        What the model file is called.
    model : PartialLabelRegressor
    manifest : dict
        What the model file says about itself.
    rows : Rows or None
        The rows to show; None where there are none.
    new : bool
        Whether they are rows that the model was not fitted to.
    source : str
        Where they come from.
    importance : Importance or None
    trained : Rows or None
        The training rows, where ``rows`` are new ones.
    review : ReviewQueue or None
        Training rows that are worth checking.
    """

    name: str
    model: PartialLabelRegressor
    manifest: dict[str, Any]
    rows: Rows | None = None
    new: bool = False
    source: str = ""
    importance: Importance | None = None
    trained: Rows | None = None
    review: ReviewQueue | None = None

    @property
    def table(self) -> dict[str, Any]:
        """What ``plr fit`` wrote down about its table; empty for models that were saved from Python."""
        return table_of(self.manifest)

    @property
    def target(self) -> tuple[str, ...]:
        """The columns that the candidates are in."""
        found = self.table.get("target")
        return tuple(str(name) for name in found) if isinstance(found, list) else ()

    @property
    def label(self) -> str:
        """What is predicted, in a word."""
        return self.target[0] if len(self.target) == 1 and len(self.target[0]) <= 30 else "value"

    @property
    def predicted(self) -> str:
        """What is predicted, in a sentence."""
        names = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in self.target]
        if len(names) < 2:
            return f"The model predicts {names[0] if names else 'a value'}."
        *first, last = names
        if len(names) > _MOST_NAMES:
            first, last = names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more columns"
        return f"The model predicts the true value, for which {', '.join(first)} and {last} hold the candidates."

    @property
    def verdict(self) -> dict[str, str] | None:
        """What ``plr check`` says about the training rows: verdict, headline, reason and advice, as far as is known."""
        found, page = self.model.diagnosis_, (self.manifest.get("extra") or {}).get("page")
        if found is None:
            return None
        kept = page.get("check") if isinstance(page, dict) else None
        if found.verdict == NOT_MEASURED and isinstance(kept, dict) and kept.keys() >= set(_VERDICT):
            return {name: str(kept[name]) for name in _VERDICT}
        return _in_words(found)

    @property
    def facts(self) -> dict[str, Any] | None:
        """The figures about the rows, as `plr.report.facts.find_facts` returns them."""
        return None if self.rows is None else find_facts(self.rows, self.model.calibration_, new=self.new)


def training_rows(
    model: PartialLabelRegressor,
    X: Any,
    S: CandidateSets,
    *,
    truth: Any = None,
    columns: Mapping[str, Sequence[object]] | None = None,
    naming: int = 0,
    importance: Importance | None = None,
    names: Sequence[int | str] | None = None,
) -> dict[str, Any]:
    """Return what the page of a model shows of its training rows, to be saved with the model.

    Parameters
    ----------
    model : PartialLabelRegressor
        Fitted to these rows. Where ``identify()`` has been called, or costs nothing, its out-of-fold probabilities are
        taken; otherwise those of the model itself, which are in-sample.
    X : array-like of shape (n, d)
    S : CandidateSets
    truth : ndarray of shape (n,), optional
        True labels, NaN where they are not known.
    columns : mapping of str to sequence, optional
        What tells a person which row it is, one entry per row.
    naming : int
        How many of these, at the beginning, are names rather than features.
    importance : Importance, optional
    names : sequence of int or str, optional
        What each row goes by in a table of known labels: its id, or else its number from 0.

    Returns
    -------
    dict
        Plain data, at most a few megabytes. ``save_model(model, path, extra={"page": training_rows(model, X, S)})``
        keeps it in the file.
    """
    known = model.model_.out_of_fold
    free = known is not None or model._belief is not None
    found = model.identify() if free else model._identified
    prediction = model.predict(X) if known is None else known
    rows = make_rows(
        S,
        model.candidate_probabilities_ if found is None else found.probabilities,
        prediction,
        start=model.start_weights_,
        relative=widths_of(model, X, prediction, model.model_.relative_scale),
        truth=truth,
        out_of_fold=found is not None,
        out_of_fold_prediction=known is not None,
        columns=columns,
        naming=naming,
    )
    page: dict[str, Any] = {
        "training": rows.to_dict(),
        "importance": None if importance is None else asdict(importance),
    }
    if model.diagnosis_ is not None:
        page["check"] = _in_words(measured(model.diagnosis_, X, S))
    if found is not None and rows.several.any():
        if names is None:
            names = (np.arange(len(S)) if S.kept is None else S.kept).tolist()
        queue = ReviewQueue.of(model.review(_REVIEWED, random_state=0), names, columns)
        page["review"] = queue.to_dict()
    return page


def read_training_rows(manifest: Mapping[str, Any]) -> tuple[Rows | None, Importance | None]:
    """Return what a model file keeps for its page, None where it keeps nothing."""
    page = (manifest.get("extra") or {}).get("page")
    kept = page if isinstance(page, dict) else {}
    rows, importance = kept.get("training"), kept.get("importance")
    return (
        None if rows is None else Rows.from_dict(rows),
        None if importance is None else Importance.from_dict(importance),
    )


def read_review(manifest: Mapping[str, Any]) -> ReviewQueue | None:
    """Return the training rows worth checking that a model file keeps, None where it keeps none."""
    page = (manifest.get("extra") or {}).get("page")
    found = page.get("review") if isinstance(page, dict) else None
    return None if found is None else ReviewQueue.from_dict(found)


def _in_words(found: Diagnosis) -> dict[str, str]:
    return {**found.brief(), "headline": found.headline}


def _leader(committee: FittedCommittee) -> str:
    """Return the name of the member with the largest share."""
    return committee.members[int(committee.shares.argmax())].name


def write_model_page(content: ModelContent, out: str | os.PathLike[str]) -> Path:
    """Write the page of a model.

    Parameters
    ----------
    content : ModelContent
    out : path
        File to write; replaced if it exists.
    """
    path = Path(out)
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; name the file to write, such as {path / 'page.html'}.")
    (written,) = write_files(path.parent, {path.name: render_model_page(content).encode("utf-8", "replace")})
    return written


def render_model_page(content: ModelContent) -> str:
    """Return the page of a model as HTML."""
    facts, rows, model = content.facts, content.rows, content.model
    checks = None if facts is None else facts["checks"]
    calibration, diagnosis = model.calibration_, model.diagnosis_
    caution = "" if diagnosis is None else diagnosis.caution
    several = facts is not None and facts["several"] > 0
    reliability = [] if checks is None else checks["reliability"]
    overconfident = False
    if facts is not None and checks is not None and checks["right"] is not None:
        overconfident = is_overconfident(facts["expected"] or 0.0, checks["right"], checks["several"])
    trained = content.trained if content.new else rows
    intervals = None if rows is None else intervals_of(rows, calibration)
    found = {} if checks is None or checks["intervals"] is None else checks["intervals"]
    by_width, levels = found.get("by_width", []), found.get("levels", [])
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
        verdict=None if caution else content.verdict,
        caution=caution,
        advice="" if diagnosis is None else diagnosis.advice,
        believable=model.prior_.describe() if model.prior_ is not None and model.prior_.checked else [],
        overconfident=overconfident,
        importance_decimals=None if content.importance is None else decimals_of([0.0, *content.importance.changes]),
        state_bar=state_bar(facts["counts"]) if facts is not None else [],
        noise_scale=model.noise_scale_,
        calibration=calibration,
        interval={share: reach(calibration, share) for share in (0.5, 0.9)},
        assumes="" if calibration is None else calibration.assumes,
        widths_differ=calibration is not None and widths_differ(calibration),
        fold_effort=model.learner_.effort_of_folds(model.model_) if calibration is not None else None,
        drawn=None if rows is None else candidates_chart(rows, intervals, content.label),
        truth_drawn=None if rows is None or checks is None else truth_chart(rows, content.label),
        stages=stages_of(trained) if trained is not None and trained.several.any() else [],
        rounds=rounds_charts(model.model_.report),
        leader=_leader(model.model_) if isinstance(model.model_, FittedCommittee) else "",
        probabilities_drawn=probability_chart(rows) if rows is not None and several else None,
        reliability_drawn=reliability_chart(reliability) if reliability else None,
        coverage_drawn=None if calibration is None else coverage_chart(calibration, levels),
        widths_drawn=width_chart(by_width) if by_width else None,
        intervals=intervals,
        intervals_drawn=None if rows is None or intervals is None else intervals_chart(rows, intervals, content.label),
        table=None if rows is None else first_rows(rows, calibration, content.label, content.target),
        data=None if rows is None else rows_data(rows, calibration, content.target),
        review=review_data(content.review),
        cut=rows is not None and bool((rows.given > rows.sizes).any()),
        settings=settings_of(model, content.manifest),
        command=command_of(content.table, content.target, content.name),
        columns=columns_of(content.table),
    )
