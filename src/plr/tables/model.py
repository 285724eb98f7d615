"""`TableModel`: a regressor together with what it knows about the table it was fitted to."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr._checks import check_seed
from plr._parameters import check_choice, check_integer, check_number
from plr.candidates import CandidateSets
from plr.columns.candidates import SetColumns
from plr.columns.features import Features
from plr.errors import DataError, NotFittedError, ParameterError, unknown_name
from plr.front_end import PYTHON, FrontEnd, warn
from plr.identification import DOUBTFUL, Identification
from plr.intervals import METHODS, Calibration
from plr.persistence import save_model
from plr.regressor import PartialLabelRegressor
from plr.review import worth_checking
from plr.review_queue import ReviewQueue
from plr.sources.folder import open_source
from plr.sources.named import named_columns
from plr.sources.recipe import read_recipe
from plr.sources.source import Batch, Source, TableSource
from plr.tables.evaluation import evaluate
from plr.tables.fit_table import FitSummary, fit_table
from plr.tables.identification_columns import (
    MostDoubtful,
    as_written,
    candidate_columns,
    candidate_fields,
    count_doubt,
    exploded_columns,
    exploded_fields,
    identification_columns,
    identification_fields,
)
from plr.tables.known import check_known_column, is_column, known_labels, located, with_checked
from plr.tables.long_table import LongTable, columns_of_lines, name_rows, one_line_per_row
from plr.tables.output import Done, NewColumns, TableOutput, what_is_read
from plr.tables.roles import only_one_role
from plr.tables.row_digests import SeenRows, table_digest
from plr.tables.row_reader import RowReader, no_candidates, place_in, take_with_candidates

if TYPE_CHECKING:
    from plr.streaming.engine import Engine
    from plr.tables.fit_table import Inspect

__all__ = ["TableModel", "open_identified", "restore"]

Floats = NDArray[np.float64]
Columns = str | Sequence[str] | None

# Of a source in batches, the rows that are chosen from; and columns that tell a person what a row is.
_REVIEWED, _NAMING = 20_000, 8


class TableModel:
    """A model of a table: what each column is, and a `PartialLabelRegressor` of the features made of them.

    Numbers, dates, categories and missing values are understood. What was decided about a column when the model was
    fitted is applied to every later table, so that new tables are given as they are: as a path, or as a frame. It is
    what ``plr fit`` writes, and what `plr.load_model` returns for such a file.

    Parameters
    ----------
    regressor : PartialLabelRegressor, optional
        Fitted by `fit`, in place.
    **parameters
        Parameters of a new `PartialLabelRegressor`, where none is given.

    Attributes
    ----------
    regressor : PartialLabelRegressor
    features : Features or None
        What becomes of each column; None where the regressor was fitted without a table.
    target, aside : tuple of str
        The columns of candidates, and all columns that are no features.
    truth : str or None
        The column of true labels, where there was one.
    row : str or None
        The column of row ids, where the table had one line per candidate.
    candidate_features : tuple of str
        The columns that describe each candidate.
    record : str or None
        The column that says which record each candidate is.
    prior_is : str
        What the numbers of the prior are.
    description : dict
        What the model file says about the table, as plain values.
    page : dict or None
        What ``plr report`` shows of the training rows, where the model was loaded from a file that has it.
    summary : FitSummary or None
        What `fit` came to; None for a model that was loaded.

    Notes
    -----
    A table is a path to a file (CSV, Parquet, Feather, JSON Lines; the ending says which) or to a folder of Parquet
    files, which need not fit in memory; or a frame of pandas or Polars, a table of Arrow's, or a dictionary of columns.

    It has one line per row, with all candidates in it; or, where ``row`` names a column of row ids, one line per
    candidate, as a join gives it. A model that was fitted to such a long table takes others like it: results have one
    entry per row, in the order in which row ids appear.

    Examples
    --------
    >>> import plr
    >>> train = {
    ...     "size": [20, 35, 50, 62, 80, 95, 110, 130],
    ...     "sold": ["2024-01-05", "2024-02-11", "2024-03-02", "2024-03-30"] * 2,
    ...     "price": ["40|400", "70|7", "100|10", "124", "160|1600", "190|19", "220|22", "260"],
    ... }
    >>> model = plr.TableModel(learner="linear", random_state=0).fit(train, target="price")
    >>> model.predict({"size": [100, 55], "sold": ["2024-02-01", "2024-03-01"]}).round(0)
    array([200., 110.])
    >>> model.identify({**train, "sold": [None] * 8})["value"].to_pylist()[:4]
    [40.0, 70.0, 100.0, 124.0]
    """

    def __init__(self, regressor: PartialLabelRegressor | None = None, **parameters: Any) -> None:
        if regressor is not None and parameters:
            raise ParameterError("Give a regressor, or parameters for a new one, not both.")
        if regressor is not None and not isinstance(regressor, PartialLabelRegressor):
            raise ParameterError(
                f"regressor must be a PartialLabelRegressor, got {regressor!r}; parameters of a new one are given by "
                "name, such as TableModel(learner='linear').",
                parameter="regressor",
                value=regressor,
            )
        known = PartialLabelRegressor._get_param_names()
        for name in parameters:
            if name not in known:
                raise unknown_name("parameter", name, known)
        self.regressor = PartialLabelRegressor(**parameters) if regressor is None else regressor
        self.features: Features | None = None
        self.target: tuple[str, ...] = ()
        self.aside: tuple[str, ...] = ()
        self.truth: str | None = None
        self.row: str | None = None
        self.candidate_features: tuple[str, ...] = ()
        self.record: str | None = None
        self.prior_is = "share"
        self.description: dict[str, Any] = {}
        self.path: Path | None = None
        self.page: dict[str, Any] | None = None
        self.summary: FitSummary | None = None
        # Drawn anew by every fit.
        self._token = secrets.token_hex(16)

    def __repr__(self) -> str:
        return f"TableModel({self.regressor!r})"

    def __getstate__(self) -> dict[str, Any]:
        # The training rows are not pickled, as those of the regressor are not.
        return {**vars(self), "summary": None}

    @property
    def name(self) -> str:
        """What messages call it: its file, where it was loaded from one."""
        return "The model" if self.path is None else str(self.path)

    @property
    def diagnosis(self) -> dict[str, str] | None:
        """What was found about the data the model was fitted to, as plain values; None where nothing was."""
        return None if self.regressor.diagnosis_ is None else self.regressor.diagnosis_.brief()

    @property
    def caution(self) -> str:
        """Why the data that the model was fitted to cannot tell which candidates are true; empty where it can."""
        return "" if self.regressor.diagnosis_ is None else self.regressor.diagnosis_.caution

    @property
    def rows_worth_checking(self) -> int:
        """How many rows of training to check next; 0 where that would change little, or is not known."""
        found, prior = self.summary, self.regressor.prior_
        if found is None or found.sets is None:
            return 0
        depends = prior is not None and prior.agreement is not None
        doubtful = 0 if found.doubt is None else int(found.doubt["doubtful"])
        several = int((found.sets.unique().sizes > 1).sum())
        return worth_checking(depends, 0 if prior is None else prior.checked, several, doubtful)

    def changed_by_checked_rows(self) -> dict[str, int] | None:
        """Return what the checked rows changed about the other rows of training; None where that is not known.

        Returns
        -------
        dict or None
            Among ``rows``, those with several candidates that nobody looked at: how many are ``doubtful``, how many
            would be without the checked rows (``doubtful_without``), and in how many ``another_candidate`` is the
            likeliest.
        """
        found, before = self.summary, self._fitted().regressor._identify_without_known()
        if found is None or found.sets is None or before is None:
            return None
        now = self.regressor.identify()
        others = found.sets.unique().sizes > 1
        others[found.checked_rows or []] = False
        chosen = found.sets.offsets[:-1] + now.index
        another = before.probabilities[chosen] < before.probability * (1.0 - 1e-9)
        return {
            "rows": int(others.sum()),
            "doubtful": int((now.probability < DOUBTFUL)[others].sum()),
            "doubtful_without": int((before.probability < DOUBTFUL)[others].sum()),
            "another_candidate": int(another[others].sum()),
        }

    def fit(
        self,
        data: Any,
        target: Columns,
        *,
        ignore: Columns = None,
        text: Columns = None,
        truth: str | None = None,
        prior: Columns = None,
        prior_is: str = "share",
        weights: str | None = None,
        groups: str | None = None,
        row: str | None = None,
        candidate_features: Columns = None,
        match_score: str | None = None,
        record: str | None = None,
        one_to_one: bool | None = None,
        known: Any = None,
        drop_empty: bool = False,
        intervals: bool = True,
        identify: bool = False,
        in_batches: bool | None = None,
        scratch: str | os.PathLike[str] | None = None,
        engine: Engine | None = None,
        options: Mapping[str, Any] | None = None,
        check: Inspect | None = None,
        save: Callable[[TableModel], None] | None = None,
        front: FrontEnd = PYTHON,
    ) -> TableModel:
        """Fit the model to a table.

        Parameters
        ----------
        data : path, frame or Source
        target : str or sequence of str
            The column of candidate sets, such as lists, or texts like ``12.5|13.1``; or several columns with one
            candidate each.
        ignore : str or sequence of str, optional
            Columns that are no features.
        text : str or sequence of str, optional
            Columns of free texts, which otherwise are categories or left out: each becomes some numbers, by TF-IDF of
            pieces of three and four characters and the singular value decomposition.
        truth : str, optional
            The column of true labels, if there is one; it is left out of the features.
        prior : str or sequence of str, optional
            The columns that say how likely each candidate is, in the form of the target.
        prior_is : str, default="share"
            What these numbers are, as of `plr.CandidateSets`.
        weights, groups : str, optional
            The columns of sample weights, and of groups whose rows stay together where folds are made.
        row : str, optional
            The column of row ids, where the table has one line per candidate; ``target`` then is the column of
            candidate values. The lines of a row may be anywhere, and must agree in what is no column of candidates.
        candidate_features : str or sequence of str, optional
            The columns that describe each candidate, such as a match score, in the form of the target.
        match_score : str, optional
            The column of ``candidate_features`` that is a score, the larger the more believable; added to them where
            they do not name it. Sets the parameter of the regressor.
        record : str, optional
            The column that says which record each candidate is, in the form of the target.
        one_to_one : bool, optional
            Sets the parameter of the regressor: whether no two rows can have the same record as their truth.
        known : str, path, frame, or list of paths or frames, optional
            The true labels of rows that somebody looked up: a column of the table, empty elsewhere; or a table, as
            `review` returns it, with ``value`` and ``row``, the row id or else its number from 0. Further columns are
            ``record``, ``answer`` and ``probability``, as of `PartialLabelRegressor.fit`. Of several tables, the last
            that says something of a row counts. Where five or more labels are known, candidates are rounded to as many
            decimals as these have before the two are compared; otherwise they may differ by a millionth.
        drop_empty : bool, default=False
            Leave out rows without a candidate; otherwise they are an error.
        intervals : bool, default=True
            Calibrate intervals, which takes about as long as the fit, and next to no time with the default learner.
        identify : bool, default=False
            Fit the folds that `identify` of the training rows needs, where the learner has not made them on the way.
        in_batches : bool, optional
            Read Parquet files in batches, so that they need not fit in memory; by default folders of 256 MiB and more
            are. The learner is then ``mlp``, ``linear`` or a torch module.
        scratch : path, optional
            Folder for the shuffled copy of the rows that training in batches needs, removed afterwards; one that a
            stopped fit left behind is resumed from. By default a temporary folder.
        engine : Engine, optional
            Where training in batches is done: here, unless given.
        options : mapping, optional
            How the fit was asked for, as plain values, to be kept in the model file.
        check : callable, optional
            Called before training with the source, the roles of its columns, the features and, where the rows are in
            memory, their table, to refuse what was prepared.
        save : callable, optional
            Called with the fitted model before ``scratch`` is removed.
        front : FrontEnd
            Receives messages about progress and columns.

        Returns
        -------
        self
        """
        asked = {"target": target, "ignore": ignore, "truth": truth, "prior": prior, "weights": weights}
        asked |= {"groups": groups, "row": row, "candidate_features": candidate_features, "record": record}
        asked["text"] = text
        if match_score is not None:
            self.regressor.set_params(match_score=match_score)
            asked["match_score"] = match_score
        if one_to_one is not None:
            self.regressor.set_params(one_to_one=one_to_one)
        fitted = fit_table(
            self.regressor,
            data,
            asked,
            drop_empty=drop_empty,
            intervals=intervals,
            identify=identify,
            in_batches=in_batches,
            scratch=scratch,
            engine=engine,
            inspect=check,
            save=None if save is None else lambda found: save(self._take(found, options)),
            front=front,
            known=known,
            prior_is=prior_is,
        )
        return self._take(fitted, options)

    def _take(self, fitted: FitSummary, options: Mapping[str, Any] | None) -> TableModel:
        roles = fitted.roles
        self.features, self.target, self.aside = fitted.features, tuple(roles.target), tuple(roles.aside)
        self.truth = roles.truth[0] if roles.truth else None
        self.row, self.record = roles.sets.row, roles.sets.record
        self.candidate_features, self.prior_is = tuple(roles.candidate_features), roles.prior_is
        self.description = {**fitted.describe(), "options": dict(options or {})}
        self.path, self.page, self.summary, self._token = None, None, fitted, secrets.token_hex(16)
        return self

    def predict(self, data: Any) -> Floats:
        """Return one prediction per row.

        Parameters
        ----------
        data : path, frame or Source
            With the columns of the training table; others are ignored.

        Returns
        -------
        ndarray of shape (n,)
            Of a long table, one for each row id, in the order in which they appear.
        """
        return self._map(data, self.regressor.predict)

    def _map(self, data: Any, function: Callable[[Any], Floats]) -> Floats:
        return np.concatenate(self._parts(data, function))

    def _parts(self, data: Any, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function makes of the features of each batch."""
        source = self._fitted().one_line_per_row(open_source(data))
        reader = RowReader(self, source)
        parts = [function(reader.read_batch(batch)) for batch in source.batches()]
        reader.tell(PYTHON)
        return parts

    def predict_interval(self, data: Any, coverage: float = 0.9, method: str = "adaptive") -> Floats:
        """Return an interval around each prediction, as `PartialLabelRegressor.predict_interval` does.

        Parameters
        ----------
        data : path, frame or Source
        coverage : float, default=0.9
            The share of new rows whose true label is to be in its interval.
        method : {"adaptive", "constant", "guaranteed"}, default="adaptive"

        Returns
        -------
        ndarray of shape (n, 2)
        """
        self._check_intervals(PYTHON)
        return self._map(data, lambda X: self.regressor.predict_interval(X, coverage, method))

    def predict_set(self, data: Any, coverage: float = 0.9) -> list[Floats]:
        """Return the most probable labels of each row in one piece or several, as `PartialLabelRegressor.predict_set`.

        Parameters
        ----------
        data : path, frame or Source
        coverage : float, default=0.9
            The share of new rows whose true label is to be in its set.

        Returns
        -------
        list of ndarray of shape (k, 2)
        """
        self._check_intervals(PYTHON)
        parts = self._parts(data, lambda X: self.regressor.predict_set(X, coverage))
        return [pieces for part in parts for pieces in part]

    def identify(
        self,
        data: Any = None,
        *,
        target: Columns = None,
        prior: Columns = None,
        row: str | None = None,
        record: str | None = None,
        all_candidates: bool = False,
    ) -> pa.Table:
        """Say which candidate of each row is the true one, and how sure that is.

        Parameters
        ----------
        data : path, frame or Source, optional
            With candidates, and the columns of the training table. Without it, the rows of training, each assessed by
            models that have not seen it.
        target, prior, row, record : str or sequence of str, optional
            The columns of candidates, of how likely each is, of row ids and of records; as in training, unless given.
        all_candidates : bool, default=False
            Return one line for each candidate in place of one for each row: for those of a long table in its order.

        Returns
        -------
        pyarrow.Table
            One row for each: ``value``, ``probability`` and ``index`` (counted from 0) of the likeliest candidate, and
            ``source``, the column it came from, where each candidate has a column of its own. Empty cells where there
            is no candidate. Of a long table, the row id comes first, and ``record`` last where there are records.
            With ``all_candidates``, of a long table the row id, the ``probability`` of each candidate, and whether it
            is ``chosen``; of others the number of the ``row``, the columns above for each candidate, and ``chosen``.
        """
        if data is None:
            trained = self._training_rows()
            assert trained.sets is not None
            identified, sets, source = self.regressor.identify(), trained.sets, trained.source
            if all_candidates:
                found = pa.table(_all_columns(identified, sets, source, self.target))
            else:
                found = pa.table(identification_columns(identified, sets, self.target, source.rows))
            return _keyed(found, source, identified, sets, all_candidates)
        columns = _Identifying(
            self._fitted(),
            open_source(data),
            {"target": target, "prior": prior, "row": row, "record": record},
            PYTHON,
            all_candidates=all_candidates,
        )
        found = pa.concat_tables(pa.table(columns(batch)[0]) for batch in columns.source.batches())
        columns.reader.tell(PYTHON)
        return _keyed(found, columns.source, columns.found, columns.sets, all_candidates)

    def review(
        self,
        n: int = 20,
        data: Any = None,
        *,
        target: Columns = None,
        prior: Columns = None,
        row: Columns = None,
        record: Columns = None,
        known: Any = None,
        random_state: object = None,
        front: FrontEnd = PYTHON,
    ) -> pa.Table:
        """Choose the rows that are most worth checking next, as `PartialLabelRegressor.review` does.

        Parameters
        ----------
        n : int, default=20
            How many; fewer where there are not as many left.
        data : path, frame or Source, optional
            Rows to choose from, with candidates; a sample of those that are read in batches. Without it, the rows of
            training that have not been checked.
        target, prior, row, record : str or sequence of str, optional
            As of `identify`.
        known : str, path, frame, or list of paths or frames, optional
            What is known of the rows of ``data``, as of `fit`; rows that somebody looked at are not chosen again, nor
            are those that the model was fitted with, where the model file has training rows.
        random_state : int, RandomState or None, default=None
        front : FrontEnd

        Returns
        -------
        pyarrow.Table
            What `fit` takes as ``known`` once it is filled in. One line for each row: ``row``, its id in a long table,
            or else its number from 0; columns that tell what it is; ``candidates``, with probabilities and records, as
            a text; ``value``, ``record`` and ``answer``, empty, to be filled in; ``chosen`` (``review`` or ``random``)
            and ``probability``, with which the row was chosen.
        """
        if data is None:
            if known is not None:
                raise ParameterError(
                    "{parameter} says what is known of the rows of a table; give the table.", parameter="known"
                )
            found = self._training_rows()
            assert found.table is not None
            assert found.sets is not None
            review = self.regressor.review(n, random_state=random_state)
            numbers = np.arange(len(found.sets)) if found.sets.kept is None else found.sets.kept
            hidden = {*found.roles.sets.names, *found.roles.truth, *columns_of_lines(found.source)}
            naming = self._naming(found.table, hidden)
            return ReviewQueue.of(review, name_rows(found.source, numbers), naming).to_table()
        whole = open_source(data)
        asked = {"target": target, "prior": prior, "row": row, "record": record}
        columns = self._fitted().set_columns(whole, asked, front)
        aside = [known] if known is not None and is_column(known, whole) else []
        source = self.one_line_per_row(whole, columns, aside, front=front)
        every, numbers = source.sample(_REVIEWED, check_seed(random_state).randint(2**31 - 1))
        part = every.num_rows / source.rows
        table, sets, place = take_with_candidates(every, columns, source, numbers, drop_empty=True, front=front)
        labels = None
        if known is not None:
            if source.in_batches:
                check_known_column(known, source, front)
            labels = known_labels(known, source, every, sets.kept, front, numbers)
        numbers = numbers if sets.kept is None else numbers[sets.kept]
        reader = RowReader(self, source, [*columns.names, *aside])
        X = reader.read(table, place)
        reader.tell(front)
        checked = self.description.get("checked_rows")
        if isinstance(checked, list) and self.regressor._row_digests is not None:
            labels = with_checked(labels, np.isin(SeenRows(self.regressor).find(X, sets), checked))
        with located(source, place):
            review = self.regressor.review(n, X, sets, labels, random_state)
        naming = self._naming(table, {*columns.names, *aside, self.truth, *columns_of_lines(source)})
        return ReviewQueue.of(review, name_rows(source, numbers), naming).scaled(part).to_table()

    def _naming(self, table: pa.Table, hidden: Collection[str | None]) -> dict[str, list[Any]]:
        """Return the cells of columns that tell a person what a row is: those that are no features first."""
        used = set() if self.features is None else {column.name for column in self.features.used}
        names = sorted((name for name in table.column_names if name not in hidden), key=used.__contains__)
        return {name: table[name].to_pylist() for name in names[:_NAMING]}

    def evaluate(
        self,
        data: Any,
        truth: str | None = None,
        *,
        target: Columns = None,
        prior: Columns = None,
        row: str | None = None,
        record: str | None = None,
        interval: float = 0.9,
        front: FrontEnd = PYTHON,
    ) -> dict[str, Any]:
        """Compare predictions with true labels and, where there are candidates, choices with the true ones.

        Parameters
        ----------
        data : path, frame or Source
        truth : str, optional
            The column of true labels, as in training unless given; rows where it is empty are left out.
        target, prior, row, record : str or sequence of str, optional
            As of `identify`.
        interval : float, default=0.9
            Share of true labels that intervals are to hold.
        front : FrontEnd

        Returns
        -------
        dict
            Plain values: ``rmse``, ``mae``, ``r2`` and more. Training rows are scored by models that have not seen
            them, where such are known, and counted in ``rows_trained_on``. ``interval`` is about adaptive intervals:
            ``asked``, ``coverage`` and its standard error ``coverage_error``, ``mean_width``, ``interval_score`` (the
            lower, the better), what they rest on (``assumes``), and in ``by_width`` the ``rows``, ``mean_width``,
            ``coverage`` and ``coverage_error`` of each tenth of the rows, from the narrowest intervals to the widest;
            it is empty where all are as wide.
        """
        asked = {"truth": truth, "target": target, "prior": prior, "row": row, "record": record}
        return evaluate(self._fitted(), open_source(data), asked, interval, front)

    def save(
        self, path: str | os.PathLike[str], *, page: Mapping[str, Any] | None = None, training_rows: bool = True
    ) -> None:
        """Write the model to a file that `plr.load_model` and the command line read.

        Parameters
        ----------
        path : path
            Replaced if it exists.
        page : mapping, optional
            What ``plr report`` shows of the training rows, as `plr.report.training_rows` makes it; by default that of
            the file the model was loaded from, unless ``training_rows`` are left out.
        training_rows : bool, default=True
            As of `plr.save_model`.
        """
        extra: dict[str, Any] = {} if self.features is None else {"table": self.description}
        if page is None and training_rows:
            page = self.page
        if page is not None:
            extra["page"] = dict(page)
        save_model(self._fitted().regressor, path, extra=extra, training_rows=training_rows)

    def write_predictions(
        self,
        data: Any,
        out: Path | None = None,
        *,
        interval: float | None = None,
        method: str | None = None,
        prefix: str = "",
        cells: bool = False,
        front: FrontEnd = PYTHON,
    ) -> Done:
        """Write a table with predictions beside its columns.

        Parameters
        ----------
        data : path, frame or Source
        out : path, optional
            A file, whose ending says the format; for a folder also a folder, of as many files, in which a run that was
            stopped is resumed. Without it, CSV on stdout.
        interval : float, optional
            Also write lower and upper ends that hold this share of the true values.
        method : {"adaptive", "constant", "guaranteed"}, optional
            How intervals are made, as `predict_interval` says; adaptive by default.
        prefix : str
            Put before the names of the new columns.
        cells : bool, default=False
            Return the new cells in place of writing them, where ``out`` is not given.
        front : FrontEnd
        """
        if method is not None:
            check_choice("method", method, METHODS)
            if interval is None:
                raise ParameterError(
                    f"{front.option('method', method)} is about intervals; say how sure they are to be, such as "
                    f"{front.option('interval', 0.9)}."
                )
        if interval is not None:
            check_number("interval", interval, low=0, open_low=True, below=1)
            self._check_intervals(front)
            method = method or METHODS[0]
            if told := _in_words(self.regressor.calibrate(), interval, method):
                front.note(told)
        source = self._fitted().one_line_per_row(open_source(data), front=front)
        names = [prefix + name for name in ("prediction", *(("lower", "upper") if interval is not None else ()))]
        fields = [pa.field(name, pa.float64()) for name in names]
        made = self._made("predict", source, {"interval": interval, "method": method, "prefix": prefix})
        output = TableOutput(source, out, fields, made, written=not cells or out is not None, front=front)
        reader = RowReader(self._fitted(), source)

        def columns(batch: Batch) -> tuple[dict[str, Floats], dict[str, float]]:
            X = reader.read_batch(batch)
            made = [self.regressor.predict(X)]
            if interval is not None and method is not None:
                made += list(self.regressor.predict_interval(X, interval, method).T)
            return dict(zip(names, made, strict=True)), {}

        if cells and out is None:
            done = output.collect("Predicting", columns, _keys(source))
        else:
            done = output.map("Predicting", columns)
        if done.files_skipped < done.files:
            reader.tell(front)
        return done

    def write_identified(
        self,
        data: Any = None,
        out: Path | None = None,
        *,
        target: Columns = None,
        prior: Columns = None,
        row: str | None = None,
        record: str | None = None,
        all_candidates: bool = False,
        doubtful: int | None = None,
        prefix: str = "",
        cells: bool = False,
        front: FrontEnd = PYTHON,
    ) -> Done:
        """Write a table with the likeliest candidate of each row beside its columns, as `identify` finds it.

        Of a long table, the line of the likeliest candidate is written for each row; with ``all_candidates``, all lines
        with the probability of each. Of other tables, each row is then repeated for each of its candidates.

        Parameters
        ----------
        data, target, prior, row, record, all_candidates
            As of `identify`.
        out, prefix, cells, front
            As of `write_predictions`.
        doubtful : int, optional
            Write only this many rows, the most doubtful first, each with its number.
        """
        if data is None:
            asked = (target, prior, row, record, doubtful)
            if cells or all_candidates or any(option is not None for option in asked):
                raise ParameterError(
                    "doubtful, cells, target and prior, as row, record and all_candidates, are for rows that are "
                    "given; leave them out."
                )
            trained = self._training_rows()
            assert trained.sets is not None
            identified, source = self.regressor.identify(), trained.source
            new = as_written(identification_columns(identified, trained.sets, self.target, source.rows))
            source = _chosen_lines(source, identified, trained.sets)
            output = open_identified(source, out, self.target, prefix, front=front)
            return output.map("Writing", lambda _: ({prefix + name: cells for name, cells in new.items()}, {}))
        numbered = doubtful is not None
        if doubtful is not None:
            check_integer("doubtful", doubtful, low=1)
            if all_candidates:
                raise ParameterError(
                    f"{front.option('doubtful')} is about rows, and {front.option('all_candidates')} about candidates; "
                    "leave one of them out."
                )
        columns = _Identifying(
            self._fitted(),
            open_source(data),
            {"target": target, "prior": prior, "row": row, "record": record},
            front,
            prefix,
            numbered,
            all_candidates,
            written=True,
        )
        source = columns.source
        rows = source.rows
        collected, keys = cells and out is None, _keys(source)
        fields = candidate_fields() if all_candidates else None
        make: NewColumns = columns
        if all_candidates and isinstance(source, TableSource) and not isinstance(source, LongTable):
            fields = exploded_fields(columns.target)
            open_identified(source, out, columns.target, prefix, written=not collected, front=front, fields=fields)
            new, counts = columns(next(source.batches()))
            take = new[prefix + "row"]
            texts = None if source.texts is None else source.texts.take(take)
            source = TableSource(source.table.take(take), source.path, texts)
            make = lambda _: (new, counts)  # noqa: E731
        if isinstance(source, LongTable):
            # A row has an id in place of a number. An output that cannot be written is refused before any work is done.
            numbered = False
            open_identified(
                source.lines, out, columns.target, prefix, written=not collected, front=front, fields=fields
            )
            new, counts = columns(next(source.batches()))
            source = source.lines if all_candidates else _chosen_lines(source, columns.found, columns.sets)
            make = lambda _: (new, counts)  # noqa: E731
        asked_for = {"target": columns.target, "prior": columns.prior, "prefix": prefix}
        made = self._made("identify", source, asked_for)
        output = open_identified(
            source,
            out,
            columns.target,
            prefix,
            made,
            written=not collected,
            numbered=numbered,
            front=front,
            fields=fields,
        )
        if doubtful is None:
            done = output.collect("Identifying", make, keys) if collected else output.map("Identifying", make)
        else:
            if output.is_folder:
                raise ParameterError(
                    f"{front.option('doubtful')} writes one table; name a file with {front.option('out')}, such as "
                    f"{out}.parquet."
                )
            chosen = MostDoubtful(doubtful, prefix + "probability")
            counts = dict(output.scan("Identifying", make, chosen.add))
            table = output.schema.empty_table() if chosen.rows is None else chosen.rows
            names = [added.name for added in output.fields]
            shown = {name: table[name].to_pylist() for name in (*keys, *names)} if collected else {}
            done = Done(source, output.out, table.num_rows, names, len(source.files), counts=counts, cells=shown)
        without = int(done.counts.get("without", 0))
        if without == rows:
            raise no_candidates(source, columns.target)
        if without:
            front.note(f"{without:,} of {rows:,} rows have no candidate and get no answer.")
        if done.files_skipped < done.files:
            columns.reader.tell(front)
        if columns.seen:
            warn(
                "The model was trained on these rows and has seen their candidates; fitted with "
                f"{front.option('identify', True)}, it assesses each row by models that have not."
            )
        elif self.was_fitted_to_files(source):
            warn(
                "The model was trained on this very folder and has seen these candidates, which matters little where "
                "rows are many."
            )
        if doubtful is not None and not collected:
            output.write_one(table.cast(output.schema))
        return done

    def truth_column(
        self, source: Source, asked: Columns, target: Sequence[str], front: FrontEnd = PYTHON
    ) -> str | None:
        """Return the column of true labels: the one asked for, or that of the table's recipe or of training, if any."""
        recipe = read_recipe(source.schema, source) or {}
        known = [*named_columns("truth", asked, source.schema.names, source), recipe.get("truth_column"), self.truth]
        found = next((name for name in known if isinstance(name, str) and name in source.schema.names), None)
        only_one_role(found, "truth", target, front)
        return found

    def prior_columns(self, source: Source, asked: Columns, target: Columns, front: FrontEnd = PYTHON) -> list[str]:
        """Return the columns of priors: those asked for, or those of training where the candidates are those, too."""
        if asked is not None:
            return named_columns("prior", asked, source.schema.names, source)
        names = source.schema.names
        roles = self.description.get("roles")
        trained = roles.get("prior") if isinstance(roles, dict) else None
        if not trained:
            return []
        known = [trained] if trained in names else [name.strip() for name in str(trained).split(",")]
        if target is None and set(known) <= set(names):
            front.note(f"How likely each candidate is beforehand: {trained!r}, as in training.")
            return known
        warn(
            f"The model was trained with the prior {trained!r}, which is not used here; name it with "
            f"{front.option('prior')}."
        )
        return []

    def target_columns(self, source: Source, asked: Columns) -> list[str]:
        """Return the columns of candidates: those asked for, or those of training."""
        if asked is not None:
            return named_columns("target", asked, source.schema.names, source)
        if not self.target:
            raise ParameterError(
                f"{self.name} does not say which column holds the candidates; name it with {{parameter}}.",
                parameter="target",
            )
        absent = [repr(name) for name in self.target if name not in source.schema.names]
        if absent:
            raise ParameterError(
                f"{source} lacks {', '.join(absent)}, which held the candidates in training; name "
                f"{'it' if len(self.target) == 1 else 'the columns'} with {{parameter}}.",
                parameter="target",
            )
        return list(self.target)

    def set_columns(self, source: Source, asked: Mapping[str, Columns], front: FrontEnd = PYTHON) -> SetColumns:
        """Return the columns that hold the candidate sets of a table: those asked for, or those of training.

        Parameters
        ----------
        source : Source
        asked : mapping
            Any of ``target``, ``prior``, ``row`` and ``record``.
        front : FrontEnd
        """
        target = self.target_columns(source, asked.get("target"))
        prior = self.prior_columns(source, asked.get("prior"), asked.get("target"), front)
        learned, names = self.regressor.prior_, source.schema.names
        needed = [] if learned is None else [*learned.columns.numbers, *learned.columns.levels]
        absent = [name for name in needed if name not in names]
        if absent:
            raise DataError(
                f"{source} lacks {', '.join(map(repr, absent))}: what describes each candidate, which the model has "
                "learned to go by; add "
                f"{'it' if len(absent) == 1 else 'them'} to the table.",
                column=absent[0],
                source=source.path,
            )
        record = self._column(source, asked.get("record"), "record", self.record)
        if record is None and learned is not None and learned.held:
            raise DataError(
                f"{source} lacks {self.record!r}, which says which record each candidate is: the model was fitted with "
                f"{front.option('one_to_one', True)}; name the column with {{parameter}}.",
                parameter="record",
            )
        row = self._column(source, asked.get("row"), "row", self.row)
        if row is None and self.row is not None:
            raise ParameterError(
                f"{source} lacks {self.row!r}, which said in training which row each line belongs to; name the column "
                "with {parameter}.",
                parameter="row",
            )
        return SetColumns(tuple(target), tuple(prior), tuple(needed), record, row, self.prior_is)

    def one_line_per_row(
        self,
        source: Source,
        columns: SetColumns | None = None,
        more: Sequence[str] = (),
        row: Columns = None,
        front: FrontEnd = PYTHON,
    ) -> Source:
        """Return a source with one line per row: itself, or the rows of a long table.

        Parameters
        ----------
        source : Source
        columns : SetColumns, optional
            The columns of candidates; without them, the rows alone are read.
        more : sequence of str
            Columns beside the features that belong to the row.
        row : str, optional
            The column of row ids where there are no ``columns``; as in training, unless given.
        front : FrontEnd
        """
        if columns is None:
            record = [] if self.record is None else [self.record]
            aside = (*self.target, *self.candidate_features, *record, *self._trained_prior(source))
            columns = SetColumns((), features=aside, row=self._column(source, row, "row", self.row))
        used = () if self.features is None else self.features.used
        return one_line_per_row(source, columns, {*(column.name for column in used), *more}, front)

    def _column(self, source: Source, asked: Columns, role: str, trained: str | None) -> str | None:
        """Return the one column of a role: the one asked for, or that of training where the table has it."""
        named = named_columns(role, asked, source.schema.names, source)
        if len(named) > 1:
            raise ParameterError(f"{{parameter}} takes one column, not {len(named)}.", parameter=role)
        return named[0] if named else trained if trained in source.schema.names else None

    def _trained_prior(self, source: Source) -> list[str]:
        """Return the columns of the prior in training, as far as a table has them."""
        roles = self.description.get("roles")
        trained = str(roles.get("prior") or "") if isinstance(roles, dict) else ""
        names = source.schema.names
        known = [trained] if trained in names else [name.strip() for name in trained.split(",")]
        return [name for name in known if name in names]

    def was_fitted_to_files(self, source: Source) -> bool:
        """Return whether these are the very files of training, where they were read in batches."""
        fingerprint = source.fingerprint()
        return fingerprint is not None and self.description.get("fingerprint") == fingerprint

    def was_fitted_to(self, X: Any, sets: Any) -> bool:
        """Return whether these are the rows of training, in their order."""
        digest = self.description.get("digest")
        return isinstance(digest, str) and isinstance(X, pa.Table) and table_digest(X, sets) == digest

    def _check_intervals(self, front: FrontEnd) -> None:
        if self._fitted().regressor.calibration_ is None and self.regressor._training is None:
            raise NotFittedError(
                f"{self.name} cannot give intervals, since it was fitted with {front.option('intervals', False)}; fit "
                "it again without that."
            )

    def _fitted(self) -> TableModel:
        if not hasattr(self.regressor, "model_"):
            raise NotFittedError("This TableModel is not fitted yet; call fit(data, target=...) first.")
        return self

    def _training_rows(self) -> FitSummary:
        self._fitted()
        if self.summary is None or self.summary.sets is None:
            raise NotFittedError(
                "The training rows are not kept with a model that was loaded or fitted in batches; give the rows."
            )
        return self.summary

    def _made(self, verb: str, source: Source, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return what makes new columns, as plain values: it tells this model's answers from those of others."""
        identity = None
        if source.in_batches and self.path is None:
            identity = self._token
        elif source.in_batches and self.path is not None:
            with self.path.expanduser().open("rb") as file:
                identity = hashlib.file_digest(file, "sha256").hexdigest()
        return {"verb": verb, "model": identity, "options": {**options, "read": what_is_read(source)}}


class _Identifying:
    """Makes the columns that say which candidates are true, of one batch after another."""

    def __init__(
        self,
        model: TableModel,
        source: Source,
        asked: Mapping[str, Columns],
        front: FrontEnd,
        prefix: str = "",
        numbered: bool = False,
        all_candidates: bool = False,
        written: bool = False,
    ) -> None:
        columns = model.set_columns(source, asked, front)
        self.columns, self.target, self.prior = columns, list(columns.target), list(columns.prior)
        self.source = model.one_line_per_row(source, columns, front=front)
        if all_candidates and self.source.in_batches:
            raise ParameterError(
                f"{{parameter}} writes one line for each candidate, and of {self.source}, which is read in batches, "
                f"one line for each row is written; leave it out, or give a file.",
                parameter="all_candidates",
            )
        self.reader = RowReader(model, self.source, columns.names)
        self.seen = False
        self.found: Identification | None = None
        self.sets: CandidateSets | None = None
        self._model, self._prefix, self._all, self._written = model, prefix, all_candidates, written
        self._numbered = numbered and columns.row is None
        learned, regressor = model.regressor.prior_, model.regressor
        held = learned is not None and learned.held and regressor._row_digests is not None
        self._trained = SeenRows(regressor) if held else None

    def __call__(self, batch: Batch) -> tuple[dict[str, Any], dict[str, float]]:
        source, table, place, rows = self.source, batch.table, place_in(self.source, batch.first), batch.table.num_rows
        sets = self.columns.read(table, source, batch.first)
        counts: dict[str, float] = {"without": rows - len(sets)}
        found = None
        if len(sets):
            if sets.kept is not None:
                table, place = table.take(pa.array(sets.kept)), place_in(source, batch.first + sets.kept)
            X = self.reader.read(table, place)
            # Rows of training, given again, have their records themselves.
            trained = None if self._trained is None else self._trained.find(X, sets) >= 0
            found = self._model.regressor._identify_rows(X, sets, trained=trained)
            counts |= count_doubt(found, sets)
            self.seen = rows == source.rows and self._model.was_fitted_to(X, sets)
        elif rows == source.rows:
            raise no_candidates(source, self.target)
        self.found, self.sets = found, sets
        new: dict[str, Any] = {"row": np.arange(batch.first, batch.first + rows)} if self._numbered else {}
        if self._all:
            assert found is not None
            new |= _all_columns(found, sets, source, self.target)
        else:
            new |= identification_columns(found, sets, self.target, rows)
        if self._written:
            new = as_written(new)
        return {self._prefix + name: values for name, values in new.items()}, counts


def _in_words(calibration: Calibration, coverage: float, method: str) -> str:
    """Return what intervals rest on, in a sentence; empty where they need nothing but rows like those of training."""
    if not calibration.assumes:
        return ""
    if method != "guaranteed":
        return f"Intervals hold as often as asked if {calibration.assumes}."
    tolerance = calibration.tolerance
    if tolerance is not None and tolerance.covered[-1] >= coverage:
        return (
            "Intervals hold as often as asked with 95 % confidence, if the checked rows were drawn at random from rows "
            "like these."
        )
    return "Intervals hold as often as asked if each row's candidates include its true value, even the farthest one."


def _keys(source: Source) -> tuple[str, ...]:
    """Return the column that names the rows of a long table, if it is one."""
    return (source.row,) if isinstance(source, LongTable) else ()


def _all_columns(
    found: Identification, sets: CandidateSets, source: Source, target: Sequence[str]
) -> dict[str, pa.Array]:
    """Return what is said of each candidate: one line each, as a long table has, or as rows that are repeated get."""
    if isinstance(source, LongTable):
        return candidate_columns(found, sets, source)
    return exploded_columns(found, sets, target, source.rows)


def _chosen_lines(source: Source, found: Identification | None, sets: CandidateSets | None) -> Source:
    """Return the lines of the likeliest candidates of a long table; other tables as they are."""
    if not isinstance(source, LongTable):
        return source
    assert found is not None
    assert sets is not None
    return source.chosen_lines(np.arange(len(sets)) if sets.kept is None else sets.kept, found.index)


def _keyed(
    found: pa.Table,
    source: Source,
    identified: Identification | None,
    sets: CandidateSets | None,
    all_candidates: bool,
) -> pa.Table:
    """Return what was found about the rows of a long table with their ids, and the records of the answers."""
    if not isinstance(source, LongTable):
        return found
    lines = source.lines.table
    ids = lines[source.row]
    names = [name for name in found.column_names if name != source.row]
    if all_candidates:
        return pa.table({source.row: ids, **{name: found[name] for name in names}})
    chosen = _chosen_lines(source, identified, sets)
    assert isinstance(chosen, TableSource)
    keyed = {source.row: chosen.table[source.row], **{name: found[name] for name in names}}
    if sets is not None and sets.record is not None:
        assert identified is not None
        records = np.full(source.rows, None, dtype=object)
        kept = np.arange(len(sets)) if sets.kept is None else sets.kept
        records[kept] = sets.record[sets.offsets[:-1] + identified.index]
        keyed["record"] = pa.array([text or None for text in records], pa.string())
    return pa.table(keyed)


def open_identified(
    source: Source,
    out: Path | None,
    target: Sequence[str],
    prefix: str = "",
    made: Mapping[str, Any] | None = None,
    *,
    written: bool = True,
    numbered: bool = False,
    front: FrontEnd = PYTHON,
    fields: Sequence[pa.Field] | None = None,
) -> TableOutput:
    """Open the output of `TableModel.write_identified`, or refuse it."""
    source = source.lines if isinstance(source, LongTable) else source
    if fields is None:
        fields = [*([pa.field("row", pa.int64())] if numbered else []), *identification_fields(target)]
    fields = [added.with_name(prefix + added.name) for added in fields]
    return TableOutput(source, out, fields, made or {}, written=written, front=front)


def restore(regressor: PartialLabelRegressor, extra: Mapping[str, Any], path: Path | None = None) -> TableModel:
    """Return the model of a table from what its file says beside the regressor; a file may come from anywhere."""
    model, written = TableModel(regressor), extra["table"]
    model.path, model.description = path, dict(written)
    model.page = extra["page"] if isinstance(extra.get("page"), dict) else None
    model.features = Features.from_dict(written.get("features"))
    model.target, model.aside = _texts(written.get("target")), _texts(written.get("aside"))
    for name in ("truth", "row", "record"):
        setattr(model, name, written.get(name) if isinstance(written.get(name), str) else None)
    model.candidate_features = _texts(written.get("candidate_features"))
    model.prior_is = written["prior_is"] if isinstance(written.get("prior_is"), str) else "share"
    return model


def _texts(written: Any) -> tuple[str, ...]:
    return tuple(entry for entry in written if isinstance(entry, str)) if isinstance(written, list) else ()
