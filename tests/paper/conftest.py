"""A protocol small enough to run many times, and runners in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from plr.paper import Protocol
from support.made_stores import SMALL, fill, published_error

_RUNNER = """
import signal, sys
from dataclasses import replace
from plr.paper import Protocol, expand, run_benchmark
from plr.paper.execution import run_cell
from plr.paper.problems import Workbench
from plr.network import network
protocol = Protocol.from_json(sys.argv[1])
# A shell has commands in the background ignore it, and what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Every kernel is compiled, or loaded, before a test goes on.
short = Workbench(replace(protocol, epochs=1))
for cell in {(cell.model, cell.method): cell for cell in expand(protocol)}.values():
    run_cell(cell, short)
print("ready", flush=True)
train = network.train
def first_train(*arguments):
    network.train = train
    print("training", flush=True)
    return train(*arguments)
network.train = first_train
summary = run_benchmark(protocol, sys.argv[2], workers=int(sys.argv[3]), command="test")
print("finished", summary.finished, summary.failed, flush=True)
"""

# Forks a runner for every line it reads: each is a process to be killed, without the seconds that imports take. It says
# when it has finished as many cells as the line asks for, and goes on; some cells later it waits to be killed.
_NURSERY = """
import os, signal, sys
from plr.paper import Protocol, expand, run_benchmark
from plr.paper.execution import run_cell
from plr.paper.problems import Workbench
protocol = Protocol.from_json(sys.argv[1])
for cell in expand(protocol)[:1]:
    run_cell(cell, Workbench(protocol))
while line := sys.stdin.readline():
    wanted, most = map(int, line.split())
    child = os.fork()
    if child == 0:
        first = None
        def tell(progress):
            global first, wanted
            first = progress.done if first is None else first
            if progress.done - first >= wanted:
                print(os.getpid(), flush=True)
                wanted = most + 1
            while progress.done - first >= most:
                signal.pause()
        run_benchmark(protocol, sys.argv[2], workers=2, callback=tell)
        os._exit(0)
    sys.stdin.readline()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def tiny():
    return Protocol(
        datasets=("auto-mpg", "housing"),
        models=("mlp",),
        methods=("Supervised", "AVGV-Huber", "PIDent", "Posterior"),
        sizes=(2, 4),
        trials=2,
        epochs=5,
        learning_rates=(0.01, 0.001),
        beta2s=(10.0, 500.0),
    )


@pytest.fixture
def start_process():
    """Start Python on some code; no process outlives the test."""
    started = []

    def start(code, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def start_runner(start_process):
    """Start a runner and wait until it has imported and compiled everything; it says when it is training."""

    def start(protocol, folder, workers=2):
        process = start_process(_RUNNER, protocol.to_json(), folder, workers)
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        return process

    return start


@pytest.fixture
def killed_runner(start_process):
    """Start a runner and kill it once it has finished some cells, before it has finished more; return its status."""
    nurseries = {}

    def run(protocol, folder, cells, most, pause):
        if folder not in nurseries:
            nurseries[folder] = start_process(_NURSERY, protocol.to_json(), folder)
        nursery = nurseries[folder]
        nursery.stdin.write(f"{cells} {most}\n")
        nursery.stdin.flush()
        child = int(nursery.stdout.readline())
        # Only so that it dies at another moment each time.
        time.sleep(pause)
        # Until the nursery is told to, it does not ask for the child's status, so the number still is the child's.
        os.kill(child, signal.SIGKILL)
        nursery.stdin.write("over\n")
        nursery.stdin.flush()
        return int(nursery.stdout.readline())

    return run


@pytest.fixture
def row_maker():
    """Make a fit as a store returns it."""

    def make(trial, learning_rate, rule="last", *, test_mse=1.0, loss=1.0, evidence=1.0, truth=1.0, **place):
        return {
            "dataset": "concrete",
            "model": "mlp",
            "method": "IDent",
            "false_labels": 4,
            "set_size": "upto",
            "mechanism": "uniform",
            "fraction": 1.0,
            "trial": trial,
            "setting": json.dumps({"learning_rate": learning_rate}),
            "rule": rule,
            "epoch": 9,
            "val_loss": loss,
            "val_evidence": evidence,
            "val_truth": truth,
            "test_mse": test_mse,
            "problem": None,
            **place,
        }

    return make


@pytest.fixture(scope="session")
def small_store(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("store"), SMALL, published_error)
