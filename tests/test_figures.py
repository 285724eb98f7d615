"""Measured figures in the README, the documentation and the summaries of results are those of `results`.

Pages of the site take most of theirs from `results` when they are built ({{ double braces }}, docs/tools/measured.py).
What a page spells out is in `FIGURES`: the page, what it says with a group for each figure, and what these should be.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from pathlib import Path

import pytest

from plr.paper import get_preset
from plr.paper.agreement import RULE_IN_SHORT
from plr.paper.observations import check_observations

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
WORDS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def rows(path, **wanted):
    """The lines of a table of results whose columns have these values."""
    text = (RESULTS / path).read_text(encoding="utf-8").splitlines()
    lines = csv.DictReader(line for line in text if not line.startswith("#"))
    return [line for line in lines if all(line[name] == value for name, value in wanted.items())]


def read(path):
    return json.loads((RESULTS / path).read_text(encoding="utf-8"))


def geometric_mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def covered(part):
    """From least to most, what 90 % intervals of a cell covered, mean over trials."""
    cells = {}
    for line in rows(f"uncertainty/{part}.csv", method="adaptive", level="0.9"):
        cells.setdefault((line["name"], line["set_size"], line["false_labels"]), []).append(float(line["coverage"]))
    means = [sum(trials) / len(trials) for trials in cells.values()]
    return f"{min(means):.2f}", f"{max(means):.2f}"


def below(column):
    """In how many of all `upto` cells the default's error is below the one of that column."""
    lines = rows("identification/out-of-the-box.csv", set_size="upto")
    return str(sum(float(line["default"]) < float(line[column]) for line in lines)), str(len(lines))


def over_supervised(**wanted):
    lines = rows("identification/out-of-the-box.csv", set_size="fixed", **wanted)
    return [float(line["over_supervised"]) for line in lines]


def final(false_labels):
    """The default's error over that on true labels, on each table that nothing was tuned on."""
    lines = rows("identification/members.csv", false_labels=str(false_labels))
    return [float(line["over_supervised"]) for line in lines if line["dataset"] in FINAL]


def agreement():
    """Published means that come out, those that count, and those that are misprinted."""
    verdicts = [line["verdict"] for path in ("table2", "table3") for line in rows(f"paper/{path}.csv")]
    misprinted = verdicts.count("misprint")
    agreeing = sum(verdict in ("agrees", "better") for verdict in verdicts)
    return str(agreeing), str(len(verdicts) - misprinted), WORDS[misprinted]


def observations():
    """How many of the paper's observations hold, and how many there are."""
    lines = rows("paper/table2.csv", selection="last+truth") + rows("paper/table3.csv", selection="last+truth")
    means = {
        (line["dataset"], line["model"], int(line["false_labels"]), line["method"]): float(line["test_mse"])
        for line in lines
        if line["test_mse"]
    }
    found = check_observations(means)
    return WORDS[sum(bool(one.holds) for one in found)], WORDS[len(found)]


def trials(path):
    return max(line["trials"] for line in rows(path))


def gap_closed(set_size):
    lines = rows("identification/oracle.csv", set_size=set_size)
    way, whole = (
        sum(math.log(float(line["default-progressive"]) / float(line[end])) for line in lines)
        for end in ("default", "oracle")
    )
    return f"{way / whole:.2f}"


def same_network(set_size):
    lines = rows("identification/same-network.csv", set_size=set_size)
    return f"{geometric_mean([float(line['ratio']) for line in lines]):.2f}"


def better_held_back():
    lines = rows("identification/held-back.csv")
    return str(len(lines)) if all(float(line["over_progressive"]) < 1 for line in lines) else "not"


def grid():
    """Fits of the whole grid, the same count on CPUs and on a GPU, and epochs of each."""
    fits = {read("speed/paper.json")["measured"]["fits"], read("speed/stacked.json")["presets"]["paper"]["fits"]}
    assert len(fits) == 1
    return f"{fits.pop():,}", f"{get_preset('paper').epochs:,}"


def in_words(seconds):
    """A minute or an hour, where it is about one."""
    for unit, name in ((3600, "an hour"), (60, "a minute")):
        if 0.75 < seconds / unit < 1.25:
            return (name,)
    return (f"{seconds:.0f} s",)


def on_cpus():
    return in_words(60 * read("speed/paper.json")["measured"]["minutes"])


def on_a_gpu():
    return in_words(read("speed/stacked.json")["presets"]["paper"]["seconds"])


def theorems():
    return ("as they should" if all(check["holds"] for check in read("theory/theory.json")["checks"]) else "otherwise",)


def coverage():
    total = re.search(r"\*\*TOTAL\*\* .*\*\*(\d+)%\*\*", (RESULTS / "coverage/coverage.md").read_text(encoding="utf-8"))
    return (total[1],)


FINAL = ("baseball", "boom_bikes", "communities", "diabetes", "ele_1", "excitation_current")
IDENTIFICATION = "results/identification/README.md"
FIGURES = [
    ("README.md", r"90 % intervals covered ([\d.]+) to ([\d.]+) of the true labels", lambda: covered("final")),
    ("README.md", r"and ([\d.]+) to ([\d.]+) on the paper's seven data sets", lambda: covered("seven")),
    ("README.md", r"the paper's best method in (\d+) of (\d+) published", lambda: below("published_pident")),
    ("README.md", r"trained on the true labels in (\d+) of (\d+);", lambda: below("published_supervised")),
    (
        "README.md",
        r"where every row has exactly 16, its error is ([\d.]+) to ([\d.]+) times that of the same model",
        lambda: tuple(f"{end(over_supervised(false_labels='16')):.1f}" for end in (min, max)),
    ),
    (
        "README.md",
        r"exactly 4 false labels, its error is ([\d.]+) times .* and with 16 ([\d.]+) times \(([\d.]+) to ([\d.]+)\)",
        lambda: (
            f"{geometric_mean(final(4)):.2f}",
            f"{geometric_mean(final(16)):.2f}",
            f"{min(final(16)):.1f}",
            f"{max(final(16)):.1f}",
        ),
    ),
    ("README.md", r"reach (\d+) % of all lines and branches", coverage),
    ("README.md", r"Tables 2 and 3; (an hour) or so on two cores", on_cpus),
    ("README.md", r"the same on a GPU, in (a minute)", on_a_gpu),
    ("README.md", r"the whole grid with (\d+) trials", lambda: (trials("paper/table2.csv"),)),
    ("README.md", r"(\d+) of the (\d+) published means come out .*, (\w+) misprinted ones left out", agreement),
    (
        "README.md",
        r"means come out \((.*?)(?:, whichever is larger)?, \w+ misp",
        lambda: (RULE_IN_SHORT.split(", ")[0],),
    ),
    ("README.md", r"(\w+) of the paper's (\w+) observations hold as stated", observations),
    ("README.md", r"its theorems behave (as they should)", theorems),
    ("docs/choosing.md", r"standard error of (\w+) trials", lambda: (WORDS[int(trials("learners/learners.csv"))],)),
    ("docs/choosing.md", r"published means come out, (\w+) misprinted", lambda: agreement()[2:]),
    ("docs/guides/benchmark.md", r"whole grid, ([\d,]+) fits of ([\d,]+) epochs", grid),
    ("results/README.md", r"whole grid with Figure 1 is ([\d,]+) fits of ([\d,]+) epochs", grid),
    ("results/README.md", r"epochs: (a minute) on one GPU", on_a_gpu),
    (
        IDENTIFICATION,
        r"went ([\d.]+) \(`upto`\) and ([\d.]+) \(`fixed`\) of the way from `progressive` to the oracle",
        lambda: (gap_closed("upto"), gap_closed("fixed")),
    ),
    (IDENTIFICATION, r"published PIDent in (\d+) of (\d+) cells", lambda: below("published_pident")),
    (IDENTIFICATION, r"supervised network in (\d+) of (\d+);", lambda: below("published_supervised")),
    (
        IDENTIFICATION,
        r"is ([\d.]+) times that of the same model",
        lambda: (f"{geometric_mean(over_supervised()):.2f}",),
    ),
    (IDENTIFICATION, r"most on Airfoil at 16 \(([\d.]+)\)", lambda: (f"{max(over_supervised()):.1f}",)),
    (
        IDENTIFICATION,
        r"sampled start have ([\d.]+) \(`upto`\) and ([\d.]+) \(`fixed`\) times the error",
        lambda: (same_network("upto"), same_network("fixed")),
    ),
    (IDENTIFICATION, r"better than `progressive` in all (\d+) cells", lambda: (better_held_back(),)),
]


def prose(page):
    """A page's text on one line each paragraph, as it is read."""
    return re.sub(r"\s+", " ", (ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("page", "said", "measured"), FIGURES, ids=[f"{page}: {said}" for page, said, _ in FIGURES])
def test_a_page_says_what_was_measured(page, said, measured):
    found = re.search(said, prose(page))
    assert found, f"{page} no longer says this; change or drop its line in {Path(__file__).name}."
    assert found.groups() == tuple(measured()), f"{page} says {found[0]!r}, and results say {measured()}."


# What looks like a measured figure: a count of several, a ratio, a share or a time.
FIGURE = re.compile(r"\d[\d,.]* (?:of (?:the )?\d|times |%|ns |µs |ms |seconds|minutes|hours)|\d\.\d+ to \d")
# What looks like one and is a definition, a setting or somebody's example.
NOT_MEASURED = {
    "docs/uncertainty.md": [
        "given a probability of 0.8, about 80 %",
        "with 95 % confidence",
        "for 90 % needs at least 29 rows that were checked at random, for 95 % 59",
        "to be 95 % sure",
    ],
    "docs/guides/imputation.md": ["share of 95 % intervals"],
    "docs/compatibility.md": ["Python 3.11 to 3.14"],
    "docs/situations/units.md": ["0.45 times as much fit equally well"],
    "docs/glossary.md": ["with 95 % confidence", "60 % training, 20 % validation and 20 % test rows"],
}


def spelled_out(page):
    """What a page says in prose: without code, outputs, formulas, links, and what is filled in from results."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for left_out in (r"^( *)```.*?^ *```", r"\{\{.*?\}\}", r"`[^`]*`", r"\$\$?[^$]*\$\$?", r"\]\([^)]*\)"):
        text = re.sub(left_out, "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize(
    "page", ["README.md", *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
)
def test_every_figure_on_a_page_has_a_source(page):
    text = spelled_out(page)
    for said in [re.escape(one) for one in NOT_MEASURED.get(page, [])] + [
        said for where, said, _ in FIGURES if where == page
    ]:
        text = re.sub(said, "", text)
    loose = [text[max(0, found.start() - 60) : found.end() + 40] for found in FIGURE.finditer(text)]
    assert not loose, f"Bind to results in FIGURES, quote in double braces, or put into NOT_MEASURED: {loose}"


def test_a_figure_that_has_grown_old_is_found(monkeypatch):
    here = sys.modules[__name__]
    before = prose("README.md")
    monkeypatch.setattr(here, "prose", lambda page: before.replace("454 of the 455", "453 of the 455"))
    page, said, measured = next(line for line in FIGURES if line[2] is agreement)
    with pytest.raises(AssertionError, match="453 of the 455"):
        test_a_page_says_what_was_measured(page, said, measured)
