"""``plr fit`` on a folder of Parquet files that need not fit in memory, here or on a cluster."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.columns import Features
    from plr.streaming.engine import Engine
    from plr.streaming.folder import Folder
    from plr.streaming.survey import Survey

__all__ = ["ENGINES", "Resources", "fit_folder", "folder_to_stream", "read_folder", "tell_done"]

ENGINES = ("local", "ray")
"""Where a model can be trained."""

# Rows that decide what each column is.
_LOOKED_AT = 100_000
# A folder smaller than this is read as one table, as a file is.
_SMALL = 256 << 20
# What in-memory learners need besides the table itself, at least: so many times its size.
_COPIES = 4


@dataclass(frozen=True)
class Resources:
    """Where and how a model is trained.

    Attributes
    ----------
    stream : bool or None
        Whether rows are read in batches; None leaves that to their number.
    engine : str
        One of `ENGINES`.
    workers : int or None
    address : str or None
        Of a Ray cluster.
    scratch : Path or None
        Where to put the folder for what training leaves on the disk until it is over.
    """

    stream: bool | None = None
    engine: str = "local"
    workers: int | None = None
    address: str | None = None
    scratch: Path | None = None

    def check(self) -> None:
        """Refuse what does not go together."""
        from plr._parameters import check_choice, check_integer
        from plr.errors import DataNotFoundError, ParameterError

        check_choice("--engine", self.engine, ENGINES)
        if self.engine == "ray" and self.stream is False:
            raise ParameterError("--engine ray trains in batches; leave --no-stream out.")
        if self.engine != "ray":
            for option, given in (("--workers", self.workers), ("--address", self.address)):
                if given is not None:
                    raise ParameterError(f"{option} is for --engine ray; add that, or leave {option} out.")
        if self.workers is not None:
            check_integer("--workers", self.workers, low=1)
        if self.scratch is not None and not self.scratch.is_dir():
            raise DataNotFoundError(f"There is no folder {self.scratch} to put the shuffled copy into (--scratch).")


def folder_to_stream(data: Path, learner: str, resources: Resources) -> Folder | None:
    """Return the folder that is to be read in batches; None where the data is read as one table.

    A folder of some size is, if the learner can; a single Parquet file only if it is asked for, or too large.
    """
    from plr.cli.common import note
    from plr.errors import DataNotFoundError, ParameterError
    from plr.sources.files import FORMATS
    from plr.streaming.fitting import STREAMED
    from plr.streaming.folder import Folder
    from plr.streaming.memory import available_memory, readable

    forced = resources.stream or resources.engine == "ray"
    is_folder = data.is_dir()
    if not data.exists() and not data.suffix:
        raise DataNotFoundError(f"There is no file or folder {data}.")
    if not is_folder and (FORMATS.get(data.suffix.lower()) != "parquet" or not data.is_file()):
        if forced and data.exists():
            option = "--engine ray" if resources.engine == "ray" else "--stream"
            raise ParameterError(
                f"{data} cannot be read in batches, which {option} asks for; a folder of Parquet files, or one, can."
            )
        return None
    if resources.stream is False:
        return None
    folder = Folder.open(data)
    can = learner in STREAMED or learner == "auto"
    left = available_memory()
    too_large = left is not None and _COPIES * folder.uncompressed > left
    if not can:
        if not forced and not too_large:
            return None
        why = "needs all rows in memory, and cannot be trained in batches"
        if too_large:
            needed = readable(_COPIES * folder.uncompressed)
            why = f"needs all rows in memory, about {needed}, and {readable(left or 0)} are left"
        raise ParameterError(
            f"--learner {learner} {why}; use --learner mlp, linear or module, which read {data} in batches, or fit "
            f"{learner} to a part of the rows."
        )
    if not forced and not too_large and not (is_folder and folder.uncompressed >= _SMALL):
        return None
    if learner == "auto":
        note(
            f"{data} has {folder.rows:,} rows, {readable(folder.uncompressed)}: auto is mlp, trained in batches"
            + ("." if too_large or forced else "; --no-stream reads them as one table.")
        )
    return folder


def read_folder(data: Path) -> pa.Table:
    """Return a folder's rows as one table."""
    import pyarrow as pa

    from plr.streaming.folder import Folder

    return pa.concat_tables(batch.table for batch in Folder.open(data).batches())


def fit_folder(
    folder: Folder,
    out: Path,
    asked: dict[str, str | None],
    parts: dict[str, str],
    options: dict[str, Any],
    resources: Resources,
    *,
    module: str | None = None,
    intervals: bool = True,
    drop_empty: bool = False,
    seed: int = 0,
    jobs: int | None = None,
) -> dict[str, Any]:
    """Train on a folder in batches, and write the model; return what was done."""
    from plr import save_model
    from plr.cli.common import Watch, caution_of, diagnosis_of, note, tell_columns, working
    from plr.cli.modules import read_module, short_name, try_module
    from plr.cli.parts import check_module, make_regressor
    from plr.cli.roles import read_roles
    from plr.columns import learn_features
    from plr.errors import ParameterError
    from plr.learners import Module
    from plr.learners.module.settings import check_settings
    from plr.persistence import check_savable
    from plr.streaming.fitting import FolderFit, stream_epochs
    from plr.streaming.fitting import fit_folder as fit
    from plr.streaming.memory import peak_memory
    from plr.streaming.rows import Reading

    watch, before = Watch(), peak_memory()
    learner = "mlp" if parts.get("learner", "auto") == "auto" else parts["learner"]
    check_module(learner, module is not None)
    if asked.get("groups"):
        raise ParameterError("--groups needs folds, which are not made in batches; leave it out.")
    if learner == "linear" and resources.engine == "ray":
        raise ParameterError("--engine ray trains mlp and module; a linear model is solved here, without it.")
    code = None if module is None else read_module(module)
    model = make_regressor({**parts, "learner": learner}, options, module=code, seed=seed, jobs=jobs)
    check_savable(model, out)
    if learner == "module" and "epochs" not in options:
        epochs = stream_epochs(None, folder.rows, check_settings(cast(Module, model.learner)).batch_size)
        model.set_params(learner__epochs=epochs)
        note(f"The module is trained for {epochs} epochs; --option epochs=N says otherwise.")
    with working("Looking at some rows"):
        some = folder.look(_LOOKED_AT, seed)
    roles = read_roles(some, folder.path, asked)
    if roles.truth and not asked.get("truth"):
        note(f"Left out: {roles.truth[0]!r}, which holds the true labels as the files themselves say.")
    features = learn_features(some, roles.aside, folder.path).settled(some)
    if folder.rows > some.num_rows:
        note(f"What each column is was told from {some.num_rows:,} of {folder.rows:,} rows.")
    tell_columns(features)
    if learner == "module":
        _check_numbers(features, folder)
        try_module(code, str(module), len(features.names), getattr(model.learner, "device", "auto"))
    weights = roles.weights[0] if roles.weights else None
    reading = Reading(folder, features, tuple(roles.target), tuple(roles.prior), weights, drop_empty)
    named = ({"option": options} if options else {}) | ({"module": short_name(module)} if module else {})
    description: dict[str, Any] = {
        "features": features.to_dict(),
        "target": roles.target,
        "truth": roles.truth[0] if roles.truth else None,
        "aside": roles.aside,
        "source": folder.path.name,
        "fingerprint": folder.fingerprint(),
        "roles": {role: named for role, named in asked.items() if named and role != "target"},
        "options": {
            **parts,
            **named,
            "seed": seed,
            "intervals": intervals,
            "drop_empty": drop_empty,
            "engine": resources.engine,
        },
    }

    def save(found: FolderFit) -> None:
        counted = {"rows": found.survey.rows, "held_out": found.held, "sample": found.sample}
        save_model(model, out, extra={"table": {**description, **counted}}, training_rows=False)

    place = _scratch(out, resources)
    with _engine(resources) as engine, _keeping(place):
        found = fit(model, reading, place, intervals=intervals, engine=engine, working=working, save=save)
    if found.taken_up:
        note("Went on from where an earlier fit had been stopped.")
    _tell_survey(found.survey, folder)
    peak = peak_memory()
    return {
        "model": str(out),
        "identified": None,
        "rows": found.survey.rows,
        "rows_left_out": found.survey.left_out,
        "rows_held_out": found.held,
        "rows_of_sample": found.sample,
        "taken_up": found.taken_up,
        "candidates": found.survey.candidates,
        "target": roles.target,
        "truth": description["truth"],
        "columns": features.to_dict()["columns"],
        "features": list(features.names),
        "noise_scale": float(model.noise_scale_),
        "doubt": None,
        "diagnosis": diagnosis_of(model),
        "caution": caution_of(model),
        "peak_memory": peak,
        "peak_memory_before": before,
        "disk": found.copied,
        "engine": resources.engine,
        "seconds": watch.seconds,
    }


def tell_done(done: dict[str, Any], out: Path) -> None:
    """Say what a fit in batches came to."""
    from plr.streaming.memory import readable

    typer.echo(
        f"Wrote {out}: a model of {done['rows']:,} rows, {len(done['features'])} features, {done['seconds']:g} s."
    )
    typer.echo(
        f"True values scatter by about {done['noise_scale']:.4g} around its predictions, by {done['rows_held_out']:,} "
        "rows that were held out of training."
    )
    if done["peak_memory"] is not None:
        here = " of this process, without the workers'" if done["engine"] == "ray" else ""
        grown = done["peak_memory"] - (done["peak_memory_before"] or 0)
        typer.echo(
            f"Peak memory{here}: {readable(done['peak_memory'])}, {readable(grown)} more than before; "
            f"on the disk, while it was trained: {readable(done['disk'])}."
        )
    typer.echo("Which candidates are true: plr identify MODEL FOLDER -o OUT.")


@contextmanager
def _engine(resources: Resources) -> Iterator[Engine]:
    from plr.streaming.engine import LocalEngine

    if resources.engine == "local":
        yield LocalEngine()
        return
    from plr.cluster.session import import_ray, session

    import_ray()
    from plr.cluster.ray_engine import RayEngine, local_cpus

    workers = resources.workers or 2
    with session(resources.address, cpus=local_cpus(workers)):
        yield RayEngine(workers)


def _scratch(out: Path, resources: Resources) -> Path:
    """Return where to put what training leaves on the disk until it is over: beside the model, unless told."""
    # Workers of a cluster are in folders of their own.
    if resources.scratch is None:
        return Path(os.path.abspath(out.parent)) / f"{out.name}.unfinished"
    # Models of the same name may come from several folders.
    whose = hashlib.sha256(os.path.abspath(out).encode()).hexdigest()[:8]
    return Path(os.path.abspath(resources.scratch)) / f"{out.name}.{whose}.unfinished"


@contextmanager
def _keeping(place: Path) -> Iterator[None]:
    """Say, where a fit is stopped, that the same command goes on."""
    from plr.cli.common import note
    from plr.streaming.scratch import BusyError

    try:
        yield
    except BaseException as error:
        if place.is_dir() and not isinstance(error, BusyError):
            note(
                f"What has been done is kept in {place}; the same command goes on from there. Delete it if you do not "
                "want to."
            )
        raise


def _check_numbers(features: Features, folder: Folder) -> None:
    """Refuse categories, which a torch module cannot take."""
    from plr.errors import FeatureError

    names = [column.name for column in features.used if column.kind == "category"]
    if names:
        raise FeatureError(
            f"{folder.path}: --learner module takes numbers alone, but {', '.join(map(repr, names[:8]))} "
            f"{'have' if len(names) > 1 else 'has'} categories; leave out what it cannot take with --ignore "
            f"{','.join(names)}, or use --learner mlp."
        )


def _tell_survey(found: Survey, folder: Folder) -> None:
    from plr.cli.common import note

    if found.left_out:
        note(f"Left out: {found.left_out:,} of {folder.rows:,} rows, which have no candidate.")
    for text in found.notes():
        note(text)
