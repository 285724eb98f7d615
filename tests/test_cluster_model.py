"""The model of what a cluster costs and gains: its limits, and the simulation beside the formula."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are scripts beside the package, not installed with it.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.cluster_model import (
    Failures,
    Link,
    Storage,
    Worker,
    beside_others,
    fit_link,
    fit_worker,
    hidden_batch,
    lanes_of,
    simulate_steps,
    simulate_training,
    step_parts,
    training_parts,
)

from plr.cluster.ray_engine import RayEngine

NUMBERS = 6_209
WORKER = Worker(50e-6, 10e-6, 1e-6)
UNEVEN = Worker(50e-6, 10e-6, 1e-6, tuple(np.linspace(0.8, 1.2, 200)))
LINK = Link(30e-6, 1e9)
NEVER = Failures(math.inf, 60.0, 10.0, 0.0)
FAST = Storage(150.0, 1e15, 0.0)


def test_one_worker_neither_sends_nor_waits():
    parts = step_parts(UNEVEN, LINK, NUMBERS, 1, 256)
    assert parts["communication"] == 0.0
    assert parts["waiting"] == pytest.approx(0.0, abs=1e-15)
    assert parts["compute"] == pytest.approx(50e-6 + 4 * 10e-6 + 256e-6)
    assert LINK.sent(1, NUMBERS) == 0.0


def test_two_workers_of_a_ring_send_the_gradient_once_and_many_send_it_twice():
    assert LINK.sent(2, NUMBERS) == 8 * NUMBERS
    assert LINK.sent(1024, NUMBERS) == pytest.approx(2 * 8 * NUMBERS, rel=2e-3)
    assert LINK.seconds(2, 1_000_000) == pytest.approx(2 * 30e-6 + 8e-3)


def test_lanes_are_those_that_plr_trains_in():
    for workers in (1, 2, 3, 4, 5, 8, 100):
        assert lanes_of(workers) == RayEngine(workers).lanes


@pytest.mark.parametrize("workers", [2, 8, 128])
def test_at_the_hidden_batch_communication_is_as_large_as_it_may_be(workers):
    batch = hidden_batch(UNEVEN, LINK, NUMBERS, workers, share=0.1)
    parts = step_parts(UNEVEN, LINK, NUMBERS, workers, batch)
    assert parts["communication"] / sum(parts.values()) == pytest.approx(0.1)


def test_hidden_batch_grows_with_latency_and_workers_and_shrinks_with_bandwidth():
    def batch(latency=30e-6, bandwidth=1e9, workers=8):
        return hidden_batch(WORKER, Link(latency, bandwidth), NUMBERS, workers)

    assert batch(10e-6) < batch(30e-6) < batch(100e-6)
    assert batch(workers=2) < batch(workers=8) < batch(workers=32)
    assert batch(bandwidth=1e10) < batch(bandwidth=1e9)
    assert hidden_batch(WORKER, Link(0.0, math.inf), NUMBERS, 8) == 0.0


@pytest.mark.parametrize("workers", [1, 2, 32])
def test_simulated_steps_are_those_of_the_formula_where_workers_are_even(workers):
    expected = sum(step_parts(WORKER, LINK, NUMBERS, workers, 4096).values())
    np.testing.assert_allclose(simulate_steps(WORKER, LINK, NUMBERS, workers, 4096, 50), expected, rtol=1e-12)


def test_simulated_steps_are_on_average_those_of_the_formula_where_workers_are_uneven():
    for workers in (2, 32):
        expected = sum(step_parts(UNEVEN, LINK, NUMBERS, workers, 4096).values())
        simulated = simulate_steps(UNEVEN, LINK, NUMBERS, workers, 4096, 20_000).mean()
        assert simulated == pytest.approx(expected, rel=5e-3)
    assert UNEVEN.slowest(1) == pytest.approx(1.0)
    assert 1.0 < UNEVEN.slowest(2) < UNEVEN.slowest(32) < 1.2


def test_checkpoints_and_deaths_cost_what_the_simulation_of_them_does():
    failures = Failures(20_000.0, 30.0, 10.0, 0.5)
    parts = training_parts(WORKER, LINK, NUMBERS, 8, 256, 1e10, FAST, failures)
    useful = sum(parts[name] for name in ("compute", "waiting", "communication", "reading"))
    played = np.mean([simulate_training(useful, 8, failures, seed) for seed in range(10)])
    assert played == pytest.approx(sum(parts.values()), rel=5e-3)
    assert parts["checkpoints"] == pytest.approx(0.05 * useful)
    assert parts["restarts"] > 0.0


def test_without_checkpoints_and_deaths_a_training_is_its_steps():
    parts = training_parts(WORKER, LINK, NUMBERS, 8, 256, 256e3, FAST, NEVER)
    expected = 1000 * sum(step_parts(WORKER, LINK, NUMBERS, 8, 256).values())
    assert sum(parts.values()) == pytest.approx(expected) == simulate_training(expected, 8, NEVER)


def test_reading_counts_only_where_it_is_slower_than_steps():
    slow = Storage(150.0, 1e6, 0.0)
    parts = training_parts(WORKER, LINK, NUMBERS, 8, 256, 256e3, slow, NEVER)
    assert sum(parts.values()) == pytest.approx(256e3 * 150 / 1e6)
    assert training_parts(WORKER, LINK, NUMBERS, 8, 256, 256e3, FAST, NEVER)["reading"] == 0.0


def test_costs_are_found_again_from_steps_and_sums_that_have_them():
    cells = [
        {"mean_compute_s": UNEVEN.seconds(rows, lanes), "rows": rows, "lanes": lanes, "relative_quantiles": [0.5, 1.5]}
        for rows in (64, 1024, 16_384)
        for lanes in (1, 2, 4)
    ]
    assert fit_worker(cells) == Worker(
        pytest.approx(50e-6), pytest.approx(10e-6), pytest.approx(1e-6), jitter=(0.5, 1.5)
    )
    sums = [
        {"processes": count, "numbers": numbers, "seconds": LINK.seconds(count, numbers)}
        for count in (2, 8)
        for numbers in (1, 1000, 1_000_000)
    ]
    assert fit_link(sums) == Link(pytest.approx(30e-6), pytest.approx(1e9))


def test_a_worker_beside_others_is_compared_with_the_same_part_of_a_batch():
    def cell(processes, sharing, batch, seconds):
        told = {"network": "a", "how": "apart", "processes": processes, "sharing": sharing, "batch": batch}
        return told | {"mean_compute_s": seconds}

    cells = [cell(1, 1, 64, 9.0), cell(1, 2, 64, 2.0), cell(2, 2, 64, 3.0)]
    assert beside_others(cells, "a", 2) == 1.5
    assert beside_others(cells, "a", 4) == 1.0
