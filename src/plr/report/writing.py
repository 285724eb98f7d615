"""From a model file to its page, with the training rows that the file keeps for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plr.errors import ParameterError

if TYPE_CHECKING:
    from plr.candidates import CandidateSets
    from plr.regressor import PartialLabelRegressor
    from plr.report.content import ModelContent
    from plr.report.importance import Importance
    from plr.report.rows import Rows

__all__ = ["read_training_rows", "training_rows", "write_model_page"]


def training_rows(
    model: PartialLabelRegressor,
    X: Any,
    S: CandidateSets,
    *,
    truth: Any = None,
    columns: Mapping[str, Sequence[object]] | None = None,
    naming: int = 0,
    importance: Importance | None = None,
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

    Returns
    -------
    dict
        Plain data, at most a few megabytes. ``save_model(model, path, extra={"page": training_rows(model, X, S)})``
        keeps it in the file.
    """
    from plr.report.rows import make_rows
    from plr.training import unseen, unseen_scale

    known = unseen(model.model_)
    found = model.identify() if known is not None else model._identified
    rows = make_rows(
        S,
        model.candidate_probabilities_ if found is None else found.probabilities,
        model.predict(X) if known is None else known,
        start=model.start_weights_,
        relative=unseen_scale(model.model_),
        truth=truth,
        out_of_fold=found is not None,
        out_of_fold_prediction=known is not None,
        columns=columns,
        naming=naming,
    )
    return {"training": rows.to_dict(), "importance": None if importance is None else importance.to_dict()}


def read_training_rows(manifest: Mapping[str, Any]) -> tuple[Rows | None, Importance | None]:
    """Return what a model file keeps for its page, None where it keeps nothing."""
    from plr.report.importance import Importance
    from plr.report.rows import Rows

    page = (manifest.get("extra") or {}).get("page")
    if not isinstance(page, dict):
        return None, None
    rows, importance = page.get("training"), page.get("importance")
    return (
        None if rows is None else Rows.from_dict(rows),
        None if importance is None else Importance.from_dict(importance),
    )


def write_model_page(content: ModelContent, out: str | os.PathLike[str]) -> Path:
    """Write the page of a model.

    Parameters
    ----------
    content : ModelContent
    out : path
        File to write; replaced if it exists.
    """
    from plr.atomic_file import write_files
    from plr.report.model_page import render_model_page

    path = Path(out)
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; name the file to write, such as {path / 'page.html'}.")
    (written,) = write_files(path.parent, {path.name: render_model_page(content).encode("utf-8", "replace")})
    return written
