"""Lines put together: test error over that with true labels, rows found, calibration and log loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.identification.results import Comparison, compare, geometric_mean
from benchmarks.identification.sheets import Bar, Section, Sheet, number, ratio_text
from benchmarks.real.cases import MADE_UP, PAPER
from benchmarks.real.measuring import Job
from benchmarks.real.methods import METHODS
from benchmarks.uncertainty.measuring import BINS

__all__ = ["Lines", "made_up_sheet", "paper_sheet", "real_sheet"]

_TRUE, _BEST, _MEAN = "true", "best", "mean"
_HEADER = (
    "case",
    "method",
    "folds_and_draws",
    "test_mse",
    "over_true",
    "over_true_error",
    "found",
    "found_held_out",
    "calibration_error",
    "log_loss",
    "seconds",
)


@dataclass(frozen=True)
class Lines:
    """The lines of planned jobs, by case and method; ``missing`` says how many jobs have none."""

    found: dict[tuple[str, str], dict[tuple[int, int], dict[str, Any]]]
    missing: int

    @classmethod
    def of(cls, lines: Iterable[dict[str, Any]], jobs: Iterable[Job]) -> Lines:
        """Take those that belong to the jobs; of several for one job, the last."""
        by_key = {line["key"]: line for line in lines if "error" not in line}
        found: dict[tuple[str, str], dict[tuple[int, int], dict[str, Any]]] = {}
        missing = 0
        for job in jobs:
            place = found.setdefault((job.case, job.method), {})
            if job.key in by_key:
                place[job.fold, job.draw] = by_key[job.key]
            else:
                missing += 1
        return cls(found, missing)

    @property
    def revisions(self) -> set[str]:
        """At which revisions of plr they were measured."""
        return {line["revision"] for place in self.found.values() for line in place.values()}

    def cases(self, kind: Sequence[str] | None) -> list[str]:
        """Return the cases of a kind, in order; real ones where it is None."""
        every = dict.fromkeys(case for case, _ in self.found)
        return [case for case in every if (case in kind if kind is not None else "/" not in case)]

    def methods(self, cases: Iterable[str]) -> list[str]:
        """Return the methods that were measured on some of the cases."""
        return [name for name in METHODS if any(self.found.get((case, name)) for case in cases)]

    def errors(self, case: str, method: str) -> dict[int, float]:
        """Return test errors by fold, means over draws."""
        return self._by_fold(case, method, lambda line: line.get("test_mse"))

    def against(self, case: str, method: str, other: str = _TRUE) -> Comparison:
        """Compare the test errors of two methods over their common folds."""
        return compare(self.errors(case, method), self.errors(case, other))

    def identified(self, case: str, method: str, what: str, rows: str = "found_held_out") -> float:
        """Return a mean over folds and draws of the share of rows found, or of the log loss."""
        found = self._by_fold(case, method, lambda line: line.get(rows, {}).get(what))
        return float(np.mean(list(found.values()))) if found else float("nan")

    def calibration_error(self, case: str, method: str) -> float:
        """Return the expected calibration error of the likeliest candidate of held-out rows, over all folds."""
        total = {name: np.zeros(BINS) for name in ("count", "claimed", "true")}
        for line in self.found.get((case, method), {}).values():
            for name, sums in total.items():
                sums += np.array(line.get("found_held_out", {}).get("top", {}).get(name, np.zeros(BINS)))
        rows = total["count"].sum()
        return float(np.abs(total["claimed"] - total["true"]).sum() / rows) if rows else float("nan")

    def seconds(self, case: str, method: str) -> float:
        """Return the mean time of a fit."""
        found = self._by_fold(case, method, lambda line: line.get("seconds"))
        return float(np.mean(list(found.values()))) if found else float("nan")

    def _by_fold(self, case: str, method: str, value: Any) -> dict[int, float]:
        folds: dict[int, list[float]] = {}
        for (fold, _), line in self.found.get((case, method), {}).items():
            if (found := value(line)) is not None:
                folds.setdefault(fold, []).append(found)
        return {fold: float(np.mean(found)) for fold, found in folds.items()}


def real_sheet(lines: Lines) -> Sheet:
    """Tabulate the tables of the folder."""
    cases = lines.cases(None)
    sheet = _sheet(
        lines,
        "Real candidate sets",
        cases,
        [
            "Test MSE over that of the same learner with the true labels of its rows, mean over folds (and over "
            "three draws of checked rows) ± standard error of the ratio, paired by fold. Checked rows are drawn from "
            "all rows of the training part. *Found* is the share of rows whose likeliest candidate is the true one: "
            "of unchecked training rows, and of held-out rows with `identify(X, S)`. *ECE* is the expected "
            "calibration error of the likeliest candidate, of the held-out rows of all folds together; *log loss* is "
            'that of the truth, of held-out rows that have it. Every fit is made with `effort="low"`.',
        ],
    )
    every = lines.missing == 0

    def ratios(method: str, other: str = _TRUE) -> list[float]:
        return [lines.against(case, method, other).ratio for case in cases]

    fifty = ratios("checked-50")

    def behind_logit(loss: str) -> float:
        ours, others = ([lines.identified(case, name, loss) for case in cases] for name in ("checked-50", "logit-50"))
        return worst(first - second for first, second in zip(ours, others, strict=True))

    gained = [
        lines.identified(case, f"{name}-one-to-one", "share", "found") - lines.identified(case, name, "share", "found")
        for case in cases
        for name in ("checked-50", "score")
    ]
    sheet.bars.extend(
        [
            Bar("50 checked rows over true labels, geometric mean", geometric_mean(fifty), 1.08, complete=every),
            Bar("50 checked rows over true labels, worst case", worst(fifty), 1.2, complete=every),
            Bar("20 checked rows, geometric mean", geometric_mean(ratios("checked-20")), 1.15, complete=every),
            Bar("no checks, with the score, geometric mean", geometric_mean(ratios("score")), 1.15, complete=every),
            *_unchecked_bars(lines, cases),
            Bar(
                "50 checked rows, largest calibration error",
                worst(lines.calibration_error(case, "checked-50") for case in cases),
                0.05,
                complete=every,
            ),
            Bar(
                "50 checked rows, log loss less that of a logit on the score alone, worst case",
                behind_logit("log_loss"),
                0.0,
                complete=every,
            ),
            Bar(
                "the same, given that the truth is among the candidates, as the logit takes for granted",
                behind_logit("log_loss_given_present"),
                0.0,
                complete=every,
            ),
            Bar(
                "one-to-one, more rows found, smallest gain",
                min((value for value in gained if np.isfinite(value)), default=float("nan")),
                0.04,
                at_least=True,
                complete=every,
            ),
        ]
    )
    return sheet


def worst(values: Iterable[float]) -> float:
    """Return the largest of what was measured."""
    return max((value for value in values if np.isfinite(value)), default=float("nan"))


def _unchecked_bars(lines: Lines, cases: Sequence[str]) -> list[Bar]:
    """Return how much worse fits without checked rows are than what anybody would do first."""
    scored = [case for case in cases if lines.found.get((case, "score"))]
    better = [
        lines.against(case, "score").ratio / min(lines.against(case, _BEST).ratio, lines.against(case, _MEAN).ratio)
        for case in scored
    ]
    over_mean = [lines.against(case, "sets", _MEAN).ratio for case in cases]
    every = lines.missing == 0
    return [
        Bar("no checks, with the score, over the better of best match and mean", worst(better), 1.05, complete=every),
        Bar("no checks, no score, over the mean, worst case", worst(over_mean), 1.05, complete=every),
    ]


def made_up_sheet(lines: Lines) -> Sheet:
    """Tabulate the made-up tables."""
    words = [f"- `{name}`: {how}." for name, how in MADE_UP.items()]
    notes = ["500 rows, 6 features. Columns as in `real.md`.", "\n".join(words)]
    cases = lines.cases(list(MADE_UP))
    sheet = _sheet(lines, "Made-up candidate sets", cases, notes)
    sheet.bars.extend(_unchecked_bars(lines, cases))
    return sheet


def paper_sheet(lines: Lines) -> Sheet:
    """Tabulate the paper's cells: whether the default is what it is without a learned prior."""
    cases = lines.cases(list(PAPER))
    notes = ["Four uniform false labels a row, the paper's trials 0 to 2. Log loss and ECE are not measured here."]
    sheet = _sheet(lines, "The paper's mechanism", cases, notes)
    pairs = [
        (lines.found.get((case, "sets"), {}), lines.found.get((case, "given"), {}))
        for case in [*cases, *lines.cases(["made-up/uniform"])]
    ]
    common = [(ours[place], theirs[place]) for ours, theirs in pairs for place in ours.keys() & theirs.keys()]
    other = sum(first["prediction"] != second["prediction"] for first, second in common)
    sheet.bars.append(
        Bar(
            'fits whose predictions differ from those of `prior="given"`, `made-up/uniform` included',
            other,
            0,
            complete=lines.missing == 0,
            shown=f"{other} of {len(common)}",
        )
    )
    ratio = geometric_mean(lines.against(case, "checked-50", "sets").ratio for case in cases)
    sheet.bars.append(Bar("50 checked rows over none, geometric mean", ratio, 1.0, complete=lines.missing == 0))
    return sheet


def _sheet(lines: Lines, title: str, cases: Sequence[str], notes: list[str]) -> Sheet:
    sheet = Sheet(title, notes, _HEADER, [])
    methods = lines.methods(cases)
    over = {(case, name): lines.against(case, name) for case in cases for name in methods}
    shown = [
        [
            METHODS[name].words,
            ratio_text(geometric_mean(over[case, name].ratio for case in cases)),
            *(ratio_text(over[case, name].ratio, over[case, name].ratio_error) for case in cases),
        ]
        for name in methods
        if not METHODS[name].logit
    ]
    true = ["test MSE with true labels", "", *(number(_mean(lines.errors(case, _TRUE))) for case in cases)]
    sheet.sections.append(
        Section("Test MSE over that with true labels", ("method", "geometric mean", *cases), [*shown, true])
    )
    for case in cases:
        rows = []
        for name in methods:
            if not lines.found.get((case, name)):
                continue
            measured = (
                _mean(lines.errors(case, name)),
                over[case, name].ratio,
                over[case, name].ratio_error,
                lines.identified(case, name, "share", "found"),
                lines.identified(case, name, "share"),
                lines.calibration_error(case, name),
                lines.identified(case, name, "log_loss"),
                lines.seconds(case, name),
            )
            sheet.rows.append([case, name, len(lines.found[case, name]), *measured])
            rows.append([METHODS[name].words, *(number(value) for value in (measured[0], *measured[3:]))])
        header = ("method", "test MSE", "found", "found, held out", "ECE", "log loss", "seconds")
        sheet.sections.append(Section(case, header, rows))
    return sheet


def _mean(values: dict[int, float]) -> float:
    return float(np.mean(list(values.values()))) if values else float("nan")
