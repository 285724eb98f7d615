"""A grid on a cluster comes to the rows of one process, whatever dies, fails or shares the work on the way."""

import contextlib
import dataclasses
import os
import signal
import sys
import threading
import time

import pytest

from plr.cluster.session import Size, cluster_size
from plr.errors import ClusterError, DivergenceError, ParameterError, StoreError
from plr.paper import METHODS, Method, Store, expand, run_benchmark
from plr.paper import cluster as grid
from plr.paper.cluster import Outcome, _unpack
from plr.paper.execution import Fit
from plr.paper.stacking import is_stackable, run_stack

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("cluster")]

RULES = ("last", "loss", "evidence", "truth")


@pytest.fixture(scope="module", autouse=True)
def by_value(cluster):
    """Send what is defined here as code, since workers cannot import this file."""
    cluster.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cluster.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def own(monkeypatch):
    """Make a method of one's own whose fit is a function of this file."""

    def install(fit, name="Own"):
        monkeypatch.setitem(METHODS, name, Method(name, custom=fit, model="own", hyper=()))

    return install


@pytest.fixture
def waiting(tmp_path):
    """Return a fit that lasts as long as the test, so that whoever waits for it waits for ever."""
    over = tmp_path / "over"

    def fit(*_):
        while not over.exists():
            time.sleep(0.1)

    yield fit
    over.touch()


def recorded(problem=None):
    return [Fit("{}", rule, 0, 1.0, 1.0, 1.0, 2.0, problem) for rule in RULES]


def resources():
    """Return the GPUs that Ray has set aside for the task this is called in, and the threads it may use."""
    import ray

    return len(ray.get_runtime_context().get_accelerator_ids()["GPU"]), os.environ.get("OMP_NUM_THREADS")


def test_rows_are_those_of_one_process(tiny, tmp_path, contents):
    heard = []
    summary = run_benchmark(tiny, tmp_path / "ray", engine="ray", command="test", callback=heard.append)
    run_benchmark(tiny, tmp_path / "local")
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    assert (summary.finished, summary.found, summary.failed) == (len(expand(tiny)), 0, 0)
    assert heard[-1].done == heard[-1].total
    assert heard[-1].remaining_work == pytest.approx(0.0)
    with Store.open(tmp_path / "ray") as store:
        assert {cell["attempts"] for cell in store.cells()} == {1}
        assert [(run["command"], run["device"]) for run in store.runs()] == [("test", f"ray: {cluster_size()}")]


def test_what_dies_is_done_again_and_what_fails_is_recorded(own, tiny, tmp_path):
    folder = tmp_path / "deaths"
    folder.mkdir()

    def fit(problem, setting, protocol, seed, check):
        # Trials have seeds of their own; the first three that arrive play the parts.
        for part in ("mortal", "fails", "diverges"):
            try:
                with open(folder / part, "x") as file:
                    file.write(str(seed))
            except FileExistsError:
                continue
            break
        parts = {
            (folder / part).read_text(): part for part in ("mortal", "fails", "diverges") if (folder / part).exists()
        }
        part = parts.get(str(seed))
        if part == "mortal":
            deaths = len(list(folder.glob("death-*")))
            if deaths < 2:
                (folder / f"death-{deaths}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        elif part == "fails":
            raise ZeroDivisionError("on purpose")
        elif part == "diverges":
            raise DivergenceError("too fast")
        return recorded()

    own(fit)
    protocol = dataclasses.replace(tiny, methods=("Own", "Supervised"), sizes=(2,), trials=5)
    summary = run_benchmark(protocol, tmp_path / "run", engine="ray")
    assert len(list(folder.glob("death-*"))) == 2
    assert (summary.finished, summary.failed) == (9, 1)
    with Store.open(tmp_path / "run") as store:
        assert [cell["error"].rpartition(":")[0] for cell in store.failures()] == [
            "ZeroDivisionError: on purpose (in fit, test_grid_on_ray.py"
        ]
        rows = [row for row in store.rows() if row["method"] == "Own"]
        assert {cell["attempts"] for cell in store.cells()} == {1}
    assert len(rows) == 4 * len(RULES)
    assert {row["problem"] for row in rows} == {None, "too fast"}


def test_process_that_always_dies_fails_its_cell_alone(own, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "_RETRIES", 1)
    own(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    protocol = dataclasses.replace(tiny, methods=("Own", "Supervised"), sizes=(2,), trials=1)
    summary = run_benchmark(protocol, tmp_path, engine="ray")
    assert (summary.finished, summary.failed) == (1, 1)
    with Store.open(tmp_path) as store:
        assert [cell["error"] for cell in store.failures()] == [
            "Its process ended 2 times without a result: killed, or out of memory."
        ]


def test_cells_and_stacks_go_where_they_need_to(own, tiny, tmp_path, monkeypatch):
    def do_stack(parcel, cells, device):
        fits = run_stack(cells, _unpack(parcel), "cpu")
        told = f"{device} {resources()}"
        return Outcome([[dataclasses.replace(fit, problem=told) for fit in one] for one in fits], 1.0)

    monkeypatch.setattr(grid, "do_stack", do_stack)
    own(lambda *_: recorded(str(resources())))
    protocol = dataclasses.replace(tiny, methods=("Own", "PIDent"), epochs=2)
    run_benchmark(protocol, tmp_path, engine="ray", device="cuda")
    with Store.open(tmp_path) as store:
        told = {row["method"]: row["problem"] for row in store.rows()}
        assert store.runs()[0]["device"] == f"ray: {cluster_size()}; stacks on cuda, other cells on cpu"
        assert {cell["state"] for cell in store.cells()} == {"done"}
    assert told["Own"] == "(0, '1')"
    assert told["PIDent"].startswith("cuda (1, ")


def test_stacks_on_cpus_agree_with_those_of_one_process(tiny, tmp_path):
    pytest.importorskip("torch")
    protocol = dataclasses.replace(tiny, epochs=3)
    assert all(map(is_stackable, expand(protocol)))
    run_benchmark(protocol, tmp_path / "ray", engine="ray", device="torch")
    run_benchmark(protocol, tmp_path / "local", device="torch")
    with Store.open(tmp_path / "ray") as one, Store.open(tmp_path / "local") as other:
        for row, expected in zip(one.rows(), other.rows(), strict=True):
            assert row == {
                **expected,
                **{
                    name: pytest.approx(expected[name], rel=1e-5)
                    for name in row
                    if "_" in name and isinstance(row[name], float)
                },
            }


def test_stack_that_cannot_be_done_is_halved_until_the_culprit_is_alone(tiny, tmp_path, monkeypatch):
    def do_stack(parcel, cells, device):
        if any(cell.method == "PIDent" and cell.trial == 0 for cell in cells):
            return Outcome([], error="no luck")
        return Outcome([recorded() for _ in cells], 1.0)

    monkeypatch.setattr(grid, "do_stack", do_stack)
    summary = run_benchmark(tiny, tmp_path, engine="ray", device="cuda")
    with Store.open(tmp_path) as store:
        failures = store.failures()
    assert {(cell["method"], cell["trial"], cell["error"]) for cell in failures} == {("PIDent", 0, "no luck")}
    assert (summary.finished, summary.failed) == (len(expand(tiny)) - 2, 2)


def test_worker_without_the_device_stops_the_run(tiny, tmp_path):
    pytest.importorskip("torch")
    with pytest.raises(ClusterError, match="cannot do stacks: --device cuda: PyTorch finds no GPU"):
        run_benchmark(tiny, tmp_path, engine="ray", device="cuda")
    assert claims(tmp_path) == []


def test_a_runner_in_this_process_and_a_cluster_share_the_work(tiny, tmp_path, contents):
    protocol = dataclasses.replace(tiny, epochs=150, trials=12)
    run_benchmark(protocol, tmp_path / "alone")
    summaries = []
    both = [
        threading.Thread(
            target=lambda engine=engine: summaries.append(
                run_benchmark(protocol, tmp_path / "shared", workers=1, engine=engine)
            )
        )
        for engine in ("ray", "local")
    ]
    both[0].start()
    wait_for_claim(tmp_path / "shared")
    both[1].start()
    for thread in both:
        thread.join()
    assert [summary.failed for summary in summaries] == [0, 0]
    assert all(summary.finished for summary in summaries)
    assert sum(summary.finished for summary in summaries) == len(expand(protocol))
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")


def test_lost_cluster_is_said_and_claims_are_given_back(own, waiting, tiny, tmp_path, monkeypatch):
    began_work = threading.Event()

    def size():
        if began_work.wait(0.2):
            raise ConnectionError("no answer")
        return Size(1, 2, 0)

    def collect(loop):
        began_work.set()
        time.sleep(0.1)

    monkeypatch.setattr(grid, "cluster_size", size)
    monkeypatch.setattr(grid.GridLoop, "_collect", collect)
    monkeypatch.setattr(grid, "_SECONDS_BETWEEN_QUESTIONS", 0.1)
    own(waiting)
    with pytest.raises(ClusterError, match=r"is lost.*run the same command again to resume"):
        run_benchmark(dataclasses.replace(tiny, methods=("Own",)), tmp_path, engine="ray")
    assert claims(tmp_path) == []


@pytest.mark.parametrize(("most", "expected"), [(None, None), (1, 1), (3, 3)])
def test_no_more_is_claimed_than_will_soon_be_done(most, expected, own, waiting, tiny, tmp_path, monkeypatch):
    own(waiting)
    submitted = []

    def collect(loop):
        submitted.append(len(claims(tmp_path)))
        raise InterruptedError("enough")

    monkeypatch.setattr(grid.GridLoop, "_collect", collect)
    protocol = dataclasses.replace(tiny, methods=("Own",), trials=20)
    with pytest.raises(InterruptedError):
        run_benchmark(protocol, tmp_path, engine="ray", workers=most)
    assert submitted == [expected or 2 * cluster_size().cpus]
    assert claims(tmp_path) == []


def test_method_that_cannot_be_sent_is_named(own, tiny, tmp_path):
    lock = threading.Lock()
    own(lambda *_: lock)
    with pytest.raises(ParameterError, match="methods Own cannot be sent to a cluster"):
        run_benchmark(dataclasses.replace(tiny, methods=("Own",)), tmp_path, engine="ray")


def test_gpus_are_chosen_by_ray_and_must_be_there(tiny, tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="use --device cuda"):
        run_benchmark(tiny, tmp_path / "out", engine="ray", device="cuda:1")
    monkeypatch.setattr(grid, "cluster_size", lambda: Size(2, 8, 0))
    with pytest.raises(ClusterError, match=r"has no GPU \(2 nodes, 8 CPUs\)"):
        run_benchmark(tiny, tmp_path / "out", engine="ray", device="cuda")
    assert not (tmp_path / "out").exists()


def claims(folder):
    with Store.open(folder) as store:
        return store._select("SELECT * FROM claims")


def wait_for_claim(folder):
    for _ in range(12_000):
        # Before its tables are made, the file is refused.
        with contextlib.suppress(StoreError):
            if claims(folder):
                return
        time.sleep(0.05)
    raise AssertionError("the runner did not begin")
