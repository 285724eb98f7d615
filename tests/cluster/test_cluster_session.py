"""``--engine ray`` as a user meets it: stopped, killed and gone on with; addresses; a machine without Ray."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plr.cluster import session as session_module
from plr.errors import ClusterError, ParameterError, StoreError
from plr.paper import Protocol, Store, expand, run_benchmark
from plr.paper.runner import _check_engine

pytestmark = pytest.mark.xdist_group("ray")

OPTIONS = ["--datasets", "auto-mpg", "--methods", "IDent,PIDent", "--sizes", "4", "--trials", "8", "--epochs", "1500"]


@pytest.fixture
def start():
    """Start ``plr``; no process outlives the test."""
    started = []

    def start(*arguments, code="from plr.cli import main; main()"):
        # A shell has commands in the background ignore the signal, and what they start.
        heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        process = subprocess.Popen(
            [sys.executable, "-c", f"{heeds}\n{code}", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def processes():
    """Return parent, start and command of every process by its number."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
            command = (place / "cmdline").read_text(errors="replace")
        except OSError:
            continue
        if fields[0] not in "ZX":
            found[int(place.name)] = (int(fields[1]), fields[19], command)
    return found


def below(pid):
    """Return the processes that one has started, they and theirs."""
    everything = processes()
    family, size = {pid}, 0
    while size != len(family):
        size = len(family)
        family |= {number for number, (parent, *_) in everything.items() if parent in family}
    return {number: everything[number] for number in family - {pid}}


def still_there(family):
    now = processes()
    return {number: what for number, what in family.items() if number in now and now[number][1] == what[1]}


def wait_until(condition, seconds=600.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def done(folder):
    try:
        with Store.open(folder) as store:
            return sum(state == "done" for state in store.states().values())
    except StoreError:
        # Not made yet, or only just.
        return 0


@pytest.mark.cluster
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes under /proc")
def test_worker_killed_then_stopped_then_driver_killed_and_gone_on_with(start, tmp_path, contents):
    pytest.importorskip("ray", reason="Ray is not installed")
    command = ["benchmark", *OPTIONS, "--engine", "ray", "--workers", "2", "--out", tmp_path / "out"]

    first = start(*command)
    (worker, *_) = wait_until(lambda: [pid for pid, what in below(first.pid).items() if "ray::do_cell" in what[2]])
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: done(tmp_path / "out") >= 2)
    family = below(first.pid)
    os.killpg(first.pid, signal.SIGINT)
    out, said = first.communicate(timeout=600)
    assert first.returncode == 130
    assert out == ""
    assert "A worker died" in said
    assert "Stopped. Finished cells are in" in said
    assert "Traceback" not in said
    assert still_there(family) == {}
    with Store.open(tmp_path / "out") as store:
        assert store._select("SELECT * FROM claims") == []
        assert store.failures() == []
    before = done(tmp_path / "out")

    second = start(*command)
    wait_until(lambda: done(tmp_path / "out") > before)
    family = below(second.pid)
    second.kill()
    second.communicate()
    assert len(family) > 4
    # Two agents of Ray's own go on for a minute, trying to report that the cluster is gone.
    wait_until(lambda: all("Agent" in what[2] for what in still_there(family).values()))
    for agent in still_there(family):
        os.kill(agent, signal.SIGKILL)
    before = done(tmp_path / "out")

    with Store.open(tmp_path / "out") as store:
        protocol = store.protocol
        assert store.runs()[0]["command"].endswith("--engine ray")
    assert before < len(expand(protocol))
    summary = run_benchmark(protocol, tmp_path / "out")
    assert (summary.finished, summary.found, summary.failed) == (len(expand(protocol)) - before, before, 0)
    run_benchmark(protocol, tmp_path / "local")
    assert contents(tmp_path / "out") == contents(tmp_path / "local")


def test_without_ray_the_extra_is_named(start, tmp_path):
    code = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "ray":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from plr.cli import main
main()
"""
    process = start("benchmark", *OPTIONS, "--engine", "ray", "--out", tmp_path / "out", code=code)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 2
    assert said.splitlines() == ["plr: Working on a cluster needs Ray, which is not installed: pip install 'plr[ray]'."]
    assert not (tmp_path / "out").exists()


@pytest.mark.cluster
def test_open_connection_is_used_and_left_open(cluster):
    with session_module.session("somewhere:1") as ray:
        assert ray is cluster
        size = session_module.cluster_size()
        assert (size.nodes, size.gpus) == (1, 1)
    assert cluster.is_initialized()


@pytest.mark.cluster
def test_address_where_nothing_answers(cluster, monkeypatch):
    monkeypatch.setattr(session_module, "_SECONDS_TO_CONNECT", 4.0)
    # Somebody who takes calls and says nothing is the worst case.
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"No Ray cluster answers at '{address}' within 4 s; start one"):
            session_module._connect(cluster, address)


@pytest.mark.cluster
def test_address_that_is_none(cluster):
    with pytest.raises(ClusterError, match=r"cannot connect to 'nowhere' \(ValueError: Invalid address"):
        session_module._connect(cluster, "nowhere")


def test_engine_and_address_must_go_together():
    with pytest.raises(ParameterError, match=r"Unknown engine 'rai'; did you mean 'ray'\? Known: local, ray\."):
        _check_engine("rai", None, "cpu")
    with pytest.raises(ParameterError, match=r"--address.*--engine ray"):
        _check_engine("local", "auto", "cpu")


def test_finished_run_starts_nothing(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed")
    protocol = Protocol(datasets=("auto-mpg",), models=("mlp",), methods=("Supervised",), trials=1, epochs=1)
    run_benchmark(protocol, tmp_path)
    monkeypatch.setattr(session_module, "session", None)
    assert run_benchmark(protocol, tmp_path, engine="ray").found == 1
