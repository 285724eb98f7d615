"""Time the `paper` preset on all cores against the loop most people would write, and say how long it would take.

    python benchmarks/bench_paper.py --out results/speed

Ours: the whole preset but for one trial in place of ten and few epochs, through `plr.paper` with its store, its
threads, validation after every epoch and all epoch rules, at two numbers of epochs; what a fit costs besides its epochs
is told apart from the epochs by the difference, and both are carried on to 1,000 epochs. The PyTorch loop with a
DataLoader, in one process with one thread, does one fit of every method, network and data set with the same rows and
validation by the method's own loss; its time per step, validation included, is carried on to all fits. First kernel and
PyTorch are checked, for every method and network, to take the same steps from the same weights. Both take turns, and
medians are compared. Processor time is recorded beside the clock's: where they differ, others kept the machine busy.
Writes paper.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch

from plr.candidates import CandidateSets
from plr.paper.grid import Cell, count_fits, expand
from plr.paper.methods import get_method, get_model
from plr.paper.problems import Workbench, labels_as_sets
from plr.paper.protocol import PRESETS
from plr.paper.runner import run_benchmark
from plr.threads import default_workers
from record import write_record
from torch_loops import check_agreement, loader_loop, make_module, padded

RATIO, MINUTES = 80, 90
PAPER = PRESETS["paper"]


def steps(cell: Cell, workbench: Workbench, epochs: int) -> int:
    """Return how many steps one fit of a cell takes."""
    return epochs * -(-workbench.training_rows(cell) // PAPER.batch_size)


def preset_steps(workbench: Workbench) -> int:
    """Return how many steps the whole preset takes."""
    return sum(len(cell.settings(PAPER)) * steps(cell, workbench, PAPER.epochs) for cell in expand(PAPER))


def kind(cell: Cell) -> tuple[str, str, str]:
    """Return what the loop's time per step is measured for."""
    return cell.dataset, cell.model, cell.method


def choose_cells() -> list[Cell]:
    """Return one cell for each data set, network and method, the numbers of false labels going round."""
    cells: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in expand(dataclasses.replace(PAPER, trials=1, figure_fractions=())):
        cells.setdefault(kind(cell), []).append(cell)
    return [choices[at % len(choices)] for at, choices in enumerate(cells.values())]


def shown(cell: Cell, S: CandidateSets) -> CandidateSets:
    """Return what a method is trained on."""
    return labels_as_sets(S.mean()) if get_method(cell.method).target == "mean" else S


def check_cells(cells: list[Cell], workbench: Workbench) -> None:
    """Stop unless kernel and PyTorch agree for every method and network, the data sets going round."""
    methods = sorted({(cell.model, cell.method) for cell in cells})
    for at, pair in enumerate(methods):
        dataset = PAPER.datasets[at % len(PAPER.datasets)]
        cell = next(cell for cell in cells if (cell.dataset, cell.model, cell.method) == (dataset, *pair))
        part, model = workbench.problem(cell).train, get_model(cell.model)
        for setting in cell.settings(PAPER):
            method = get_method(cell.method).parts(setting, PAPER.beta1)
            check_agreement(part.X, shown(cell, part.S), *method, model.hidden, model.activations)


class Times(NamedTuple):
    """Seconds by the clock, and of processors."""

    wall: float
    processor: float

    @classmethod
    def now(cls) -> Times:
        """Read both clocks."""
        return cls(time.perf_counter(), time.process_time())

    def since(self, began: Times) -> Times:
        """Return what has passed since."""
        return Times(self.wall - began.wall, self.processor - began.processor)


def time_loop(cells: list[Cell], workbench: Workbench, epochs: int) -> Times:
    """Return how long one DataLoader loop would take for all fits of the preset, validation included."""
    fits: dict[tuple[str, str, str], int] = {}
    for cell in expand(PAPER):
        number = len(cell.settings(PAPER)) * steps(cell, workbench, PAPER.epochs)
        fits[kind(cell)] = fits.get(kind(cell), 0) + number
    wall = processor = 0.0
    for at, cell in enumerate(cells):
        problem, model = workbench.problem(cell), get_model(cell.model)
        settings = cell.settings(PAPER)
        setting = settings[at % len(settings)]
        weighting, loss = get_method(cell.method).parts(setting, PAPER.beta1)
        train, validation = (padded(part.X, shown(cell, part.S)) for part in (problem.train, problem.validation))
        module = make_module([problem.train.X.shape[1], *model.hidden, 1], model.activations)

        began = Times.now()
        loader_loop(
            module,
            train,
            weighting,
            loss,
            epochs,
            batch_size=PAPER.batch_size,
            learning_rate=setting["learning_rate"],
            validation=validation,
        )
        taken = Times.now().since(began)
        share = fits[kind(cell)] / steps(cell, workbench, epochs)
        wall, processor = wall + share * taken.wall, processor + share * taken.processor
    return Times(wall, processor)


def time_preset(epochs: int) -> Times:
    """Return how long one trial of the preset takes with so many epochs, compiling not included."""
    protocol = dataclasses.replace(PAPER, trials=1, epochs=epochs)
    with tempfile.TemporaryDirectory() as folder:
        workbench, began = Workbench(protocol), Times.now()
        summary = run_benchmark(protocol, folder, workbench=workbench)
        taken = Times.now().since(began)
    if summary.failed:
        raise SystemExit(f"{summary.failed} of {summary.finished + summary.failed} cells failed; no timing.")
    return Times(summary.seconds, taken.processor)


def carry_on(few: float, many: float, short: int, long: int) -> float:
    """Return the seconds of the whole preset from those of one trial with a few epochs and with more."""
    per_epoch = (many - few) / (long - short)
    return PAPER.trials * (max(0.0, few - short * per_epoch) + PAPER.epochs * per_epoch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=60, help="epochs of our longer run; the shorter has a quarter")
    parser.add_argument("--loop-epochs", type=int, default=3, help="epochs of each of the loop's fits")
    parser.add_argument("--out", type=Path, help="folder to write paper.json into")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    workbench = Workbench(PAPER)
    cells = choose_cells()
    check_cells(cells, workbench)
    fits, all_steps = count_fits(expand(PAPER), PAPER), preset_steps(workbench)
    print(f"{fits:,} fits, {all_steps / 1e6:.0f} million steps; kernel and PyTorch agree", file=sys.stderr)
    long, workers = max(4, arguments.epochs), default_workers()
    short = long // 4
    time_preset(1)

    turns: list[tuple[Times, Times, Times]] = []
    for turn in range(arguments.turns):
        few, many = time_preset(short), time_preset(long)
        turns.append((few, many, time_loop(cells, workbench, arguments.loop_epochs)))
        print(
            f"turn {turn + 1}: {few.wall:.1f} s at {short} and {many.wall:.1f} s at {long} epochs, the loop's whole "
            f"preset {turns[-1][2].wall / 3600:.1f} hours",
            file=sys.stderr,
        )
    few, many, loop = (
        Times(*(statistics.median(clock) for clock in zip(*times, strict=True))) for times in zip(*turns, strict=True)
    )
    ours = carry_on(few.wall, many.wall, short, long)
    busy = carry_on(few.processor, many.processor, short, long) / workers
    minutes, ratio = ours / 60, loop.wall / ours
    print(f"plr on {workers} cores: {fits / ours:.2f} fits per second, the preset in {minutes:.1f} minutes")
    print(f"one DataLoader loop: {fits / loop.wall:.4f} fits per second, the preset in {loop.wall / 3600:.1f} hours")
    print(f"{ratio:.0f} times; two such loops at once could at best halve that")
    print(f"by processor time: {busy / 60:.1f} minutes, {loop.processor / busy:.0f} times")
    if arguments.out is not None:
        found = {
            "wanted": {"ratio": RATIO, "minutes": MINUTES},
            "measured": {
                "cores": workers,
                "fits": fits,
                "steps": all_steps,
                "ratio": ratio,
                "minutes": minutes,
                "fits_per_second": fits / ours,
                "loop_fits_per_second": fits / loop.wall,
                "loop_hours": loop.wall / 3600,
                "processor_ratio": loop.processor / busy,
                "processor_minutes_per_core": busy / 60,
                "processor_microseconds_per_step": 1e6 * workers * busy / all_steps,
                "loop_processor_microseconds_per_step": 1e6 * loop.processor / all_steps,
            },
        }
        write_record(arguments.out, "paper", found, packages=("torch",))
    if ratio < RATIO or minutes > MINUTES:
        raise SystemExit(f"Wanted {RATIO} times one loop and {MINUTES} minutes at most.")


if __name__ == "__main__":
    main()
