"""Choosing epochs and hyper-parameters, on fits made by hand."""

import json
import statistics
from dataclasses import replace

import pytest

from plr.errors import ParameterError
from plr.paper import PRESETS, SELECTIONS, choose, tabulate
from plr.paper.published import MISPRINTED_DEVIATIONS, MISPRINTED_MEANS, find_published, published_cells
from plr.paper.selection import in_order, parse_selection


def test_every_selection_parses():
    parsed = [parse_selection(name) for name in SELECTIONS]
    assert parsed[:4] == [("last", "loss"), ("loss", "loss"), ("evidence", "evidence"), ("truth", "truth")]
    assert ("loss", "truth") in parsed


@pytest.mark.parametrize("name", ["best", "last+last", "last+", "+loss", ""])
def test_unknown_selection(name):
    with pytest.raises(ParameterError, match="selection"):
        parse_selection(name)


def test_each_trial_chooses_by_the_named_score(row_maker):
    rows = [
        row_maker(0, 0.01, test_mse=10.0, loss=1.0, truth=5.0),
        row_maker(0, 0.001, test_mse=20.0, loss=2.0, truth=4.0),
        row_maker(1, 0.01, test_mse=30.0, loss=3.0, truth=3.0),
        row_maker(1, 0.001, test_mse=40.0, loss=1.0, truth=9.0),
    ]
    (by_loss,) = tabulate(rows, "last")
    assert (by_loss["test_mse"], by_loss["trials"]) == (25.0, 2)
    assert by_loss["test_mse_std"] == pytest.approx(450**0.5)
    (by_truth,) = tabulate(rows, "last+truth")
    assert by_truth["test_mse"] == 25.0
    assert [row["test_mse"] for row in choose(rows, "last+truth")] == [20.0, 30.0]


def test_deviation_is_that_of_the_trials(row_maker):
    errors = [1e8 + 0.1 * trial**2 for trial in range(7)]
    (row,) = tabulate([row_maker(trial, 0.01, test_mse=error) for trial, error in enumerate(errors)])
    assert row["test_mse_std"] == pytest.approx(statistics.stdev(errors), rel=1e-12)


def test_whole_cell_chooses_one_setting_by_the_mean_score(row_maker):
    rows = [
        row_maker(0, 0.01, test_mse=10.0, loss=1.0),
        row_maker(0, 0.001, test_mse=20.0, loss=1.5),
        row_maker(1, 0.01, test_mse=30.0, loss=9.0),
        row_maker(1, 0.001, test_mse=40.0, loss=2.0),
    ]
    (together,) = tabulate(rows, "last", per="cell")
    assert together["test_mse"] == 30.0
    assert together["setting"] == {"learning_rate": 0.001}
    assert together["setting_trials"] == 2
    (alone,) = tabulate(rows, "last")
    assert alone["test_mse"] == 25.0
    with pytest.raises(ParameterError, match="per"):
        choose(rows, "last", per="row")


def test_only_the_epoch_rule_asked_for_is_looked_at(row_maker):
    rows = [row_maker(0, 0.01, "last", test_mse=1.0), row_maker(0, 0.01, "truth", test_mse=2.0, loss=-9.0)]
    assert tabulate(rows, "last")[0]["test_mse"] == 1.0
    assert tabulate(rows, "truth+loss")[0]["test_mse"] == 2.0
    assert {row["selection"] for row in tabulate(rows, "all")} == {
        name for name in SELECTIONS if name.partition("+")[0] in ("last", "truth")
    }


def test_setting_that_diverged_is_never_chosen(row_maker):
    gone = {"test_mse": None, "loss": None, "evidence": None, "truth": None}
    (row,) = tabulate([row_maker(0, 0.01, **gone), row_maker(0, 0.001, test_mse=7.0)], "last")
    assert (row["test_mse"], row["setting"], row["test_mse_std"]) == (7.0, {"learning_rate": 0.001}, None)
    (row,) = tabulate([row_maker(0, 0.01, **gone), row_maker(1, 0.01, test_mse=7.0)], "last")
    assert (row["test_mse"], row["trials"], row["failed_trials"]) == (7.0, 1, 1)
    (row,) = tabulate([row_maker(0, 0.01, **gone)], "last")
    assert (row["test_mse"], row["trials"]) == (None, 0)
    json.dumps(row)


def test_tie_does_not_depend_on_the_order_of_rows(row_maker):
    rows = [row_maker(0, 0.01, test_mse=1.0), row_maker(0, 0.001, test_mse=2.0)]
    assert tabulate(rows)[0]["test_mse"] == tabulate(rows[::-1])[0]["test_mse"]


def test_places_are_kept_apart(row_maker):
    rows = [row_maker(0, 0.01), row_maker(0, 0.01, fraction=0.2), row_maker(0, 0.01, false_labels=8)]
    assert len(tabulate(rows)) == 3


def test_order_follows_the_protocol(row_maker):
    protocol = replace(PRESETS["paper"], datasets=("housing", "concrete"), methods=("PIDent", "IDent"))
    rows = [
        row_maker(0, 0.01, dataset=dataset, method=method, false_labels=size)
        for dataset in ("concrete", "housing")
        for method in ("IDent", "PIDent")
        for size in (8, 2)
    ]
    ordered = [(row["dataset"], row["method"], row["false_labels"]) for row in in_order(tabulate(rows), protocol)]
    assert ordered[:3] == [("housing", "PIDent", 2), ("housing", "PIDent", 8), ("housing", "IDent", 2)]
    assert ordered[-1] == ("concrete", "IDent", 8)


def test_published_numbers_stand_beside_what_they_measure(row_maker):
    (row,) = tabulate([row_maker(0, 0.01)])
    assert (row["published_mse"], row["published_std"]) == (45.61, 5.1)
    for other in ({"set_size": "fixed"}, {"fraction": 0.2}, {"mechanism": "marginal"}, {"model": "mlp-relu"}):
        assert find_published(row_maker(0, 0.01, **other)) is None


def test_misprinted_cells_are_in_the_tables():
    cells = published_cells()
    assert len(cells) == 462
    assert len(MISPRINTED_MEANS) == 7
    for dataset, model, size, method in MISPRINTED_MEANS:
        twin = {"AVGL-MAE": "AVGL-MSE", "AVGV-MSE": "AVGV-MAE"}[method]
        assert cells[dataset, model, size, method].mse == cells[dataset, model, size, twin].mse
    for place in MISPRINTED_DEVIATIONS:
        assert cells[place].misprint
