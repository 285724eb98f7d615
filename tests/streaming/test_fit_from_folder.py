"""Models fitted in batches are about those of all rows in memory, and survive being stopped."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plr import PartialLabelRegressor, load_model, save_model
from plr.candidates import CandidateSets
from plr.errors import CandidateError, DataError, FeatureError, NotFittedError, ParameterError
from plr.learners import MLP, Linear
from plr.streaming.engine import LocalEngine
from plr.streaming.folder_fit import fit_folder, stream_epochs
from plr.streaming.scratch import Scratch
from plr.weighting import Posterior

NETWORK = MLP(hidden=(32, 32), epochs=40, batch_size=128)


@pytest.fixture(scope="module")
def held_out(rows, mixed):
    """Return new rows, and their true labels with noise."""
    table, S, y = rows(3_000, seed=9)
    X, _ = mixed[0].features.apply(table, "table")
    return X, S, y


def error(model, held_out):
    return float(np.mean((model.predict(held_out[0]) - held_out[2]) ** 2))


@pytest.mark.parametrize("start", [None, pytest.param("density", marks=pytest.mark.slow)])
def test_a_network_is_as_good_as_in_memory(mixed, held_out, tmp_path, start):
    reading, X, S, _ = mixed
    found = fit_folder(PartialLabelRegressor(NETWORK, start=start, random_state=0), reading, tmp_path / "scratch")
    in_memory = PartialLabelRegressor(NETWORK, random_state=0).fit(X, S)
    assert error(found.model, held_out) < 1.1 * error(in_memory, held_out)
    assert not list(tmp_path.iterdir())
    assert (found.held, found.sample, found.survey.rows) == (600, 5_400, 6_000)
    # Noise and intervals come from rows that were held out.
    deviation = np.sqrt(error(found.model, held_out))
    assert 0.3 * deviation < found.model.noise_scale_ < 1.2 * deviation
    low, high = found.model.predict_interval(held_out[0], 0.9).T
    assert 0.86 < np.mean((low <= held_out[2]) & (held_out[2] <= high)) < 0.96
    identified = found.model.identify(held_out[0], held_out[1])
    assert np.mean(np.abs(identified.value - held_out[2]) < 1e-9) > 0.9
    with pytest.raises(NotFittedError, match="training rows are not kept"):
        found.model.identify()


def test_a_linear_model_is_that_of_all_rows(mixed, held_out, tmp_path):
    reading, X, S, _ = mixed
    for learner in (Linear(), Linear(alpha=0.01)):
        found = fit_folder(PartialLabelRegressor(learner, random_state=0), reading, tmp_path / "scratch").model
        in_memory = PartialLabelRegressor(learner, random_state=0).fit(X, S)
        gap = np.abs(found.predict(held_out[0]) - in_memory.predict(held_out[0])).mean()
        assert gap < 0.05
        assert error(found, held_out) < 1.05 * error(in_memory, held_out)


def test_a_file_of_the_model_predicts_the_same(mixed, held_out, tmp_path):
    reading = mixed[0]
    found = fit_folder(PartialLabelRegressor(Linear(), random_state=0), reading, tmp_path / "scratch").model
    save_model(found, tmp_path / "model.plr")
    loaded = load_model(tmp_path / "model.plr")
    assert (loaded.predict(held_out[0]) == found.predict(held_out[0])).all()
    assert (loaded.predict_interval(held_out[0]) == found.predict_interval(held_out[0])).all()


def test_priors_weights_and_missing_truths_are_heeded(rows, folder_of, reading_of, tmp_path):
    table, S, y = rows(3_000, seed=4, plain=True)
    told = np.abs(S.values - y[S.row_index]) < 1e-9
    prior = np.where(told, 0.9, 0.05)
    weight = np.ones(3_000)
    # Rows that are wrong altogether do not count.
    broken = np.arange(3_000) % 5 == 0
    weight[broken] = 0.0
    values = np.where(broken[S.row_index], S.values + 50.0, S.values)
    table = table.set_column(3, "y", CandidateSets(values, S.offsets).to_arrow())
    table = table.append_column("weight", pa.array(weight))
    table = table.append_column("prior", CandidateSets(prior, S.offsets).to_arrow())
    reading = reading_of(folder_of(table), weights="weight", prior=("prior",))
    X, _ = reading.features.apply(table, "table")
    for learner in (NETWORK, Linear()):
        weighting = Posterior(missing_truth="learned")
        model = PartialLabelRegressor(learner, weighting, random_state=0)
        found = fit_folder(model, reading, tmp_path / "scratch").model
        assert np.mean((found.predict(X) - y)[~broken] ** 2) < (0.02 if learner is NETWORK else 0.3)
        assert found.missing_share_ < 0.2


def test_the_best_epoch_is_chosen_without_labels(mixed, tmp_path):
    learner = MLP(epochs=6, validation_fraction=0.2, monitor="evidence", patience=3)
    found = fit_folder(PartialLabelRegressor(learner, random_state=0), mixed[0], tmp_path / "scratch")
    report = found.model.model_.report
    assert found.held == 1_200
    assert report.best_round == int(report.validation.argmin())


@pytest.mark.parametrize("stage", ["Looking through all rows", "Writing a shuffled copy", "Training"])
def test_a_fit_that_was_stopped_goes_on(mixed, held_out, tmp_path, stage):
    reading = mixed[0]
    model = PartialLabelRegressor(MLP(epochs=5, batch_size=64), random_state=0)
    whole = fit_folder(model, reading, tmp_path / "whole").model.predict(held_out[0])

    class Stop:
        def __init__(self, what):
            self.what, self.told = what, 0

        def __enter__(self):
            return self.tell

        def __exit__(self, *_):
            pass

        def tell(self, done, total, _):
            if self.what == stage and done > total / 2:
                raise KeyboardInterrupt

    again = PartialLabelRegressor(MLP(epochs=5, batch_size=64), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        fit_folder(again, reading, tmp_path / "broken", engine=LocalEngine(save_every=0.0), working=Stop)
    assert not hasattr(again, "model_")
    assert (tmp_path / "broken").is_dir()
    if stage == "Training":
        assert (tmp_path / "broken" / "progress.npz").exists()
    assert (fit_folder(again, reading, tmp_path / "broken").model.predict(held_out[0]) == whole).all()
    assert not (tmp_path / "broken").exists()


def test_what_another_training_left_is_neither_taken_up_nor_removed(mixed, tmp_path):
    reading, place = mixed[0], tmp_path / "scratch"

    def stop(*_):
        raise KeyboardInterrupt

    class Stop:
        def __init__(self, what):
            self.what = what

        def __enter__(self):
            return stop if self.what == "Training" else lambda *_: None

        def __exit__(self, *_):
            pass

    with pytest.raises(KeyboardInterrupt):
        fit_folder(PartialLabelRegressor(MLP(epochs=2), random_state=0), reading, place, working=Stop)
    left = {path.name: path.read_bytes() for path in place.iterdir()}
    assert "copy.json" in left
    with pytest.raises(DataError, match=r"unfinished training with other settings \(.*random_state 0, now 1.*delete"):
        fit_folder(PartialLabelRegressor(MLP(epochs=2), random_state=1), reading, place)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == left
    assert fit_folder(PartialLabelRegressor(MLP(epochs=2), random_state=0), reading, place).resumed
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("not to be lost")
    with pytest.raises(DataError, match="not empty"):
        fit_folder(PartialLabelRegressor(MLP(epochs=2), random_state=0), reading, other)
    assert (other / "mine.txt").exists()


def test_learners_that_need_all_rows_are_refused(mixed, tmp_path):
    reading = mixed[0]
    with pytest.raises(ParameterError, match="Boosting needs all rows in memory; mlp, linear and module"):
        fit_folder(PartialLabelRegressor("boosting"), reading, tmp_path / "scratch")
    with pytest.raises(ParameterError, match="'sampled' needs all rows in memory; in batches there is 'density'"):
        fit_folder(PartialLabelRegressor("mlp", start="sampled"), reading, tmp_path / "scratch")


def test_a_module_is_trained_on_the_same_rows(rows, folder_of, reading_of, mixed, tmp_path):
    torch = pytest.importorskip("torch")
    from plr.learners import Module

    def make(columns):
        return torch.nn.Sequential(torch.nn.Linear(columns, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))

    learner = Module(make, epochs=8, learning_rate=0.01, scale_features=True, device="cpu", scheduler="cosine")
    with pytest.raises(FeatureError, match="numbers alone, but 'x2', 'kind' have gaps or categories"):
        fit_folder(PartialLabelRegressor(learner), mixed[0], tmp_path / "scratch")
    table, S, y = rows(4_000, seed=6, plain=True)
    reading = reading_of(folder_of(table))
    X, _ = reading.features.apply(table, "table")
    found = fit_folder(PartialLabelRegressor(learner, random_state=0), reading, tmp_path / "scratch2").model
    in_memory = PartialLabelRegressor(learner, random_state=0).fit(X, S)
    assert np.mean((found.predict(X) - y) ** 2) < 1.5 * np.mean((in_memory.predict(X) - y) ** 2)
    learner = Module(make, epochs=3, validation_fraction=0.1, monitor="evidence", device="cpu")
    model = fit_folder(PartialLabelRegressor(learner, random_state=0), reading, tmp_path / "scratch3").model
    assert len(model.model_.report.validation) == 3


def test_epochs_are_fewer_the_more_rows_there_are():
    assert [stream_epochs(MLP(), 10**power, 256) for power in (3, 5, 6, 7, 9)] == [1000, 20, 20, 2, 2]
    assert stream_epochs(MLP(epochs=7), 10**9, 256) == 7


def test_files_that_were_written_anew_are_other_files(rows, folder_of, reading_of):
    first, _, _ = rows(1_000, seed=1, plain=True)
    second, _, _ = rows(1_000, seed=2, plain=True)
    place = folder_of(first, files=1)
    before = reading_of(place).folder.fingerprint()
    assert reading_of(place).folder.fingerprint() == before
    pq.write_table(second, place / "part-0.parquet", row_group_size=500)
    assert reading_of(place).folder.fingerprint() != before


def test_two_fits_do_not_share_a_place(tmp_path):
    place = Scratch(tmp_path / "scratch", {"a": 1})
    with pytest.raises(DataError, match="Another fit is at work"):
        Scratch(tmp_path / "scratch", {"a": 2})
    place.release()
    assert not Scratch(tmp_path / "scratch", {"a": 2}).resumed


def test_nothing_is_removed_before_the_model_is_kept(mixed, tmp_path):
    model = PartialLabelRegressor(Linear(), random_state=0)

    def fail(_):
        raise DataError("the disk is full")

    with pytest.raises(DataError, match="the disk is full"):
        fit_folder(model, mixed[0], tmp_path / "scratch", save=fail)
    assert (tmp_path / "scratch" / "copy.json").exists()
    found = fit_folder(model, mixed[0], tmp_path / "scratch", save=lambda fit: None)
    assert found.resumed
    assert not (tmp_path / "scratch").exists()


def test_a_module_is_known_again_in_another_process():
    torch = pytest.importorskip("torch")
    from plr.learners import Module
    from plr.streaming.folder_fit import _model_identity

    def named():
        scope = {"torch": torch}
        exec("def make(columns):\n    return torch.nn.Linear(columns, 1)", scope)
        return _model_identity(PartialLabelRegressor(Module(scope["make"]), random_state=0))

    assert named() == named()
    assert not any(" at 0x" in text for text in named().values())


def test_few_rows_with_candidates_among_many_are_enough_or_told(rows, folder_of, reading_of, tmp_path):
    table, _, _ = rows(2_000, plain=True)
    lists = table["y"].to_pylist()
    for kept, expected in ((12, 166), (2_000, 1)):
        some = pa.array([cell if row % kept == 1 else [] for row, cell in enumerate(lists)])
        reading = reading_of(folder_of(table.set_column(3, "y", some)), drop_empty=True)
        model = PartialLabelRegressor(Linear(), random_state=0)
        if expected > 1:
            found = fit_folder(model, reading, tmp_path / "scratch")
            assert found.survey.rows >= expected
        else:
            with pytest.raises(CandidateError, match="1 rows have a candidate in 'y', too few"):
                fit_folder(model, reading, tmp_path / "scratch")


def test_weights_that_are_all_zero_are_told(rows, folder_of, reading_of, tmp_path):
    table, _, _ = rows(500, plain=True)
    reading = reading_of(folder_of(table.append_column("weight", pa.array([0.0] * 500))), weights="weight")
    with pytest.raises(ParameterError, match="zero in every row"):
        fit_folder(PartialLabelRegressor(Linear(), random_state=0), reading, tmp_path / "scratch")
