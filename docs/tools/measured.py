"""Figures and tables that pages quote, read from ``results`` when the site is built, so that they cannot drift.

The packages that plr needs are read from ``pyproject.toml`` in the same way.
"""

from __future__ import annotations

import csv
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from scale import SCALE_QUOTES

__all__ = ["QUOTES"]

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
# The coverage of intervals that pages speak of.
ASKED = 0.9


def _lines(path: str) -> list[dict[str, str]]:
    text = (RESULTS / path).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in text if not line.startswith("#")))


def _figure(number: str | float) -> str:
    """Return a number with three digits that count, as the tables of results have it."""
    value = float(number)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    rule = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *rows])


def out_of_the_box(set_size: str) -> str:
    """Return the default's errors beside those of the paper, one line for each data set and number of false labels."""
    shown = {
        "default": "default",
        "default-supervised": "same, true labels",
        "published_pident": "PIDent, published",
        "published_supervised": "supervised, published",
    }
    if set_size != "upto":
        shown = {name: title for name, title in shown.items() if not name.startswith("published")}
    lines = [line for line in _lines("identification/out-of-the-box.csv") if line["set_size"] == set_size]
    rows = ([line["dataset"], line["false_labels"], *(_figure(line[name]) for name in shown)] for line in lines)
    return _table(["data set", "false labels", *shown.values()], rows)


def below_published(column: str) -> str:
    """Return in how many cells the default's error is below a published one, such as "24 of 28"."""
    lines = [line for line in _lines("identification/out-of-the-box.csv") if line["set_size"] == "upto"]
    return f"{sum(float(line['default']) < float(line[column]) for line in lines)} of {len(lines)}"


def over_supervised(set_size: str, what: str) -> str:
    """Return the default's error over that of the same model on true labels: geometric mean, least or most."""
    lines = [line for line in _lines("identification/out-of-the-box.csv") if line["set_size"] == set_size]
    ratios = [float(line["over_supervised"]) for line in lines]
    chosen: dict[str, Callable[[list[float]], float]] = {"mean": _geometric_mean, "least": min, "most": max}
    return _figure(chosen[what](ratios))


def _geometric_mean(numbers: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def learners(dataset: str, set_size: str, false_labels: int) -> str:
    """Return the table of all learners with all weightings for one data set and protocol."""
    weightings = ["true labels", "average", "identification", "progressive", "posterior"]
    found: dict[str, dict[str, str]] = {}
    for line in _lines("learners/learners.csv"):
        if (line["dataset"], line["set_size"], int(line["false_labels"])) == (dataset, set_size, false_labels):
            cell = f"{_figure(line['test_mse'])} ± {_figure(line['standard_error'])}"
            found.setdefault(line["learner"], {})[line["weighting"]] = cell
    rows = ([name, *(cells[weighting] for weighting in weightings)] for name, cells in found.items())
    return _table(["learner", *weightings], rows)


def mechanisms() -> str:
    """Return for each mechanism the default's error over that of progressive weights: mean, least and most."""
    found: dict[str, list[float]] = {}
    for line in _lines("identification/mechanisms.csv"):
        found.setdefault(line["mechanism"], []).append(float(line["ratio"]))
    rows = (
        [f"`{name}`", _figure(_geometric_mean(ratios)), _figure(min(ratios)), _figure(max(ratios))]
        for name, ratios in found.items()
    )
    return _table(["mechanism", "geometric mean", "least", "most"], rows)


def accuracy(set_size: str) -> str:
    """Return the share of rows whose true candidate is found, by data set and number of false labels."""
    methods = ["default-progressive", "default", "oracle"]
    lines = [line for line in _lines("identification/oracle.csv") if line["set_size"] == set_size]
    rows = (
        [line["dataset"], line["false_labels"], *(f"{float(line[f'{name} accuracy']):.0f} %" for name in methods)]
        for line in lines
        if line["false_labels"] in ("4", "16")
    )
    return _table(["data set", "false labels", "progressive", "default", "oracle"], rows)


def gap_closed(set_size: str) -> str:
    """Return how much of the way from progressive weights to the oracle the default goes, over all cells."""
    lines = [line for line in _lines("identification/oracle.csv") if line["set_size"] == set_size]
    way, whole = (
        sum(math.log(float(line["default-progressive"]) / float(line[end])) for line in lines)
        for end in ("default", "oracle")
    )
    return f"{way / whole:.2f}"


def agreement() -> str:
    """Return how many published means come out, such as "454 of 455"."""
    verdicts = [line["verdict"] for path in ("table2", "table3") for line in _lines(f"paper/{path}.csv")]
    counted = [verdict for verdict in verdicts if verdict != "misprint"]
    return f"{sum(verdict in ('agrees', 'better') for verdict in counted)} of {len(counted)}"


def theory() -> str:
    """Return what was checked of the theorems, and whether it holds."""
    checks = json.loads((RESULTS / "theory/theory.json").read_text(encoding="utf-8"))["checks"]
    return "\n".join(f"- {check['statement']}: {'yes' if check['holds'] else '**no**'}" for check in checks)


def interval_coverage() -> str:
    """Return what intervals of 90 % covered, and how wide and how good adaptive ones are over constant ones."""
    if not (RESULTS / "uncertainty/seven.csv").exists():
        return "*Not measured yet.*"
    cells: dict[tuple[str, ...], dict[str, dict[str, dict[str, str]]]] = {}
    for line in _lines("uncertainty/seven.csv"):
        if float(line["level"]) == ASKED and line["method"] in ("adaptive", "constant"):
            cell = cells.setdefault((line["name"], line["set_size"], line["false_labels"]), {})
            cell.setdefault(line["method"], {})[line["trial"]] = line
    rows = []
    for (name, set_size, size), found in cells.items():
        adaptive, constant = found["adaptive"], found["constant"]
        covered = [sum(float(line["coverage"]) for line in one.values()) / len(one) for one in (adaptive, constant)]
        ratios = [
            _geometric_mean([float(adaptive[trial][what]) / float(constant[trial][what]) for trial in adaptive])
            for what in ("width", "score")
        ]
        words = [f"{share:.3f}" for share in covered] + [f"{ratio:.2f}" for ratio in ratios]
        rows.append([name, f"up to {size}" if set_size == "upto" else size, *words])
    head = ("data set", "false labels", "adaptive", "constant", "width, adaptive over constant", "interval score")
    return _table(head, rows)


def gpu_seconds(preset: str) -> str:
    """Return how long a preset takes on a GPU."""
    return f"{_speed('stacked.json')['presets'][preset]['seconds']:.0f}"


def gpu() -> str:
    """Return the GPU that was measured on."""
    return str(_speed("stacked.json")["gpu"])


def grid_minutes() -> str:
    """Return how long the whole grid takes on all cores."""
    return f"{_speed('paper.json')['measured']['minutes']:.0f}"


def training_speed() -> str:
    """Return the time of a step of the compiled network and of two PyTorch loops."""
    steps = _speed("training.json")["microseconds_per_step"]
    rows = (
        [f"`{name}`", *(f"{cell[f'{what}_us']:,.0f}" for what in ("kernel", "tensors", "loader"))]
        for name, cell in steps.items()
    )
    return _table(["weighting", "plr, µs", "PyTorch over tensors, µs", "PyTorch with a DataLoader, µs"], rows)


def default_speed() -> str:
    """Return the seconds of a fit of the default."""
    found = _speed("default.json")
    rows = (
        [f"{int(size):,} × 20 × 5", _figure(seconds), _figure(found["over_lightgbm"][size])]
        for size, seconds in found["seconds"].items()
    )
    return _table(["rows × features × candidates", "seconds", "times LightGBM"], rows)


def boosting_speed() -> str:
    """Return what a fit of boosted trees on candidate sets costs over one on plain labels."""
    measured = _speed("boosting.json")
    rows = [[name, _figure(cell["time_ratio"])] for name, cell in measured["time"].items()]
    return _table(["settings of the trees", "time, candidate sets over plain labels"], rows)


def boosting_setting() -> str:
    """Return how large the table is that boosting was measured on."""
    measured = _speed("boosting.json")
    return f"{measured['rows']:,} rows, {measured['columns']} columns and {measured['candidates']} candidates a row"


def review_curves() -> str:
    """Return the picture of what checked rows buy."""
    picture = (RESULTS / "real" / "review.svg").read_text(encoding="utf-8")
    picture = picture[picture.index("<svg") :].replace("<svg", '<svg style="max-width: 100%; height: auto"', 1)
    return "\n".join(line for line in picture.splitlines() if line.strip())


def review_areas() -> str:
    """Return the log loss with 10, 20, 50 and 100 checked rows of each table, chosen by the review and at random."""
    losses = {(line["table"], line["choice"], line["checked_rows"]): line for line in _lines("real/review.csv")}
    counts = ("10", "20", "50", "100")
    rows = (
        [
            name,
            *(
                " / ".join(_figure(losses[name, how, count]["log_loss"]) for how in ("review", "random"))
                for count in counts
            ),
        ]
        for name in dict.fromkeys(name for name, _, _ in losses)
    )
    return _table(["table", *(f"{count} rows" for count in counts)], rows)


def machine(name: str) -> str:
    """Return on what a speed was measured."""
    described = _speed(name)["machine"]
    return f"{described['cpu'].replace('(R)', '')}, {described['cores']} cores"


def requirements() -> str:
    """Return the packages that plr needs, and in which versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [("Python", project["requires-python"])]
    found += [re.fullmatch(r"([\w-]+)(.*)", line).groups() for line in project["dependencies"]]  # type: ignore[union-attr]
    return _table(["package", "versions"], [[name, bounds.replace(",", ", ")] for name, bounds in found], texts=2)


def _speed(name: str) -> Any:
    return json.loads((RESULTS / "speed" / name).read_text(encoding="utf-8"))


def imputation() -> str:
    """Return how often pooled intervals held the true coefficient, one line for each kind of made-up join."""
    found = json.loads((RESULTS / "imputation/imputation.json").read_text(encoding="utf-8"))["joins"].values()
    methods = ["true labels", "best match", "independent draws", "impute"]
    rows = (
        [join["what"], str(join["repetitions"]), *(f"{join['methods'][name]['coverage']:.2f}" for name in methods)]
        for join in found
    )
    return _table(["made-up join", "repetitions", *methods], rows)


QUOTES: dict[str, Callable[..., str]] = {
    quote.__name__: quote
    for quote in (
        accuracy,
        agreement,
        below_published,
        boosting_setting,
        boosting_speed,
        default_speed,
        gap_closed,
        gpu,
        gpu_seconds,
        grid_minutes,
        imputation,
        interval_coverage,
        learners,
        machine,
        mechanisms,
        out_of_the_box,
        over_supervised,
        requirements,
        review_areas,
        review_curves,
        theory,
        training_speed,
    )
} | SCALE_QUOTES
"""What may stand in double braces on a page."""
