"""Workers of Ray Train end where one process does, and go on when one of them, or the driver, is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import plr.cluster.ray_engine  # noqa: E402
from plr import PartialLabelRegressor, load_model, make_candidates  # noqa: E402
from plr.cluster.ray_engine import RayEngine, _worker_error  # noqa: E402
from plr.cluster.workers import _LostError, _own_errors, train_worker  # noqa: E402
from plr.columns.features import learn_features  # noqa: E402
from plr.errors import ClusterError, DivergenceError  # noqa: E402
from plr.learners import MLP, Module  # noqa: E402
from plr.sources.folder import Folder  # noqa: E402
from plr.streaming import shuffled  # noqa: E402
from plr.streaming.folder_fit import fit_folder  # noqa: E402
from plr.streaming.folder_rows import Reading  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("cluster")]

NETWORK = MLP(hidden=(16,), epochs=4, batch_size=64)


@pytest.fixture(scope="module", autouse=True)
def by_value(cluster):
    """Send what is defined here as code, since workers cannot import this file."""
    cluster.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cluster.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Let few rows make several rounds."""
    monkeypatch.setattr(shuffled, "_MOST_IN_CHUNK", 600)
    monkeypatch.setattr(shuffled, "_FEWEST_IN_CHUNK", 600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    random = np.random.default_rng(0)
    X = random.normal(size=(3_000, 3))
    y = np.tanh(X @ [1.0, 0.5, -1.0]) + 0.05 * random.normal(size=3_000)
    S = make_candidates(y, false_labels=2, random_state=0)
    table = pa.table({**{f"x{k}": X[:, k] for k in range(3)}, "y": S.to_arrow()})
    place = tmp_path_factory.mktemp("folder")
    for number in range(2):
        pq.write_table(table.slice(1_500 * number, 1_500), place / f"part-{number}.parquet")
    return place


@pytest.fixture
def fitted(folder, tmp_path):
    """Return a function that fits a learner to the folder, by an engine."""

    def fit(learner, engine=None):
        found = Folder.open(folder)
        reading = Reading(found, learn_features(found.sample(1_000, 0)[0], ["y"]), ("y",))
        return fit_folder(PartialLabelRegressor(learner, random_state=0), reading, tmp_path / "s", engine=engine).model

    return fit


def die_once(config):
    """Train as a worker, of which the second kills itself in the middle the first time."""
    from plr.streaming.network_training import LaneTraining

    mark, end_round = config["progress"].parent / "died", LaneTraining._end_round

    def end(self, turn):
        if self._group.number == 1 and turn.number == 7 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        end_round(self, turn)

    LaneTraining._end_round = end
    try:
        train_worker(config)
    finally:
        LaneTraining._end_round = end_round


def test_two_workers_give_the_network_of_one_process_though_one_is_killed(fitted, tmp_path, monkeypatch):
    alone = fitted(NETWORK)
    monkeypatch.setattr(plr.cluster.ray_engine, "train_worker", die_once)
    engine = RayEngine(2, save_every=0.0)
    left = []
    train = engine.train
    engine.train = lambda job, scratch, tell: (
        train(job, scratch, tell),
        left.append((scratch / "died").exists()),
    )[0]
    together = fitted(NETWORK, engine)
    assert left == [True]
    assert (together.model_.network.parameters == alone.model_.network.parameters).all()
    assert together.model_.report.loss.tolist() == alone.model_.report.loss.tolist()
    assert together.noise_scale_ == alone.noise_scale_
    assert not list(tmp_path.iterdir())


def make_net(columns):
    return torch.nn.Sequential(torch.nn.Linear(columns, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def test_two_workers_give_the_module_of_one_process(fitted, folder):
    learner = Module(make_net, epochs=3, batch_size=64, learning_rate=0.01, scale_features=True, device="cpu")
    alone, together = fitted(learner), fitted(learner, RayEngine(2))
    X = np.random.default_rng(5).normal(size=(2_000, 3))
    y = np.tanh(X @ [1.0, 0.5, -1.0])
    rows = pa.table({f"x{k}": X[:, k] for k in range(3)})
    errors = [np.mean((model.predict(rows) - y) ** 2) for model in (alone, together)]
    assert errors[1] == pytest.approx(errors[0], rel=1e-3)
    assert together.model_.report.noise_scale == pytest.approx(alone.model_.report.noise_scale, rel=1e-4)


def test_an_error_of_the_training_is_told_and_not_tried_again(fitted, tmp_path):
    with pytest.raises(ClusterError, match=r"9 workers need 9 CPUs, .* workers"):
        fitted(NETWORK, RayEngine(9))
    told = tmp_path / "progress.json"
    with pytest.raises(DivergenceError), _own_errors(told):
        raise DivergenceError("too fast")
    # What Ray starts again does nothing.
    with _own_errors(told) as hopeless:
        assert hopeless
    error = _worker_error(told)
    assert isinstance(error, DivergenceError)
    assert str(error) == "too fast"
    assert _worker_error(told) is None
    with pytest.raises(_LostError), _own_errors(told):
        raise _LostError
    assert _worker_error(told) is None


def children_of(pid):
    """Return all processes below one, by what the system knows of parents."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(place.parent.name)] = int(place.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, more = set(), {pid}
    while more:
        found |= more
        more = {child for child, parent in parents.items() if parent in found} - found
    return found - {pid}


def test_a_driver_that_is_killed_leaves_nothing_running_and_is_gone_on_from(folder, tmp_path):
    model = tmp_path / "model.plr"
    words = [sys.executable, "-m", "plr", "fit", str(folder), "--target", "y", "-o", str(model), "--learner", "mlp"]
    options = ["--option", "epochs=80", "--option", "hidden=[16]", "--option", "batch_size=64"]
    driver = subprocess.Popen([*words, *options, "--engine", "ray"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    checkpoints = Path(f"{model}.unfinished") / "ray"
    try:
        wait_for(lambda: any(checkpoints.glob("checkpoint_*")))
        below = children_of(driver.pid)
        assert below
    finally:
        driver.kill()
        driver.wait(600)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))
    assert not model.exists()
    # The cluster of these tests stands in for one that is started anew.
    from plr.cli.fit_and_save import fit_and_save

    asked = dict.fromkeys(("ignore", "truth", "prior", "weights", "groups")) | {"target": "y"}
    parts = {"learner": "mlp", "weighting": "auto", "loss": "squared", "start": "auto"}
    settings = {"epochs": 80, "hidden": [16], "batch_size": 64}
    done = fit_and_save(folder, model, asked, parts, settings, engine="ray", workers=2)
    assert done["resumed"]
    assert load_model(model).regressor.n_iter_ == 80
    assert [place.name for place in tmp_path.iterdir()] == ["model.plr"]


def wait_for(holds, seconds=600):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
