"""A protocol small enough to run many times, and runners in processes of their own."""

import json
import os
import subprocess
import sys

import pytest

from plr.benchmark import Protocol

_RUNNER = """
import sys
from plr.benchmark import Protocol, run_benchmark
protocol = Protocol.from_json(sys.argv[1])
print("ready", flush=True)
summary = run_benchmark(protocol, sys.argv[2], workers=int(sys.argv[3]), command="test")
print("finished", summary.finished, summary.failed, flush=True)
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
def start_runner():
    """Start a runner and wait until it has imported everything; none outlives the test."""
    started = []

    def start(protocol, folder, workers=2):
        process = subprocess.Popen(
            [sys.executable, "-c", _RUNNER, protocol.to_json(), str(folder), str(workers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


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
