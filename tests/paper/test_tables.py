"""Tables from rows: what stands where, what is bold, what is tested, and what each format looks like."""

import csv
import io

import numpy as np
import pytest
from scipy import stats

from plr.paper.datasets.registry import REGISTRY
from plr.paper.published import published_cells
from plr.paper.selection import EPOCH_RULES, choose, summarise
from plr.paper.table_formats import FORMATS, table1_text, table_text
from plr.paper.tables import build_table1, build_tables, describe_selection, paired_p_value


def fits(errors, **place):
    """Return rows of a store: ``errors`` maps (method, false labels) to one error per trial."""
    return [
        {
            "dataset": "concrete",
            "model": "mlp",
            "method": method,
            "false_labels": size,
            "set_size": "upto",
            "mechanism": "uniform",
            "fraction": 1.0,
            "trial": trial,
            "setting": '{"learning_rate": 0.01}',
            "rule": rule,
            "epoch": 1,
            "val_loss": error,
            "val_evidence": error,
            "val_truth": error,
            "test_mse": error,
            "problem": None,
            **place,
        }
        for (method, size), trials in errors.items()
        for trial, error in enumerate(trials)
        for rule in EPOCH_RULES
    ]


def tables_of(rows, selection):
    chosen = choose(rows, selection)
    return build_tables(chosen, summarise(chosen))


NOISE = np.array([0.3, -0.2, 0.1, -0.1, 0.2, -0.3])
ERRORS = {
    ("Supervised", 0): 36.0 + NOISE,
    ("AVGL-MSE", 4): 150.0 + 5 * NOISE,
    ("IDent", 4): 45.05 - NOISE,
    ("PIDent", 4): 45.0 + NOISE,
    ("IDent", 16): 140.0 + NOISE,
    ("PIDent", 16): 112.0 + NOISE,
}


@pytest.fixture
def table():
    (found,) = tables_of(fits(ERRORS), "last")
    return found


def test_methods_and_sizes_stand_in_order(table):
    assert table.name == "table2"
    assert table.methods == ("Supervised", "AVGL-MSE", "IDent", "PIDent")
    assert [(row.dataset, row.false_labels) for row in table.rows] == [("concrete", 4), ("concrete", 16)]
    assert "AVGL-MSE" not in table.rows[1].entries
    assert [row.entries["Supervised"].mean for row in table.rows] == pytest.approx([36.0, 36.0])


def test_best_is_never_supervised_and_ties_are_tested(table):
    entries = table.rows[0].entries
    assert [method for method, entry in entries.items() if entry.best] == ["PIDent"]
    assert entries["IDent"].not_worse
    assert not entries["AVGL-MSE"].not_worse
    assert entries["AVGL-MSE"].p_value < 1e-6
    assert entries["Supervised"].p_value is None
    assert entries["PIDent"].p_value is None
    assert "t-test" in table.caption
    assert "5 %" in table.caption


def test_published_numbers_stand_beside(table):
    found = table.rows[0].entries["PIDent"].comparison
    published = published_cells()["concrete", "mlp", 4, "PIDent"]
    assert (found.published, found.published_std) == (published.mse, published.std)
    assert found.deviation == pytest.approx((45.0 - published.mse) / published.std)


def test_few_trials_are_not_tested():
    (table,) = tables_of(fits({key: errors[:4] for key, errors in ERRORS.items()}), "last")
    assert all(entry.p_value is None for row in table.rows for entry in row.entries.values())
    assert "No test is made on fewer than 5 trials" in table.caption


def test_failed_trials_and_failed_cells_are_shown():
    (table,) = tables_of(fits({("IDent", 4): [None, None], ("PIDent", 4): [3.0, None]}), "last")
    entries = table.rows[0].entries
    assert (entries["IDent"].mean, entries["IDent"].failed_trials) == (None, 2)
    assert (entries["PIDent"].trials, entries["PIDent"].failed_trials, entries["PIDent"].best) == (1, 1, True)
    assert "failed" in table_text(table, "md")


def test_other_models_sets_and_mechanisms_have_tables_without_published_numbers():
    rows = fits({("IDent", 4): [1.0, 2.0]}, model="trees", dataset="my data & co", set_size="fixed")
    (table,) = tables_of(rows, "truth")
    assert (table.name, table.has_published) == ("table-trees", False)
    for form in FORMATS:
        assert "my data" in table_text(table, form)
    assert r"my data \& co" in table_text(table, "tex")
    (table,) = tables_of(fits({("IDent", None): [1.0, 2.0]}, mechanism="folding"), "last")
    assert table.rows[0].false_labels is None
    assert "folding" in table.caption


def test_only_the_largest_fraction_is_tabled():
    rows = [*fits({("IDent", 4): [9.0]}, fraction=0.2), *fits({("IDent", 4): [3.0]})]
    (table,) = tables_of(rows, "last")
    assert table.rows[0].entries["IDent"].mean == 3.0


def test_selection_in_words():
    assert "last epoch" in describe_selection("last+truth")
    assert "true validation labels" in describe_selection("last+truth")
    assert "together" in describe_selection("last", per="cell")


def test_markdown(table):
    text = table_text(table, "md")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[0].startswith(r"| Data set | \|S̄\| | Supervised |")
    assert {line.replace(r"\|", "").count("|") for line in lines} == {len(table.methods) + 3}
    assert "**45.00 (0.24)**<br>" in lines[2]
    assert "≈" in lines[2]


def test_latex_has_as_many_columns_in_every_line(table):
    text = table_text(table, "tex")
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in lines} == {len(table.methods) + 1}
    assert r"\textbf{45.00 (0.24)}" in text
    for symbol in "✓✗▾≈σ−|̄":
        assert symbol not in text.replace(r"|\bar{S}|", "")


def test_csv_is_one_line_per_cell(table):
    rows = list(csv.DictReader(io.StringIO(table_text(table, "csv"))))
    assert len(rows) == len(ERRORS)
    (best,) = [row for row in rows if row["best"] == "1" and row["false_labels"] == "4"]
    assert best["method"] == "PIDent"
    assert float(best["test_mse"]) == pytest.approx(45.0)
    assert best["verdict"] == "agrees"


@pytest.mark.parametrize("form", FORMATS)
def test_table1_is_the_papers(form):
    table = build_table1(["mine", *REGISTRY])
    assert all(row.counts == row.published for row in table)
    assert [row.counts is None for row in table] == [row.dataset == "mine" for row in table]
    text = table1_text(table, form)
    for info in REGISTRY.values():
        assert (info.name if form == "csv" else info.title) in text
        assert str(info.table1[0]) in text


def test_table1_counts_what_splitting_gives(monkeypatch):
    def lopsided(n, seed):
        return range(n - 3), range(1), range(2)

    monkeypatch.setattr("plr.paper.tables.split", lopsided)
    (row,) = build_table1(["housing"])
    assert row.counts == (503, 2, 1, 13)
    assert "503 (published 304)" in table1_text([row], "md")


def test_corrected_test_is_the_plain_one_with_a_wider_error():
    first, second = 5 + NOISE, 4.9 + 0.5 * NOISE[::-1]
    difference = first - second
    plain = stats.ttest_rel(first, second).statistic
    n = len(NOISE)
    corrected = plain * np.sqrt((1 / n) / (1 / n + 1 / 3))
    wanted = 2 * stats.t.sf(abs(corrected), n - 1)
    found = paired_p_value(dict(enumerate(first)), dict(enumerate(second)))
    assert found == pytest.approx(wanted)
    assert found > stats.ttest_rel(first, second).pvalue
    assert difference.std() > 0


def test_only_common_trials_are_paired_and_equal_ones_differ_in_nothing():
    same = dict(enumerate([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert paired_p_value(same, same) == 1.0
    assert paired_p_value(same, {trial: error - 1.0 for trial, error in same.items()}) == 0.0
    assert paired_p_value(same, {trial + 1: error for trial, error in same.items()}) is None
