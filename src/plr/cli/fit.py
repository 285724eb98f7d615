"""``plr fit``: train a model on a table of candidate sets."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from plr.regressor import PartialLabelRegressor
    from plr.sources.folder import Folder
    from plr.streaming.engine import Engine
    from plr.tables import TableModel
    from plr.tables.fitting import FitSummary, Prepared

__all__ = ["ENGINES", "FitDone", "Resources", "fit", "fit_command"]

ENGINES = ("local", "ray")
"""Where a model can be trained."""


def _learners() -> list[str]:
    return ["auto", "boosting", "committee", "density", "gaussian_process", "linear", "mlp", "module"]


def _weightings() -> list[str]:
    from plr.weighting import WEIGHTINGS

    return ["auto", *sorted(WEIGHTINGS)]


def _losses() -> list[str]:
    from plr.losses import LOSSES

    return sorted(LOSSES)


def fit_command(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table with candidates: CSV, Parquet, Feather or JSON Lines; or a folder of Parquet files."
        ),
    ],
    target: Annotated[
        str, typer.Option("--target", help="Column of candidate sets, or several columns with a candidate each: a,b,c.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")],
    identified: Annotated[
        Path | None,
        typer.Option(
            help="Also write the table with the likeliest candidate of each row, by models that have not seen it."
        ),
    ] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns that are no features: a,b,c.")] = None,
    truth: Annotated[
        str | None, typer.Option(help="Column of true labels, if there is one; it is left out of the features.")
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="Column that says how likely each candidate is, in the form of the target.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Column that says how much each row counts.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="Column of groups whose rows belong together, such as one patient's.")
    ] = None,
    learner: Annotated[
        str,
        typer.Option(
            help="auto, committee, gaussian_process, boosting, mlp, linear, density or module.",
            autocompletion=_learners,
        ),
    ] = "auto",
    weighting: Annotated[
        str,
        typer.Option(
            help="auto, posterior, progressive, identification or average.",
            autocompletion=_weightings,
        ),
    ] = "auto",
    loss: Annotated[str, typer.Option(help="squared, absolute or huber.", autocompletion=_losses)] = "squared",
    start: Annotated[
        str,
        typer.Option(
            help="First weights of the candidates, before any model exists: auto, none, density or sampled.",
            autocompletion=lambda: ["auto", "none", "density", "sampled"],
        ),
    ] = "auto",
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Option of the learner as NAME=VALUE, such as epochs=50 or hidden=[128,128]; of another part with its "
            "name before, such as weighting.beta2=3; repeatable."
        ),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            help="For the learner module: FILE.py:NAME of a torch module, or a function that makes one. Its code runs."
        ),
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(
            help="How much the committee, which auto is, computes: low, normal or high.",
            autocompletion=lambda: ["low", "normal", "high"],
            show_default="normal",
        ),
    ] = None,
    intervals: Annotated[
        bool, typer.Option(help="Prepare for plr predict --interval, which takes as long as the fit itself.")
    ] = True,
    page: Annotated[
        bool,
        typer.Option(
            help="Keep the training rows' candidates, and what was found about them, in the model file, for plr report."
        ),
    ] = True,
    drop_empty: Annotated[bool, typer.Option("--drop-empty", help="Leave out rows without a candidate.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Processor cores to use, -1 for all; the model does not depend on it.")
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Read Parquet files in batches, so that they need not fit in memory, or as one table.",
            show_default="a folder of 256 MiB and more in batches",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="What trains: local; or ray, a cluster, on which mlp and module are trained by several workers.",
            autocompletion=lambda: ["local", "ray"],
        ),
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes that train together, with --engine ray.", show_default="2")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT.",
            show_default="one on this machine, while it lasts",
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the shuffled copy of the rows that training in batches needs.",
            show_default="the model's own",
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Put before the names of the columns that --identified adds.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Train a model on a table in which each row has several candidates, one of them true.

    Numbers, dates, categories and missing values are understood; what was done with each column is told.

    Example: plr fit readings.csv --target value -o model.plr --identified answers.csv
    """
    from plr.cli.common import warnings_as_notes
    from plr.cli.options import parse_options

    asked = {"target": target, "ignore": ignore, "truth": truth, "prior": prior, "weights": weights, "groups": groups}
    parts = {"learner": learner, "weighting": weighting, "loss": loss, "start": start}
    if effort is not None:
        parts["effort"] = effort
    with warnings_as_notes():
        done = fit(
            data,
            out,
            asked,
            parts,
            parse_options(option or [], "epochs=50"),
            module=module,
            resources=Resources(stream, engine, workers, address, scratch),
            identified=identified,
            intervals=intervals,
            page=page,
            drop_empty=drop_empty,
            seed=seed,
            jobs=jobs,
            prefix=prefix,
        )
    if as_json:
        typer.echo(json.dumps(done.told()))
        return
    for line in done.in_words():
        typer.echo(line)


@dataclass(frozen=True)
class Resources:
    """Where and how a model is trained.

    Attributes
    ----------
    stream : bool or None
        Whether rows are read in batches; None leaves that to their number.
    engine : str
        ``local`` or ``ray``.
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

    def check(self, data: Path) -> None:
        """Refuse what does not go together."""
        from plr._parameters import check_choice, check_integer
        from plr.errors import DataNotFoundError, ParameterError
        from plr.sources.files import FORMATS

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
        if self.engine == "ray" and data.is_file() and FORMATS.get(data.suffix.lower()) != "parquet":
            raise ParameterError(
                f"{data} cannot be read in batches, which --engine ray asks for; a folder of Parquet files, or one, "
                "can."
            )

    @contextmanager
    def connected(self) -> Iterator[Engine | None]:
        """Give the engine that trains; None for this process."""
        if self.engine == "local":
            yield None
            return
        from plr.cluster.session import import_ray, session

        import_ray()
        from plr.cluster.ray_engine import RayEngine, local_cpus

        workers = self.workers or 2
        with session(self.address, cpus=local_cpus(workers)):
            yield RayEngine(workers)

    def place(self, out: Path) -> Path:
        """Return the folder for what training leaves on the disk until it is over: beside the model, unless told."""
        # Workers of a cluster are in folders of their own.
        if self.scratch is None:
            return Path(os.path.abspath(out.parent)) / f"{out.name}.unfinished"
        # Models of the same name may come from several folders.
        whose = hashlib.sha256(os.path.abspath(out).encode()).hexdigest()[:8]
        return Path(os.path.abspath(self.scratch)) / f"{out.name}.{whose}.unfinished"


@dataclass(frozen=True)
class FitDone:
    """What a fit came to.

    Attributes
    ----------
    model : TableModel
        Fitted.
    out, identified : Path
        Where the model was written, and the table of answers, if there is one.
    engine : str
    seconds : float
    memory_before : int or None
        The most memory that was used before the fit.
    """

    model: TableModel
    out: Path
    identified: Path | None
    engine: str
    seconds: float
    memory_before: int | None

    @property
    def summary(self) -> FitSummary:
        """What fitting to the table came to."""
        assert self.model.summary is not None
        return self.model.summary

    def told(self) -> dict[str, Any]:
        """Return it as plain values."""
        from plr.memory import peak_memory

        found, model = self.summary, self.model
        told = {
            "model": str(self.out),
            "identified": None if self.identified is None else str(self.identified),
            "rows": found.rows,
            "rows_left_out": found.left_out,
            "candidates": found.candidates,
            "target": list(model.target),
            "truth": model.truth,
            "columns": found.features.to_dict()["columns"],
            "features": list(found.features.names),
            "noise_scale": float(model.regressor.noise_scale_),
            "doubt": found.doubt,
            "diagnosis": model.diagnosis,
            "caution": model.caution,
            "seconds": self.seconds,
        }
        if found.source.in_batches:
            told |= {
                "rows_held_out": found.held_out,
                "rows_of_sample": found.sample,
                "resumed": found.resumed,
                "peak_memory": peak_memory(),
                "peak_memory_before": self.memory_before,
                "disk": found.disk,
                "engine": self.engine,
            }
        return told

    def in_words(self) -> Iterator[str]:
        """Give it in lines."""
        found, scale = self.summary, f"{self.model.regressor.noise_scale_:.4g}"
        rows = f"{found.rows:,}" if found.source.in_batches else str(found.rows)
        yield f"Wrote {self.out}: a model of {rows} rows, {len(found.features.names)} features, {self.seconds:g} s."
        if found.source.in_batches:
            yield (
                f"True values scatter by about {scale} around its predictions, by {found.held_out:,} rows that were "
                "held out of training."
            )
            yield from self._memory_in_words()
            yield "Which candidates are true: plr identify MODEL FOLDER -o OUT."
        else:
            yield f"True values scatter by about {scale} around its predictions."
            yield from _doubt_in_words(found.doubt, self.identified)
        if self.model.caution:
            yield f"Caution: {self.model.caution}"

    def _memory_in_words(self) -> Iterator[str]:
        from plr.memory import peak_memory, readable

        peak = peak_memory()
        if peak is not None:
            here = " of this process, without the workers'" if self.engine == "ray" else ""
            grown = max(peak - (self.memory_before or 0), 0)
            yield (
                f"Peak memory{here}: {readable(peak)}, {readable(grown)} more than before; "
                f"on the disk, while it was trained: {readable(self.summary.disk or 0)}."
            )


def fit(
    data: Path,
    out: Path,
    asked: dict[str, str | None],
    parts: dict[str, str],
    options: dict[str, Any] | None = None,
    *,
    module: str | None = None,
    resources: Resources | None = None,
    identified: Path | None = None,
    intervals: bool = True,
    page: bool = True,
    drop_empty: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    prefix: str = "",
) -> FitDone:
    """Read a table, train, write the model; return what was done."""
    from plr import TableModel
    from plr.cli.common import Watch, check_different, terminal, working
    from plr.cli.model_options import check_module, make_regressor
    from plr.cli.model_report import page_of_training
    from plr.cli.modules import check_numbers, read_module, short_name, try_module
    from plr.errors import ParameterError
    from plr.memory import peak_memory
    from plr.persistence import check_savable
    from plr.tables.fitting import open_in_batches
    from plr.tables.model import open_identified
    from plr.tables.writing import check_output

    watch, before, front = Watch(), peak_memory(), terminal()
    options, resources = options or {}, Resources() if resources is None else resources
    check_different(**{"DATA": data, "--out": out, "--identified": identified})
    _check_model_path(out)
    if identified is not None:
        check_output(identified)
    resources.check(data)
    wanted = True if resources.engine == "ray" else resources.stream
    folder = open_in_batches(data, parts.get("learner", "auto"), wanted, front)
    learner = parts.get("learner", "auto")
    if folder is not None:
        learner = "mlp" if learner == "auto" else learner
        _check_batches(learner, out, identified, resources, data)
    check_module(learner, module is not None)
    code = None if module is None else read_module(module)
    regressor = make_regressor({**parts, "learner": learner}, options, module=code, seed=seed, jobs=jobs)
    check_savable(regressor, out)
    if folder is not None and learner == "module" and "epochs" not in options:
        _set_epochs(regressor, folder)
    model = TableModel(regressor)

    def check(ready: Prepared) -> None:
        if identified is not None:
            open_identified(ready.source, identified, ready.roles.target, prefix, front=front)
        if module is not None:
            check_numbers(ready)
            try_module(code, module, len(ready.features.names), getattr(regressor.learner, "device", "auto"))

    def save(model: TableModel) -> None:
        kept = None
        if page and folder is None:
            with working("Preparing the page"):
                kept = page_of_training(model, seed)
        model.save(out, page=kept, training_rows=page and folder is None)

    # What is in the file about the module's code is for messages.
    named = ({"option": options} if options else {}) | ({"module": short_name(module)} if module else {})
    asked_for = {**parts, **named, "seed": seed, "intervals": intervals, "drop_empty": drop_empty}
    in_batches = {"stream": True, "engine": resources.engine, "workers": resources.workers}
    scratch = resources.place(out) if folder is not None else None
    if folder is None and resources.scratch is not None:
        raise ParameterError("--scratch is for training in batches, and the rows are read as one table; leave it out.")
    with resources.connected() as engine, _keeping(scratch):
        model.fit(
            data if folder is None else folder,
            **asked,
            drop_empty=drop_empty,
            intervals=intervals,
            identify=identified is not None,
            in_batches=folder is not None,
            scratch=scratch,
            engine=engine,
            options=asked_for if folder is None else {**asked_for, **in_batches},
            check=check,
            save=save,
            front=front,
        )
    if identified is not None:
        model.write_identified(None, identified, prefix=prefix, front=front)
    return FitDone(model, out, identified, resources.engine, watch.seconds, before)


def _check_batches(learner: str, out: Path, identified: Path | None, resources: Resources, data: Path) -> None:
    from plr.errors import ParameterError

    if identified is not None:
        raise ParameterError(
            "--identified judges each row by models that have not seen it, for which all rows must be in memory; "
            f"in batches, say plr identify {out} {data} -o OUT afterwards."
        )
    if learner == "linear" and resources.engine == "ray":
        raise ParameterError("--engine ray trains mlp and module; a linear model is solved here, without it.")


def _set_epochs(regressor: PartialLabelRegressor, folder: Folder) -> None:
    from typing import cast

    from plr.cli.common import note
    from plr.learners import Module
    from plr.learners.module.settings import check_settings
    from plr.streaming.fitting import stream_epochs

    epochs = stream_epochs(None, folder.rows, check_settings(cast(Module, regressor.learner)).batch_size)
    regressor.set_params(learner__epochs=epochs)
    note(f"The module is trained for {epochs} epochs; --option epochs=N says otherwise.")


@contextmanager
def _keeping(place: Path | None) -> Iterator[None]:
    """Say, where a fit is stopped, that it can be resumed."""
    from plr.cli.common import note
    from plr.streaming.scratch import BusyError

    try:
        yield
    except BaseException as error:
        if place is not None and place.is_dir() and not isinstance(error, BusyError):
            note(
                f"What has been done is kept in {place}; run the same command again to resume. Delete it if you do not "
                "want to."
            )
        raise


def _check_model_path(out: Path) -> None:
    from plr.errors import DataError, DataNotFoundError, ParameterError

    if out.is_dir():
        raise ParameterError(f"{out} is a folder; name a file.")
    if not out.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {out.parent} to write {out.name} into.")
    if not os.access(out.parent, os.W_OK):
        raise DataError(f"Nothing may be written into the folder {out.parent}: permission denied.")


def _doubt_in_words(doubt: dict[str, Any] | None, identified: Path | None) -> list[str]:
    from plr.identification import DOUBTFUL, SETTLED

    if doubt is None:
        return ["Which rows are still in doubt, plr fit --identified OUT tells."]
    if not doubt["rows_with_several"]:
        return ["Every row has one candidate, so there was nothing to identify."]
    lines = [
        f"Of {doubt['rows_with_several']} rows with several candidates, {doubt['settled']} are settled (probability "
        f"{SETTLED} and more), {doubt['likely']} likely, and {doubt['doubtful']} still in doubt (below {DOUBTFUL})."
    ]
    if identified is not None:
        lines.append(f"Wrote {identified}: sort it by probability to see the doubtful rows first.")
    return lines
