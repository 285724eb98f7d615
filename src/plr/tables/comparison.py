"""Learners and weightings side by side on the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plr._checks import check_seed
from plr._parameters import check_integer
from plr.comparison import COMPARED, Comparison, compare
from plr.folds import features_of
from plr.front_end import PYTHON, FrontEnd
from plr.sources.folder import Folder, open_source
from plr.tables.fit_table import prepare_rows
from plr.tables.roles import Asked

__all__ = ["compare_table"]


def compare_table(
    data: Any,
    asked: Asked,
    learners: Sequence[Any] = COMPARED,
    weightings: Sequence[Any] = ("auto",),
    *,
    known: Any = None,
    prior_is: str = "share",
    match_score: str | None = None,
    one_to_one: bool = False,
    drop_empty: bool = False,
    rows: int | None = None,
    cv: object = 5,
    random_state: object = 0,
    n_jobs: int | None = None,
    front: FrontEnd = PYTHON,
    **parameters: Any,
) -> Comparison:
    """Compare learners and weightings on the rows of a table, as `plr.compare` does on features and candidate sets.

    Parameters
    ----------
    data : path, frame or Source
    asked : mapping of str to str or sequence of str
        Columns by role: ``target``, and as far as there are such, ``ignore``, ``truth``, ``prior``, ``weights``,
        ``groups``, ``row``, ``candidate_features`` and ``record``, as `plr.TableModel.fit` takes them.
    learners, weightings, cv, random_state, n_jobs
        As of `plr.compare`.
    known, prior_is, match_score, one_to_one, drop_empty
        As of `plr.TableModel.fit`.
    rows : int, optional
        Compare on so many rows, drawn at random, where there are more.
    front : FrontEnd
    **parameters
        Further parameters of `plr.PartialLabelRegressor`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).uniform(size=80)
    >>> table = {"x": x, "y": [f"{3 * value:.2f}|{place % 4}" for place, value in enumerate(x)]}
    >>> found = compare_table(table, {"target": "y"}, ["linear", "boosting"], cv=3)
    >>> found.rows, found.best.learner
    (80, 'linear')
    """
    if rows is not None:
        check_integer("rows", rows, low=2)
    if match_score is not None:
        asked, parameters["match_score"] = {**asked, "match_score": match_score}, match_score
    with front.working("Reading"):
        source = open_source(data)
        source = source.read() if isinstance(source, Folder) else source
    found = prepare_rows(
        source, asked, drop_empty=drop_empty, known=known, prior_is=prior_is, one_to_one=one_to_one, front=front
    )
    some: Any = None
    if rows is not None and rows < len(found.sets):
        some = np.sort(check_seed(random_state).permutation(len(found.sets))[:rows])
        front.note(f"Compared on {rows:,} of {len(found.sets):,} rows, drawn at random.")

    def part(values: Any) -> Any:
        return values if values is None or some is None else features_of(values, some)

    with front.working("Comparing") as tell:
        return compare(
            part(found.X),
            found.sets if some is None else found.sets[some],
            learners,
            weightings,
            known=part(found.labels),
            sample_weight=part(found.weight),
            groups=part(found.groups),
            cv=cv,
            random_state=random_state,
            n_jobs=n_jobs,
            callback=tell,
            one_to_one=one_to_one,
            **parameters,
        )
