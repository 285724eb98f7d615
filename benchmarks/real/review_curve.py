"""What checked rows buy: held-out log loss of the truth against their number, chosen by the review and at random.

    python -m benchmarks.real.review_curve [--data FOLDER] [--draws 30] [--jobs 2] [--store runs/review]

Made-up tables of several kinds, and those of FOLDER (NAME.rows.csv and NAME.pairs.csv) where it is given. Rows are
checked ten at a time; after each ten, what makes candidates believable is learned again, and rows that never take part
are asked. The area under the curve from 10 to 100 checked rows is compared, as it is and above what is left when all
rows are checked. Probabilities are by the learned prior and its own smoother, without a learner.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import job_key, keep_to_one_thread, read_lines, run_jobs, write_sheets

if __name__ == "__main__":
    keep_to_one_thread()

import numpy as np
import pyarrow as pa
from benchmarks.identification.sheets import Bar, Section, Sheet
from benchmarks.real.cases import FOLDS, OWN, SEED, Part, digest, problem, tables_in

from plr import CandidateSets
from plr.candidates.known import NONE_OF_THESE, read_known
from plr.paper.machine import revision
from plr.preprocessing.features import learn_encoding
from plr.preprocessing.scaling import learn_target
from plr.priors.dependence import Dependence
from plr.priors.learned import RowFeatures, learn_belief, teaching_rows
from plr.priors.logit import Alternatives
from plr.priors.smoothing import KernelSmoother
from plr.review import choose_rows

STEP, MOST, ROWS, DRAWS = 10, 100, 300, 30
CHOICES = ("review", "random")
KINDS = {
    "sources": "eight sources, five of them rare, of which one is always preferred to another",
    "scores and sources": "the same with a match score, which differs little in most rows",
    "few of many": "eight columns of numbers, of which three count; some are rarely other than 0",
    "scores": "a match score, which differs little in most rows",
    "near and far": "false labels near the truth and far from it, and the age of each",
    "leaning": "guesses, most of them too high; nothing else is known of them",
}
"""Made-up tables: what is known of their candidates."""


def make_table(kind: str, rows: int, rng: np.random.Generator) -> Part:
    """Make a table of one kind: false candidates lie near the truth, and features of candidates tell most of them."""
    X = rng.normal(size=(rows, 6))
    truth = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + 0.5 * rng.normal(size=rows)
    sizes = rng.integers(3, 8, size=rows)
    offsets = np.append(0, np.cumsum(sizes))
    row, count = np.repeat(np.arange(rows), sizes), int(offsets[-1])
    features: dict[str, Any] = {}
    away, worth = rng.normal(size=count), np.zeros(count)
    if "sources" in kind:
        # None is twice in a row, and which of them are good is nowhere said.
        rare = np.log([0.34, 0.28, 0.18, 0.08, 0.05, 0.03, 0.02, 0.02])
        order = np.argsort(-rare - rng.gumbel(size=(rows, len(rare))), axis=1)
        source = order[np.arange(len(rare)) < sizes[:, None]]
        worth += 5.0 * rng.permutation(len(rare))[source]
        features["source"] = np.array([f"shop {place}" for place in source])
    if "scores" in kind:
        spread = np.where(rng.random(rows) < 0.3, 0.3, 0.05)[row]
        features["score"] = rng.beta(2, 2, size=rows)[row] + spread * rng.normal(size=count)
        worth += rng.uniform(40.0, 80.0) * features["score"]
    if kind == "few of many":
        for place in range(8):
            rarely = (rng.random(count) < 0.1).astype(float)
            features[f"column {place}"] = rng.normal(size=count) if place % 2 else rarely
        worth += 3.0 * features["column 1"] + 5.0 * features["column 2"] - 2.0 * features["column 3"]
    if kind == "near and far":
        away *= np.where(rng.random(count) < 0.5, 3.0, 0.5)
        features["age"] = rng.exponential(size=count)
        worth -= 10.0 * features["age"]
    if kind == "leaning":
        away = np.where(rng.random(count) < 0.97, 1.0, -1.0) * np.abs(away)
    # The likeliest of each row, with noise that makes it a draw from the softmax of what candidates are worth.
    noisy = worth + rng.gumbel(size=count)
    true = noisy == Alternatives(offsets).max(noisy)[row]
    values = np.where(true, truth[row], truth[row] + away)
    return Part(X, truth, CandidateSets(values, offsets, features=features), true)


def split_table(name: str, draw: int, folder: Path | None) -> tuple[Part, Part]:
    """Return the rows to choose from, and others."""
    if name in KINDS:
        whole = make_table(name, 2 * ROWS, np.random.default_rng([SEED, draw, list(KINDS).index(name)]))
        return whole.take(np.arange(ROWS)), whole.take(np.arange(ROWS, 2 * ROWS))
    found = problem(name, draw % FOLDS, folder)
    return found.train, found.test


class QuickSmoother(KernelSmoother):
    """A smoother without trees, which take long and change all curves alike."""

    out_of_fold_with_trees = KernelSmoother.out_of_fold


@dataclass(frozen=True)
class Job:
    """One curve."""

    name: str
    choice: str
    draw: int
    folder: Path | None = None

    @property
    def key(self) -> str:
        """Hash of all that decides the result."""
        return job_key("review", self.name, self.choice, self.draw, SEED, digest(self.name, self.folder))


def measure(job: Job) -> dict[str, Any]:
    """Measure one curve."""
    line = {**asdict(job), "key": job.key, "revision": revision() or "unknown", "losses": curve(job)}
    del line["folder"]
    return line


def curve(job: Job) -> list[float]:
    """Return the held-out log loss with 10, 20, … checked rows, and with all."""
    table, new = split_table(job.name, job.draw, job.folder)
    rng = np.random.default_rng([SEED, job.draw, CHOICES.index(job.choice)])
    S, rows = table.S, len(table.S)
    features = RowFeatures(None, learn_encoding(table.X))
    encoded = features.encode(table.X)
    folds = np.array_split(np.random.default_rng([SEED, job.draw]).permutation(rows), 5)
    smoother, target, weights = QuickSmoother(encoded, folds), learn_target(S), np.ones(rows)
    has = np.logical_or.reduceat(table.is_true, S.offsets[:-1])
    label = np.full(rows, np.nan)
    label[S.row_index[table.is_true]] = S.values[table.is_true]
    looked_at = np.zeros(rows, dtype=bool)

    def believe() -> tuple[Any, Any]:
        answers = np.where(looked_at & ~has, NONE_OF_THESE, "")
        answered = pa.table({"value": np.where(looked_at, label, np.nan), "answer": answers})
        known = read_known(answered, S)
        return learn_belief(S, target, features, smoother, Dependence(0.5, 0.2), weights, known), known

    def held_out(belief: Any) -> float:
        there = np.logical_or.reduceat(new.is_true, new.S.offsets[:-1])
        prediction = smoother.fit(belief.labels).predict(features.encode(new.X))
        probabilities, _ = belief.prior.probabilities(new.S, prediction, new.X)
        sets = Alternatives(new.S.offsets)
        right = sets.sum(probabilities * new.is_true) / sets.sum(probabilities)
        return float(-np.log(np.maximum(right[there], 1e-9)).mean())

    losses = []
    belief, known = believe()
    for _ in range(STEP, MOST + 1, STEP):
        free = ~looked_at & (S.sizes > 1)
        if job.choice == "random":
            chosen = rng.choice(np.flatnonzero(free), STEP, replace=False)
        else:
            design = belief.prior.design(S, smoother.out_of_fold(belief.labels), table.X)
            taught = teaching_rows(S, known)
            chosen = choose_rows(STEP, S, belief.probabilities, free, *design, taught, encoded, rng)[0]
        looked_at[chosen] = True
        belief, known = believe()
        losses.append(held_out(belief))
    looked_at[:] = True
    return [*losses, held_out(believe()[0])]


@dataclass(frozen=True)
class Curves:
    """All curves of one table; a line each, the last entry with all rows checked."""

    name: str
    review: Any
    random: Any

    @property
    def areas(self) -> tuple[Any, Any, Any]:
        """The mean losses from 10 to 100 checked rows, chosen by the review and at random, and with all checked."""
        review, random = (
            np.trapezoid(found[:, :-1], axis=1) / (MOST / STEP - 1) for found in (self.review, self.random)
        )
        return review, random, self.random[:, -1]

    @property
    def ratio(self) -> float:
        """The area by the review's choice over that at random."""
        review, random, _ = self.areas
        return float(review.mean() / random.mean())

    @property
    def error(self) -> float:
        """The standard error of the ratio, paired by draws."""
        review, random, _ = self.areas
        return float((review - self.ratio * random).std(ddof=1) / np.sqrt(len(review)) / random.mean())

    @property
    def above(self) -> float:
        """The ratio of the areas above the loss with all rows checked."""
        review, random, floor = self.areas
        return float((review - floor).mean() / (random - floor).mean())


def make_sheet(found: Sequence[Curves], draws: int) -> Sheet:
    """Return the table."""
    made_up, real = (
        [curves for curves in found if (curves.name in KINDS) == is_made_up] for is_made_up in (True, False)
    )
    checked, every = [10, 20, 50, 100], draws >= DRAWS
    sheet = Sheet(
        "What checked rows buy, chosen by the review and at random",
        [
            "Held-out log loss of the truth, in nats. *Area* is its mean from 10 to 100 checked rows; *over random* "
            f"has its standard error over {draws} draws. Where random rows are soon near what all rows give, no choice "
            "can lower the area by much; *above all checked* compares what is left above that.",
            "Made-up tables: " + "; ".join(f"*{name}*: {words}" for name, words in KINDS.items()) + ".",
        ],
        ("table", "choice", "checked_rows", "log_loss", "standard_error"),
        [],
    )
    for curves in found:
        for choice, lines in zip(CHOICES, (curves.review, curves.random), strict=True):
            errors = lines.std(axis=0, ddof=1) / np.sqrt(len(lines))
            for place, (loss, error) in enumerate(zip(lines.mean(axis=0), errors, strict=True)):
                count = "all" if place == lines.shape[1] - 1 else (place + 1) * STEP
                sheet.rows.append((curves.name, choice, count, float(loss), float(error)))
    if made_up:
        words = "area by the review over that at random, made-up tables"
        sheet.bars.append(
            Bar(f"{words}, geometric mean", _geometric([curves.ratio for curves in made_up]), 0.8, complete=every)
        )
        sheet.bars.append(Bar(f"{words}, worst", max(curves.ratio for curves in made_up), 0.8, complete=every))
    if real:
        sheet.bars.append(
            Bar("the same, real tables, worst", max(curves.ratio for curves in real), 1.0, complete=every)
        )
    areas = []
    for curves in found:
        review, random, floor = (values.mean() for values in curves.areas)
        ratio = f"{curves.ratio:.3f} ± {curves.error:.3f}"
        areas.append((curves.name, f"{review:.3f}", f"{random:.3f}", ratio, f"{floor:.3f}", f"{curves.above:.2f}"))
    header = ("table", "area, review", "area, random", "over random", "all rows checked", "above all checked")
    sheet.sections.append(Section("Areas", header, areas))
    losses = [
        (
            curves.name,
            *(
                f"{curves.review[:, n // STEP - 1].mean():.3f} / {curves.random[:, n // STEP - 1].mean():.3f}"
                for n in checked
            ),
        )
        for curves in found
    ]
    sheet.sections.append(Section("Log loss, review / random", ("table", *(f"{n} rows" for n in checked)), losses))
    return sheet


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def draw_picture(found: Sequence[Curves]) -> bytes:
    """Draw the mean curves."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(len(found), 5)
    down = -(-len(found) // across)
    # The same picture from the same figures.
    with mpl.rc_context({"svg.hashsalt": "plr", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(2.6 * across, 2.4 * down), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False)
        checked = np.arange(STEP, MOST + 1, STEP)
        for axis, curves in zip(axes.flat, found, strict=False):
            for lines, colour, label in (
                (curves.review, "#0072b2", "chosen by the review"),
                (curves.random, "#c4520a", "at random"),
            ):
                middle = lines[:, :-1].mean(axis=0)
                error = lines[:, :-1].std(axis=0, ddof=1) / np.sqrt(len(lines))
                axis.plot(checked, middle, color=colour, label=label)
                axis.fill_between(checked, middle - error, middle + error, color=colour, alpha=0.2, linewidth=0)
            axis.axhline(curves.random[:, -1].mean(), color="#8d8a84", linestyle="--", label="all rows checked")
            axis.set_title(curves.name, fontsize=9)
        for axis in axes.flat[len(found) :]:
            axis.set_axis_off()
        axes[0, 0].legend(frameon=False, fontsize=8)
        figure.supxlabel("checked rows")
        figure.supylabel("held-out log loss")
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with NAME.rows.csv and NAME.pairs.csv")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS), help="made-up tables")
    parser.add_argument("--store", type=Path, default=Path("runs/review"), help="folder of what was measured")
    parser.add_argument("--out", type=Path, default=Path("results/real"), help="folder to write into")
    asked = parser.parse_args(arguments)
    names = [*asked.kinds, *(name for name in tables_in(asked.data) if not name.endswith(OWN))]
    jobs = [
        Job(name, choice, draw, None if name in KINDS else asked.data)
        for draw in range(asked.draws)
        for name in names
        for choice in CHOICES
    ]
    run_jobs(jobs, measure, asked.store, workers=asked.jobs)
    lines = {line["key"]: line for line in read_lines(asked.store)}
    revisions = sorted({lines[job.key]["revision"] for job in jobs})
    made = (
        f"Measured by `python -m benchmarks.real.review_curve{' --data FOLDER' if asked.data else ''} --draws "
        f"{asked.draws}`.\nSeed {SEED}, plr at revision {', '.join(revisions)}."
    )
    by_table = np.array([lines[job.key]["losses"] for job in jobs])
    by_table = by_table.reshape(asked.draws, len(names), len(CHOICES), -1).transpose(1, 2, 0, 3)
    found = [Curves(name, *part) for name, part in zip(names, by_table, strict=True)]
    pictures = {"review.svg": draw_picture(found)}
    write_sheets(asked.out, {"review": (make_sheet(found, asked.draws), made)}, pictures)


if __name__ == "__main__":
    main()
