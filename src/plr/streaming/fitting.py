"""Fit a regressor to a folder whose rows are never all in memory.

1. *Look*: some rows decide what each column is (`Folder.look`).
2. *Survey*: one pass checks every row, and adds up what scaling and encoding are learned from. Rows chosen at random
   are kept: some are held out of training, others are a sample for what cannot be learned from sums (a start, an
   estimated density of false labels, a linear model's first solution).
3. *Copy*: a second pass writes the rows to the disk, encoded and shuffled (`plr.streaming.shuffled`).
4. *Train*: passes over the copy.
5. *Judge*: the rows held out say how far true labels are from predictions, and so give noise and intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import plr
from plr._checks import check_seed
from plr._parameters import check_number
from plr.contracts import Report, Task
from plr.diagnosis import diagnose_fit
from plr.errors import FeatureError, ParameterError
from plr.intervals import learn_calibration
from plr.learners import MLP, Fitted, Linear, Module
from plr.learners.linear import FittedLinear
from plr.learners.mlp import FittedNetwork
from plr.learners.starts import DensityStart, Start, choose_start
from plr.losses import Loss
from plr.noise import fit_noise
from plr.preprocessing.scaling import label_scale
from plr.regressor import PartialLabelRegressor
from plr.streaming.engine import Engine, LocalEngine
from plr.streaming.lane_training import LaneTraining, NetworkJob
from plr.streaming.linear_training import LinearJob
from plr.streaming.preparation import Preparation, choose_rows, prepare
from plr.streaming.rows import Reading
from plr.streaming.scan import Working, copy_folder, silent, survey_folder
from plr.streaming.scratch import Scratch
from plr.streaming.shuffled import ShuffledCopy
from plr.streaming.survey import Survey, matrix
from plr.training import resolve_parts
from plr.weighting import Posterior, Weighting
from plr.weighting.rule import Rule

__all__ = ["STREAMED", "FolderFit", "fit_folder", "stream_epochs"]

Floats = NDArray[np.float64]

STREAMED = ("linear", "mlp", "module")
"""Learners that can be trained in batches."""

# "auto" trains for about so many steps, within these numbers of epochs; with fewer rows than that, as in memory.
_AUTO_STEPS, _AUTO_FEWEST, _AUTO_MOST = 100_000, 2, 20
_START_SHARE = 3
# However large a share of the rows is to judge epochs.
_MOST_HELD = 100_000


@dataclass(frozen=True)
class FolderFit:
    """What fitting gave.

    Attributes
    ----------
    model : PartialLabelRegressor
        Fitted.
    survey : Survey
    held : int
        Rows that were held out to judge by.
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
    working: Working = silent,
    save: Callable[[FolderFit], object] | None = None,
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
        goes on from it.
    intervals : bool, default=True
        Whether to calibrate intervals.
    engine : Engine, optional
        Where the work is done; here, unless given.
    working : callable, optional
        Given the name of a stage, a context manager that gives what is told ``(done, in all, loss)``.
    save : callable, optional
        Called with the result before ``scratch`` is removed, so that nothing is lost should it fail.
    """
    engine = LocalEngine() if engine is None else engine
    parts = _Parts.of(regressor)
    seed = int(check_seed(regressor.random_state).randint(2**31 - 1))
    held = parts.held_rows(reading.folder.rows)
    choice = choose_rows(reading.folder.rows, seed, held)
    place = Scratch(scratch, _identity(regressor, reading, engine.lanes, seed))
    try:
        found = survey_folder(reading, choice, engine, working)
        ready = prepare(
            found,
            reading,
            choice,
            parts.rule,
            parts.learner,
            parts.start(regressor, found.rows),
            dtype=parts.dtype(),
            seed=seed,
            cv=regressor.cv,
            n_jobs=regressor.n_jobs,
        )
        parts.check(ready)
        copy, size = copy_folder(ready, reading, found, place.path, engine, seed, working)
        with working("Training") as tell:
            model = parts.train(ready, found, copy, place, engine, seed, tell)
        _assemble(regressor, parts, model, ready, intervals)
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


def _identity(regressor: PartialLabelRegressor, reading: Reading, lanes: int, seed: int) -> dict[str, Any]:
    """Return what tells a fit from others: the files, how they are read, and the model."""
    return {
        "plr": plr.__version__,
        "folder": reading.folder.fingerprint(),
        "columns": reading.features.to_dict(),
        "target": reading.target,
        "prior": reading.prior,
        "weights": reading.weights,
        "drop_empty": reading.drop_empty,
        "model": _model_identity(regressor),
        "lanes": lanes,
        "seed": seed,
    }


def _model_identity(regressor: PartialLabelRegressor) -> dict[str, str]:
    given = {name: part for name, part in regressor.get_params().items() if name not in ("n_jobs", "verbose")}
    if not isinstance(regressor.learner, Module):
        return {name: repr(part) for name, part in given.items()}
    from plr.learners.module.identity import name_of

    # Not by its repr: the address of an object in memory is another in every process.
    return {name: name_of(part) for name, part in given.items() if name != "learner"}


@dataclass(frozen=True)
class _Parts:
    """What a regressor's parameters stand for."""

    learner: Any
    weighting: Weighting
    loss: Loss
    rule: Rule

    @classmethod
    def of(cls, regressor: PartialLabelRegressor) -> _Parts:
        named = regressor.learner
        given: Any = MLP() if isinstance(named, str) and named == "auto" else named
        learner, weighting, loss = resolve_parts(given, regressor.weighting, regressor.loss, regressor.effort, 5)
        if not isinstance(learner, MLP | Linear | Module):
            raise ParameterError(
                f"{type(learner).__name__} needs all rows in memory; mlp, linear and module are trained in batches."
            )
        learner.check_weighting(weighting)
        return cls(learner, weighting, loss, Rule(weighting, loss))

    def held_rows(self, rows: int) -> int | None:
        """Return how many rows the learner wants to judge epochs by; None where it leaves that open."""
        share = getattr(self.learner, "validation_fraction", None)
        if share is None:
            return None
        share = check_number("validation_fraction", share, low=0.0, high=0.9, open_low=True)
        return min(max(round(share * rows), 1), _MOST_HELD)

    def start(self, regressor: PartialLabelRegressor, rows: int) -> Start | None:
        """Return the start, if there is one."""
        start = choose_start(regressor.start, self.weighting, self.learner, rows)
        if start is not None and not isinstance(start, DensityStart):
            name = type(start).__name__.removesuffix("Start").lower()
            raise ParameterError(f"The start {name!r} needs all rows in memory; in batches there is 'density'.")
        return start

    def check(self, ready: Preparation) -> None:
        """Refuse features that the learner cannot take."""
        found = (*ready.encoding.marked, *ready.encoding.categories)
        if isinstance(self.learner, Module) and found:
            names = [ready.names[column] for column in found]
            raise FeatureError(
                f"A torch module takes numbers alone, but {', '.join(map(repr, names))} "
                f"{'have' if len(names) > 1 else 'has'} gaps or categories; leave out what it cannot take by "
                f"{{parameter}} {','.join(names)}, or use mlp.",
                parameter="ignore",
                column=names[0],
            )

    def dtype(self) -> str:
        """Return the type that features are kept in."""
        if isinstance(self.learner, Linear):
            return "float64"
        if isinstance(self.learner, Module):
            return "float32"
        return "float64" if self.learner.dtype == "float64" else "float32"

    def train(
        self,
        ready: Preparation,
        found: Survey,
        copy: ShuffledCopy,
        place: Scratch,
        engine: Engine,
        seed: int,
        tell: Callable[[int, int, float], object],
    ) -> Fitted:
        """Train on the copy."""
        if isinstance(self.learner, Linear):
            return self._train_linear(ready, copy, seed, tell)
        if isinstance(self.learner, Module):
            return self._train_module(ready, copy, place, engine, seed, tell)
        learner: MLP = self.learner
        settings = learner.settings(copy.rows)
        held = ready.ready(ready.held)
        scale = label_scale(ready.ready(ready.sample).S, ready.sample.weight) if not learner.scale_target else 1.0
        epochs = stream_epochs(learner, copy.rows, settings.batch_size)
        judged = learner.validation_fraction is not None or learner.patience is not None
        settings = replace(
            settings,
            dtype="float64" if self.dtype() == "float64" else "float32",
            epochs=epochs,
            initial_scale=scale,
            fixed_epochs=epochs * len(copy.sizes) // _START_SHARE if ready.start is not None else 0,
        )
        width = held.features.shape[1]
        job = NetworkJob(copy.folder, self.rule, settings, width, found.largest_set, seed, held if judged else None)
        training = job.training(copy)
        training.restore(engine.train(job, place, tell))
        training.check()
        return _fitted_network(training, ready, self.rule, judged)

    def _train_module(
        self,
        ready: Preparation,
        copy: ShuffledCopy,
        place: Scratch,
        engine: Engine,
        seed: int,
        tell: Callable[[int, int, float], object],
    ) -> Fitted:
        from plr.streaming.module_training import ModuleJob

        learner: Module = self.learner
        encoding = ready.encoding
        judged = learner.validation_fraction is not None or learner.patience is not None
        job = ModuleJob(
            copy.folder,
            learner,
            self.weighting,
            self.loss,
            learner.epochs,
            copy.shape.width,
            encoding.scaling if learner.scale_features else None,
            ready.target,
            1.0 if learner.scale_target else label_scale(ready.ready(ready.sample).S, ready.sample.weight),
            ready.start is not None,
            seed,
            ready.ready(ready.held) if judged else None,
        )
        return engine.train_module(job, place, tell)

    def _train_linear(
        self, ready: Preparation, copy: ShuffledCopy, seed: int, tell: Callable[[int, int, float], object]
    ) -> FittedLinear:
        learner: Linear = self.learner
        job = LinearJob(self.rule, learner.alpha, learner.max_rounds, learner.tol, ready.ready(ready.sample), seed)
        solution, report = job.solve(copy, tell)
        unit, scaling = float(ready.target.scale), ready.encoding.scaling
        coefficients = unit * solution[:-1] / scaling.scale
        intercept = unit * float(solution[-1]) + float(ready.target.centre) - float(coefficients @ scaling.centre)
        told = Report(report.rounds, report.loss, report.noise_scale * unit)
        return FittedLinear(np.asarray(coefficients), intercept, told, ready.encoding)


def _fitted_network(training: LaneTraining, ready: Preparation, rule: Rule, judged: bool) -> FittedNetwork:
    unit = float(ready.target.scale)
    report = Report(
        rounds=len(training.losses),
        loss=np.array(training.losses),
        noise_scale=np.array(training.scales) * unit if rule.learns_scale else np.empty(0),
        validation=np.array(training.validation),
        best_round=training.best_epoch if judged else None,
    )
    return FittedNetwork(training.network, ready.encoding, ready.target, report)


def _assemble(
    regressor: PartialLabelRegressor, parts: _Parts, model: Fitted, ready: Preparation, intervals: bool
) -> None:
    """Make the regressor a fitted one: what the rows held out say about its predictions included."""
    held = ready.held
    prediction = model.predict(matrix(held.X, ready.columns))
    family = parts.weighting if isinstance(parts.weighting, Posterior) else None
    density = ready.density or ready.labels
    noise = fit_noise(prediction, held.S, family, held.weight, false_labels=density)
    sample = ready.sample
    X = matrix(sample.X, ready.columns)
    categorical = () if ready.columns is None else ready.columns.categorical
    looked_at = Task(X, sample.S, parts.rule, sample_weight=sample.weight, categorical=categorical)
    guess = model.predict(X)
    calibration = None
    if intervals:
        task = Task(None, held.S, parts.rule, sample_weight=held.weight, false_labels=ready.density)
        calibration = learn_calibration(prediction, held.S, task)
    regressor._take_parts(
        parts.learner,
        parts.weighting,
        parts.loss,
        model,
        noise,
        diagnose_fit(looked_at, guess, noise.probabilities(guess, sample.S)),
        calibration,
        n_features_in_=len(ready.names),
        feature_names_in_=np.array(ready.names, dtype=object),
        columns_=ready.columns,
    )
