"""Lines put together: coverage, width and score of intervals by cell, and calibration of probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.identification.results import Comparison, compare, geometric_mean, mean_std, standard_error
from benchmarks.identification.sheets import Bar, Section, Sheet, number, plus_minus, ratio_text
from benchmarks.uncertainty.laws import LAWS
from benchmarks.uncertainty.measuring import ASKED, BINS, CHECKED, LEVELS
from benchmarks.uncertainty.plans import TIME, Fit, Plan

__all__ = ["SHEETS", "Lines", "calibration_error"]

Line = dict[str, Any]
Trials = dict[int, float]

_NAN = float("nan")
_SEVEN_POOLED, _SEVEN_CELL = (0.88, 0.93), (0.86, 0.95)
_LEAST, _MOSTLY, _SHARE_MOSTLY = 0.85, (0.87, 0.95), 0.9
_REAL = (0.86, 0.95)
_WORST_DECILE, _SCORE_WHERE_GROWING = 0.80, 0.85
_MOST_ERROR, _HARD = 0.03, 16
_SHARE_KEPT, _WIDEST = 0.93, 2.5
_FASTER = 0.5


@dataclass(frozen=True)
class Lines:
    """The lines of a part by cell and trial; ``missing`` says how many of ``planned`` fits have none."""

    found: dict[Fit, dict[int, Line]]
    planned: int

    @classmethod
    def of(cls, lines: Iterable[Line], plan: Plan) -> Lines:
        """Take those that belong to the plan; of several for one fit, the last."""
        by_key = {line["key"]: line for line in lines if "error" not in line}
        fits = list(plan.fits())
        found: dict[Fit, dict[int, Line]] = {cell.cell: {} for cell in plan.cells}
        for fit in fits:
            if fit.key in by_key:
                found[fit.cell][fit.trial] = by_key[fit.key]
        return cls(found, len(fits))

    @property
    def missing(self) -> int:
        """How many fits are not measured."""
        return self.planned - sum(map(len, self.found.values()))

    @property
    def complete(self) -> bool:
        """Whether all are."""
        return self.planned > 0 and self.missing == 0

    @property
    def revisions(self) -> set[str]:
        """At which revisions of plr they were measured."""
        return {line["revision"] for trials in self.found.values() for line in trials.values()}

    @property
    def cells(self) -> list[Fit]:
        """The cells that something was measured of."""
        return [cell for cell, trials in self.found.items() if trials]

    def values(self, cell: Fit, what: str, method: str = "adaptive", level: float = ASKED) -> Trials:
        """Return a figure of the intervals of a cell by trial."""
        return {trial: _interval(line, method, level)[what] for trial, line in self.found[cell].items()}

    def coverage(self, cell: Fit, method: str = "adaptive", level: float = ASKED) -> float:
        """Return the mean coverage of a cell."""
        return _mean(self.values(cell, "coverage", method, level))

    def against(self, cell: Fit, what: str) -> Comparison:
        """Compare a figure of adaptive intervals with that of constant ones."""
        return compare(self.values(cell, what), self.values(cell, what, "constant"))

    def deciles(self, cell: Fit, method: str) -> np.ndarray:
        """Return the mean coverage by decile of the true noise scale."""
        deciles = [_interval(line, method, ASKED)["deciles"] for line in self.found[cell].values()]
        return np.asarray(np.mean(deciles, axis=0))

    def bins(self, rows: str, what: str, cells: Iterable[Fit]) -> dict[str, np.ndarray]:
        """Return counts, sums of probabilities and numbers of true ones by bin, over all trials of some cells."""
        total = {name: np.zeros(BINS) for name in ("count", "claimed", "true")}
        for cell in cells:
            for line in self.found[cell].values():
                for name, sums in total.items():
                    sums += np.array(line[rows][what][name])
        return total


def _interval(line: Line, method: str, level: float) -> dict[str, Any]:
    return next(found for found in line["intervals"] if found["method"] == method and found["level"] == level)


def _mean(values: Trials) -> float:
    return mean_std(values)[0]


def _text(values: Trials) -> str:
    mean, error = _mean(values), standard_error(values)
    return f"{mean:.3f} ± {error:.3f}" if np.isfinite(error) else f"{mean:.3f}" if np.isfinite(mean) else "–"


def _words(cell: Fit) -> list[str]:
    """Return what a cell is, in words for people."""
    hidden = "" if cell.false_labels is None else f"{'up to ' * (cell.set_size == 'upto')}{cell.false_labels}"
    return [cell.name + (f", {cell.rows} rows" if cell.rows else ""), hidden]


def _named(cell: Fit) -> str:
    return ", ".join(part for part in _words(cell) if part)


def assumption(text: str) -> str:
    """Return in a word what a coverage rests on.

    >>> assumption("false labels are spread evenly over the range of the candidates, whatever the features")
    'evenly'
    """
    if not text:
        return "nothing"
    if text.startswith("checked"):
        return "checked rows"
    if text.startswith("false labels"):
        return "evenly" if "evenly" in text else "a density"
    return "cautious"


def _assumptions(lines: Iterable[Line]) -> str:
    words = [assumption(line["assumes"]) for line in lines]
    counts = {word: words.count(word) for word in sorted(set(words))}
    return next(iter(counts), "–") if len(counts) < 2 else ", ".join(f"{word} {n}" for word, n in counts.items())


def _between(words: str, value: float, ends: tuple[float, float], complete: bool) -> list[Bar]:
    low, high = ends
    return [Bar(words, value, low, True, complete), Bar("the same, from above", value, high, False, complete)]


def _extremes(lines: Lines, ends: tuple[float, float], cells: Sequence[Fit]) -> list[Bar]:
    mean = {cell: lines.coverage(cell) for cell in cells}
    if not mean:
        return []
    low, high = min(mean, key=mean.__getitem__), max(mean, key=mean.__getitem__)
    return [
        Bar(f"lowest coverage of a cell ({_named(low)})", mean[low], ends[0], True, lines.complete),
        Bar(f"highest coverage of a cell ({_named(high)})", mean[high], ends[1], False, lines.complete),
    ]


def _mostly(lines: Lines) -> list[Bar]:
    """Return the bars for tables that nothing was tuned on."""
    mean = {cell: lines.coverage(cell) for cell in lines.cells}
    low = min(mean, key=mean.__getitem__)
    within = [_MOSTLY[0] <= value <= _MOSTLY[1] for value in mean.values()]
    words = f"share of cells with a coverage of {_MOSTLY[0]:g} to {_MOSTLY[1]:g}"
    return [
        Bar(f"lowest coverage of a cell ({_named(low)})", mean[low], _LEAST, True, lines.complete),
        Bar(words, float(np.mean(within)), _SHARE_MOSTLY, True, lines.complete),
    ]


def _not_higher(lines: Lines, cells: Sequence[Fit]) -> list[Bar]:
    """Return the bars for scores where widths have no reason to differ by row."""
    found = {cell: lines.against(cell, "score") for cell in cells}
    worse = [cell for cell, other in found.items() if other.ratio - 2.0 * other.ratio_error > 1.0]
    shown = f"{len(worse)} of {len(found)}" + (f": {'; '.join(map(_named, worse))}" if worse else "")
    ratio = geometric_mean(other.ratio for other in found.values())
    return [
        Bar("interval score over that of constant widths, geometric mean of cells", ratio, 1.0, False, lines.complete),
        Bar("cells where it is higher by more than two standard errors", len(worse), 0, False, lines.complete, shown),
    ]


_HEADER = (
    "name",
    "rows",
    "set_size",
    "false_labels",
    "trial",
    "method",
    "level",
    "coverage",
    "width",
    "score",
    "test_rows",
    "by_row",
    "assumes",
    "fit_seconds",
    "identify_seconds",
    "interval_seconds",
    "test_mse",
)
_INTERVAL_NOTE = (
    f"Test rows whose true label is in its interval, {ASKED:.0%} asked for, mean over trials ± standard error. The "
    f"interval score is Winkler's: the width, and {2 / (1 - ASKED):.0f} times the distance of labels outside; here "
    "over that of constant widths, as the width is. *By row* is the share of fits that found widths by row; *rests "
    "on* is what `Calibration.assumes` says: false labels spread evenly, a density of them, checked rows, or cautious "
    "intervals without any."
)


def _interval_sheet(title: str, notes: list[str], lines: Lines, bars: list[Bar]) -> Sheet:
    """Tabulate intervals cell by cell."""
    table = []
    for cell in lines.cells:
        trials = lines.found[cell]
        width, score = lines.against(cell, "width"), lines.against(cell, "score")
        table.append(
            [
                *_words(cell),
                str(len(trials)),
                _text(lines.values(cell, "coverage")),
                _text(lines.values(cell, "coverage", "constant")),
                ratio_text(width.ratio, width.ratio_error),
                ratio_text(score.ratio, score.ratio_error),
                *(f"{lines.coverage(cell, level=level):.3f}" for level in LEVELS),
                f"{np.mean([line['by_row'] for line in trials.values()]):.0%}",
                _assumptions(trials.values()),
                number(_mean({trial: _seconds(line) for trial, line in trials.items()})),
            ]
        )
    other = (f"{level:g} asked" for level in LEVELS)
    header = ("", "false labels", "trials", "adaptive", "constant", "width", "score", *other)
    return Sheet(
        title,
        [*notes, _INTERVAL_NOTE],
        _HEADER,
        [
            (
                *(cell.name, cell.rows or line["train_rows"], cell.set_size, cell.false_labels, trial),
                *(found[name] for name in ("method", "level", "coverage", "width", "score")),
                *(line["test_rows"], line["by_row"], assumption(line["assumes"])),
                *(line[name] for name in ("fit_seconds", "identify_seconds", "interval_seconds", "test_mse")),
            )
            for cell in lines.cells
            for trial, line in lines.found[cell].items()
            for found in line["intervals"]
        ],
        bars,
        [Section("Intervals", (*header, "by row", "rests on", "seconds"), table)],
    )


def _seconds(line: Line) -> float:
    return float(line["fit_seconds"] + line["identify_seconds"] + line["interval_seconds"])


def calibration_error(bins: dict[str, np.ndarray]) -> float:
    """Return the expected calibration error: how far claims are from the truth, each bin by its size."""
    total = bins["count"].sum()
    return float(np.abs(bins["claimed"] - bins["true"]).sum() / total) if total else _NAN


_ROWS = {"new": "new rows", "training": "training rows"}
_KINDS = {"candidates": "all candidates", "top": "each row's most probable candidate"}


def _calibration_sections(lines: Lines) -> list[Section]:
    """Tabulate how far probabilities of candidates can be believed."""
    pairs = [(rows, what) for rows in _ROWS for what in _KINDS]
    every = [
        [
            *_words(cell),
            *(f"{calibration_error(lines.bins(rows, what, [cell])):.3f}" for rows, what in pairs),
            *(f"{np.mean([line[rows]['accuracy'] for line in lines.found[cell].values()]):.3f}" for rows in _ROWS),
        ]
        for cell in lines.cells
    ]
    header = ("", "false labels", "new, all", "new, likeliest", "training, all", "training, likeliest")
    sections = [
        Section("Calibration error of probabilities", (*header, "new, right", "training, right"), every),
    ]
    sizes = sorted({cell.false_labels or 0 for cell in lines.cells})
    for size in sizes:
        cells = [cell for cell in lines.cells if cell.false_labels == size]
        bins = {what: lines.bins("new", what, cells) for what in _KINDS}
        rows = []
        for place in range(BINS):
            row = [f"{place / BINS:.1f} to {(place + 1) / BINS:.1f}"]
            for found in bins.values():
                count = found["count"][place]
                shares = (number(found[name][place] / count) if count else "–" for name in ("claimed", "true"))
                row += [f"{count:.0f}", *shares]
            rows.append(row)
        columns = [f"{words}{kind}" for kind in ("", ", likeliest") for words in ("how many", "mean", "share true")]
        sections.append(Section(f"New rows, {size} false labels", ("probability", *columns), rows))
    return sections


def seven_sheet(lines: Lines) -> Sheet:
    """Tabulate the paper's data sets."""
    cells, complete = lines.cells, lines.complete
    pooled = float(np.mean([lines.coverage(cell) for cell in cells]))
    counted = [
        (_interval(line, "adaptive", ASKED)["coverage"], line["test_rows"])
        for cell in cells
        for line in lines.found[cell].values()
    ]
    share, rows = np.array(counted).T
    hard = [cell for cell in cells if cell.false_labels == _HARD]
    bars = [
        *_between("coverage, mean of cells", pooled, _SEVEN_POOLED, complete),
        *_between("coverage over all test rows", float(share @ rows / rows.sum()), _SEVEN_POOLED, complete),
        *_extremes(lines, _SEVEN_CELL, cells),
        *_not_higher(lines, cells),
        *(
            Bar(
                f"calibration error of new rows with {_HARD} false labels, {words}",
                calibration_error(lines.bins("new", what, hard)),
                _MOST_ERROR,
                False,
                complete,
            )
            for what, words in _KINDS.items()
        ),
    ]
    note = (
        "New rows are the test rows, hidden in the same way as those of training, among false labels over the range of "
        "the training labels. The expected calibration error is the mean difference of probability and share true over "
        f"{BINS} equal bins, each by the number of its candidates; *right* is the share of rows whose likeliest "
        "candidate is the true one."
    )
    sheet = _interval_sheet("The paper's data sets", [note], lines, bars)
    sheet.sections.extend(_calibration_sections(lines))
    return sheet


def tables_sheet(lines: Lines) -> Sheet:
    """Tabulate the tables held back from making the learners."""
    note = "Eight tables that no setting of the learners was chosen by; intervals were made by looking at them."
    bars = [*_mostly(lines), *_not_higher(lines, lines.cells)]
    return _interval_sheet("Tables held back", [note], lines, bars)


def final_sheet(lines: Lines) -> Sheet:
    """Tabulate the tables for final figures."""
    note = (
        "Every regression table of the installed packages with 300 to 20,000 rows that was never used, in alphabetical "
        "order, six at most. Nobody looked at a result on them before this table was made."
    )
    bars = [*_mostly(lines), *_not_higher(lines, lines.cells)]
    return _interval_sheet("Tables for final figures", [note], lines, bars)


def laws_sheet(lines: Lines) -> Sheet:
    """Tabulate the made-up laws of noise."""
    growing = [cell for cell in lines.cells if LAWS[cell.name].scale is not None]
    others = [cell for cell in lines.cells if cell not in growing]
    bars = _mostly(lines)
    if growing:
        worst = {cell: float(lines.deciles(cell, "adaptive").min()) for cell in growing}
        constant = min(float(lines.deciles(cell, "constant").min()) for cell in growing)
        cell = min(worst, key=worst.__getitem__)
        score = geometric_mean(lines.against(cell, "score").ratio for cell in growing)
        bars += [
            Bar(
                f"coverage in the worst decile of true noise, `growing` ({_named(cell)})",
                worst[cell],
                _WORST_DECILE,
                True,
                lines.complete,
                f"{worst[cell]:.3f}; constant widths {constant:.3f}",
            ),
            Bar(
                "interval score over that of constant widths, `growing`, geometric mean of cells",
                score,
                _SCORE_WHERE_GROWING,
                False,
                lines.complete,
            ),
        ]
    if others:
        bars += _not_higher(lines, others)
    words = [f"- `{name}`: {law.words}." for name, law in LAWS.items()]
    note = (
        "Labels are 2 sin(2 x1) + x2 x3 + x4 and noise, features uniform from -1 to 1; 4,000 test rows. The noise is:"
    )
    sheet = _interval_sheet("Made-up laws of noise", [note, "\n".join(words)], lines, bars)
    rows = [
        [*_words(cell), method, *(f"{value:.2f}" for value in lines.deciles(cell, method))]
        for cell in growing
        for method in ("adaptive", "constant")
    ]
    header = ("", "false labels", "method", *(f"{place}" for place in range(1, 11)))
    sheet.sections.append(Section("Coverage by decile of the true noise scale", header, rows))
    return sheet


def real_sheet(lines: Lines) -> Sheet:
    """Tabulate the tables of the folder."""
    methods = ("adaptive", "constant", "guaranteed")
    table = []
    rows: list[Sequence[object]] = []
    by_fold: dict[tuple[Fit, str, str], Trials] = {}
    for cell in lines.cells:
        trials = lines.found[cell]
        for method in methods:
            for what in ("coverage", "width"):
                folds: dict[int, list[float]] = {}
                for line in trials.values():
                    folds.setdefault(line["fold"], []).append(_interval(line, method, ASKED)[what])
                by_fold[cell, method, what] = {fold: float(np.mean(found)) for fold, found in folds.items()}
        texts = [
            text
            for method in methods
            for text in (
                _text(by_fold[cell, method, "coverage"]),
                plus_minus(_mean(by_fold[cell, method, "width"]), _NAN),
            )
        ]
        by_row = np.mean([line["by_row"] for line in trials.values()])
        table.append([cell.name, str(len(trials)), *texts, f"{by_row:.0%}", _assumptions(trials.values())])
        rows += [
            (
                *(cell.name, line["fold"], line["draw"], found["method"], found["coverage"], found["width"]),
                *(found["score"], line["test_rows"], line["by_row"], assumption(line["assumes"]), line["seconds"]),
            )
            for line in trials.values()
            for found in line["intervals"]
        ]
    bars = []
    for method in ("adaptive", "constant"):
        mean = {cell: _mean(by_fold[cell, method, "coverage"]) for cell in lines.cells}
        low, high = min(mean, key=mean.__getitem__), max(mean, key=mean.__getitem__)
        bars += [
            Bar(f"{method}, lowest coverage ({low.name})", mean[low], _REAL[0], True, lines.complete),
            Bar(f"{method}, highest coverage ({high.name})", mean[high], _REAL[1], False, lines.complete),
        ]
    header = ("", "folds and draws", *(part for method in methods for part in (method, "width")), "by row", "rests on")
    return Sheet(
        "Real candidate sets",
        [
            f"Coverage and mean width on test folds, {ASKED:.0%} asked for, with {CHECKED} checked rows drawn at "
            "random from the training rows, mean over five folds (and three draws of checked rows) ± standard error "
            'over folds. Candidates come with their match score; `effort="low"`; cases named `+own` have the row\'s '
            "own price among the features."
        ],
        (
            *("name", "fold", "draw", "method", "coverage", "width"),
            *("score", "test_rows", "by_row", "assumes", "seconds"),
        ),
        rows,
        bars,
        [Section(f"{CHECKED} checked rows", header, table)],
    )


def guaranteed_sheet(lines: Lines) -> Sheet:
    """Tabulate what tolerance intervals promise."""
    table, bars = [], []
    rows: list[Sequence[object]] = []
    for cell in lines.cells:
        trials = lines.found[cell]
        coverage = lines.values(cell, "coverage", "guaranteed")
        kept = {trial: float(value >= ASKED) for trial, value in coverage.items()}
        told = {trial: line["told"]["width"] for trial, line in trials.items()}
        ratio = compare(lines.values(cell, "width", "guaranteed"), told)
        named = f"`{cell.name}` false labels"
        bars += [
            Bar(f"{named}: share of repetitions that cover as asked", _mean(kept), _SHARE_KEPT, True, lines.complete),
            Bar(f"{named}: width over that with all labels known", ratio.ratio, _WIDEST, False, lines.complete),
        ]
        table.append(
            [
                cell.name,
                str(len(trials)),
                _text(kept),
                _text(coverage),
                ratio_text(ratio.ratio, ratio.ratio_error),
                *(_text(lines.values(cell, "coverage", method)) for method in ("adaptive", "constant")),
                _text({trial: line["told"]["coverage"] for trial, line in trials.items()}),
            ]
        )
        rows += [
            (cell.name, trial, *(found[name] for name in ("method", "coverage", "width", "score")))
            for trial, line in trials.items()
            for found in (*line["intervals"], line["told"] | {"method": "told"})
        ]
    header = ("false labels", "repetitions", "cover as asked", "coverage", "width", "adaptive", "constant", "told")
    return Sheet(
        "Tolerance intervals",
        [
            f'`method="guaranteed"` with {CHECKED} rows checked at random promises to cover {ASKED:.0%} with 95 % '
            "confidence over their draw. Each repetition is a table of 500 rows, with 4 false labels each, whose noise "
            "grows with a feature, and a linear learner; its coverage is measured on 5,000 new rows. False labels are "
            "uniform, or depend on the truth: mostly above it, by as much as the noise. Widths are over those of "
            "ordinary cross-conformal intervals of the same learner with all labels known (`told`)."
        ],
        ("false_labels", "trial", "method", "coverage", "width", "score"),
        rows,
        bars,
        [Section("Repetitions", header, table)],
    )


def time_sheet(lines: Lines) -> Sheet:
    """Tabulate times against another checkout."""
    steps = ("fit", "identify", "interval")
    table, bars = [], []
    rows: list[Sequence[object]] = []
    for cell in lines.cells:
        trials = lines.found[cell]
        ratio = float(np.median([line["ratio"] for line in trials.values()]))
        bars.append(
            Bar(f"time over that of the other, {cell.rows} rows, median", ratio, _FASTER, False, lines.complete)
        )
        for name in ("ours", "theirs"):
            seconds = [np.median([line[name][step] for line in trials.values()]) for step in steps]
            every = float(np.median([sum(line[name][step] for step in steps) for line in trials.values()]))
            table.append(
                [f"{cell.rows} rows, {name}", str(len(trials)), *map(number, seconds), number(every), ratio_text(ratio)]
            )
            rows += [
                (cell.rows, trial, name, *(line[name][step] for step in steps), line["ratio"])
                for trial, line in trials.items()
            ]
    return Sheet(
        "Time of fit, identification and first interval",
        [
            "Seconds, medians of rounds, one thread; *theirs* is the checkout given with `--against`. Each round "
            "measures both after each other in processes of their own, after a small fit that loads everything; the "
            "ratio is the median of the rounds' ratios. 10 features, 5 candidates a row."
        ],
        ("rows", "round", "checkout", *steps, "ratio"),
        rows,
        bars,
        [Section("Seconds", ("", "rounds", *steps, "together", "ratio"), table)],
    )


SHEETS: dict[str, Callable[[Lines], Sheet]] = {
    "seven": seven_sheet,
    "tables": tables_sheet,
    "final": final_sheet,
    "laws": laws_sheet,
    "guaranteed": guaranteed_sheet,
    "real": real_sheet,
    TIME: time_sheet,
}
"""The table of each part."""
