"""`TableModel`: frames and files of every kind go in as they are, and a saved model takes them again."""

import datetime
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import plr
from plr import CandidateSets, PartialLabelRegressor, TableModel, load_model, save_model
from plr.errors import DataError, EmptySetError, NotFittedError, ParameterError, PlrWarning
from plr.tables import write_table

ROWS = 120


@pytest.fixture(scope="module")
def table():
    """Prices by size, district and day of sale, with the true price as one of two or three candidates."""
    random = np.random.default_rng(0)
    size = np.round(random.uniform(20, 120, ROWS), 1)
    district = random.choice(["north", "south", "east"], ROWS)
    sold = [datetime.date(2023, 1, 1) + datetime.timedelta(days=int(day)) for day in random.integers(0, 900, ROWS)]
    days = np.array([(day - datetime.date(2023, 1, 1)).days for day in sold])
    price = np.round(3 * size + 40 * (district == "north") + 0.1 * days, 2)
    lists = [[wrong, right] if turn else [right, wrong] for right, wrong, turn in zip(
        price, np.round(random.uniform(0, 600, ROWS), 2), random.integers(0, 2, ROWS), strict=True
    )]  # fmt: skip
    return pa.table(
        {"size": size, "district": district.tolist(), "sold": sold, "price": lists, "true": price, "note": ["x"] * ROWS}
    )


@pytest.fixture(scope="module")
def model(table):
    return TableModel(learner="linear", random_state=0).fit(table, target="price", truth="true")


def as_pandas(table, path):
    return table.to_pandas()


def as_polars(table, path):
    return pytest.importorskip("polars").from_arrow(table)


def as_csv(table, path):
    write_table(table, path / "t.csv")
    return str(path / "t.csv")


def as_jsonl(table, path):
    write_table(table, path / "t.jsonl")
    return path / "t.jsonl"


def as_folder(table, path):
    for number, first in enumerate(range(0, table.num_rows, 50)):
        (path / "rows").mkdir(exist_ok=True)
        pq.write_table(table.slice(first, 50), path / "rows" / f"{number}.parquet")
    return path / "rows"


def as_dictionary(table, path):
    return table.to_pydict()


KINDS = [as_pandas, as_polars, as_csv, as_jsonl, as_folder, as_dictionary]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gets_the_same_answers(model, table, tmp_path, kind):
    data = kind(table, tmp_path)
    np.testing.assert_allclose(model.predict(data), model.predict(table), rtol=1e-9)
    found = model.identify(data)
    assert found.column_names == ["value", "probability", "index"]
    assert found["index"].to_pylist() == model.identify(table)["index"].to_pylist()
    assert model.evaluate(data)["rmse"] == pytest.approx(model.evaluate(table)["rmse"], rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_can_be_fitted_to(table, tmp_path, kind):
    data = kind(table, tmp_path)
    model = TableModel(learner="linear").fit(data, "price", ignore=["note"], truth="true", intervals=False)
    prediction = model.predict(table)
    np.testing.assert_allclose(prediction, table["true"].to_numpy(), atol=5)
    assert model.features.names == ("size", "district", "sold: days", "sold: day of year", "sold: weekday")


def test_a_model_that_was_saved_takes_frames_as_they_are(model, table, tmp_path):
    model.save(tmp_path / "m.plr")
    back = load_model(tmp_path / "m.plr")
    assert isinstance(back, TableModel)
    assert (back.target, back.truth, back.features) == (("price",), "true", model.features)
    new = table.to_pandas()[["sold", "district", "size"]].head(3)
    np.testing.assert_array_equal(back.predict(new), model.predict(new))
    # Dates and numbers as a CSV file has them.
    texts = new.astype(str)
    np.testing.assert_allclose(back.predict(texts), model.predict(new))
    ends = back.predict_interval(new, 0.9)
    assert ends.shape == (3, 2)
    assert (ends[:, 0] < ends[:, 1]).all()
    for pieces, whole in zip(back.predict_set(new, 0.9), ends, strict=True):
        assert pieces.shape[1] == 2
        assert np.ptp(pieces) <= 1.5 * np.ptp(whole)
    assert back.evaluate(table)["rows_scored_out_of_fold"] == ROWS


def test_the_page_in_a_file_is_kept_when_the_model_is_saved_again(model, tmp_path):
    path = tmp_path / "m.plr"
    model.save(path, page={"training": None, "importance": None})
    back = load_model(path)
    assert back.page == {"training": None, "importance": None}
    back.save(tmp_path / "again.plr")
    assert (tmp_path / "again.plr").read_bytes() == path.read_bytes()
    back.save(tmp_path / "bare.plr", training_rows=False)
    assert load_model(tmp_path / "bare.plr").page is None


def test_a_pickle_has_no_training_rows(model, table):
    back = pickle.loads(pickle.dumps(model))
    assert (back.summary, back.regressor._training) == (None, None)
    np.testing.assert_array_equal(back.predict(table), model.predict(table))


def test_missing_cells_and_new_categories_are_no_mistake(model):
    new = {"size": [50.0, None], "district": ["west", None], "sold": [None, "2024-05-01"]}
    with pytest.warns(PlrWarning, match="'district': 1 cell, 'west', was not in training and counts as missing"):
        assert np.isfinite(model.predict(new)).all()


def test_what_may_be_a_mistake_is_warned_of(table):
    with pytest.warns(PlrWarning, match="'true' equals one of the candidates .* say truth='true'"):
        TableModel(learner="linear").fit(table, "price", intervals=False)
    model = TableModel(learner="linear").fit(table, "price", truth="true", intervals=False)
    with pytest.warns(PlrWarning, match="Column 'size': 1 cell such as .* counts as missing"):
        model.predict({"size": ["50", "?"], "district": ["north", "east"], "sold": [None, None]})


def test_columns_that_are_not_there_are_named_with_the_parameter(model, table):
    with pytest.raises(ParameterError, match="target: The table has no column 'prise'; did you mean 'price'"):
        TableModel(learner="linear").fit(table, "prise")
    with pytest.raises(
        ParameterError, match=r"lacks 'true', which held the true labels in training.* Name it with truth"
    ):
        model.evaluate(table.drop_columns(["true"]))
    with pytest.raises(DataError, match=r"The table: column 'size' held numbers .* now; write it as in training"):
        model.predict({"size": ["large"], "district": ["north"], "sold": [None]})


def test_texts_with_nan_where_they_are_missing(model):
    new = {"size": [50.0, 60.0], "district": ["north", np.nan], "sold": ["2024-05-01", None]}
    assert np.isfinite(model.predict(new)).all()


def test_a_missing_column_is_named(model, table):
    with pytest.raises(DataError, match="The table lacks the column 'sold' that the model was trained on"):
        model.predict(table.drop_columns(["sold"]))
    with pytest.raises(ParameterError, match="lacks 'price', which held the candidates in training; name it with targ"):
        model.identify(table.drop_columns(["price"]))


def test_training_rows_are_identified_out_of_fold(table):
    model = TableModel(learner="linear", random_state=0)
    model.fit(table, "price", truth="true", identify=True, intervals=False)
    found = model.identify()
    assert found.num_rows == ROWS
    assert np.isclose(found["value"].to_numpy(), table["true"].to_numpy()).mean() > 0.9
    assert model.summary.doubt["rows_with_several"] == ROWS


def test_several_columns_of_candidates(table, tmp_path):
    pairs = CandidateSets.from_arrow(table["price"].combine_chunks()).values.reshape(-1, 2)
    wide = table.drop_columns(["price"]).append_column("a", [pairs[:, 0]]).append_column("b", [pairs[:, 1]])
    model = TableModel(learner="linear").fit(wide, ["a", "b"], truth="true", intervals=False)
    found = model.identify(wide.slice(0, 5))
    assert found["source"].to_pylist() == [["a", "b"][index] for index in found["index"].to_pylist()]


def test_rows_without_a_candidate(table):
    lists = table["price"].to_pylist()
    lists[3] = []
    some = table.set_column(3, "price", pa.array(lists, pa.list_(pa.float64())))
    with pytest.raises(EmptySetError, match=r"data row 3 counted from 0; fill them in, .* with drop_empty=True"):
        TableModel(learner="linear").fit(some, "price", truth="true")
    model = TableModel(learner="linear").fit(some, "price", truth="true", drop_empty=True, intervals=False)
    assert (model.summary.rows, model.summary.left_out) == (ROWS - 1, 1)
    assert model.identify(some)["value"].null_count == 1


def test_a_folder_is_fitted_to_in_batches(table, tmp_path):
    model = TableModel(learner="linear", random_state=0)
    model.fit(as_folder(table, tmp_path), "price", truth="true", in_batches=True)
    assert model.summary.source.in_batches
    assert model.summary.held_out > 0
    np.testing.assert_allclose(model.predict(table), table["true"].to_numpy(), atol=5)
    with pytest.raises(NotFittedError, match="fitted in batches"):
        model.identify()
    with pytest.raises(ParameterError, match="is in memory"):
        TableModel(learner="linear").fit(table, "price", in_batches=True)


def test_tables_are_written_with_their_columns(model, table, tmp_path):
    done = model.write_predictions(table, tmp_path / "p.parquet", interval=0.9)
    written = pq.read_table(tmp_path / "p.parquet")
    assert written.column_names == [*table.column_names, "prediction", "lower", "upper"]
    assert (done.rows, done.columns) == (ROWS, ["prediction", "lower", "upper"])
    done = model.write_identified(as_folder(table, tmp_path), tmp_path / "out", prefix="plr_")
    assert (done.files, done.counts["rows_with_several"]) == (3, ROWS)
    again = model.write_identified(tmp_path / "rows", tmp_path / "out", prefix="plr_")
    assert again.files_skipped == 3


def test_a_regressor_without_a_table(table, tmp_path):
    frame = table.to_pandas()
    regressor = PartialLabelRegressor("linear").fit(frame[["size", "district"]], frame["true"])
    save_model(regressor, tmp_path / "m.plr")
    assert isinstance(load_model(tmp_path / "m.plr"), PartialLabelRegressor)
    np.testing.assert_allclose(TableModel(regressor).predict(table), regressor.predict(frame[["size", "district"]]))


def test_what_is_no_table(model):
    with pytest.raises(ParameterError, match=r"a frame whose columns have names .* for arrays there is Partial"):
        model.predict(np.zeros((3, 2)))
    with pytest.raises(DataError, match="no rows"):
        model.predict({"size": []})
    with pytest.raises(NotFittedError, match="This TableModel is not fitted yet"):
        plr.TableModel().predict({"x": [1.0]})
    with pytest.raises(ParameterError, match="not both"):
        TableModel(PartialLabelRegressor(), learner="linear")


def test_answers_of_another_model_are_not_kept(model, table, tmp_path):
    """A folder of answers is resumed for the model that began it, and for no other."""
    data, out = as_folder(table, tmp_path), tmp_path / "out"
    model.write_predictions(data, out)
    assert model.write_predictions(data, out).files_skipped == 3
    other = TableModel(learner="linear", loss="absolute", random_state=0).fit(table, target="price", truth="true")
    with pytest.raises(ParameterError, match="was made by another model"):
        other.write_predictions(data, out)


@pytest.mark.parametrize("target", [None, [], ""])
def test_a_target_is_needed(table, target):
    with pytest.raises(ParameterError) as refused:
        TableModel(learner="linear").fit(table, target=target)
    assert refused.value.parameter == "target"


def test_the_scratch_folder_may_be_a_text(table, tmp_path):
    data = as_folder(table, tmp_path)
    fitted = TableModel(learner="linear", random_state=0).fit(
        data, target="price", truth="true", in_batches=True, scratch=str(tmp_path / "scratch")
    )
    assert fitted.predict(table).shape == (ROWS,)


def test_options_of_given_rows_are_refused_for_those_of_training(model, tmp_path):
    with pytest.raises(ParameterError, match="doubtful, cells, target and prior"):
        model.write_identified(None, tmp_path / "out.csv", doubtful=2)


@pytest.mark.parametrize("kind", ["texts", "categories"])
def test_texts_of_polars(table, tmp_path, kind):
    """Polars hands its texts over as string views, for which Arrow lacks much."""
    pl = pytest.importorskip("polars")
    texts = ["|".join(map(str, row)) for row in table["price"].to_pylist()]
    frame = pl.from_arrow(table.set_column(3, "price", pa.array(texts)))
    if kind == "categories":
        frame = frame.with_columns(pl.col("district").cast(pl.Categorical))
    model = TableModel(learner="linear", random_state=0).fit(frame, target="price", truth="true")
    assert model.identify(frame).num_rows == ROWS
    model.write_predictions(frame, tmp_path / "out.csv")
    frame.write_ipc(tmp_path / "t.feather")
    np.testing.assert_allclose(model.predict(tmp_path / "t.feather"), model.predict(frame))


@pytest.mark.parametrize("regressor", ["linear", 3])
def test_what_is_no_regressor_is_refused(regressor):
    with pytest.raises(ParameterError) as refused:
        TableModel(regressor)
    assert refused.value.parameter == "regressor"


def test_mistakes_are_errors_of_plr(model, table, tmp_path):
    with pytest.raises(ParameterError, match="did you mean 'learner'"):
        TableModel(lerner="linear")
    for target in (6, table["price"]):
        with pytest.raises(ParameterError, match="given by name"):
            TableModel(learner="linear").fit(table, target=target)
    with pytest.raises(ParameterError) as refused:
        model.write_identified(table, tmp_path / "out.csv", doubtful=0)
    assert refused.value.parameter == "doubtful"
    with pytest.raises(NotFittedError, match="not fitted"):
        TableModel().identify()


def test_others_may_read_a_model_file_as_they_may_other_files(model, tmp_path):
    (tmp_path / "other").touch()
    model.save(tmp_path / "m.plr")
    assert (tmp_path / "m.plr").stat().st_mode == (tmp_path / "other").stat().st_mode
