"""Fit a regressor to a folder whose rows are never all in memory.

1. *Look*: some rows decide what each column is (`Folder.sample`).
2. *Survey*: one pass checks every row, and adds up what scaling and encoding are learned from. Rows chosen at random
   are kept: some are held out of training, others are a sample for what cannot be learned from sums (a start, an
   estimated density of false labels, a linear model's first solution).
3. *Copy*: a second pass writes the rows to the disk, encoded and shuffled (`plr.streaming.shuffled`).
4. *Train*: passes over the copy.
5. *Calibrate*: the rows held out say how far true labels are from predictions, and so give noise and intervals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import plr
from plr._checks import check_seed
from plr._parameters import check_number
from plr.contracts import START_SHARE, Task
from plr.diagnosis import diagnose_fit
from plr.errors import DependentLabelsWarning, FeatureError, ParameterError
from plr.intervals import learn_calibration
from plr.learners import MLP, Fitted, Linear, Module
from plr.learners.linear import FittedLinear
from plr.learners.starts import DensityStart, choose_start
from plr.learners.transformed import TransformedTarget
from plr.noise import fit_noise
from plr.preprocessing.scaling import Affine, label_scale
from plr.priors.dependence import Dependence, student_scale
from plr.priors.learned import LearnedPrior, RowFeatures, given_prior
from plr.regressor import PartialLabelRegressor
from plr.sources.folder import Folder
from plr.sources.source import File
from plr.streaming.ahead import ahead
from plr.streaming.engine import Count, Engine, LocalEngine, Progress
from plr.streaming.folder_rows import FolderRows, Reading
from plr.streaming.linear_training import solve_in_passes
from plr.streaming.network_training import NetworkJob
from plr.streaming.preparation import Preparation, choose_rows, prepare
from plr.streaming.scratch import Scratch
from plr.streaming.shuffled import ShuffledCopy, plan_shape, space_for, write_part
from plr.streaming.survey import Survey, matrix, survey
from plr.training import resolve_parts
from plr.weighting import Average, Posterior
from plr.weighting.rule import Rule

__all__ = ["STREAMED", "FolderFit", "fit_folder", "stream_epochs"]

STREAMED = ("linear", "mlp", "module")
"""Learners that can be trained in batches."""

# "auto" trains for about so many steps, within these numbers of epochs; with fewer rows than that, as in memory.
_AUTO_STEPS, _AUTO_FEWEST, _AUTO_MOST = 100_000, 2, 20
# However large a share of the rows is held out for validation.
_MOST_HELD = 100_000
# Files are worked on together until they have so many rows, or so large a share of all.
_ROWS_TOGETHER, _MOST_PARTS = 1_000_000, 256

Working = Callable[[str], AbstractContextManager[Progress]]
"""Given the name of a stage, a context manager that gives what is called with ``(done, in all, loss)``."""


@dataclass(frozen=True)
class FolderFit:
    """What fitting gave.

    Attributes
    ----------
    model : PartialLabelRegressor
        Fitted.
    survey : Survey
    held : int
        Rows that were held out of training.
    sample : int
        Rows of the sample.
    copied : int
        Bytes of the shuffled copy.
    resumed : bool
        Whether a fit that had been stopped was resumed.
    """

    model: PartialLabelRegressor
    survey: Survey
    held: int
    sample: int
    copied: int
    resumed: bool = False


def fit_folder(
    regressor: PartialLabelRegressor,
    reading: Reading,
    scratch: Path,
    *,
    intervals: bool = True,
    engine: Engine | None = None,
    working: Working = lambda _: nullcontext(lambda *_: None),
    save: Callable[[FolderFit], object] | None = None,
    dependence: Dependence | None = None,
) -> FolderFit:
    """Fit a regressor to a folder, in an amount of memory that does not depend on the number of rows.

    Parameters
    ----------
    regressor : PartialLabelRegressor
        With one of the learners in `STREAMED`; ``auto`` is ``mlp``. It is fitted and returned.
    reading : Reading
        How the folder becomes rows.
    scratch : Path
        Folder for the shuffled copy and for how far training has come; removed when it is over. A fit that was stopped
        is resumed from it.
    intervals : bool, default=True
        Whether to calibrate intervals.
    engine : Engine, optional
        Where the work is done; here, unless given.
    working : callable, optional
        Given the name of a stage, a context manager that gives what is called with ``(done, in all, loss)``.
    save : callable, optional
        Called with the result before ``scratch`` is removed, so that nothing is lost should it fail.
    dependence : Dependence, optional
        Whether false candidates depend on the features. Where they do, training goes by the priors alone: agreement
        with its own predictions proves little.
    """
    engine = LocalEngine() if engine is None else engine
    learner, rule = _resolve(regressor)
    seed = int(check_seed(regressor.random_state).randint(2**31 - 1))
    rows = reading.folder.rows
    held, sample = choose_rows(rows, seed, _held_rows(learner, rows))
    dependent = dependence is not None and dependence.found
    place = Scratch(scratch, _identity(regressor, reading, engine.lanes, seed, dependent))
    try:
        found = _survey_folder(reading, np.sort(np.concatenate([held, sample])), engine, working)
        start = choose_start(regressor.start, rule.weighting, learner, found.rows)
        if start is not None and not isinstance(start, DensityStart):
            name = type(start).__name__.removesuffix("Start").lower()
            raise ParameterError(f"The start {name!r} needs all rows in memory; in batches there is 'density'.")
        double = isinstance(learner, Linear) or (isinstance(learner, MLP) and learner.dtype == "float64")
        ready = prepare(
            found,
            reading,
            held,
            rule,
            learner,
            start,
            dtype="float64" if double else "float32",
            seed=seed,
            cv=regressor.cv,
            n_jobs=regressor.n_jobs,
        )
        if isinstance(learner, Module):
            _check_plain(ready)
        trained_by = rule
        if dependent:
            trained_by = Rule(Average(), rule.loss)
            ready = replace(ready, density=None, mixture=None, start_weights=None)
        copy, size = _copy_folder(ready, reading, found, place.path, engine, seed, working)
        with working("Training") as tell:
            if isinstance(learner, Linear):
                solution, report = solve_in_passes(learner, trained_by, ready.ready(ready.sample), copy, seed, tell)
                model: Fitted = FittedLinear.unscaled(solution, report, ready.encoding, ready.target)
            else:
                model = engine.train(_job(learner, trained_by, ready, found, copy, seed), place.path, tell)
        _assemble(regressor, learner, rule, model, ready, intervals, reading.learned, dependence, found.target(True))
        fit = FolderFit(regressor, found, len(ready.held.index), len(ready.sample.index), size, place.resumed)
        if save is not None:
            save(fit)
        place.remove()
        return fit
    except Exception:
        if not place.is_begun:
            # Nothing was done that is worth going on from.
            place.remove()
        raise
    finally:
        place.release()


def stream_epochs(learner: MLP | None, rows: int, batch_size: int) -> int:
    """Return how many passes over so many rows a network's ``epochs`` stands for; by default as many as auto's.

    >>> [stream_epochs(MLP(), rows, 256) for rows in (10_000, 1_000_000, 100_000_000)]
    [100, 20, 2]
    """
    if learner is not None:
        in_memory = learner.settings(rows).epochs
        if learner.epochs != "auto" or in_memory > _AUTO_MOST:
            return in_memory
    return int(np.clip(_AUTO_STEPS // max(1, rows // batch_size), _AUTO_FEWEST, _AUTO_MOST))


def _identity(
    regressor: PartialLabelRegressor, reading: Reading, lanes: int, seed: int, dependent: bool
) -> dict[str, Any]:
    """Return what tells a fit from others: the files, how they are read, and the model."""
    return {
        "plr": plr.__version__,
        "folder": reading.folder.fingerprint(),
        "columns": reading.features.to_dict(),
        "target": reading.target,
        "prior": reading.prior,
        "weights": reading.weights,
        "drop_empty": reading.drop_empty,
        "candidates": [reading.candidate_features, reading.record, reading.prior_is, reading.known],
        "model": _model_identity(regressor),
        "lanes": lanes,
        "seed": seed,
        "dependent": dependent,
    }


def _model_identity(regressor: PartialLabelRegressor) -> dict[str, str]:
    given = {name: part for name, part in regressor.get_params().items() if name not in ("n_jobs", "verbose")}
    if not isinstance(regressor.learner, Module):
        return {name: repr(part) for name, part in given.items()}
    from plr.learners.module.checkpoint import name_of

    # Not by its repr: the address of an object in memory is another in every process.
    return {name: name_of(part) for name, part in given.items() if name != "learner"}


def _resolve(regressor: PartialLabelRegressor) -> tuple[MLP | Linear | Module, Rule]:
    """Return the learner and the rule that a regressor's parameters stand for."""
    named = regressor.learner
    given: Any = MLP() if isinstance(named, str) and named == "auto" else named
    learner, weighting, loss = resolve_parts(
        given, regressor.weighting, regressor.loss, regressor.effort, 5, target_transform=regressor.target_transform
    )
    if isinstance(learner, TransformedTarget):
        raise ParameterError(
            "{parameter} needs all rows in memory; for a model that is trained in batches, write the transformed "
            "candidates into the files.",
            parameter="target_transform",
            value=regressor.target_transform,
        )
    if not isinstance(learner, MLP | Linear | Module):
        raise ParameterError(
            f"{type(learner).__name__} needs all rows in memory; mlp, linear and module are trained in batches."
        )
    if isinstance(learner, MLP) and learner.ranks:
        raise ParameterError(
            "ranks=True needs all rows in memory; leave it out for tables that are trained in batches.",
            parameter="ranks",
            value=True,
        )
    learner.check_weighting(weighting)
    return learner, Rule(weighting, loss)


def _held_rows(learner: MLP | Linear | Module, rows: int) -> int | None:
    """Return how many rows a learner wants to choose epochs by; None where it leaves that open."""
    share = None if isinstance(learner, Linear) else learner.validation_fraction
    if share is None:
        return None
    share = check_number("validation_fraction", share, low=0.0, high=0.9, open_low=True)
    return min(max(round(share * rows), 1), _MOST_HELD)


def _check_plain(ready: Preparation) -> None:
    """Refuse features that a torch module cannot take."""
    names = [ready.names[column] for column in (*ready.encoding.marked, *ready.encoding.categories)]
    if names:
        raise FeatureError(
            f"A torch module takes numbers alone, but {', '.join(map(repr, names))} "
            f"{'have' if len(names) > 1 else 'has'} gaps or categories; leave out what it cannot take by "
            f"{{parameter}} {','.join(names)}, or use mlp.",
            parameter="ignore",
            column=names[0],
        )


def _survey_folder(reading: Reading, choose: NDArray[np.int64], engine: Engine, working: Working) -> Survey:
    """Look at every row once, and keep those that are chosen by their numbers."""
    found = Survey()
    with working("Looking through all rows") as tell:

        def look(files: Sequence[File], count: Count) -> Survey:
            return survey(_counted(reading.rows(files), count), choose)

        for part in engine.map(look, _file_parts(reading.folder), _counter(tell, reading.folder.rows)):
            found.add(part)
    return found


def _copy_folder(
    ready: Preparation,
    reading: Reading,
    found: Survey,
    folder: Path,
    engine: Engine,
    seed: int,
    working: Working,
) -> tuple[ShuffledCopy, int]:
    """Write the shuffled copy into a folder, unless it is there; return it, and about how many bytes it takes."""
    present = {"prior": found.has_prior, "log_q": ready.density is not None, "start": ready.mixture is not None}
    shape, size = plan_shape(
        found.rows,
        ready.encoding.width,
        ready.dtype,
        found.candidates / found.rows,
        lanes=engine.lanes,
        seed=seed,
        weighted=reading.weights is not None,
        lists=tuple(name for name, there in present.items() if there),
    )
    if ShuffledCopy.exists(folder):
        return ShuffledCopy(folder), size
    space_for(folder, size)
    with working("Writing a shuffled copy") as tell:

        def write(part: tuple[int, Sequence[File]], count: Count) -> list[dict[str, Any]]:
            number, files = part
            batches = _counted(ahead(reading.rows(files)), count)
            return write_part(folder, number, shape, (ready.training(batch) for batch in batches if len(batch.index)))

        parts = list(enumerate(_file_parts(reading.folder)))
        runs = [run for part in engine.map(write, parts, _counter(tell, reading.folder.rows)) for run in part]
        return ShuffledCopy.complete(folder, shape, runs), size


def _counter(tell: Progress, total: int) -> Count:
    seen = 0

    def count(rows: int) -> None:
        nonlocal seen
        seen += rows
        tell(seen, total, np.nan)

    return count


def _file_parts(folder: Folder) -> list[list[File]]:
    """Divide files into parts that can be worked on apart: neighbours, with enough rows to be worth it."""
    parts: list[list[File]] = [[]]
    enough, rows = max(_ROWS_TOGETHER, folder.rows // _MOST_PARTS), 0
    for file in folder.files:
        if rows >= enough:
            parts.append([])
            rows = 0
        parts[-1].append(file)
        rows += file.rows
    return parts


def _counted(rows: Iterator[FolderRows], count: Count) -> Iterator[FolderRows]:
    for part in rows:
        yield part
        count(len(part.index) + part.left_out)


def _job(learner: MLP | Module, rule: Rule, ready: Preparation, found: Survey, copy: ShuffledCopy, seed: int) -> Any:
    """Return the training of a network or a torch module, for an engine."""
    scored = learner.validation_fraction is not None or learner.patience is not None
    held = ready.ready(ready.held) if scored else None
    started = ready.mixture is not None
    scale = 1.0 if learner.scale_target else label_scale(ready.ready(ready.sample).S, ready.sample.weight)
    if isinstance(learner, Module):
        from plr.streaming.module_training import ModuleJob

        scaling = ready.encoding.scaling if learner.scale_features else None
        return ModuleJob(copy.folder, learner, rule, scaling, ready.target, scale, started, seed, held)
    settings = learner.settings(copy.rows)
    epochs = stream_epochs(learner, copy.rows, settings.batch_size)
    settings = replace(
        settings,
        dtype="float64" if ready.dtype == "float64" else "float32",
        epochs=epochs,
        initial_scale=scale,
        fixed_epochs=epochs * len(copy.sizes) // START_SHARE if started else 0,
    )
    return NetworkJob(copy.folder, rule, settings, ready.encoding, ready.target, found.largest_set, seed, held)


def _assemble(
    regressor: PartialLabelRegressor,
    learner: MLP | Linear | Module,
    rule: Rule,
    model: Fitted,
    ready: Preparation,
    intervals: bool,
    prior: LearnedPrior | None,
    dependence: Dependence | None,
    labels: Affine,
) -> None:
    """Make the regressor a fitted one: what the rows held out say about its predictions included."""
    held, sample = ready.held, ready.sample
    prediction = model.predict(matrix(held.X, ready.columns))
    family = rule.weighting if isinstance(rule.weighting, Posterior) else None
    noise = fit_noise(prediction, held.S, family, held.weight, false_labels=ready.density or ready.labels)
    X = matrix(sample.X, ready.columns)
    categorical = () if ready.columns is None else ready.columns.categorical
    looked_at = Task(X, sample.S, rule, sample_weight=sample.weight, categorical=categorical)
    guess = model.predict(X)
    probabilities, shares = noise.probabilities(guess, sample.S), None
    if dependence is not None and dependence.found:
        probabilities, shares = sample.S.prior_or_uniform, held.S.prior_or_uniform
        counts = shares if held.weight is None else shares * held.weight[held.S.row_index]
        away = (held.S.values - prediction[held.S.row_index]) / float(labels.scale)
        noise = replace(noise, scale=student_scale(away, counts) * float(labels.scale), missing=0.0)
        prior = replace(prior or given_prior(sample.S), dependence=dependence)
        prior = prior.without_agreement(RowFeatures(None, ready.encoding), labels, noise.scale)
    calibration = None
    if intervals:
        task = Task(None, held.S, rule, sample_weight=held.weight, false_labels=ready.density)
        calibration = learn_calibration(prediction, held.S, task, probabilities=shares, missing=noise.missing)
    diagnosis = diagnose_fit(looked_at, guess, probabilities, dependence, 0 if prior is None else prior.checked)
    with warnings.catch_warnings():
        # Whoever found out that labels are dependent has warned before training.
        warnings.simplefilter("ignore", DependentLabelsWarning)
        regressor._take_parts(
            learner,
            rule.weighting,
            rule.loss,
            model,
            noise,
            diagnosis,
            calibration,
            prior,
            n_features_in_=len(ready.names),
            feature_names_in_=np.array(ready.names, dtype=object),
            columns_=ready.columns,
        )
