"""Mean ranks, what joins methods that cannot be told apart, and the picture of it; times of methods."""

import csv
import io
import re

import numpy as np
import pytest

from plr.paper import get_preset
from plr.paper.ranks import FEWEST_DATASETS, Ranking, build_rankings, ranks_csv
from plr.paper.report.rank_chart import rank_chart
from plr.paper.tables import Entry, ResultTable, TableRow
from plr.paper.times import measure_times, times_csv


def table(rows):
    """Return a table of mean errors: data set, false labels, then a number for each of A, B and C."""
    entries = [
        TableRow(dataset, size, {name: entry(mean) for name, mean in means.items()}) for dataset, size, means in rows
    ]
    return ResultTable("table2", "Table 2", "", "mlp", "last", "trial", ("Supervised", "A", "B", "C"), tuple(entries))


def entry(mean):
    return Entry(mean, None, 5, 0, None, False, None)


def test_ranks_by_hand():
    (found,) = build_rankings(
        [
            table(
                [
                    ("one", 2, {"Supervised": 0.1, "A": 1.0, "B": 2.0, "C": 3.0}),
                    ("one", 4, {"Supervised": 0.1, "A": 2.0, "B": 1.0, "C": 3.0}),
                    ("two", 2, {"Supervised": 0.1, "A": 5.0, "B": 5.0, "C": None}),
                    # One method is missing, so the row says nothing about the others' places.
                    ("two", 4, {"Supervised": 0.1, "A": 9.0, "B": 5.0}),
                ]
            )
        ]
    )
    # Each data set counts once: A and B are 1.5 on average in both.
    assert found.methods == ("A", "B", "C")
    assert found.ranks == (1.5, 1.5, 3.0)
    assert (found.datasets, found.critical_difference, found.groups) == (2, None, [])


def test_a_critical_difference_needs_data_sets():
    rows = [(f"set {place}", 4, {"A": 1.0, "B": 2.0, "C": 3.0}) for place in range(FEWEST_DATASETS)]
    assert build_rankings([table(rows[:-1])])[0].critical_difference is None
    (found,) = build_rankings([table(rows)])
    # Of Table 5 of Demšar (2006): q is 2.343 for three methods at 5 %.
    assert found.critical_difference == pytest.approx(2.343 * np.sqrt(3 * 4 / (6 * FEWEST_DATASETS)), abs=2e-3)


def test_methods_that_cannot_be_told_apart_are_joined():
    found = Ranking("Table 2", "mlp", tuple("ABCDE"), (1.0, 1.5, 2.4, 4.0, 4.8), 9, 1.0)
    assert found.groups == [(0, 1), (1, 2), (3, 4)]
    assert Ranking("Table 2", "mlp", tuple("AB"), (1.0, 2.0), 9, 0.5).groups == []


def test_fewer_than_two_methods_have_no_ranks():
    alone = ResultTable("t", "T", "", "mlp", "last", "trial", ("Supervised", "A"), ())
    assert build_rankings([alone]) == []


def test_the_picture_says_all_of_it_in_text():
    found = Ranking("Table 2", "mlp", ("short", "a-much-longer-name"), (1.25, 1.75), 6, 0.8)
    drawn = rank_chart(found)
    texts = [shape["text"] for shape in drawn.shapes if shape["tag"] == "text"]
    assert {"short", "a-much-longer-name", "1.25", "1.75", "critical difference 0.80"} <= set(texts)
    groups = [shape for shape in drawn.shapes if shape["attributes"].get("class") == "group"]
    assert [shape["title"] for shape in groups] == ["Cannot be told apart: short, a-much-longer-name"]
    dots = [shape["attributes"]["cx"] for shape in drawn.shapes if shape["tag"] == "circle"]
    left, right = (float(number) for number in re.findall(r"[M H](\d[\d.]*)", groups[0]["attributes"]["d"])[::2])
    assert [left, right] == dots == sorted(dots)


def test_ranks_as_csv():
    found = Ranking("Table 2", "mlp", ("A", "B"), (1.25, 1.75), 6, None)
    lines = list(csv.DictReader(io.StringIO(ranks_csv([found]))))
    assert [(line["method"], float(line["mean_rank"]), line["datasets"]) for line in lines] == [
        ("A", 1.25, "6"),
        ("B", 1.75, "6"),
    ]


def test_times_are_those_of_finished_cells_by_device():
    def cell(method, run, seconds, state="done"):
        return {"method": method, "model": "mlp", "run": run, "seconds": seconds, "state": state}

    runs = [{"id": 1, "device": "cpu"}, {"id": 2, "device": "cuda"}]
    cells = [
        cell("PIDent", 1, 40.0),
        cell("PIDent", 1, 20.0),
        cell("PIDent", 2, 1.0),
        cell("IDent", 1, 3.0),
        cell("IDent", None, None, "waiting"),
        cell("IDent", 1, None, "failed"),
    ]
    found = measure_times(cells, runs, get_preset("paper"))
    # Ten settings of PIDent, two of IDent, which is the first of the two in the paper.
    assert [(time.method, time.device, time.fits, time.seconds_per_fit) for time in found] == [
        ("IDent", "cpu", 2, 1.5),
        ("PIDent", "cpu", 20, 3.0),
        ("PIDent", "cuda", 10, 0.1),
    ]
    lines = list(csv.DictReader(io.StringIO(times_csv(found))))
    assert [float(line["seconds"]) for line in lines] == [3.0, 60.0, 1.0]
