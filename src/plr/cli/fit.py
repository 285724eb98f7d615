"""``plr fit``: train a model on a table of candidate sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from plr.cli.fit_folder import Resources

__all__ = ["fit_command"]


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
    from plr.cli.common import spelled_as_options
    from plr.cli.fit_folder import Resources, tell_done
    from plr.cli.options import parse_options

    asked = {"target": target, "ignore": ignore, "truth": truth, "prior": prior, "weights": weights, "groups": groups}
    parts = {"learner": learner, "weighting": weighting, "loss": loss, "start": start}
    if effort is not None:
        parts["effort"] = effort
    with spelled_as_options():
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
        typer.echo(json.dumps(done))
        return
    if "rows_held_out" in done:
        tell_done(done, out)
        _tell_caution(done)
        return
    typer.echo(f"Wrote {out}: a model of {done['rows']} rows, {len(done['features'])} features, {done['seconds']:g} s.")
    typer.echo(f"True values scatter by about {done['noise_scale']:.4g} around its predictions.")
    for line in _doubt_in_words(done["doubt"], identified):
        typer.echo(line)
    _tell_caution(done)


def _tell_caution(done: dict[str, Any]) -> None:
    if done["caution"]:
        typer.echo(f"Caution: {done['caution']}")


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
) -> dict[str, Any]:
    """Read a table, train, write the model; return what was done."""
    import pyarrow as pa

    from plr import save_model
    from plr.cli.answers import answer_names, check_fits_format, count_doubt, write_answers
    from plr.cli.common import (
        Watch,
        caution_of,
        check_different,
        check_new_names,
        diagnosis_of,
        digest,
        note,
        places_of,
        read_sets,
        tell_columns,
        working,
    )
    from plr.cli.fit_folder import Resources, fit_folder, folder_to_stream, read_folder
    from plr.cli.model_report import page_of_training
    from plr.cli.modules import check_numbers, read_module, short_name, try_module
    from plr.cli.parts import check_module, make_regressor
    from plr.cli.roles import read_roles
    from plr.cli.seen import row_digests
    from plr.cli.tables import check_output, read_table_and_texts
    from plr.columns import learn_features
    from plr.columns.targets import read_target
    from plr.errors import ParameterError
    from plr.learners.committee import FittedCommittee
    from plr.persistence import check_savable
    from plr.training import effort_of_folds

    watch = Watch()
    check_different(**{"DATA": data, "--out": out, "--identified": identified})
    _check_model_path(out)
    if identified is not None:
        check_output(identified)
    given = Resources() if resources is None else resources
    given.check()
    folder = folder_to_stream(data, parts.get("learner", "auto"), given)
    if folder is None and given.scratch is not None:
        raise ParameterError("--scratch is for training in batches, and the rows are read as one table; leave it out.")
    if folder is not None:
        if identified is not None:
            raise ParameterError(
                "--identified judges each row by models that have not seen it, for which all rows must be in memory; "
                f"in batches, say plr identify {out} {data} -o OUT afterwards."
            )
        return fit_folder(
            folder,
            out,
            asked,
            parts,
            options or {},
            given,
            module=module,
            intervals=intervals,
            drop_empty=drop_empty,
            seed=seed,
            jobs=jobs,
        )
    check_module(parts.get("learner", "auto"), module is not None)
    code = None if module is None else read_module(module)
    model = make_regressor(parts, options or {}, module=code, seed=seed, jobs=jobs)
    check_savable(model, out)
    with working("Reading"):
        table, texts = (read_folder(data), None) if data.is_dir() else read_table_and_texts(data)
    if identified is None:
        # They would be in memory during the fit.
        texts = None
    roles = read_roles(table, data, asked)
    if identified is not None:
        check_new_names(table, answer_names(roles.target), data, prefix)
    sets = read_sets(table, roles.target, data, prior=roles.prior, drop_empty=drop_empty)
    if identified is not None:
        check_fits_format(table, identified)
    rows = table if sets.kept is None else table.take(pa.array(sets.kept))
    if sets.kept is not None:
        note(f"Left out: {table.num_rows - rows.num_rows} of {table.num_rows} rows, which have no candidate.")
    if roles.truth and not asked.get("truth"):
        note(f"Left out: {roles.truth[0]!r}, which holds the true labels as the file itself says.")
    features = learn_features(rows, roles.aside, data)
    tell_columns(features)
    # What is to be said about single cells has been said with their columns.
    place = places_of(sets, table, data)
    X, _ = features.apply(rows, data, place=place)
    weight = read_target(rows, roles.weights[0], data, place) if roles.weights else None
    group = rows[roles.groups[0]].to_pylist() if roles.groups else None
    if module is not None:
        check_numbers(X, features, data)
        try_module(code, module, X.num_columns, getattr(model.learner, "device", "auto"))
    with working("Fitting") as tell:
        model.fit(X, sets, sample_weight=weight, groups=group, callback=tell)
    if isinstance(model.model_, FittedCommittee) and model.model_.trees is None:
        note(
            f"Note: with fewer than {model.learner_.fewest_rows} rows the committee has no trees; its Gaussian process "
            f"predicts alone."
        )
    found = None
    if identified is not None or getattr(model.model_, "out_of_fold", None) is not None:
        with working("Identifying"):
            found = model.identify()
    if intervals:
        with working("Measuring how far off predictions are"):
            model.calibrate()
        if lower := effort_of_folds(model.learner_, model.model_):
            note(f"Note: intervals are measured on models fitted with less effort than this one: {lower}.")
    model._row_digests = row_digests(X, sets)
    doubt = None if found is None else count_doubt(found, sets)
    # What is in the file about the module's code is for messages.
    named = ({"option": options} if options else {}) | ({"module": short_name(module)} if module else {})
    description: dict[str, Any] = {
        "features": features.to_dict(),
        "target": roles.target,
        "truth": roles.truth[0] if roles.truth else None,
        "aside": roles.aside,
        "rows": len(sets),
        "source": data.name,
        "digest": digest(X, sets),
        "doubt": doubt,
        "roles": {role: named for role, named in asked.items() if named and role != "target"},
        "options": {**parts, **named, "seed": seed, "intervals": intervals, "drop_empty": drop_empty},
    }
    extra: dict[str, Any] = {"table": description}
    if page:
        with working("Preparing the page"):
            ignored = [name for name in roles.aside if name not in {*roles.target, *roles.prior, *roles.truth}]
            extra["page"] = page_of_training(
                model, X, sets, rows, features, ignored=ignored, truth=description["truth"], source=data, seed=seed
            )
    save_model(model, out, extra=extra, training_rows=page)
    if identified is not None and found is not None:
        write_answers(table, found, sets, roles.target, data, identified, prefix, texts)
    return {
        "model": str(out),
        "identified": None if identified is None else str(identified),
        "rows": len(sets),
        "rows_left_out": table.num_rows - len(sets),
        "candidates": len(sets.values),
        "target": roles.target,
        "truth": description["truth"],
        "columns": features.to_dict()["columns"],
        "features": list(features.names),
        "noise_scale": float(model.noise_scale_),
        "doubt": doubt,
        "diagnosis": diagnosis_of(model),
        "caution": caution_of(model),
        "seconds": watch.seconds,
    }


def _check_model_path(out: Path) -> None:
    import os

    from plr.errors import DataError, DataNotFoundError, ParameterError

    if out.is_dir():
        raise ParameterError(f"{out} is a folder; name a file.")
    if not out.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {out.parent} to write {out.name} into.")
    if not os.access(out.parent, os.W_OK):
        raise DataError(f"Nothing may be written into the folder {out.parent}: permission denied.")


def _doubt_in_words(doubt: dict[str, Any] | None, identified: Path | None) -> list[str]:
    from plr.cli.answers import DOUBTFUL, SETTLED

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
