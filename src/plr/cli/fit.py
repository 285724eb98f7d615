"""``plr fit``: train a model on a table of candidate sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from plr._parameters import check_choice, check_integer
from plr.atomic_file import check_writable
from plr.cli.common import check_columns, check_files, logged, warnings_as_notes
from plr.cli.options import (
    PARTS,
    CandidateFeatures,
    Candidates,
    DropEmpty,
    Ignore,
    Known,
    MatchScore,
    Prior,
    PriorIs,
    Record,
    Row,
    Text,
    Truth,
    one_or_several,
    parse_options,
)
from plr.errors import DataNotFoundError, ParameterError

__all__ = ["fit_command"]


def _names(part: str) -> list[str]:
    return list(PARTS[part])


def fit_command(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table with candidates: CSV, TSV, Parquet, Feather, JSON Lines or Excel; - for standard input; or a "
            "folder of Parquet files."
        ),
    ],
    target: Candidates,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")],
    identified: Annotated[
        Path | None,
        typer.Option(
            help="Also write the table with the likeliest candidate of each row, by models that have not seen it."
        ),
    ] = None,
    ignore: Ignore = None,
    text: Text = None,
    truth: Truth = None,
    prior: Prior = None,
    prior_is: PriorIs = "share",
    row: Row = None,
    candidate_features: CandidateFeatures = None,
    match_score: MatchScore = None,
    record: Record = None,
    one_to_one: Annotated[
        bool, typer.Option("--one-to-one", help="No two rows have the same record as their truth; needs --record.")
    ] = False,
    log: Annotated[
        bool, typer.Option("--log", help="Learn on the logarithms of the candidates; predictions are labels again.")
    ] = False,
    known: Known = None,
    weights: Annotated[str | None, typer.Option(help="Column that says how much each row counts.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="Column of groups whose rows belong together, such as one patient's.")
    ] = None,
    learner: Annotated[
        str,
        typer.Option(
            help="auto, committee, gaussian_process, boosting, mlp, linear, density or module.",
            autocompletion=lambda: _names("learner"),
        ),
    ] = "auto",
    weighting: Annotated[
        str,
        typer.Option(
            help="auto, posterior, progressive, identification or average.",
            autocompletion=lambda: _names("weighting"),
        ),
    ] = "auto",
    loss: Annotated[
        str, typer.Option(help="squared, absolute or huber.", autocompletion=lambda: _names("loss"))
    ] = "squared",
    start: Annotated[
        str,
        typer.Option(
            help="First weights of the candidates, before any model exists: auto, none, density or sampled.",
            autocompletion=lambda: _names("start"),
        ),
    ] = "auto",
    prior_model: Annotated[
        str,
        typer.Option(
            help="What checked rows teach about candidates: auto, given, learned, or boosted_logit, for "
            "hundreds of checked rows.",
            autocompletion=lambda: _names("prior_model"),
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
            autocompletion=lambda: _names("effort"),
            show_default="normal",
        ),
    ] = None,
    intervals: Annotated[
        bool, typer.Option(help="Prepare for plr predict --interval, which takes as long as the fit except with auto.")
    ] = True,
    page: Annotated[
        bool,
        typer.Option(
            help="Keep the training rows' candidates, and what was found about them, in the model file, for plr report."
        ),
    ] = True,
    drop_empty: DropEmpty = False,
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
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Tell on stderr what is being fitted, and what is found about each member."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Train a model on a table in which each row has several candidates, one of them true.

    Numbers, dates, categories and missing values are understood; what was done with each column is shown.

    Example: plr fit readings.csv --target value -o model.plr --identified answers.csv

    A join with several matches: plr fit pairs.csv --row id --target price --candidate-features score -o model.plr
    """
    check_files({"DATA": data}, {"--out": out, "--identified": identified})
    check_writable(out)
    if jobs == 0:
        raise ParameterError("--jobs must be a number of processor cores, or -1 for all; got 0.")
    check_choice("engine", engine, ("local", "ray"))
    if engine == "ray" and stream is False:
        raise ParameterError("--engine ray trains in batches; leave --no-stream out.")
    for option_name, given in (("--workers", workers), ("--address", address)):
        if engine != "ray" and given is not None:
            raise ParameterError(f"{option_name} is for --engine ray; add that, or leave {option_name} out.")
    if workers is not None:
        check_integer("workers", workers, low=1)
    if scratch is not None and not scratch.is_dir():
        raise DataNotFoundError(f"There is no folder {scratch} to put the shuffled copy into (--scratch).")
    options = parse_options(option or [], "epochs=50")
    asked = {"target": target, "ignore": ignore, "truth": truth, "prior": prior, "weights": weights, "groups": groups}
    asked |= {"text": text, "row": row, "candidate_features": candidate_features, "record": record}
    parts = {"learner": learner, "weighting": weighting, "loss": loss, "start": start}
    if prior_model != "auto":
        parts["prior_model"] = prior_model
    if effort is not None:
        parts["effort"] = effort
    for part, name in parts.items():
        check_choice(part, name, PARTS[part])
    check_columns(data, {**asked, "match_score": match_score}, one_or_several(known))
    from plr.cli.fit_and_save import fit_and_save

    with warnings_as_notes(), logged(verbose):
        done = fit_and_save(
            data,
            out,
            asked,
            parts,
            options,
            module=module,
            identified=identified,
            intervals=intervals,
            page=page,
            drop_empty=drop_empty,
            known=one_or_several(known),
            prior_is=prior_is,
            match_score=match_score,
            one_to_one=one_to_one,
            log=log,
            seed=seed,
            jobs=jobs,
            prefix=prefix,
            stream=stream,
            engine=engine,
            workers=workers,
            address=address,
            scratch=scratch,
        )
    if as_json:
        typer.echo(json.dumps(done))
        return
    for line in _in_words(done):
        typer.echo(line)
    if many := done["worth_checking"]:
        before = "".join(f" --known {one}" for one in known or ())
        rows = "" if page else f" {data}{before}"
        new = "more.csv" if known else "review.csv"
        typer.echo(
            f"{many} rows are worth checking next; plr review {out}{rows} -n {many} -o {new} lists them. "
            f"Fill in the true values, and fit again with{before} --known {new}."
        )


def _in_words(done: dict[str, Any]) -> Iterator[str]:
    scatter = f"True values scatter by about {done['noise_scale']:.4g} around its predictions"
    features, in_batches = len(done["features"]), "disk" in done
    yield f"Wrote {done['model']}: a model of {done['rows']:,} rows, {features:,} features, {done['seconds']:g} s."
    if in_batches:
        yield f"{scatter}, by {done['rows_held_out']:,} rows that were held out of training."
        yield from _memory_in_words(done)
        yield "Which candidates are true: plr identify MODEL FOLDER -o OUT."
    else:
        yield f"{scatter}."
        yield from _doubt_in_words(done["doubt"], done["identified"])
    # Where nothing was there to learn from, the caution says all.
    if done["checked"] is not None or not done["caution"]:
        yield from _checked_in_words(done["checked"], done["prior"])
    if done["caution"]:
        yield f"Caution: {done['caution']}"


def _checked_in_words(checked: dict[str, Any] | None, prior: dict[str, Any] | None) -> Iterator[str]:
    if checked is not None:
        parts = [f"{checked['found']:,} with the true candidate"]
        if checked["missing"]:
            parts.append(f"{checked['missing']} whose truth is not among the candidates")
        if checked["cannot_tell"]:
            parts.append(f"{checked['cannot_tell']} answered 'cannot tell'")
        taken = ", taken for a random sample" if checked["sampled"] == "random" else ""
        yield f"Checked rows: {checked['rows']:,}{taken}; {', '.join(parts)}."
        if changed := checked.get("changed"):
            another = changed["another_candidate"]
            likeliest = f", and in {another:,} another candidate the likeliest" if another else ""
            yield (
                f"What they changed: of {changed['rows']:,} other rows with several candidates, "
                f"{changed['doubtful']:,} are in doubt; without the checked rows, "
                f"{changed['doubtful_without']:,} would be{likeliest}."
            )
    if prior is None:
        if checked is not None:
            yield (
                "They settle their own rows; without a prior or features of candidates there is nothing more to learn "
                "from them."
            )
        return
    first, *learned = prior["learned"]
    yield f"What makes a candidate believable, {first}"
    yield from (f"  {line}" for line in learned)
    if prior["false_labels_depend_on_features"]:
        advice = "" if checked is not None else " Checked rows (--known) say how much it counts."
        yield (
            "False labels depend on the features, so that agreement with the model's predictions proves little."
            f"{advice}"
        )
    elif checked is not None:
        yield "Agreement with the model's predictions counts in full."


def _memory_in_words(done: dict[str, Any]) -> Iterator[str]:
    from plr.memory import readable

    peak = done["peak_memory"]
    if peak is not None:
        here = " of this process, without the workers'" if done["engine"] == "ray" else ""
        grown = max(peak - (done["peak_memory_before"] or 0), 0)
        yield (
            f"Peak memory{here}: {readable(peak)}, {readable(grown)} more than before; "
            f"on the disk, while it was trained: {readable(done['disk'] or 0)}."
        )


def _doubt_in_words(doubt: dict[str, Any] | None, identified: str | None) -> Iterator[str]:
    if doubt is None:
        yield "Which rows are still in doubt, plr fit --identified OUT tells."
    elif not doubt["rows_with_several"]:
        yield "Every row has one candidate, so there was nothing to identify."
    else:
        yield (
            f"Of {doubt['rows_with_several']:,} rows with several candidates, {doubt['settled']:,} are settled "
            f"(probability {doubt['settled_from']} and more), {doubt['likely']:,} likely, and {doubt['doubtful']:,} "
            f"still in doubt (below {doubt['doubtful_below']})."
        )
        if identified is not None:
            yield f"Wrote {identified}: sort it by probability to see the doubtful rows first."
