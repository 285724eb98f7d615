"""What a cluster costs and gains, on paper: a model of data-parallel training, a simulation of it, and a page.

    python benchmarks/cluster_model.py --out results/scale

A step of N workers on a batch of B rows takes

    step = slowest of N (fixed + per lane · L/N + per row · B/N) + 2 (N - 1) (latency + 8 P / (N · bandwidth))

where P is the number of parameters, L the number of lanes, and the second term a ring's sum of P double numbers: each
worker sends 2 (N - 1) messages of P/N numbers. Rows are read ahead, so that reading counts only where it takes longer
than the step. Every so often a checkpoint is written, and now and then a worker dies; then all are started again from
the last one. What a step costs is fitted to measurements of one process, what a sum costs to measurements of sums alone
(`bench_cluster.py`), and both are then compared with processes that train together. Reads cluster.json, and
cluster-*.json of other machines, in the folder; writes cluster_model.json, cluster.md, cluster.png and cluster.svg.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Failures",
    "Link",
    "Storage",
    "Worker",
    "fit_link",
    "fit_worker",
    "hidden_batch",
    "lanes_of",
    "simulate_steps",
    "simulate_training",
    "step_parts",
    "training_parts",
]

Floats = NDArray[np.float64]
Parts = dict[str, float]

NUMBER_BYTES = 8
SEED = 0


@dataclass(frozen=True)
class Worker:
    """What a step costs one worker, in seconds.

    Attributes
    ----------
    fixed : float
        Whatever the batch: calls, the update of the parameters.
    per_lane, per_row : float
    jitter : tuple of float
        Quantiles of the time of a step over its mean, at equal distances; one number where there is none.
    """

    fixed: float
    per_lane: float
    per_row: float
    jitter: tuple[float, ...] = (1.0,)

    def seconds(self, rows: float, lanes: float) -> float:
        """Return how long its own part of a step takes on average."""
        return self.fixed + self.per_lane * lanes + self.per_row * rows

    def slowest(self, workers: int) -> float:
        """Return the mean of the slowest of so many, over the mean of one."""
        ranks = np.arange(len(self.jitter) + 1) / len(self.jitter)
        shares = np.diff(ranks**workers)
        return float(shares @ np.sort(self.jitter) / np.mean(self.jitter))


@dataclass(frozen=True)
class Link:
    """What a message costs between two workers: latency in seconds, bandwidth in bytes a second."""

    latency: float
    bandwidth: float

    def messages(self, workers: int) -> int:
        """Return how many messages each worker sends for a sum, one after the other."""
        return 2 * (workers - 1)

    def sent(self, workers: int, numbers: int) -> float:
        """Return how many bytes each worker sends for a sum."""
        return self.messages(workers) / workers * NUMBER_BYTES * numbers

    def seconds(self, workers: int, numbers: int) -> float:
        """Return how long a sum of so many numbers takes."""
        return self.messages(workers) * self.latency + self.sent(workers, numbers) / self.bandwidth


@dataclass(frozen=True)
class Storage:
    """Where rows are read from: bytes of a row, bytes a second for all workers, and a worker's own time for a row."""

    bytes_per_row: float
    bandwidth: float
    per_row: float

    def seconds(self, workers: int, batch: float) -> float:
        """Return how long the rows of a step take to read."""
        return max(batch * self.bytes_per_row / self.bandwidth, batch / workers * self.per_row)


@dataclass(frozen=True)
class Failures:
    """Checkpoints and deaths, all in seconds.

    Attributes
    ----------
    between : float
        From one death of a worker to its next.
    restart : float
    every, save : float
        Between two checkpoints, and for one.
    """

    between: float
    restart: float
    every: float
    save: float


def lanes_of(workers: int) -> int:
    """Return how many lanes plr divides a batch into for so many workers."""
    return max(4, 2 ** math.ceil(math.log2(workers)))


def step_parts(worker: Worker, link: Link, numbers: int, workers: int, batch: float) -> Parts:
    """Return what a step is made of: a worker's own work, waiting for the slowest, and the sum."""
    own = worker.seconds(batch / workers, math.ceil(lanes_of(workers) / workers))
    return {
        "compute": own,
        "waiting": own * (worker.slowest(workers) - 1.0),
        "communication": link.seconds(workers, numbers),
    }


def hidden_batch(worker: Worker, link: Link, numbers: int, workers: int, share: float = 0.1) -> float:
    """Return the least batch at which communication is at most such a share of a step."""
    wanted = link.seconds(workers, numbers) * (1.0 - share) / share / worker.slowest(workers)
    without_rows = worker.seconds(0.0, math.ceil(lanes_of(workers) / workers))
    return max(0.0, workers * (wanted - without_rows) / worker.per_row)


def training_parts(
    worker: Worker,
    link: Link,
    numbers: int,
    workers: int,
    batch: int,
    rows: float,
    storage: Storage,
    failures: Failures,
) -> Parts:
    """Return what a training on so many rows, all epochs counted, is made of, in seconds."""
    steps = rows / batch
    parts = {name: steps * seconds for name, seconds in step_parts(worker, link, numbers, workers, batch).items()}
    parts["reading"] = max(0.0, steps * storage.seconds(workers, batch) - sum(parts.values()))
    useful = sum(parts.values())
    saved = useful * failures.save / failures.every
    # What is lost to a death is the restart, and half of the time between two checkpoints.
    deaths = workers / failures.between
    lost = deaths * (failures.restart + (failures.every + failures.save) / 2)
    return {**parts, "checkpoints": saved, "restarts": (useful + saved) * lost / (1.0 - lost) if lost < 1 else math.inf}


def simulate_steps(
    worker: Worker, link: Link, numbers: int, workers: int, batch: float, steps: int, seed: int = SEED
) -> Floats:
    """Draw how long each worker takes in each of some steps, and return how long the steps take."""
    random = np.random.default_rng(seed)
    drawn = np.asarray(worker.jitter)[random.integers(len(worker.jitter), size=(steps, workers))]
    own = worker.seconds(batch / workers, math.ceil(lanes_of(workers) / workers))
    slowest: Floats = own * drawn.max(axis=1) / np.mean(worker.jitter)
    return slowest + link.seconds(workers, numbers)


def simulate_training(useful: float, workers: int, failures: Failures, seed: int = SEED) -> float:
    """Play one training that takes so long without checkpoints and deaths, event by event; return how long it takes."""
    random = np.random.default_rng(seed)
    now = kept = 0.0
    death = random.exponential(failures.between / workers)
    while kept < useful:
        stretch = min(failures.every, useful - kept)
        end = now + stretch + failures.save
        if death < end:
            now = death + failures.restart
            # Whoever is about to start cannot die.
            death = now + random.exponential(failures.between / workers)
            continue
        now, kept = end, kept + stretch
    return now


def fit_worker(cells: Sequence[Mapping[str, Any]], seconds: str = "mean_compute_s") -> Worker:
    """Fit what a step costs to measured steps of one process, by relative error; costs are not negative."""
    from scipy.optimize import nnls

    taken = np.array([cell[seconds] for cell in cells])
    design = np.array([[1.0, cell["lanes"], cell["rows"]] for cell in cells])
    found, _ = nnls(design / taken[:, None], np.ones(len(taken)))
    quantiles = [cell["relative_quantiles"] for cell in cells if "relative_quantiles" in cell]
    jitter = np.mean(quantiles, axis=0) if quantiles else np.ones(1)
    return Worker(*map(float, found), tuple(jitter.tolist()))


def fit_link(sums: Sequence[Mapping[str, Any]]) -> Link:
    """Fit latency and bandwidth to measured sums, by relative error."""
    from scipy.optimize import nnls

    seconds = np.array([one["seconds"] for one in sums])
    unit = Link(1.0, 1.0)
    design = np.array([[unit.messages(one["processes"]), unit.sent(one["processes"], one["numbers"])] for one in sums])
    (latency, per_byte), _ = nnls(design / seconds[:, None], np.ones(len(seconds)))
    return Link(float(latency), 1.0 / max(float(per_byte), 1e-15))


def beside_others(cells: Sequence[Mapping[str, Any]], network: str, workers: int) -> float:
    """Return how much longer a worker takes for its part when all are at work on one machine: memory, cores shared."""
    ratios = []
    for cell in cells:
        if (cell["network"], cell["how"], cell["processes"]) == (network, "apart", workers):
            alone = next(
                other
                for other in cells
                if (other["network"], other["how"], other["processes"]) == (network, "apart", 1)
                and (other["sharing"], other["batch"]) == (workers, cell["batch"])
            )
            ratios.append(cell["mean_compute_s"] / alone["mean_compute_s"])
    return float(np.median(ratios)) if ratios else 1.0


def workers_of(measured: Mapping[str, Any], how: str = "apart") -> dict[str, Worker]:
    """Return what a step of each network costs one of several workers, or one process that trains alone."""
    seconds = "mean_compute_s" if how == "apart" else "step_s"
    cells = [cell for cell in measured["steps"] if cell["how"] == how and cell["processes"] == 1]
    return {
        name: fit_worker([cell for cell in cells if cell["network"] == name], seconds) for name in measured["networks"]
    }


def compare(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return predicted beside measured steps, wherever processes trained together."""
    workers = workers_of(measured)
    lines = []
    for cell in measured["steps"]:
        if cell["how"] != "together":
            continue
        name, count = cell["network"], cell["processes"]
        slower = beside_others(measured["steps"], name, count)
        one = workers[name]
        worker = replace(one, fixed=slower * one.fixed, per_lane=slower * one.per_lane, per_row=slower * one.per_row)
        link = fit_link([sum_ for sum_ in measured["sums"] if sum_["processes"] == count])
        numbers = measured["networks"][name]["parameters"]
        parts = step_parts(worker, link, numbers, count, cell["batch"])
        predicted = sum(parts.values())
        alone = next(
            other["step_s"]
            for other in measured["steps"]
            if (other["network"], other["batch"], other["how"]) == (name, cell["batch"], "alone")
        )
        lines.append(
            {
                "network": name,
                "workers": count,
                "batch": cell["batch"],
                "alone_s": alone,
                "measured_s": cell["step_s"],
                "predicted_s": predicted,
                "ratio": predicted / cell["step_s"],
                "measured_parts": {"slowest": cell["slowest_s"], "sum": cell["sum_s"]},
                "predicted_parts": {
                    "slowest": parts["compute"] + parts["waiting"],
                    "sum": parts["communication"],
                },
                "speed_up": alone / cell["step_s"],
            }
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, help="folder with cluster.json, to write the page into")
    arguments = parser.parse_args()
    from cluster_outlook import outlook
    from cluster_page import draw, write_page
    from plr.paper.figures import require_matplotlib, to_png, to_svg
    from record import circumstances, write_record

    require_matplotlib()
    files = [arguments.out / "cluster.json", *sorted(arguments.out.glob("cluster-*.json"))]
    if not files[0].exists():
        parser.error(f"{files[0]} is not there; benchmarks/bench_cluster.py writes it.")
    machines = {file.stem: json.loads(file.read_text()) for file in files}
    found = outlook(machines)
    figure = draw(found)
    content = {
        "cluster.md": write_page(found, circumstances()).encode(),
        "cluster.png": to_png(figure),
        "cluster.svg": to_svg(figure),
    }
    write_record(arguments.out, "cluster_model", found, packages=("matplotlib",), files=content)
    print(content["cluster.md"].decode())


if __name__ == "__main__":
    main()
