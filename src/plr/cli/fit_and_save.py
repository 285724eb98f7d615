"""A model trained on a table and written to a file, as ``plr fit`` asks for it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from plr.cli.common import TERMINAL
from plr.cli.model_options import make_regressor
from plr.cli.model_report import page_of_training
from plr.columns.features import Features
from plr.errors import ParameterError
from plr.learners import Module
from plr.memory import peak_memory
from plr.persistence import check_savable
from plr.regressor import PartialLabelRegressor
from plr.sources.source import Source
from plr.streaming.engine import Engine
from plr.streaming.folder_fit import stream_epochs
from plr.streaming.scratch import BusyError
from plr.tables import TableModel
from plr.tables.fit_table import open_in_batches
from plr.tables.model import open_identified
from plr.tables.output import check_output
from plr.tables.roles import Roles

__all__ = ["fit_and_save"]


def fit_and_save(
    data: Path,
    out: Path,
    asked: Mapping[str, str | None],
    parts: Mapping[str, str],
    options: Mapping[str, Any],
    *,
    module: str | None = None,
    identified: Path | None = None,
    intervals: bool = True,
    page: bool = True,
    drop_empty: bool = False,
    known: str | list[str] | None = None,
    prior_is: str = "share",
    match_score: str | None = None,
    one_to_one: bool = False,
    log: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    prefix: str = "",
    stream: bool | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    scratch: Path | None = None,
) -> dict[str, Any]:
    """Read a table, train, write the model; return what was done, as plain values.

    Parameters
    ----------
    data, out : Path
    asked : mapping of str to str
        Columns by role.
    parts, options : mapping
        As of `plr.cli.model_options.make_regressor`.
    module, identified, intervals, page, drop_empty, known, prior_is, match_score, one_to_one, log, seed, jobs, \
prefix, stream, engine, workers, address, scratch
        As the options of the command.
    """
    started, before = time.monotonic(), peak_memory()
    if identified is not None:
        check_output(identified)
    learner = parts["learner"]
    folder = open_in_batches(data, learner, True if engine == "ray" else stream, TERMINAL)
    if folder is not None and learner == "auto":
        learner = "mlp"
    if learner == "linear" and engine == "ray":
        raise ParameterError("--engine ray trains mlp and module; a linear model is solved here, without it.")
    code: Any = module
    if module is not None and learner == "module":
        from plr.cli.modules import check_numbers, read_module, short_name, try_module

        code = read_module(module)
    regressor = make_regressor({**parts, "learner": learner}, options, module=code, seed=seed, jobs=jobs)
    if log:
        regressor.set_params(target_transform="log")
    check_savable(regressor, out)
    if folder is not None and learner == "module" and "epochs" not in options:
        from plr.learners.module.settings import check_settings

        epochs = stream_epochs(None, folder.rows, check_settings(cast(Module, regressor.learner)).batch_size)
        regressor.set_params(learner__epochs=epochs)
        TERMINAL.note(f"The module is trained for {epochs} epochs; --option epochs=N says otherwise.")

    def check(source: Source, roles: Roles, features: Features, X: pa.Table | None) -> None:
        if identified is not None:
            open_identified(source, identified, roles.target, prefix, front=TERMINAL)
        if module is not None:
            check_numbers(source, features, X)
            try_module(code, module, len(features.names), getattr(regressor.learner, "device", "auto"))

    def save(model: TableModel) -> None:
        kept = None
        if page and folder is None:
            with TERMINAL.working("Preparing the page"):
                kept = page_of_training(model, seed)
        model.save(out, page=kept, training_rows=page and folder is None)

    wanted: dict[str, Any] = {**parts, "seed": seed, "intervals": intervals, "drop_empty": drop_empty}
    if options:
        wanted["option"] = dict(options)
    if match_score is not None:
        wanted["match_score"] = match_score
    if one_to_one:
        wanted["one_to_one"] = True
    if log:
        wanted["log"] = True
    if module is not None:
        # What is in the file about the module's code is for messages.
        wanted["module"] = short_name(module)
    if folder is not None:
        wanted |= {"stream": True, "engine": engine, "workers": workers}
        scratch = _scratch_folder(scratch, out)
    model = TableModel(regressor)
    with _connected(engine, workers or 2, address) as trainer, _keeping(None if folder is None else scratch):
        model.fit(
            data if folder is None else folder,
            **asked,
            prior_is=prior_is,
            match_score=match_score,
            one_to_one=one_to_one or None,
            known=known,
            drop_empty=drop_empty,
            intervals=intervals,
            identify=identified is not None,
            in_batches=folder is not None,
            scratch=scratch,
            engine=trainer,
            options=wanted,
            check=check,
            save=save,
            front=TERMINAL,
        )
    if identified is not None:
        model.write_identified(None, identified, prefix=prefix, front=TERMINAL)
    found = model.summary
    assert found is not None
    done = {
        "model": str(out),
        "identified": None if identified is None else str(identified),
        "rows": found.rows,
        "rows_left_out": found.left_out,
        "candidates": found.candidates,
        "target": list(model.target),
        "truth": model.truth,
        "columns": found.features.describe(),
        "features": list(found.features.names),
        "noise_scale": float(regressor.noise_scale_),
        "doubt": found.doubt,
        "checked": found.checked and {**found.checked, "changed": model.changed_by_checked_rows()},
        "prior": _prior_of(regressor),
        "diagnosis": model.diagnosis,
        "caution": model.caution,
        "worth_checking": model.rows_worth_checking,
        "seconds": round(time.monotonic() - started, 2),
    }
    if folder is not None:
        done |= {
            "rows_held_out": found.held_out,
            "rows_of_sample": found.sample,
            "resumed": found.resumed,
            "peak_memory": peak_memory(),
            "peak_memory_before": before,
            "disk": found.disk,
            "engine": engine,
        }
    return done


def _prior_of(regressor: PartialLabelRegressor) -> dict[str, Any] | None:
    """Return what was learned about candidates, as plain values; None where nothing was."""
    learned = regressor.prior_
    if learned is None:
        return None
    return {"learned": learned.describe(), "false_labels_depend_on_features": learned.dependence.found}


@contextmanager
def _connected(engine: str, workers: int, address: str | None) -> Iterator[Engine | None]:
    """Give the engine that trains; None for this process."""
    if engine == "local":
        yield None
        return
    from plr.cluster.session import import_ray, session

    import_ray()
    from plr.cluster.ray_engine import RayEngine, local_cpus

    with session(address, cpus=local_cpus(workers)):
        yield RayEngine(workers)


def _scratch_folder(scratch: Path | None, out: Path) -> Path:
    """Return the folder for what training leaves on the disk until it is over: beside the model by default."""
    # Workers of a cluster are in folders of their own.
    whole = Path(os.path.abspath(out))
    if scratch is None:
        return whole.with_name(f"{out.name}.unfinished")
    # Models of the same name may come from several folders.
    whose = hashlib.sha256(str(whole).encode()).hexdigest()[:8]
    return Path(os.path.abspath(scratch)) / f"{out.name}.{whose}.unfinished"


@contextmanager
def _keeping(scratch: Path | None) -> Iterator[None]:
    """Say, where a fit is stopped, that it can be resumed."""
    try:
        yield
    except BaseException as error:
        if scratch is not None and scratch.is_dir() and not isinstance(error, BusyError):
            TERMINAL.note(
                f"What has been done is kept in {scratch}; run the same command again to resume. Delete it if you do "
                "not want to."
            )
        raise
