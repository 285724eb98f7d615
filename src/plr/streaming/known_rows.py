"""The checked rows of a folder, and what is learned from them about candidates, in one scan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from plr.candidates import CandidateSets
from plr.candidates.known import CheckedRows, read_known
from plr.errors import DataError
from plr.priors.dependence import Dependence
from plr.priors.learned import learn_coefficients
from plr.priors.utilities import Refinement, UtilityModel
from plr.streaming.folder_rows import Reading

__all__ = ["learn_prior"]

# What makes a candidate believable is learned from so many checked rows at most, the first ones.
_MOST_CHECKED = 100_000
_FOLDS = 5


def learn_prior(
    reading: Reading,
    *,
    learned: bool = True,
    model: UtilityModel | None = None,
    dependence: Dependence | None = None,
    seed: int = 0,
) -> tuple[Reading, tuple[CheckedRows | None, CandidateSets]]:
    """Return a reading that weighs candidates by what checked rows teach, with these rows and their candidates.

    Parameters
    ----------
    reading : Reading
        With a column of known labels.
    learned : bool, default=True
        Whether to learn; known labels settle their own rows in any case.
    model : UtilityModel, optional
        What turns features of candidates into utilities, where it is not the conditional logit.
    dependence : Dependence, optional
        Whether false candidates depend on the features; the place of a value in its set then counts too.
    seed : int
    """
    folder, parts, values, count = reading.folder, [], [], 0
    assert reading.known is not None
    for first, table in folder.batches([*dict.fromkeys([*reading.sets.names, reading.known])]):
        if count >= _MOST_CHECKED:
            break
        value = reading.known_labels(table, lambda row, first=first: folder.place(first + row))  # type: ignore[misc]
        rows = np.flatnonzero(~np.isnan(value))
        if not rows.size:
            continue
        sets = reading.sets.read(table.take(pa.array(rows)), folder, first + rows)
        if len(sets):
            parts.append(sets)
            values.append(value[rows if sets.kept is None else rows[sets.kept]])
            count += len(sets)
    if not parts:
        raise DataError(
            f"{folder}: the column {reading.known!r} has no known label for a row with candidates; fill some in, or "
            "leave out {parameter}.",
            parameter="known",
            column=reading.known,
            source=folder.path,
        )
    S = CandidateSets.concatenate(parts)
    checked = read_known(np.concatenate(values), S)
    refinement = None if model is None else Refinement(model, np.arange(len(S)) % _FOLDS, seed)
    prior = None
    if learned:
        found = dependence or Dependence(0.0)
        prior = learn_coefficients(S, checked, np.ones(len(S)), found, refinement=refinement, with_values=found.found)
    return replace(reading, learned=prior), (checked, S)
