"""The harness that measures real candidate sets: what it reads, which rows are checked, what its tables say."""

import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are scripts beside the package, not installed with it.
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.harness import read_lines
from benchmarks.real import measuring, methods
from benchmarks.real.__main__ import main
from benchmarks.real.cases import MADE_UP, digest, problem, tables_in
from benchmarks.real.measuring import planned
from benchmarks.real.methods import METHODS, best_match, mean_of_candidates, score_logit
from benchmarks.real.tables import Lines

from plr import PartialLabelRegressor


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(60)])
    rows, pairs = ["row,title,own_price,true_price"], ["row,record,title,price,score,is_match"]
    for row in range(60):
        price = np.exp(rng.normal(4.0, 1.0))
        rows.append(f"a{row},{' '.join(rng.choice(words, 6))},{'' if row % 3 else price:},{price}")
        for place in range(4):
            value, score = (price, 0.7) if place == row % 4 else (price * np.exp(rng.normal()), rng.uniform(0.1, 0.8))
            pairs.append(f"a{row},r{4 * row + place},other,{value},{score},{int(place == row % 4)}")
    (folder / "shops.rows.csv").write_text("\n".join(rows) + "\n")
    # Lines of a row need not be in order.
    (folder / "shops.pairs.csv").write_text("\n".join([pairs[0], *rng.permutation(pairs[1:])]) + "\n")
    return folder


def test_every_pair_of_files_is_a_case_with_and_without_the_own_price(folder):
    assert tables_in(folder) == ["shops", "shops+own"]
    plain, own = (problem(name, 0, folder) for name in tables_in(folder))
    assert own.train.X.shape == (48, plain.train.X.shape[1] + 1)
    assert len(plain.test.truth) == 12
    S, is_true = plain.train.S, plain.train.is_true
    np.testing.assert_allclose(S.values[is_true], plain.train.truth)
    assert S.record is not None
    assert digest("shops", folder) == digest("shops+own", folder) != ""
    with pytest.raises(SystemExit, match=r"no file NAME\.rows\.csv"):
        tables_in(folder / "nothing")


def test_checked_rows_are_drawn_from_all_rows_and_fewer_are_a_part_of_more(folder):
    made = problem("shops", 1, folder)
    few, many = (~np.isnan(made.known(count, 0, 1)) for count in (10, 20))
    assert (few.sum(), many.sum()) == (10, 20)
    assert (many | ~few).all()
    assert (~np.isnan(made.known(10, 1, 1)) != few).any()
    assert made.known(0, 0, 0) is None


def test_labels_without_plr_are_what_their_names_say(folder):
    part = problem("shops", 0, folder).train
    S, score = part.S, part.S.features["score"]
    for row in range(3):
        place = slice(S.offsets[row], S.offsets[row + 1])
        assert best_match(part)[row] == S.values[place][np.argmax(score[place])]
        assert mean_of_candidates(part)[row] == pytest.approx(S.values[place].mean())
    assert 0.0 < score_logit(part, part.truth) < 100.0


@pytest.mark.parametrize("name", list(MADE_UP))
def test_made_up_tables_hold_one_truth_a_row(name):
    made = problem(name, 0, None)
    for part in (made.train, made.test):
        np.testing.assert_array_equal(np.add.reduceat(part.is_true, part.S.offsets[:-1], dtype=int), 1)
        np.testing.assert_array_equal(part.S.values[part.is_true], part.truth)


def test_only_methods_that_suit_a_table_are_planned():
    jobs = {job.method for job in planned(["made-up/sources"], METHODS, None)}
    assert {"true", "mean", "sets", "checked-50"} <= jobs
    assert not jobs & {"best", "score", "logit-50", "checked-50-one-to-one"}


def test_a_run_writes_tables_and_measures_nothing_twice(folder, tmp_path, capsys, monkeypatch):
    # A quick learner in place of the committee, and one draw of checked rows.
    monkeypatch.setattr(measuring, "DRAWS", 1)
    monkeypatch.setattr(
        methods, "PartialLabelRegressor", lambda effort, **options: PartialLabelRegressor("linear", **options)
    )
    arguments = ["--data", str(folder), "--cases", "shops", "--methods", "true,mean,logit-10"]
    arguments += ["--store", str(tmp_path / "store"), "--out", str(tmp_path / "out")]
    assert main(["run", *arguments]) == 0
    assert main(["run", *arguments]) == 0
    assert "15 to measure, 15 of them done before" in capsys.readouterr().err
    text = (tmp_path / "out" / "real.md").read_text()
    assert "Seed 0, 5 folds, 1 draws of checked rows" in text
    assert "| true labels | 1.00 | 1.00 ± 0.00 |" in text
    assert (tmp_path / "out" / "real.csv").read_text().count("\nshops,") == 3
    lines = Lines.of(read_lines(tmp_path / "store"), planned(["shops"], ["true", "mean", "logit-10"], folder))
    assert lines.missing == 0
    assert lines.identified("shops", "logit-10", "share") > 0.25
    assert 0.0 <= lines.calibration_error("shops", "logit-10") < 1.0
