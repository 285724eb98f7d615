"""Long tables, one line per candidate: they give what the same rows give as lists, whatever the order of lines."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plr import CandidateSets, TableModel, load_model
from plr.columns.candidates import SetColumns
from plr.errors import CandidateError, DataError, DataNotFoundError, EmptySetError, ParameterError, PlrWarning
from plr.front_end import PYTHON
from plr.sources.source import TableSource
from plr.tables import write_table
from plr.tables.fit_table import check_table
from plr.tables.known import known_labels
from plr.tables.long_table import LongTable, find_row_column
from support.candidate_mechanisms import join

ROWS = 90


@pytest.fixture(scope="module")
def rows():
    """One line per row: a price that depends on x, among two or three, each with a score and a record."""
    random = np.random.default_rng(0)
    x = np.round(random.uniform(0, 10, ROWS), 3)
    truth = np.round(3 * x + 5, 2)
    prices, scores, records = [], [], []
    for row in range(ROWS):
        count = 2 + row % 2
        prices.append([truth[row], *np.round(random.uniform(0, 40, count - 1), 2)])
        scores.append([0.9, *np.round(random.uniform(0, 0.8, count - 1), 2)])
        records.append([f"r{row}", *(f"r{other}" for other in random.choice(ROWS, count - 1, replace=False) + ROWS)])
        turn = random.permutation(count)
        for column in (prices, scores, records):
            column[-1] = [column[-1][place] for place in turn]
    known = [value if row < 20 else None for row, value in enumerate(truth)]
    ids = [f"id{row}" for row in range(ROWS)]
    return pa.table(
        {"id": ids, "x": x, "price": prices, "score": scores, "record": records, "truth": truth, "known": known}
    )


def lengthened(rows, order=None):
    """Return the table with one line per candidate, its lines shuffled."""
    sizes = [len(cell) for cell in rows["price"].to_pylist()]
    lines = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), sizes)))
    for name in ("price", "score", "record"):
        if name in lines.column_names:
            lines = lines.set_column(lines.column_names.index(name), name, rows[name].combine_chunks().flatten())
    return lines if order is None else lines.take(pa.array(order))


@pytest.fixture(scope="module")
def lines(rows):
    return lengthened(rows)


OPTIONS = {"truth": "truth", "candidate_features": "score", "record": "record", "known": "known", "intervals": False}


def fitted(table, **options):
    return TableModel(learner="linear", random_state=0).fit(table, "price", **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def model(lines):
    return fitted(lines, row="id", identify=True)


def test_a_long_table_is_one_of_lists(rows, lines, model):
    wide = fitted(rows, ignore="id")
    np.testing.assert_array_equal(model.predict(rows), wide.predict(rows))
    assert model.summary.sets == wide.summary.sets
    assert model.regressor.prior_.describe() == wide.regressor.prior_.describe()
    assert model.summary.checked == wide.summary.checked
    found = model.identify()
    assert found.column_names == ["id", "value", "probability", "index", "record"]
    assert found.select(["value", "probability", "index"]).equals(wide.identify())
    assert found["id"].to_pylist() == rows["id"].to_pylist()


def test_lines_may_be_anywhere(rows, lines, model):
    order = np.random.default_rng(1).permutation(lines.num_rows)
    shuffled = lines.take(pa.array(order))
    found, expected = model.identify(shuffled), model.identify(lines)
    by_id = {row["id"]: row for row in found.to_pylist()}
    for row in expected.to_pylist():
        assert by_id[row["id"]]["value"] == row["value"]
        assert by_id[row["id"]]["record"] == row["record"]
        assert by_id[row["id"]]["probability"] == pytest.approx(row["probability"])
    # Rows come in the order in which their ids appear.
    assert found["id"].to_pylist() == list(dict.fromkeys(shuffled["id"].to_pylist()))
    assert len(model.predict(shuffled)) == ROWS


def test_all_candidates_keep_their_order(lines, model):
    order = np.random.default_rng(2).permutation(lines.num_rows)
    shuffled = lines.take(pa.array(order))
    found = model.identify(shuffled, all_candidates=True)
    assert found.column_names == ["id", "probability", "chosen"]
    assert found["id"].to_pylist() == shuffled["id"].to_pylist()
    probability, chosen = found["probability"].to_numpy(), np.array(found["chosen"].to_pylist())
    assert chosen.sum() == ROWS
    best = {row["id"]: row for row in model.identify(shuffled).to_pylist()}
    price = shuffled["price"].to_numpy()
    for line in np.flatnonzero(chosen):
        row = best[shuffled["id"][int(line)].as_py()]
        assert (price[line], probability[line]) == (row["value"], row["probability"])


def test_a_saved_model_needs_no_options_again(tmp_path, rows, lines, model):
    model.save(tmp_path / "m.plr")
    loaded = load_model(tmp_path / "m.plr")
    assert (loaded.row, loaded.record, loaded.candidate_features) == ("id", "record", ("score",))
    assert loaded.identify(lines).equals(model.identify(lines))
    np.testing.assert_array_equal(loaded.predict(rows.select(["x"])), model.predict(rows.select(["x"])))
    assert loaded.evaluate(lines)["rows"] == ROWS
    assert loaded.evaluate(lines, truth="known")["rows"] == 20
    # Rows without candidates will do for predictions, and errors name what is missing.
    assert len(loaded.predict(lines.select(["id", "x"]))) == ROWS
    with pytest.raises(DataError, match="lacks 'score': what describes each candidate"):
        loaded.identify(lines.drop_columns(["score"]))
    with pytest.raises(ParameterError, match="lacks 'id', which said in training which row each line belongs to"):
        loaded.identify(lines.drop_columns(["id"]))
    with pytest.raises(ParameterError, match="lacks 'price'"):
        loaded.identify(lines.drop_columns(["price"]))
    renamed = lines.rename_columns({"id": "key", "record": "match"})
    again = loaded.identify(renamed, row="key", record="match")
    assert again["key"].equals(model.identify(lines)["id"])


def test_checked_rows_settle_and_teach(rows, model):
    found = model.identify().to_pylist()
    truth = rows["truth"].to_pylist()
    assert all(found[row]["value"] == truth[row] and found[row]["probability"] == 1.0 for row in range(20))
    assert model.summary.checked == {
        "rows": 20, "found": 20, "found_among_several": 20, "missing": 0, "cannot_tell": 0, "sampled": "random",
    }  # fmt: skip
    assert "score" in model.regressor.prior_.describe()[1]


def test_known_labels_of_a_file(tmp_path, rows, lines, model):
    known = rows.slice(0, 20).select(["id", "truth"]).rename_columns(["id", "value"])
    from_file = fitted(lines.drop_columns(["known"]), row="id", known=known)
    np.testing.assert_array_equal(from_file.predict(rows), model.predict(rows))
    numbers = pa.table({"row": list(range(20)), "value": rows["truth"].to_pylist()[:20]})
    wide = rows.drop_columns(["known"])
    write_table(numbers, tmp_path / "known.csv")
    by_number = fitted(wide, ignore="id", known=tmp_path / "known.csv")
    np.testing.assert_array_equal(by_number.predict(rows), model.predict(rows))


def test_answers_that_are_no_value(rows, lines):
    known = pa.table(
        {
            # As `review` names the column.
            "row": ["id3", "id5", "id7", "id8"],
            "value": [rows["truth"][3].as_py(), None, None, None],
            "record": ["r3 ", None, None, None],
            "answer": [None, "None of these", "cannot tell ", None],
            "probability": [0.5, 1.0, 0.25, 0.5],
        }
    )
    checked = fitted(lines, row="id", ignore="known", known=known).summary.checked
    assert checked == {
        "rows": 3, "found": 1, "found_among_several": 1, "missing": 1, "cannot_tell": 1,
        "sampled": "with known probabilities",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"id": ["id1", "nobody"], "value": [1.0, 2.0]}, "data row 1 counted from 0: id 'nobody' is unknown"),
        ({"id": ["id1", "id1"], "value": [1.0, 2.0]}, "id id1 was given before, in data row 0"),
        ({"id": ["id1", None], "value": [1.0, 2.0]}, "the column 'id' is empty"),
        ({"id": ["id1"]}, "lacks the column 'value'"),
        ({"number": [1], "value": [1.0]}, "lacks the column 'id'"),
        ({"row": [1], "value": [1.0]}, "row '1' is unknown"),
        ({"id": ["id1"], "value": ["high"]}, "must be numbers"),
        (
            {"id": ["id1", "id0"], "value": [1.0, None], "answer": [None, "maybe"]},
            "data row 1 counted from 0: the column 'answer' has 'maybe'",
        ),
        ({"id": ["id1"], "value": [np.inf]}, "not finite"),
    ],
)
def test_files_of_known_labels_that_cannot_be_used(lines, known, message):
    with pytest.raises(DataError, match=message):
        fitted(lines, row="id", ignore="known", known=known)


def test_known_labels_must_fit_their_row(rows, lines):
    truth = rows["truth"][3].as_py()
    with pytest.raises(CandidateError, match=r"row id3, which begins in data row \d+.*is none of its candidates"):
        fitted(lines, row="id", ignore="known", known={"id": ["id3"], "value": [truth], "record": ["r999"]})
    with pytest.raises(DataNotFoundError, match="no such column, and there is no such file"):
        fitted(lines, row="id", known="knwon")
    with pytest.warns(PlrWarning, match="5 of 5 known labels are none of their row's candidates"):
        fitted(lines, row="id", ignore="known", known={"id": [f"id{n}" for n in range(5)], "value": [-1.0] * 5})


def test_blanks_around_records_and_row_ids(rows, lines):
    def padded(name, every):
        cells = [
            f"{cell} " if cell is not None and n % every == 0 else cell
            for n, cell in enumerate(lines[name].to_pylist())
        ]
        return lines.column_names.index(name), name, pa.array(cells)

    records = lines.set_column(*padded("record", 1))
    known = {"id": [f"id{n}" for n in range(6)], "record": [f"r{n}" for n in range(6)]}
    options = {"row": "id", "record": "record", "ignore": "known"}
    expected, found = (fitted(table, known=known, **options).summary.checked for table in (lines, records))
    assert found == expected
    ids = lines.set_column(*padded("id", 3))
    source = LongTable(TableSource(ids, "lines.csv"), SetColumns(("price",), row="id"), ())
    assert source.keys == LongTable(TableSource(lines, "lines.csv"), SetColumns(("price",), row="id"), ()).keys
    assert source.rows == rows.num_rows
    blank = lines.set_column(lines.column_names.index("id"), "id", pa.array([" ", *lines["id"].to_pylist()[1:]]))
    with pytest.raises(DataError, match="'id' is empty in data row 0"):
        fitted(blank, row="id", ignore="known")


def test_known_labels_that_are_all_empty(lines):
    for known in (
        {"id": ["id1"], "value": pa.array([None], pa.float64())},
        pa.table({"id": ["id1"], "value": [np.nan]}),
    ):
        with pytest.warns(PlrWarning, match="known labels are all empty"):
            fitted(lines, row="id", ignore="known", known=pa.table(known))


def test_a_wrong_known_label_of_a_sample_is_named_by_its_row():
    table = pa.table({"y": [1.0, 2.0], "known": ["1", "high"]})
    with pytest.raises(DataError, match="data row 70 counted from 0 has 'high'"):
        known_labels("known", TableSource(table, "t.csv"), table, None, PYTHON, np.array([3, 70]))


def test_lines_of_a_row_must_agree(lines):
    x = lines["x"].to_numpy().copy()
    x[3] = 99.0
    changed = lines.set_column(1, "x", pa.array(x))
    with pytest.raises(
        DataError, match=r"the lines of row id1 differ in 'x': .* in data row 2 .* and 99.0 in data row 3"
    ):
        fitted(changed, row="id")
    with pytest.raises(DataError, match="differ in 'record'"):
        fitted(lines, row="id", record=None)
    some = lines["known"].to_pylist()
    some[1] = None
    with pytest.raises(DataError, match=r"differ in 'known': .* and nothing in data row 1"):
        fitted(lines.set_column(lines.column_names.index("known"), "known", pa.array(some)), row="id")


def test_rows_without_a_candidate(rows, lines):
    price = lines["price"].to_pylist()
    price[0] = price[1] = None
    bare = lines.set_column(lines.column_names.index("price"), "price", pa.array(price))
    with pytest.raises(EmptySetError, match="1 of 90 rows have no candidate in 'price', the first in row id0"):
        fitted(bare, row="id")
    with pytest.raises(DataError, match=r"row id0, which begins in .*has no candidate"):
        fitted(bare, row="id", ignore="known", known={"id": ["id0"], "value": [1.0]}, drop_empty=True)
    model = fitted(bare, row="id", drop_empty=True)
    assert (model.summary.rows, model.summary.left_out, model.summary.checked["rows"]) == (ROWS - 1, 1, 19)
    found = model.identify(bare)
    assert found["value"][0].as_py() is None
    assert found["id"][0].as_py() == "id0"
    assert model.identify(bare, all_candidates=True)["probability"].null_count == 2


def test_what_long_tables_are_refused_for(lines):
    with pytest.raises(ParameterError, match="one_to_one needs to know which record each candidate is"):
        fitted(lines, row="id", record=None, ignore="record", one_to_one=True)
    with pytest.raises(ParameterError, match="named by row and by record"):
        fitted(lines, row="id", record="id")
    with pytest.raises(DataError, match="the column 'id' is empty in data row 0"):
        fitted(lines.set_column(0, "id", pa.array([None, *lines["id"].to_pylist()[1:]])), row="id")
    with pytest.raises(DataError, match="must be numbers; data row 0 counted from 0 has "):
        fitted(lines.set_column(2, "price", pa.array(["1|2"] * lines.num_rows)), row="id")
    with pytest.raises(ParameterError, match="one column of candidate values"):
        TableModel(learner="linear").fit(lines, ["price", "score"], row="id", ignore=["record", "known"])
    with pytest.raises(ParameterError, match="name its column with prior"):
        fitted(lines, row="id", prior_is="match_weight")


def test_one_to_one(lines, rows):
    model = fitted(lines, row="id", one_to_one=True, identify=True)
    assert model.regressor.one_to_one
    # A row of training, given again, is not refused its own record.
    again = model.identify(lines)
    truth = rows["truth"].to_pylist()
    right = [row["value"] == value for row, value in zip(again.to_pylist(), truth, strict=True)]
    assert np.mean(right) > 0.9
    assert model.evaluate(lines)["identification"]["accuracy"] > 0.9
    twice = lines.set_column(lines.column_names.index("record"), "record", pa.array(["same"] * lines.num_rows))
    with pytest.raises(CandidateError, match=r"row id0, which begins in .*'same' twice"):
        fitted(twice, row="id", one_to_one=True)


def test_folders_of_long_tables(tmp_path, rows, lines, model):
    # The lines of a row are in two files.
    for number in range(2):
        pq.write_table(lines.take(pa.array(np.arange(number, lines.num_rows, 2))), tmp_path / f"{number}.parquet")
    from_folder = fitted(tmp_path, row="id")
    np.testing.assert_allclose(from_folder.predict(rows), model.predict(rows))
    assert sorted(from_folder.identify(tmp_path)["id"].to_pylist()) == sorted(rows["id"].to_pylist())
    for options, message in (
        ({"row": "id"}, "row: the lines of one row may be in any batch; read the rows as one table"),
        ({"one_to_one": True}, "one_to_one decides about all rows together"),
        ({"known": {"row": [0], "value": [1.0]}}, "known must be a column of the table"),
        ({"prior": "score", "prior_is": "probability"}, "prior_is 'probability' says how probable"),
    ):
        with pytest.raises(ParameterError, match=message):
            fitted(tmp_path, in_batches=True, **options)


@pytest.mark.parametrize("texts", [False, True])
def test_candidate_features_of_wide_tables(rows, texts, model):
    table = rows
    if texts:
        for name in ("price", "score", "record"):
            cells = ["|".join(map(str, cell)) for cell in rows[name].to_pylist()]
            table = table.set_column(table.column_names.index(name), name, pa.array(cells))
    found = fitted(table, ignore="id")
    assert found.regressor.prior_.describe() == model.regressor.prior_.describe()
    assert found.summary.sets.record.tolist() == model.summary.sets.record.tolist()
    with pytest.raises(DataError, match="lacks 'score'"):
        found.identify(table.drop_columns(["score"]))
    short = table.set_column(table.column_names.index("score"), "score", pa.array(["1"] * ROWS))
    with pytest.raises(ValueError, match=r"data row 0 counted from 0.*'score'"):
        fitted(short, ignore="id")


def test_checked_rows_of_a_folder_in_batches(tmp_path, rows):
    pq.write_table(rows.drop_columns(["id"]), tmp_path / "0.parquet", row_group_size=25)
    taught = fitted(tmp_path, in_batches=True)
    assert taught.summary.checked["rows"] == 20
    assert taught.regressor.prior_.checked == 20
    assert "score" in taught.regressor.prior_.describe()[1]
    truth = rows["truth"].to_numpy()
    plain = fitted(tmp_path, in_batches=True, known=None, ignore="known")
    assert plain.regressor.prior_ is None
    right = [np.mean(each.identify(rows)["value"].to_numpy() == truth) for each in (taught, plain)]
    assert right[0] >= max(right[1], 0.9)
    empty = rows.drop_columns(["id"])
    empty = empty.set_column(empty.column_names.index("known"), "known", pa.nulls(ROWS, pa.float64()))
    pq.write_table(empty, tmp_path / "0.parquet")
    with pytest.raises(DataError, match="no known label"):
        fitted(tmp_path, in_batches=True)


def test_a_long_table_read_as_a_wide_one_is_noticed(lines, rows):
    plain = lines.select(["id", "x", "price"])
    with pytest.warns(PlrWarning, match="looks like a long table.*row='id'"):
        TableModel(learner="linear").fit(plain, "price", intervals=False)
    with pytest.warns(PlrWarning, match="equal features have different ones.*row='ID'"):
        check_table(plain.select(["x", "price"]), {"target": "price"})
    # Numbers that are measured again and again, and groups, are no row ids.
    random = np.random.default_rng(0)
    plain = pa.table({"group": random.integers(0, 3, 300), "x": random.normal(size=300), "y": random.normal(size=300)})
    assert find_row_column(plain, "y", ()) is None
    assert find_row_column(rows.select(["id", "x", "truth"]), "truth", ()) is None


def test_places_and_lists_of_a_long_table():
    table = pa.table({"id": [2, 1, 2, 3], "x": [5.0, 6.0, 5.0, None], "y": [1.0, 2.0, 3.0, None]})
    long = LongTable(TableSource(table, "t.csv"), SetColumns(("y",), row="id"), ["x"])
    assert long.table.to_pydict() == {"id": [2, 1, 3], "x": [5.0, 6.0, None], "y": [[1.0, 3.0], [2.0], []]}
    assert long.place(0) == "row 2, which begins in data row 0 counted from 0"
    assert SetColumns(("y",)).read(long.table, long) == CandidateSets.from_lists([[1.0, 3.0], [2.0]])


@pytest.mark.filterwarnings("ignore::plr.errors.PlrWarning")
def test_what_checked_rows_changed():
    problem = join(120)
    S, rows = problem.S, problem.S.row_index
    table = {
        "id": rows,
        "y": S.values,
        "score": S.features["score"],
        "x0": problem.X[rows, 0],
        "x1": problem.X[rows, 1],
    }
    known = {"row": list(range(30)), "value": problem.y[:30].tolist()}
    model = TableModel(learner="linear", prior="learned", random_state=0)
    model.fit(pa.table(table), "y", row="id", candidate_features="score", known=pa.table(known), intervals=False)
    changed = model.changed_by_checked_rows()
    assert changed["rows"] == (S.sizes[30:] > 1).sum()
    assert changed["doubtful"] < changed["doubtful_without"] <= changed["rows"]
    assert model.summary.checked_rows == list(range(30))
