"""Fit a regressor to a table: from the rows of a source to features and candidate sets, then training.

A source whose rows are in memory is fitted as arrays are. One in batches is trained on in batches
(`plr.streaming.folder_fit`), by the learners that can.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from plr.candidates import CandidateSets
from plr.candidates.known import CheckedRows
from plr.columns.features import Features, learn_features
from plr.columns.kinds import MANY_TEXTS
from plr.columns.targets import read_target
from plr.diagnosis import Diagnosis, check, find_dependence
from plr.errors import DataNotFoundError, DependentLabelsWarning, ParameterError, PlrError
from plr.front_end import PYTHON, FrontEnd, listed, warn
from plr.identification import Identification
from plr.learners import MLP, Linear, Module
from plr.memory import available_memory, readable
from plr.priors.dependence import Dependence
from plr.priors.learned import check_one_to_one
from plr.priors.utilities import UtilityModel
from plr.regressor import PartialLabelRegressor
from plr.sources.files import FORMATS, STANDARD_INPUT
from plr.sources.folder import Folder, open_source
from plr.sources.source import Source, TableSource
from plr.streaming.engine import Engine
from plr.streaming.folder_fit import STREAMED, FolderFit, fit_folder
from plr.streaming.folder_rows import Reading
from plr.streaming.known_rows import learn_prior
from plr.tables.identification_columns import count_doubt, doubt_of
from plr.tables.known import (
    check_known,
    check_known_column,
    describe_checked,
    is_column,
    known_labels,
    located,
    names_of_known,
)
from plr.tables.long_table import find_row_column, one_line_per_row
from plr.tables.roles import Asked, Roles, read_roles, warn_of_truths
from plr.tables.row_digests import row_digests, table_digest
from plr.tables.row_reader import take_with_candidates
from plr.training import may_depend

__all__ = ["FitSummary", "Inspect", "Prepared", "check_table", "fit_table", "open_in_batches", "prepare_rows"]

Inspect = Callable[[Source, Roles, Features, pa.Table | None], None]
"""Looks at what was prepared for training: the source, its columns, and the rows' features where they are in memory."""

# Rows of a source in batches that decide what each column is.
_LOOKED_AT = 100_000
# A folder smaller than this is read as one table, as a file is.
_SMALL = 256 << 20
# What learners in memory need besides the table itself, at least: so many times its size.
_COPIES = 4
_CAN_STREAM = ("auto", *STREAMED)
# Of more checked rows than this, a model file does not say which they were.
_MOST_CHECKED = 100_000


@dataclass(frozen=True)
class FitSummary:
    """What fitting to a table came to.

    Attributes
    ----------
    source : Source
    roles : Roles
    features : Features
    rows, left_out, candidates : int
        Rows that were learned from, rows without a candidate, and all candidates.
    named : dict of str to str
        Columns by role, as the user named them.
    X, sets, table : pyarrow.Table, CandidateSets, pyarrow.Table, or None
        The rows that were learned from, where they are in memory.
    identified : Identification or None
        Which candidates are true, by models that have not seen the row.
    held_out, sample, disk : int or None
        Of a fit in batches: rows that were held out of training, rows of the sample, and bytes of the shuffled copy.
    resumed : bool
        Whether a fit that had been stopped was resumed.
    checked : dict or None
        How many rows were checked, and what was found there; None where none was.
    checked_rows : list of int or None
        Which of the rows that were learned from these are; None where that is not kept.
    known : list of str
        Where their labels are: a column of the table, or names of files; empty where they were given as frames.
    """

    source: Source
    roles: Roles
    features: Features
    rows: int
    left_out: int
    candidates: int
    named: dict[str, str]
    X: pa.Table | None = None
    sets: CandidateSets | None = None
    table: pa.Table | None = None
    identified: Identification | None = None
    held_out: int | None = None
    sample: int | None = None
    disk: int | None = None
    resumed: bool = False
    checked: dict[str, Any] | None = None
    checked_rows: list[int] | None = None
    known: list[str] = field(default_factory=list)

    @property
    def doubt(self) -> dict[str, Any] | None:
        """How many rows are settled and in doubt, as plain values."""
        if self.identified is None or self.sets is None:
            return None
        return doubt_of(count_doubt(self.identified, self.sets))

    def describe(self) -> dict[str, Any]:
        """Return what a model file says about the table, as plain values."""
        written: dict[str, Any] = {
            "features": self.features.to_dict(),
            "target": self.roles.target,
            "truth": self.roles.truth[0] if self.roles.truth else None,
            "aside": self.roles.aside,
            "rows": self.rows,
            "source": self.source.path.name,
            "roles": {role: columns for role, columns in self.named.items() if role != "target"},
            "row": self.roles.sets.row,
            "candidate_features": self.roles.candidate_features,
            "record": self.roles.sets.record,
            "prior_is": self.roles.prior_is,
            "checked": self.checked,
            "known": self.known,
        }
        if self.source.in_batches:
            batches = {"held_out": self.held_out, "sample": self.sample}
            return {**written, "fingerprint": self.source.fingerprint(), **batches}
        written |= {"checked_rows": self.checked_rows, "doubt": self.doubt}
        return {**written, "digest": table_digest(self.X, self.sets)}  # type: ignore[arg-type]


def open_in_batches(data: Any, learner: object, wanted: bool | None = None, front: FrontEnd = PYTHON) -> Folder | None:
    """Return the folder that a learner is to be trained on in batches; None where all rows are read into memory.

    A folder of some size is, if the learner can; a single Parquet file only if it is asked for, or too large.

    Parameters
    ----------
    data : path, frame or Source
    learner : object
        As the regressor's parameter.
    wanted : bool, optional
        Whether rows are to be read in batches; None leaves that to their number.
    front : FrontEnd
    """
    if isinstance(data, Folder):
        return None if wanted is False else data
    if not isinstance(data, str | os.PathLike):
        if wanted:
            raise ParameterError("A frame is in memory, and is not read in batches; give a folder of Parquet files.")
        return None
    path = Path(data)
    if not path.exists() and not path.suffix and str(path) != STANDARD_INPUT:
        raise DataNotFoundError(f"There is no file or folder {path}.")
    if not path.is_dir() and (FORMATS.get(path.suffix.lower()) != "parquet" or not path.is_file()):
        if wanted and path.exists():
            raise ParameterError(f"{path} cannot be read in batches; a folder of Parquet files, or one, can.")
        return None
    if wanted is False:
        return None
    folder = Folder.open(path)
    left = available_memory()
    too_large = left is not None and _COPIES * folder.uncompressed > left
    can_stream = isinstance(learner, MLP | Linear | Module) or (isinstance(learner, str) and learner in _CAN_STREAM)
    if not can_stream and (wanted or too_large):
        why = "and cannot be trained in batches"
        if too_large:
            why = f"about {readable(_COPIES * folder.uncompressed)}, and {readable(left or 0)} are left"
        name = learner if isinstance(learner, str) else type(learner).__name__
        raise ParameterError(
            f"{front.option('learner', name)} needs all rows in memory, {why}; use {front.option('learner', 'mlp')}, "
            f"linear or module, which read {path} in batches, or fit {name} to a part of the rows."
        )
    is_large = path.is_dir() and folder.uncompressed >= _SMALL
    if not can_stream or not (wanted or too_large or is_large):
        return None
    if learner == "auto":
        front.note(
            f"{path} has {folder.rows:,} rows, {readable(folder.uncompressed)}: auto is mlp, trained in batches"
            + ("." if too_large or wanted else f"; {front.option('in_batches', False)} reads them as one table.")
        )
    return folder


def fit_table(
    regressor: PartialLabelRegressor,
    data: Any,
    asked: Asked,
    *,
    drop_empty: bool,
    intervals: bool,
    identify: bool,
    in_batches: bool | None,
    scratch: str | os.PathLike[str] | None,
    engine: Engine | None,
    inspect: Inspect | None,
    save: Callable[[FitSummary], object] | None,
    front: FrontEnd,
    known: Any = None,
    prior_is: str = "share",
) -> FitSummary:
    """Fit a regressor to a table, in place; the parameters are those of `plr.TableModel.fit`."""
    if not asked.get("target"):
        raise ParameterError(
            "{parameter} must name the column of candidate sets, or several columns.", parameter="target"
        )
    if prior_is != "share" and not asked.get("prior"):
        raise ParameterError(
            f"{{parameter}} says what the numbers of a prior are; name its column with {front.option('prior')}.",
            parameter="prior_is",
        )
    if regressor.one_to_one and not asked.get("record"):
        raise ParameterError(
            "{parameter} needs to know which record each candidate is; name its column with "
            f"{front.option('record')}.",
            parameter="one_to_one",
        )
    folder = open_in_batches(data, regressor.learner, in_batches, front)
    if folder is not None:
        if identify:
            raise ParameterError(
                "{parameter} assesses each row by models that have not seen it, for which all rows must be in memory; "
                "in batches, identify the rows with the model once it is fitted.",
                parameter="identify",
            )
        if asked.get("groups"):
            raise ParameterError(
                "{parameter} needs folds, which are not made in batches; leave it out.", parameter="groups"
            )
        _check_batches(regressor, folder, asked, known, prior_is, front)
        with ExitStack() as stack:
            place = Path(scratch or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plr-"))) / "fit")
            return _fit_in_batches(
                regressor, folder, asked, drop_empty, intervals, place, engine, inspect, save, front, known, prior_is
            )
    if scratch is not None:
        raise ParameterError(
            "{parameter} is for training in batches, and the rows are read as one table; leave it out.",
            parameter="scratch",
        )
    with front.working("Reading"):
        source = open_source(data)
        source = source.read() if isinstance(source, Folder) else source
        if isinstance(source, TableSource) and source is not data and not identify:
            # They would be in memory during the fit, and nobody will write them.
            source.texts = None
    found = _fit_in_memory(regressor, source, asked, drop_empty, intervals, identify, inspect, front, known, prior_is)
    if save is not None:
        save(found)
    return found


def _fit_in_memory(
    regressor: PartialLabelRegressor,
    source: Source,
    asked: Asked,
    drop_empty: bool,
    intervals: bool,
    identify: bool,
    inspect: Inspect | None,
    front: FrontEnd,
    known: Any,
    prior_is: str,
) -> FitSummary:
    rows = prepare_rows(
        source,
        asked,
        drop_empty=drop_empty,
        known=known,
        prior_is=prior_is,
        one_to_one=regressor.one_to_one,
        front=front,
    )
    source, roles, features, X, sets = rows.source, rows.roles, rows.features, rows.X, rows.sets
    if inspect is not None:
        inspect(source, roles, features, X)
    found = None
    with front.working("Fitting", regressor.verbose) as whole:
        of_identify, of_intervals = regressor._expected_costs()
        costs = {"": 1.0, "identifying": of_identify * identify, "calibrating": of_intervals * intervals}
        fitting, identifying, calibrating = whole.split(costs)
        with fitting.used():
            regressor.fit(X, sets, sample_weight=rows.weight, groups=rows.groups, known=rows.labels)
        if identify or regressor.model_.out_of_fold is not None:
            with identifying, identifying.used():
                found = regressor.identify()
        if intervals:
            with calibrating, calibrating.used():
                regressor.calibrate()
    if caveat := regressor.learner_.caveat(regressor.model_):
        front.note(f"Note: {caveat}")
    if not intervals:
        regressor.calibration_ = None
    elif lower := regressor.learner_.effort_of_folds(regressor.model_):
        front.note(f"Note: intervals are measured on models fitted with less effort than this one: {lower}.")
    regressor._row_digests = row_digests(X, sets)
    checked = rows.checked
    looked_at = [] if checked is None else np.flatnonzero(checked.looked_at).tolist()
    return FitSummary(
        source,
        roles,
        features,
        len(sets),
        rows.left_out,
        len(sets.values),
        _as_texts(asked),
        X,
        sets,
        rows.table,
        found,
        checked=describe_checked(checked, sets),
        checked_rows=looked_at if len(looked_at) <= _MOST_CHECKED else None,
        known=names_of_known(known, source),
    )


@dataclass(frozen=True)
class Prepared:
    """The rows of a table in memory, as they are learned from.

    Attributes
    ----------
    source : Source
        With one line per row.
    roles : Roles
    features : Features
    table : pyarrow.Table
        The rows that have candidates.
    X, sets : pyarrow.Table, CandidateSets
    left_out : int
        Rows without a candidate.
    weight : ndarray or None
    groups : list or None
    labels : pyarrow.Table or None
        What is known of rows, as `PartialLabelRegressor.fit` takes it.
    checked : CheckedRows or None
        The same, read.
    """

    source: Source
    roles: Roles
    features: Features
    table: pa.Table
    X: pa.Table
    sets: CandidateSets
    left_out: int
    weight: Any = None
    groups: list[Any] | None = None
    labels: pa.Table | None = None
    checked: CheckedRows | None = None


def prepare_rows(
    source: Source,
    asked: Asked,
    *,
    drop_empty: bool = False,
    known: Any = None,
    prior_is: str = "share",
    one_to_one: bool = False,
    front: FrontEnd = PYTHON,
) -> Prepared:
    """Decide what each column of a table in memory is, and read candidates, features and known labels."""
    source, roles = _one_line_per_row(source, asked, known, prior_is, front)
    table = next(source.batches()).table
    warn_of_truths(table, roles, front)
    rows, sets, place = take_with_candidates(table, roles.sets, source, 0, drop_empty=drop_empty, front=front)
    _warn_if_long(rows, sets, roles, front)
    labels = checked = None
    with located(source, place):
        if known is not None:
            labels = known_labels(known, source, table, sets.kept, front)
            checked = check_known(labels, sets)
        if one_to_one:
            check_one_to_one(sets, checked)
    features = _learn_features(rows, source, roles, asked, front)
    # What is to be said about single cells has been said with their columns.
    X, _ = features.apply(rows, source, place=place)
    weight = read_target(rows, roles.weights[0], source, place, "weights") if roles.weights else None
    groups = rows[roles.groups[0]].to_pylist() if roles.groups else None
    left_out = table.num_rows - len(sets)
    return Prepared(source, roles, features, rows, X, sets, left_out, weight, groups, labels, checked)


def _one_line_per_row(source: Source, asked: Asked, known: Any, prior_is: str, front: FrontEnd) -> tuple[Source, Roles]:
    """Return what each column is, and the source with one line per row."""
    column = known if known is not None and is_column(known, source) else None
    roles = read_roles(source, {**asked, "known": column}, front, prior_is)
    agree = set(source.schema.names) - set(roles.ignore)
    return one_line_per_row(source, roles.sets, agree, front), roles


def _warn_if_long(table: pa.Table, sets: CandidateSets, roles: Roles, front: FrontEnd) -> None:
    """Warn where every row has one candidate, and rows repeat with other candidates, as in a long table."""
    if roles.row or len(roles.target) > 1 or len(sets.values) > len(sets):
        return
    name = find_row_column(table, roles.target[0], roles.aside)
    if name is None:
        return
    same = f"equal {name!r}" if name else "equal features"
    warn(
        f"Every row has one candidate, and rows with {same} have different ones in {roles.target[0]!r}: this looks "
        f"like a long table, with one line per candidate. If it is, say which lines belong together: "
        f"{front.option('row', name or 'ID')}."
    )


def _check_batches(
    regressor: PartialLabelRegressor, folder: Folder, asked: Asked, known: Any, prior_is: str, front: FrontEnd
) -> None:
    """Refuse what cannot be done in batches, and say what to do instead."""
    instead = f"read the rows as one table with {front.option('in_batches', False)}"
    if asked.get("row"):
        raise ParameterError(
            f"{{parameter}}: the lines of one row may be in any batch; {instead}, or write one line per row with a "
            "list of candidates.",
            parameter="row",
        )
    if regressor.one_to_one:
        raise ParameterError(
            f"{{parameter}} decides about all rows together, which must then be in memory; {instead}.",
            parameter="one_to_one",
        )
    if regressor.match_score is not None:
        raise ParameterError(
            f"{{parameter}} counts where all rows are in memory; {instead}, or give checked rows, which teach how much "
            "each feature of the candidates counts.",
            parameter="match_score",
        )
    if regressor.prior == "learned":
        raise ParameterError(
            f"{{parameter}} 'learned' needs all rows in memory; {instead}, or use 'auto'.", parameter="prior"
        )
    if prior_is != "share":
        raise ParameterError(
            f"{{parameter}} {prior_is!r} says how probable a missing truth is, which training in batches does not "
            f"allow for; {instead}, or give shares.",
            parameter="prior_is",
        )
    if known is not None:
        check_known_column(known, folder, front)


def _warn_if_dependent(found: Dependence | None, known: Any, front: FrontEnd) -> None:
    """Warn where false candidates depend on the features, of which training in batches can learn less."""
    if found is None or not found.found:
        return
    by = "by what the checked rows teach and" if known is not None else "by"
    remedy = (
        ""
        if known is not None
        else f" Look up the true labels of 20 to 50 rows, drawn at random, and name their column with "
        f"{front.option('known')}."
    )
    warnings.warn(
        f"False candidates depend on the features: the candidates of a row are alike (intraclass correlation "
        f"{found.correlation:.2f}), and those near what other rows predict do not stand out. Training in batches "
        f"therefore goes {by} the priors alone, not by agreement with its own predictions.{remedy} How much that "
        f"agreement counts is learned in memory: compare with a fit to some of the rows with "
        f"{front.option('in_batches', False)}.",
        DependentLabelsWarning,
        stacklevel=3,
    )


def _fit_in_batches(
    regressor: PartialLabelRegressor,
    folder: Folder,
    asked: Asked,
    drop_empty: bool,
    intervals: bool,
    scratch: Path,
    engine: Engine | None,
    inspect: Inspect | None,
    save: Callable[[FitSummary], object] | None,
    front: FrontEnd,
    known: Any,
    prior_is: str,
) -> FitSummary:
    with front.working("Looking at some rows"):
        seed = regressor.random_state if isinstance(regressor.random_state, int) else 0
        some, numbers = folder.sample(_LOOKED_AT, seed)
    roles = read_roles(folder, {**asked, "known": known}, front, prior_is)
    warn_of_truths(some, roles, front)
    with suppress(PlrError):
        # What is wrong with a row is said when all are looked through.
        sets = roles.sets.read(some, folder, numbers)
        _warn_if_long(some, sets, roles, front)
    features = _learn_features(some, folder, roles, asked, front).settled(some)
    dependence = None
    if may_depend(regressor.prior, regressor._resolve()[1]):
        with suppress(PlrError), front.working("Looking for false labels that depend on the features"):
            sets = roles.sets.read(some, folder, numbers)
            rows = some if sets.kept is None else some.take(pa.array(sets.kept))
            dependence = find_dependence(features.apply(rows, folder.path, some=True)[0], sets)
    _warn_if_dependent(dependence, known, front)
    if inspect is not None:
        inspect(folder, roles, features, None)
    weights = roles.weights[0] if roles.weights else None
    reading = Reading(
        folder,
        features,
        tuple(roles.target),
        tuple(roles.prior),
        weights,
        drop_empty,
        tuple(roles.candidate_features),
        roles.sets.record,
        prior_is,
        known,
    )
    checked: dict[str, Any] | None = None
    if known is not None:
        with front.working("Looking for checked rows"):
            reading, (checked_rows, sets) = learn_prior(
                reading,
                learned=regressor.prior != "given",
                model=regressor.prior if isinstance(regressor.prior, UtilityModel) else None,
                dependence=dependence,
                seed=seed,
            )
        checked = describe_checked(checked_rows, sets)

    def summary(found: FolderFit) -> FitSummary:
        return FitSummary(
            folder,
            roles,
            features,
            found.survey.rows,
            found.survey.left_out,
            found.survey.candidates,
            _as_texts(asked),
            held_out=found.held,
            sample=found.sample,
            disk=found.copied,
            resumed=found.resumed,
            checked=checked,
            known=names_of_known(known, folder),
        )

    keep = None if save is None else (lambda found: save(summary(found)))
    found = fit_folder(
        regressor,
        reading,
        scratch,
        intervals=intervals,
        engine=engine,
        working=front.working,
        save=keep,
        dependence=dependence,
    )
    if found.resumed:
        front.note("Resumed from checkpoint.")
    if found.survey.left_out:
        front.note(f"Left out: {found.survey.left_out:,} of {folder.rows:,} rows, which have no candidate.")
    for text in found.survey.mended.values():
        warn(text)
    return summary(found)


def check_table(
    data: Any,
    asked: Asked,
    *,
    drop_empty: bool = False,
    seed: int = 0,
    front: FrontEnd = PYTHON,
    known: Any = None,
    prior_is: str = "share",
    match_score: str | None = None,
) -> tuple[Diagnosis, Features]:
    """Say whether a table can be learned from; return the diagnosis, and what its columns are.

    Parameters
    ----------
    data : path, frame or Source
        Of one in batches, a sample is looked at.
    asked : mapping of str to str or sequence of str
        Columns by role.
    drop_empty : bool, default=False
        Leave out rows without a candidate.
    seed : int, default=0
    front : FrontEnd
    known, prior_is, match_score
        As of `plr.TableModel.fit`.
    """
    source = open_source(data)
    asked = {**asked, "match_score": match_score}
    with front.working("Reading"):
        source, roles = _one_line_per_row(source, asked, known, prior_is, front)
        table, numbers = source.sample(_LOOKED_AT, seed)
    if table.num_rows < source.rows:
        front.note(f"Looked at a sample: {table.num_rows:,} of {source.rows:,} rows, from all over the folder.")
    warn_of_truths(table, roles, front)
    whole = table
    table, sets, place = take_with_candidates(table, roles.sets, source, numbers, drop_empty=drop_empty, front=front)
    _warn_if_long(table, sets, roles, front)
    labels = None
    if known is not None:
        if source.in_batches:
            check_known_column(known, source, front)
        with located(source, place):
            labels = known_labels(known, source, whole, sets.kept, front, numbers)
            checked = describe_checked(check_known(labels, sets), sets)
        front.note(f"Checked rows: {0 if checked is None else checked['rows']}.")
    features = learn_features(table, roles.aside, source, roles.text)
    _tell_columns(features, front)
    with front.working("Looking"):
        X, _ = features.apply(table, source, place=place)
        return check(X, sets, labels, match_score=match_score, random_state=seed), features


def _learn_features(table: pa.Table, source: Source, roles: Roles, asked: Asked, front: FrontEnd) -> Features:
    if roles.truth and not asked.get("truth"):
        itself = "files themselves say" if source.in_batches else "file itself says"
        front.note(f"Left out: {roles.truth[0]!r}, which holds the true labels as the {itself}.")
    features = learn_features(table, roles.aside, source, roles.text)
    if source.in_batches and source.rows > table.num_rows:
        front.note(f"The kind of each column was inferred from {table.num_rows:,} of {source.rows:,} rows.")
    _tell_columns(features, front)
    return features


def _tell_columns(features: Features, front: FrontEnd) -> None:
    """Say what was done with each column that is more than a plain number."""
    plain = [column for column in features.columns if column.kind == "number" and not column.note]
    if plain:
        front.note(f"{len(plain)} column{'s' if len(plain) > 1 else ''} of numbers: {listed([c.name for c in plain])}.")
    for column in features.columns:
        if column.kind == "left out":
            remedy = f"; {front.option('text', column.name)} uses it" if column.note.endswith(MANY_TEXTS) else ""
            front.note(f"Left out: {column.name!r} {column.note}{remedy}.")
        elif column not in plain:
            front.note(f"{column.name!r}: {'time' if column.kind == 'clock' else column.kind}, {column.note}.")


def _as_texts(asked: Asked) -> dict[str, str]:
    return {role: named if isinstance(named, str) else ",".join(named) for role, named in asked.items() if named}
