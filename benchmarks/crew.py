"""Processes that train together and can be asked to again and again, without a cluster: a group of gloo's.

Each does what a worker of ``plr fit --engine ray`` does in a step: its lanes' gradients by plr's kernel, the sum of all
processes' gradients, the update. The rows of a lane follow from its number alone, so that it makes no difference which
process has it.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.learners import MLP
from plr.losses import Squared
from plr.network.network import NetworkSettings
from plr.streaming.network_training import LaneTraining
from plr.streaming.scratch import write_state
from plr.streaming.shuffled import (
    CopyShape,
    EncodedRows,
    RoundRows,
    ShuffledCopy,
    TrainingOrder,
    TrainingRound,
    read_rounds,
    write_part,
)
from plr.weighting import Posterior
from plr.weighting.rule import Rule

__all__ = ["COLUMNS", "MOST_CANDIDATES", "SEED", "Crew"]

SEED, COLUMNS, MOST_CANDIDATES = 0, 30, 5
# As many rows as a chunk of the shuffled copy has at most; a longer round takes them several times.
_ROWS = 131_072
_EPOCHS = 1_000_000
_SECONDS_TO_END = 20.0

Floats = NDArray[np.float64]


class Crew:
    """So many processes, in a group of their own, that wait to be asked."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        context = multiprocessing.get_context("spawn")
        self._meeting = tempfile.TemporaryDirectory()
        self._pipes, self._workers = [], []
        for number in range(processes):
            ours, theirs = context.Pipe()
            place = str(Path(self._meeting.name) / "meeting")
            worker = context.Process(target=_work, args=(number, processes, place, theirs), daemon=True)
            worker.start()
            self._pipes.append(ours)
            self._workers.append(worker)
        for pipe in self._pipes:
            _answer(pipe)

    def ask(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Let all do the same, and return what each answers."""
        for pipe in self._pipes:
            pipe.send((task, arguments))
        return [_answer(pipe) for pipe in self._pipes]

    def close(self) -> None:
        """Let them go."""
        for pipe in self._pipes:
            pipe.send(None)
        for worker in self._workers:
            worker.join(_SECONDS_TO_END)
            if worker.is_alive():
                worker.kill()
        self._meeting.cleanup()


def _answer(pipe: Any) -> Any:
    done, what = pipe.recv()
    if not done:
        raise SystemExit(f"A process of the crew failed:\n{what}")
    return what


class _Member:
    """What a process of a crew knows about itself."""

    number, processes = 0, 1


def _work(number: int, processes: int, place: str, pipe: Any) -> None:
    # The processes are on one machine; what its name stands for does not matter then.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    _Member.number, _Member.processes = number, processes
    if processes > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{place}", rank=number, world_size=processes)
    pipe.send((True, None))
    while (asked := pipe.recv()) is not None:
        task, arguments = asked
        try:
            pipe.send((True, task(*arguments)))
        except Exception:
            pipe.send((False, traceback.format_exc()))
    if processes > 1:
        torch.distributed.destroy_process_group()


class _Stopwatch:
    """Notes when a step's own work ends, and when the sum of all is there."""

    def __init__(self, group: Any, processes: int) -> None:
        self._group, self.number, self.processes = group, _Member.number, processes
        self.times: list[tuple[float, float]] = []

    def add(self, array: Floats) -> None:
        """Replace an array by the sum of all processes' arrays, if there is a group."""
        ended = time.perf_counter()
        if self._group is not None:
            self._group.add(array)
        self.times.append((ended, time.perf_counter()))


def train(
    hidden: tuple[int, ...], batch: int, steps: int, lanes: tuple[int, int], how: str, warm: int = 2
) -> dict[str, Any]:
    """Take some steps, and return how long each took.

    Parameters
    ----------
    hidden : tuple of int
    batch : int
        Rows of all lanes in a step.
    steps : int
    lanes : (int, int)
        How many there are, and how many processes share them.
    how : {"alone", "apart", "together"}
        In one go, as a single process does; one step at a time without telling the others; with their sum.
    warm : int
        Steps before, which do not count.
    """
    from plr.cluster.workers import WorkerGroup

    in_all, sharing = lanes
    number = _Member.number if sharing == _Member.processes else 0
    own = (number * in_all // sharing, (number + 1) * in_all // sharing)
    group = WorkerGroup(number, sharing) if how == "together" else None
    watch = _Stopwatch(group, 1 if how == "alone" else max(2, sharing))
    share = -(-batch // in_all)
    order = TrainingOrder(np.full((1, in_all), steps * share), _EPOCHS, batch, SEED)
    training = LaneTraining(
        Rule(Posterior(), Squared()),
        _settings(hidden, batch),
        order,
        COLUMNS,
        MOST_CANDIDATES,
        seed=SEED,
        lanes=own,
        group=watch,
    )
    _run(training, own, share, warm)
    watch.times.clear()
    _meet()
    began = time.perf_counter()
    _run(training, own, share, steps)
    taken = time.perf_counter() - began
    parameters = training.state()["parameters"]
    return {
        "step_s": taken / steps,
        "began": began,
        # The last sum is that of the round's losses.
        "marks": np.array(watch.times[:-1]).reshape(-1, 2),
        "parameters": np.array(parameters[:: max(1, parameters.size // 10_000)]),
    }


def add_up(numbers: int, repeats: int, work: float) -> Floats:
    """Return when each of some sums of so many double numbers began and ended; before each there is some work.

    Without it, processes that have just been woken by a sum are still awake for the next.
    """
    from plr.cluster.workers import WorkerGroup

    group = WorkerGroup(_Member.number, _Member.processes)
    part = np.ones(numbers)
    group.add(part)
    _meet()
    marks = np.empty((repeats, 2))
    for number in range(repeats):
        part[:] = 1.0
        until = time.perf_counter() + work
        while (now := time.perf_counter()) < until:
            pass
        group.add(part)
        marks[number] = now, time.perf_counter()
    if part[-1] != _Member.processes:
        raise RuntimeError(f"The sum of {_Member.processes} ones came out as {part[-1]}.")
    return marks


def save_seconds(hidden: tuple[int, ...]) -> float:
    """Return how long it takes to write down where a training stands."""
    order = TrainingOrder(np.full((1, 4), 64), 1, 256, SEED)
    rule = Rule(Posterior(), Squared())
    training = LaneTraining(rule, _settings(hidden, 256), order, COLUMNS, MOST_CANDIDATES, seed=SEED)
    with tempfile.TemporaryDirectory() as folder:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            write_state(Path(folder) / "state.npz", training.state())
            times.append(time.perf_counter() - began)
    return float(np.median(times))


def read_rows() -> dict[str, float]:
    """Return how long it takes to read a row of a shuffled copy that the system has in memory, and its bytes."""
    with tempfile.TemporaryDirectory() as name:
        copy = _make_copy(Path(name), chunks=2, rows=2 * _ROWS)
        order, seconds = TrainingOrder(copy.sizes, 4, 256, SEED), []
        began = time.perf_counter()
        for turn, _ in read_rounds(copy, order):
            seconds.append((time.perf_counter() - began) / copy.sizes[turn.chunk].sum())
            began = time.perf_counter()
        size = sum(path.stat().st_size for path in Path(name).iterdir()) / copy.rows
    return {"seconds_per_row": float(np.median(seconds)), "bytes_per_row": size}


def train_module(hidden: tuple[int, ...], batch: int, steps: int, chunks: int = 4) -> list[float]:
    """Return the time of a step of a torch module, for each round after the first."""
    from plr.learners.module import Module
    from plr.preprocessing.scaling import Affine
    from plr.streaming.module_training import ModuleJob

    learner = Module(_Sequential(hidden), epochs=1, batch_size=batch, device="cpu")
    marks: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        copy = _make_copy(Path(name), chunks, chunks * steps * batch)
        nothing = Affine(0.0, 1.0)
        rule = Rule(Posterior(), Squared())
        job = ModuleJob(copy.folder, learner, rule, None, nothing, 1.0, False, SEED)
        job.run(Path(name), tell=lambda *_: marks.append(time.perf_counter()))
    return (np.diff(marks) / steps).tolist()


class _Sequential:
    """Makes a torch module of the same shape as plr's own network."""

    def __init__(self, hidden: tuple[int, ...]) -> None:
        self.hidden = hidden

    def __call__(self) -> Any:
        import torch

        layers: list[Any] = []
        for wide_in, wide_out in zip((COLUMNS, *self.hidden[:-1]), self.hidden, strict=True):
            layers += [torch.nn.Linear(wide_in, wide_out), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers, torch.nn.Linear(self.hidden[-1], 1))


def _settings(hidden: tuple[int, ...], batch: int) -> NetworkSettings:
    return MLP(hidden=hidden, batch_size=batch, epochs=1, dtype="float32").settings(_ROWS)


def _meet() -> None:
    if _Member.processes > 1:
        import torch.distributed

        torch.distributed.barrier()


def _run(training: LaneTraining, own: tuple[int, int], share: int, steps: int) -> None:
    """Train for one round of so many steps."""
    each = _ROWS // training.order.lanes
    rows = EncodedRows(*_rows(own, each))
    orders = [
        place * each + np.resize(np.random.default_rng([SEED, lane]).permutation(each), steps * share)
        for place, lane in enumerate(range(*own))
    ]
    starts = np.arange(own[1] - own[0] + 1) * steps * share
    training.order = TrainingOrder(
        np.full((1, training.order.lanes), steps * share), _EPOCHS, training.order.batch_size, SEED
    )
    taken = RoundRows(rows, np.concatenate(orders), starts)
    training.run([(TrainingRound(training.round, training.round, 0, False), taken)])


@lru_cache(maxsize=4)
def _rows(own: tuple[int, int], each: int) -> tuple[NDArray[np.float32], CandidateSets]:
    """Return so many rows of each of some lanes."""
    parts = [_made(each, lane) for lane in range(*own)]
    return np.concatenate([X for X, _ in parts]), CandidateSets.concatenate(S for _, S in parts)


def _made(rows: int, number: int) -> tuple[NDArray[np.float32], CandidateSets]:
    """Return rows with labels of mean 0 and standard deviation 1 among up to five candidates."""
    random = np.random.default_rng([SEED, number])
    X = random.normal(size=(rows, COLUMNS)).astype(np.float32)
    truth = 0.8 * np.sin(2.0 * X[:, 0]) + 0.6 * X[:, 1] + 0.2 * random.normal(size=rows)
    sizes = random.integers(1, MOST_CANDIDATES + 1, size=rows)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    values = random.uniform(-3.0, 3.0, size=int(offsets[-1]))
    values[offsets[:-1]] = truth
    return X, CandidateSets(values, offsets)


def _make_copy(folder: Path, chunks: int, rows: int) -> ShuffledCopy:
    shape = CopyShape(COLUMNS, "float32", chunks, 4, 2 * _ROWS, SEED)
    sizes = [min(_ROWS, rows - first) for first in range(0, rows, _ROWS)]
    parts = (EncodedRows(*_made(size, number)) for number, size in enumerate(sizes))
    return ShuffledCopy.complete(folder, shape, write_part(folder, 0, shape, parts))
