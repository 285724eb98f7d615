"""Time the paper's whole grid on a GPU, and say what its hot step is bound by.

    python benchmarks/bench_stacked.py --out results/speed

First the fused kernel is checked to give what the plain engine gives for the same fits. Then the preset's cells are run
into a store, both set sizes one after the other, after one epoch of every kind of stack has compiled the kernels. Last,
one stack's training is set beside the least time that its arithmetic and its memory traffic would take.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from plr.paper import Protocol, RunProgress, count_fits, expand, get_preset, run_benchmark
from plr.paper.problems import Workbench
from plr.paper.stacked import fused, plain
from plr.paper.stacked.fits import Layers, StackedFit
from plr.paper.stacked.packing import pack
from plr.paper.stacked.training import draw_orders, train_stack
from plr.paper.stacking import plan_stack
from record import write_record

MOST_SECONDS = 180.0
# An H200's peaks: memory, and matrix products of tf32 numbers without sparsity.
BYTES_PER_SECOND, PRODUCTS_PER_SECOND = 4.8e12, 494e12 / 2
PASSES_OF_TF32X3 = 3


def check_agreement(fits: list[StackedFit], layers: Layers) -> float:
    """Stop unless fused and plain engine agree; return their largest difference in a loss."""
    some = fits[:: max(1, len(fits) // 60)]
    one, other = (train_stack(some, layers, epochs=3, device="cuda", engine=name) for name in ("fused", "plain"))
    worst = max(
        float(np.max(np.abs(a.loss - b.loss) / np.abs(b.loss)))
        for a, b in zip(one, other, strict=True)
        if np.isfinite(b.loss).all()
    )
    different = [np.isfinite(a.loss).all() != np.isfinite(b.loss).all() for a, b in zip(one, other, strict=True)]
    if any(different) or not worst < 1e-4:
        raise SystemExit(f"Fused and plain engine differ by {worst:.1e} in a loss; no timing without agreement.")
    return worst


def count_steps(protocol: Protocol, workbench: Workbench) -> int:
    """Return the training steps of all fits of a protocol."""
    return sum(
        len(cell.settings(protocol)) * protocol.epochs * -(-workbench.training_rows(cell) // protocol.batch_size)
        for cell in expand(protocol)
    )


def run_preset(protocol: Protocol, out: Path, data_home: Path | None) -> dict[str, Any]:
    """Run a protocol into a store; return fits, steps and seconds."""
    with TemporaryDirectory() as folder:
        run_benchmark(replace(protocol, epochs=1, trials=1), folder, device="cuda", data_home=data_home)
    lines: list[str] = []

    def tell(progress: RunProgress) -> None:
        lines.append(f"{progress.seconds:.1f} s: {progress.done} of {progress.total} cells")

    began = time.perf_counter()
    summary = run_benchmark(
        protocol,
        out,
        device="cuda",
        data_home=data_home,
        command=shlex.join(["python", *sys.argv]),
        callback=tell,
    )
    seconds = time.perf_counter() - began
    print(f"{protocol.set_size}: {seconds:.1f} s, {summary.finished} cells, {summary.failed} failed", flush=True)
    if summary.found or summary.failed:
        raise SystemExit(f"{summary.found} cells were there before and {summary.failed} failed; name a new folder.")
    fits, steps = count_fits(expand(protocol), protocol), count_steps(protocol, Workbench(protocol, data_home))
    return {"seconds": seconds, "fits": fits, "steps": steps, "us_per_step": 1e6 * seconds / steps}


def timed(run: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def profile(fits: list[StackedFit], layers: Layers, epochs: int = 20) -> dict[str, Any]:
    """Time one stack by engine and multiplication, and set it beside what arithmetic and memory would take."""
    rows = np.array([len(fit.features) for fit in fits])
    steps = int((epochs * -(-rows // 256)).sum())
    times: dict[str, float] = {}

    def train(engine: Any, count: int, **options: Any) -> float:
        stack, state = pack(fits, layers, epochs + 1, "cuda")
        for begin, number in ((0, 1), (1, count)):
            orders = draw_orders(stack.order_rows, stack.order_seeds, begin, number, "cuda")
            taken = timed(lambda o=orders, b=begin: engine.train_epochs(stack, state, o, b, 256, 3.0, **options))
        return 1e6 * taken / (steps * count / epochs)

    for precision in ("tf32x3", "ieee", "tf32"):
        times[f"fused, {precision}"] = train(fused, epochs, precision=precision)
    times["plain"] = train(plain, 1)
    stack, _ = pack(fits[:1], layers, 1, "cuda")
    sides = list(zip(stack.shape, (*stack.shape[1:], 1), strict=True))
    weights = sum(a * b for a, b in sides)
    check = np.array([len(fit.validation.features) for fit in fits])
    width = np.array([fit.targets.shape[1] for fit in fits])
    per_epoch_rows = rows.mean()
    epoch_steps = (-(-rows // 256)).mean()
    # Forward, and twice as much backward less the first layer's inputs; validation rows go forward only.
    products = per_epoch_rows * (3 * weights - sides[0][0] * sides[0][1]) + check.mean() * weights
    moved = 4 * (
        (per_epoch_rows * (stack.shape[0] + width + 1)).mean()
        + (check * (stack.shape[0] + 3 * width)).mean()
        + epoch_steps * 4 * weights
    )
    arithmetic = 1e6 * PASSES_OF_TF32X3 * products / PRODUCTS_PER_SECOND / epoch_steps
    memory = 1e6 * moved / BYTES_PER_SECOND / epoch_steps
    return {
        "fits": len(fits),
        "us_per_step": times,
        "bytes_per_step": float(moved / epoch_steps),
        "padded_products_per_step": float(products / epoch_steps),
        "memory_bound_us_per_step": float(memory),
        "arithmetic_bound_us_per_step": float(arithmetic),
        "times_memory_bound": float(times["fused, tf32x3"] / memory),
        "times_arithmetic_bound": float(times["fused, tf32x3"] / arithmetic),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, help="folder to look for data sets in first")
    parser.add_argument(
        "--stores", type=Path, default=Path("runs"), help="folder for the stores paper-upto and paper-fixed"
    )
    parser.add_argument("--presets", default="paper,hard", help="comma-separated")
    parser.add_argument("--out", type=Path, help="folder to write stacked.json into")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU on this machine; nothing to measure.")
    paper = get_preset("paper")
    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "wanted": {"seconds": MOST_SECONDS}}
    workbench = Workbench(paper, arguments.data_dir)
    plans, layers = plan_stack([cell for cell in expand(paper) if cell.dataset == "power-plant"], workbench)
    fits = [plan.fit for plan in plans]
    found["largest_difference"] = check_agreement(fits, layers)
    found["profile"] = profile(fits, layers)
    print(found, flush=True)
    found["presets"] = {
        name: run_preset(get_preset(name), arguments.stores / f"paper-{get_preset(name).set_size}", arguments.data_dir)
        for name in arguments.presets.split(",")
    }
    if arguments.out is not None:
        write_record(arguments.out, "stacked", found, packages=("torch", "triton"))
    slow = [name for name, preset in found["presets"].items() if preset["seconds"] > MOST_SECONDS]
    if slow:
        raise SystemExit(f"More than {MOST_SECONDS:g} seconds: {', '.join(slow)}")


if __name__ == "__main__":
    main()
