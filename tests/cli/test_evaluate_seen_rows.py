"""``plr evaluate`` recognises the rows a model was trained on, and judges them by what was predicted without them."""

import json

import numpy as np
import pyarrow as pa
import pytest

from plr import CandidateSets, PartialLabelRegressor, load_model, save_model
from plr.tables import write_table
from plr.tables.row_digests import SeenRows, row_digests
from support.tables import read_table

ROWS, TRAINED = 60, 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Noise around a line, in which trees see what is not there."""
    folder = tmp_path_factory.mktemp("seen")
    random = np.random.default_rng(0)
    x = np.round(random.uniform(0, 10, ROWS), 3)
    kind = random.choice(["red", "blue", None], ROWS)
    y = np.round(2 * x + random.normal(0, 3, ROWS), 3)
    wrong = np.round(random.uniform(-200, 200, ROWS), 3)
    sets = CandidateSets.from_lists(np.column_stack([wrong, y]).tolist())
    # Some rows have no truth, as in practice.
    truth = pa.array(y, mask=np.arange(ROWS) % 3 == 0)
    table = pa.table({"x": x, "kind": pa.array(kind.tolist(), pa.string()), "y": sets.to_arrow(), "truth": truth})
    write_table(table, folder / "all.parquet")
    write_table(table.slice(0, TRAINED), folder / "train.parquet")
    write_table(table.slice(TRAINED), folder / "new.csv")
    return folder


LEARNERS = {
    "linear": ("--learner", "linear"),
    "boosting": (
        "--learner",
        "boosting",
        "--option",
        "trees=30",
        "--option",
        "rows_per_leaf=3",
        "--option",
        "learning_rate=0.3",
    ),
    "gaussian_process": ("--learner", "gaussian_process", "--no-intervals"),
}


def fit(run, folder, name, *more):
    path = folder / f"{name}{'-'.join(more)}.plr"
    if not path.exists():
        run("fit", "train.parquet", "--target", "y", "--truth", "truth", "-o", path, *LEARNERS[name], *more)
    return path


def evaluate(run, model, data, *more):
    return json.loads(run("evaluate", model, data, "--truth", "truth", "--json", *more)[0])


def test_training_rows_are_judged_out_of_fold(run, folder):
    model = fit(run, folder, "boosting")
    found = evaluate(run, model, "train.parquet")
    truth = read_table(folder / "train.parquet")["truth"].to_numpy()
    there = ~np.isnan(truth)
    unseen = load_model(model).regressor._out_of_fold
    assert found["rows"] == found["rows_trained_on"] == found["rows_scored_out_of_fold"] == there.sum()
    assert found["mse"] == pytest.approx(np.mean((unseen - truth)[there] ** 2))
    table = read_table(folder / "train.parquet")
    by_the_model = load_model(model).predict(pa.table({"x": table["x"], "kind": table["kind"]}))
    assert found["mse"] > 1.5 * np.mean((by_the_model - truth)[there] ** 2)
    assert (
        "all of them were trained on, and scored by models that had not seen them"
        in (run("evaluate", model, "train.parquet", "--truth", "truth")[0])
    )


@pytest.mark.parametrize("name", ["linear", "gaussian_process"])
def test_order_subset_and_format_do_not_matter(run, folder, tmp_path, name):
    model = fit(run, folder, name)
    every = read_table(folder / "all.parquet")
    whole = evaluate(run, model, "all.parquet")
    assert whole["rows_trained_on"] == int(every.slice(0, TRAINED)["truth"].is_valid().to_numpy().sum())
    assert whole["rows_scored_out_of_fold"] == whole["rows_trained_on"]
    shuffled = every.take(pa.array(np.random.default_rng(1).permutation(ROWS)))
    write_table(shuffled, tmp_path / "shuffled.csv")
    again = evaluate(run, model, tmp_path / "shuffled.csv")
    assert again["mse"] == pytest.approx(whole["mse"])
    for key in ("coverage", "coverage_error", "mean_width", "interval_score") if "interval" in whole else ():
        assert again["interval"][key] == pytest.approx(whole["interval"][key])
    assert again["identification"]["calibration_error"] == pytest.approx(whole["identification"]["calibration_error"])
    # Numbers that are written otherwise are the same numbers.
    lines = (tmp_path / "shuffled.csv").read_text().splitlines()
    (tmp_path / "zeros.csv").write_text("\n".join([lines[0], *(line.replace(",", "0,", 1) for line in lines[1:])]))
    assert evaluate(run, model, tmp_path / "zeros.csv")["rows_trained_on"] == whole["rows_trained_on"]
    # Part by part or all at once.
    both = [evaluate(run, model, data) for data in ("train.parquet", "new.csv")]
    assert [part["rows_trained_on"] for part in both] == [whole["rows_trained_on"], 0]
    squared = sum(part["mse"] * part["rows"] for part in both)
    assert squared == pytest.approx(whole["mse"] * whole["rows"])


def test_rows_are_recognised_without_their_candidates(run, folder, tmp_path):
    model = fit(run, folder, "linear")
    write_table(read_table(folder / "all.parquet").drop_columns(["y"]), tmp_path / "bare.csv")
    bare, whole = evaluate(run, model, tmp_path / "bare.csv"), evaluate(run, model, "all.parquet")
    assert bare["rows_trained_on"] == whole["rows_trained_on"]
    assert bare["mse"] == pytest.approx(whole["mse"])


def test_a_row_with_other_candidates_is_another_row(run, folder, tmp_path):
    model = fit(run, folder, "linear")
    table = read_table(folder / "train.parquet")
    other = CandidateSets.from_columns(pa.table({"a": table["x"], "b": table["x"]}), ["a", "b"]).to_arrow()
    write_table(table.set_column(2, "y", other), tmp_path / "t.parquet")
    assert evaluate(run, model, tmp_path / "t.parquet")["rows_trained_on"] == 0


def test_a_folder_is_recognised_batch_by_batch(run, folder, tmp_path):
    model = fit(run, folder, "linear")
    every = read_table(folder / "all.parquet")
    (tmp_path / "parts").mkdir()
    for number, first in enumerate(range(0, ROWS, 7)):
        write_table(every.slice(first, 7), tmp_path / "parts" / f"{number}.parquet")
    found, whole = (evaluate(run, model, data) for data in (tmp_path / "parts", "all.parquet"))
    assert found["mse"] == pytest.approx(whole["mse"])
    assert found["rows_trained_on"] == whole["rows_trained_on"]


@pytest.mark.parametrize("without", [("--no-intervals",), ("--no-page",)])
def test_where_nothing_was_predicted_out_of_fold_the_figures_are_said_to_flatter(run, folder, without):
    model = fit(run, folder, "linear", *without)
    found = evaluate(run, model, "all.parquet")
    assert found["rows_trained_on"] > 0
    assert found["rows_scored_out_of_fold"] == 0
    out, err = run("evaluate", model, "all.parquet", "--truth", "truth")
    assert f"{found['rows_trained_on']} of them were trained on" in out
    assert "these figures flatter it" in out
    assert "--identified" in err


def test_a_model_from_python_does_not_know_its_rows(run, folder, tmp_path):
    table = read_table(folder / "train.parquet")
    X, S = pa.table({"x": table["x"]}), CandidateSets.from_arrow(table["y"].combine_chunks())
    save_model(PartialLabelRegressor("linear").fit(X, S), tmp_path / "m.plr")
    found = evaluate(run, tmp_path / "m.plr", "train.parquet")
    assert found["rows_trained_on"] is None
    assert "its file does not tell" in run("evaluate", tmp_path / "m.plr", "train.parquet", "--truth", "truth")[0]


def test_equal_rows_take_their_predictions_in_turn():
    X = pa.table({"x": [1.0, 2.0, 1.0, 3.0, 1.0]})
    S = CandidateSets.from_lists([[5.0, 6.0], [7.0], [6.0, 5.0], [8.0], [5.0, 9.0]])
    model = PartialLabelRegressor("linear").fit(X, S)
    model._row_digests = row_digests(X, S)
    seen = SeenRows(model)
    several = X.take([2, 0, 1, 0]), S[[2, 0, 1, 0]]
    assert seen.find(*several).tolist() == [0, 2, 1, 0]
    # What was given out before counts.
    assert seen.find(*several).tolist() == [2, 0, 1, 2]
    assert seen.find(pa.table({"x": [1.0, 4.0]}), None).tolist() == [0, -1]
    assert seen.find(pa.table({"x": [-0.0]}), None).tolist() == [-1]


def test_digests_tell_missing_cells_columns_and_both_zeros():
    def digests(**columns):
        return row_digests(pa.table(columns), CandidateSets.from_lists([[1.0]] * len(next(iter(columns.values())))))

    different = digests(a=[1.0, 2.0, float("nan"), 0.0, 1.0], b=pa.array(["x", "x", "x", "", None], pa.string()))
    assert len(set(different[0].tolist())) == len(set(different[1].tolist())) == 5
    assert (digests(a=[0.0], b=[1.0]) == digests(a=[-0.0], b=[1.0])).all()
    assert (digests(a=[1.0], b=[2.0]) != digests(a=[2.0], b=[1.0])).all()
    nan = np.frombuffer(np.uint64(0xFFF8000000000001).tobytes())
    assert (digests(a=nan) == digests(a=[float("nan")])).all()
