"""What training by several processes costs and gains: steps, sums of gradients, and both together.

    python benchmarks/bench_cluster.py --out results/scale --ray
    python benchmarks/bench_cluster.py --out results/scale --name cluster-16-cores --processes 1,2,4,8

(a) One process's time per step against the batch size, for a few networks, by plr's kernel and, for the smaller ones,
by a torch module of the same shape; and what one of several processes has to do in a step, alone on the machine and
beside the others. (b) gloo's sum of P double numbers over processes. (c) Processes that train together. (d) With
--ray, the same fit by one process and by two Ray workers, end to end. What is compared takes turns, and medians count.
First processes together are checked to train the network that one does.

Parts (a) to (c) need neither Ray nor LightGBM nor an installation: ``PYTHONPATH=src`` will do. Writes <name>.json, from
which ``benchmarks/cluster_model.py`` makes its page.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crew import COLUMNS, MOST_CANDIDATES, SEED, Crew, add_up, read_rows, save_seconds, train, train_module
from record import write_record

NETWORKS: dict[str, tuple[int, ...]] = {"64x64": (64, 64), "256x256": (256, 256), "1024x1024": (1024, 1024)}
AS_MODULES = ("64x64", "256x256")
BATCHES = (64, 256, 1024, 4096, 16_384, 65_536)
NUMBERS = (1, 64, 1024, 6_209, 32_768, 73_985, 262_144, 1_082_369, 4_194_304)
QUANTILES = 200
# Of a network that one process and several have trained from the same rows.
MOST_DIFFERENT = 1e-5
# A step of one process that takes longer is left out, and one that takes longer than the second is measured once.
_LONGEST, _LONG = 4.0, 1.0
_FEWEST_STEPS, _MOST_STEPS, _CHECKED_STEPS, _MOST_REPEATS = 3, 2_000, 60, 2_000

# Seconds of work between two sums.
_WORK = 300e-6

Found = dict[str, Any]
Floats = NDArray[np.float64]


def lanes_of(processes: int) -> int:
    """Return how many lanes plr divides a batch into for so many workers."""
    lanes = 4
    while lanes < processes:
        lanes *= 2
    return lanes


def parameters_of(hidden: Sequence[int]) -> int:
    sizes = (COLUMNS, *hidden, 1)
    return sum(wide_in * wide_out + wide_out for wide_in, wide_out in pairwise(sizes))


def check(crews: dict[int, Crew]) -> Found:
    """Stop unless processes together train the network that one does."""
    found = {}
    for processes, crew in crews.items():
        if processes == 1:
            continue
        lanes = lanes_of(processes)
        for name in AS_MODULES:
            one = crews[1].ask(train, NETWORKS[name], 256, _CHECKED_STEPS, (lanes, 1), "alone")[0]["parameters"]
            all_ = crew.ask(train, NETWORKS[name], 256, _CHECKED_STEPS, (lanes, processes), "together")
            difference = max(float(np.abs(each["parameters"] - one).max()) for each in all_)
            found[f"{name}, {processes} processes"] = difference
            if not difference <= MOST_DIFFERENT * float(np.abs(one).max()):
                raise SystemExit(
                    f"{name}: {processes} processes differ from one by {difference:.2g} in a parameter after "
                    f"{_CHECKED_STEPS} steps; no timing without agreement."
                )
    return found


def ways(crews: Iterable[int]) -> list[tuple[str, int, int]]:
    """Return what is measured: how, by how many processes at once, and among how many the rows are divided."""
    found = [("alone", 1, 1), ("apart", 1, 1)]
    for processes in crews:
        if processes > 1:
            # What one of them has to do: with the machine to itself, beside the others, and with them.
            found += [("apart", 1, processes), ("apart", processes, processes), ("together", processes, processes)]
    return found


def measure_cell(crews: dict[int, Crew], name: str, batch: int, seconds: float, turns: int) -> list[Found] | None:
    """Return the time of a step in every way, the ways taking turns; None where it takes too long."""
    hidden = NETWORKS[name]
    first = crews[1].ask(train, hidden, batch, 1, (4, 1), "alone", 1)[0]["step_s"]
    if first > _LONGEST:
        return None
    if first < seconds / 20:
        first = crews[1].ask(train, hidden, batch, 20, (4, 1), "alone")[0]["step_s"]
    steps = int(np.clip(seconds / first, _FEWEST_STEPS, _MOST_STEPS))
    measured: dict[tuple[str, int, int], list[list[Found]]] = {way: [] for way in ways(crews)}
    for _ in range(1 if first > _LONG else turns):
        for (how, processes, sharing), taken in measured.items():
            answers = crews[processes].ask(train, hidden, batch, steps, (lanes_of(sharing), sharing), how, 1)
            taken.append(answers)
    cells = []
    for (how, processes, sharing), taken in measured.items():
        cell = {
            "network": name,
            "batch": batch,
            "how": how,
            "processes": processes,
            "sharing": sharing,
            "rows": batch / sharing,
            "lanes": lanes_of(sharing) / sharing,
            "steps": steps,
            "step_s": float(np.median([max(one["step_s"] for one in answers) for answers in taken])),
        }
        cells.append(cell | (_parts(taken, how, processes) if how != "alone" else {}))
    return cells


def _parts(taken: list[list[Found]], how: str, processes: int) -> Found:
    """Return how long a process's own work and the sum take in a step; all processes go by one clock."""
    own, slowest, sums = [], [], []
    for answers in taken:
        marks = np.stack([one["marks"] for one in answers])
        begun = np.array([one["began"] for one in answers])[:, None]
        starts = np.concatenate([begun, marks[:, :-1, 1]], axis=1)
        own.append((marks[:, :, 0] - starts).ravel())
        slowest.append(float(np.mean(marks[:, :, 0].max(axis=0) - starts.max(axis=0))))
        sums.append(float(np.mean(marks[:, :, 1].max(axis=0) - marks[:, :, 0].max(axis=0))))
    compute = np.concatenate(own)
    found = {"compute_s": float(np.median(compute)), "mean_compute_s": float(np.median([one.mean() for one in own]))}
    if how == "together":
        found |= {"slowest_s": float(np.median(slowest)), "sum_s": float(np.median(sums))}
    elif processes == 1 and compute.size >= QUANTILES:
        relative = np.quantile(compute / compute.mean(), (np.arange(QUANTILES) + 0.5) / QUANTILES)
        found["relative_quantiles"] = relative.round(4).tolist()
    return found


def measure_steps(crews: dict[int, Crew], names: Sequence[str], seconds: float, turns: int, most: int) -> Found:
    cells: list[Found] = []
    left_out = []
    for name in names:
        for batch in (size for size in BATCHES if size <= most):
            found = measure_cell(crews, name, batch, seconds, turns)
            if found is None:
                left_out.append(f"{name}, batch {batch}")
                break
            cells += found
            alone = found[0]["step_s"]
            shown = ", ".join(
                f"{cell['processes']} together {1e6 * cell['step_s']:,.0f} µs ({alone / cell['step_s']:.2f} times)"
                for cell in found
                if cell["how"] == "together"
            )
            print(f"{name}, batch {batch:,}: alone {1e6 * alone:,.0f} µs; {shown}", flush=True)
    return {"cells": cells, "left_out": left_out}


def measure_sums(crews: dict[int, Crew], seconds: float, turns: int) -> list[Found]:
    """Return the time of a sum of so many numbers over so many processes, from when the last of them begins it."""
    taken: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for _ in range(turns):
        for numbers in NUMBERS:
            for processes, crew in crews.items():
                if processes > 1:
                    once = float(np.median(_sums(crew, numbers, 5)))
                    every = _sums(crew, numbers, int(np.clip(seconds / (once + _WORK), 10, _MOST_REPEATS)))
                    taken.setdefault((processes, numbers), []).append((float(every.mean()), float(np.median(every))))
    found = []
    for (processes, numbers), times in sorted(taken.items()):
        mean, usual = (float(np.median(one)) for one in zip(*times, strict=True))
        found.append({"processes": processes, "numbers": numbers, "seconds": mean, "median_s": usual})
        said = f"{1e6 * mean:,.0f} µs on average, mostly {1e6 * usual:,.0f} µs"
        print(f"sum of {numbers:,} numbers over {processes}: {said}", flush=True)
    return found


def _sums(crew: Crew, numbers: int, repeats: int) -> Floats:
    marks = np.stack(crew.ask(add_up, numbers, repeats, _WORK))
    return np.asarray(marks[:, :, 1].max(axis=0) - marks[:, :, 0].max(axis=0))


def measure_modules(crew: Crew, names: Sequence[str], seconds: float, most: int) -> list[Found]:
    """Return the time of a step of torch modules, by one process."""
    found = []
    for name in (one for one in AS_MODULES if one in names):
        for batch in (size for size in BATCHES if size <= most):
            once = float(np.median(crew.ask(train_module, NETWORKS[name], batch, 3)[0]))
            steps = int(np.clip(seconds / once, _FEWEST_STEPS, max(_FEWEST_STEPS, 262_144 // batch)))
            times = crew.ask(train_module, NETWORKS[name], batch, steps)[0]
            found.append({"network": name, "batch": batch, "step_s": float(np.median(times))})
            print(f"{name} as a torch module, batch {batch:,}: {1e6 * found[-1]['step_s']:,.0f} µs", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--processes", default="1,2", help="comma-separated, powers of two; 1 is always measured")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="comma-separated")
    parser.add_argument("--most-batch", type=int, default=BATCHES[-1], help="leave larger batches out")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--ray", action="store_true", help="also fit a folder by one process and by two Ray workers")
    parser.add_argument("--ray-rows", type=int, default=1_000_000, help="of that folder")
    parser.add_argument("--name", default="cluster", help="of the file to write")
    parser.add_argument("--out", type=Path, help="folder to write it into")
    arguments = parser.parse_args()
    sizes = sorted({1, *map(int, arguments.processes.split(","))})
    if any(size & (size - 1) for size in sizes):
        parser.error("processes must be powers of two, so that lanes can be divided evenly.")
    names, seconds, turns = arguments.networks.split(","), arguments.seconds, arguments.turns
    cores = len(os.sched_getaffinity(0))
    if max(sizes) > cores:
        print(f"{max(sizes)} processes have {cores} cores to share; what they take then says little.", flush=True)
    crews = {size: Crew(size) for size in sizes}
    try:
        agreement = check(crews)
        print(f"processes together train the network that one does, within {max(agreement.values(), default=0):.2g}")
        sums = measure_sums(crews, seconds / 2, turns)
        steps = measure_steps(crews, names, seconds, turns, arguments.most_batch)
        modules = measure_modules(crews[1], names, seconds, arguments.most_batch)
        saving = {name: crews[1].ask(save_seconds, NETWORKS[name])[0] for name in names}
        reading = crews[1].ask(read_rows)[0]
    finally:
        for crew in crews.values():
            crew.close()
    found: Found = {
        "seed": SEED,
        "columns": COLUMNS,
        "most_candidates": MOST_CANDIDATES,
        "cores": cores,
        "processes": sizes,
        "turns": turns,
        "networks": {name: {"hidden": NETWORKS[name], "parameters": parameters_of(NETWORKS[name])} for name in names},
        "largest_difference": agreement,
        "sums": sums,
        "steps": steps["cells"],
        "left_out": steps["left_out"],
        "modules": modules,
        "save_s": saving,
        "reading": reading,
    }
    packages: tuple[str, ...] = ("torch",)
    missed: list[str] = []
    if arguments.ray:
        from cluster_ray import compare

        found["ray"] = compare(arguments.ray_rows, workers=2)
        packages, missed = ("torch", "ray"), found["ray"]["missed"]
    if arguments.out is not None:
        write_record(arguments.out, arguments.name, found, packages=packages)
    if missed:
        raise SystemExit(f"Missed: {'; '.join(missed)}.")


if __name__ == "__main__":
    main()
