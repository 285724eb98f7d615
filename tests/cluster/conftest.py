"""One local cluster for all tests of this folder, with a GPU that exists in Ray's books alone."""

import pytest

from plr.paper import Protocol, Store


@pytest.fixture(scope="session")
def cluster():
    """Start a cluster of four CPUs and one GPU; give the module, connected."""
    pytest.importorskip("ray", reason="Ray is not installed")
    from plr.cluster.session import session

    with session(cpus=4, gpus=1) as ray:
        yield ray


@pytest.fixture(autouse=True)
def one_at_a_time(tmp_path_factory, worker_id):
    """Let these tests wait for each other, in whichever process they are: what they start needs the machine."""
    fcntl = pytest.importorskip("fcntl")
    base = tmp_path_factory.getbasetemp()
    with (base if worker_id == "master" else base.parent).joinpath("ray.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def tiny():
    return Protocol(
        datasets=("auto-mpg",),
        models=("mlp",),
        methods=("Supervised", "AVGV-Huber", "PIDent"),
        sizes=(2, 4),
        trials=2,
        epochs=5,
        learning_rates=(0.01,),
        beta2s=(10.0, 500.0),
    )


@pytest.fixture
def contents():
    """Return all that a store holds, timings aside."""

    def read(folder):
        with Store.open(folder) as store:
            cells = store.cells()
            for cell in cells:
                for name in ("seconds", "run", "attempts"):
                    del cell[name]
            return store.rows(), cells

    return read
