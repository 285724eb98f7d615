"""The agreement rule, at its edges, and what is counted."""

from pathlib import Path

import pytest

from plr.errors import DataError, DataNotFoundError
from plr.paper.agreement import (
    COUNTED_CELLS,
    Agreement,
    Verdict,
    agreement_of,
    best_agreement,
    compare,
    read_notes,
)
from plr.paper.published import MISPRINTED_MEANS, published_cells
from plr.paper.selection import DISTINCT_SELECTIONS, EPOCH_RULES, SELECTIONS, parse_selection, tabulate


def row(method="AVGL-MSE", measured=100.0, published=100.0, std=1.0, **place):
    return {
        "dataset": "concrete",
        "model": "mlp",
        "false_labels": 4,
        "method": method,
        "trials": 10,
        "test_mse": measured,
        "test_mse_std": 1.0,
        "published_mse": published,
        "published_std": std,
        **place,
    }


def fits(error_of, methods=("AVGL-MSE", "IDent"), trials=3):
    return [
        {
            "dataset": "concrete",
            "model": "mlp",
            "method": method,
            "false_labels": 4,
            "set_size": "upto",
            "mechanism": "uniform",
            "fraction": 1.0,
            "trial": trial,
            "setting": "{}",
            "rule": rule,
            "epoch": 1,
            "val_loss": 1.0,
            "val_evidence": 1.0,
            "val_truth": 1.0,
            "test_mse": error_of(method, rule),
            "problem": None,
        }
        for method in methods
        for trial in range(trials)
        for rule in EPOCH_RULES
    ]


def agreements_of(rows):
    return [agreement_of(tabulate(rows, name), name, "trial") for name in DISTINCT_SELECTIONS]


@pytest.mark.parametrize(
    ("measured", "std", "verdict"),
    [
        (115.0, 1.0, Verdict.AGREES),
        (115.1, 1.0, Verdict.HIGHER),
        (85.0, 1.0, Verdict.AGREES),
        (84.9, 1.0, Verdict.LOWER),
        (140.0, 20.0, Verdict.AGREES),
        (140.1, 20.0, Verdict.HIGHER),
        (None, 1.0, Verdict.FAILED),
    ],
)
def test_the_band_is_the_larger_of_two_deviations_and_15_percent(measured, std, verdict):
    assert compare(row(measured=measured, std=std)).verdict is verdict


@pytest.mark.parametrize("method", ["Supervised", "IDent", "PIDent"])
def test_better_than_published_agrees_for_ours_and_supervised(method):
    found = compare(row(method, measured=10.0))
    assert found.verdict is Verdict.BETTER
    assert Agreement("last", "trial", (found,)).agreeing == 1
    assert compare(row(method, measured=200.0)).verdict is Verdict.HIGHER


def test_misprinted_means_are_not_counted():
    for dataset, model, size, method in MISPRINTED_MEANS:
        found = compare(row(method, dataset=dataset, model=model, false_labels=size))
        assert found.verdict is Verdict.MISPRINT
        assert Agreement("last", "trial", (found,)).counted == 0
        assert found.deviation is None
    assert (len(published_cells()), COUNTED_CELLS) == (462, 455)


def test_a_deviation_that_repeats_its_mean_widens_no_band():
    place = {"dataset": "housing", "model": "linear", "false_labels": 4}
    found = compare(row("AVGL-Huber", 50.0, 31.4, 31.4, **place))
    assert found.verdict is Verdict.HIGHER
    assert found.deviation is None


def test_nothing_published_is_no_comparison():
    assert compare(row(published=None, std=None)) is None


def test_every_rule_is_counted_once_and_the_best_found():
    assert {parse_selection(name) for name in DISTINCT_SELECTIONS} == {parse_selection(name) for name in SELECTIONS}
    published = {method: published_cells()["concrete", "mlp", 4, method].mse for method in ("AVGL-MSE", "IDent")}
    agreements = agreements_of(fits(lambda method, rule: published[method] * (1.0 if rule == "loss" else 0.5)))
    best = best_agreement(agreements)
    assert (best.selection, best.agreeing, best.counted, best.unmeasured) == ("loss", 2, 2, 453)
    last = next(agreement for agreement in agreements if agreement.selection == "last")
    assert last.agreeing == 1
    assert [item.method for item in last.disagreeing()] == ["AVGL-MSE"]


def test_nothing_to_compare_with_has_no_best():
    assert best_agreement(agreements_of(fits(lambda *_: 1.0, methods=("Posterior",)))) is None


def test_notes_give_reasons(tmp_path):
    file = tmp_path / "notes.csv"
    file.write_text("dataset,model,method,false_labels,note\nconcrete,mlp,AVGL-MSE,4,too few epochs\n")
    assert compare(row(measured=1.0), read_notes(file)).reason == "too few epochs"


@pytest.mark.parametrize("line", ["concrete,mlp,AVGL-MSE,5,x", "concrete,mlp,AVGL-MSE,many,x", "concrete"])
def test_notes_about_cells_that_do_not_exist_are_refused(tmp_path, line):
    file = tmp_path / "notes.csv"
    file.write_text(f"dataset,model,method,false_labels,note\n{line}\n")
    with pytest.raises(DataError, match="line 2"):
        read_notes(file)


def test_notes_that_cannot_be_read(tmp_path):
    with pytest.raises(DataNotFoundError, match="cannot be read"):
        read_notes(tmp_path / "nowhere.csv")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="UTF-8"):
        read_notes(tmp_path / "binary")


def test_notes_on_the_papers_run_are_sound():
    notes = read_notes(Path(__file__).parents[2] / "results" / "paper" / "notes.csv")
    assert notes
    assert all(notes.values())
