"""From what was measured on one machine to what clusters would take: assumptions, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cluster_model import (
    SEED,
    Failures,
    Link,
    Storage,
    Worker,
    compare,
    fit_link,
    hidden_batch,
    simulate_steps,
    simulate_training,
    step_parts,
    training_parts,
    workers_of,
)

__all__ = ["ASSUMED", "LINKS", "outlook"]

Found = dict[str, Any]

WORKERS, BATCHES, USUAL_LINK = (1, 2, 8, 32, 128), (256, 4_096, 65_536), "25 Gbit"
ROWS, EPOCHS = 1_000_000_000, 2
LINKS = {"10 Gbit": (25e-6, 10e9), "25 Gbit": (15e-6, 25e9), "100 Gbit": (10e-6, 100e9)}
"""What a network adds to the latency of gloo's messages, in seconds, and its bits a second."""
ASSUMED = {
    "hidden_share": 0.1,
    "share_of_line_rate": 0.9,
    "storage_bytes_per_second": 2e9,
    "raw_bytes_per_row": 272.0,
    "seconds_between_deaths_of_a_worker": 30 * 86_400.0,
    "seconds_between_checkpoints": 10.0,
    "seconds_to_hand_a_checkpoint_over": 0.2,
    "restart_s": 40.0,
    "chunk_rows": 131_072,
}
# Steps that are drawn, and trainings that are played.
_DRAWN, _PLAYED = 4_000, 20


def outlook(machines: Mapping[str, Found]) -> Found:
    """Return everything that the page says.

    Costs of steps and sums are those of the machine with most cores: where gloo's threads have none of their own, sums
    wait for one. What Ray takes is told by the machine that has it.
    """
    reference = max(machines, key=lambda machine: int(machines[machine]["cores"]))
    ray = next((one["ray"] for one in machines.values() if "ray" in one), None)
    measured = {**machines[reference], "ray": ray}
    links = links_of(measured)
    several, alone = workers_of(measured), workers_of(measured, "alone")
    assumed = dict(ASSUMED)
    if ray is not None:
        assumed["restart_s"] = ray["fits"]["ray"]["until_first_step_s"]
    networks = {}
    for name, told in measured["networks"].items():
        numbers, worker = told["parameters"], several[name]
        networks[name] = {
            "parameters": numbers,
            "cost_of_a_step": _costs(worker, alone[name]),
            "communication": {
                link: {
                    str(count): {"sent_bytes": one.sent(count, numbers), "seconds": one.seconds(count, numbers)}
                    for count in WORKERS[1:]
                }
                for link, one in links.items()
            },
            "hidden_batch": {
                link: {
                    str(count): hidden_batch(worker, one, numbers, count, assumed["hidden_share"])
                    for count in WORKERS[1:]
                }
                for link, one in links.items()
            },
            "speed_up": {
                str(batch): {
                    link: {str(count): _speed_up(alone[name], worker, one, numbers, count, batch) for count in WORKERS}
                    for link, one in links.items()
                }
                for batch in BATCHES
            },
        }
    billion = [
        _billion(measured, name, alone[name] if count == 1 else several[name], links, count, batch, assumed)
        for name in measured["networks"]
        for batch in BATCHES
        for count in WORKERS
    ]
    compared = {machine: compare(one) for machine, one in machines.items()}
    return {
        "seed": SEED,
        "rows": ROWS,
        "epochs": EPOCHS,
        "assumed": assumed,
        "usual_link": USUAL_LINK,
        "links": {name: {"latency_s": one.latency, "bytes_per_s": one.bandwidth} for name, one in links.items()},
        "reading": measured["reading"],
        "preparation_s_per_row": preparation(measured),
        "networks": networks,
        "billion": billion,
        "simulated": simulated(measured, several, links, billion),
        "compared": compared,
        "rings": {machine: _rings(one) for machine, one in machines.items()},
        "errors": {machine: _errors(lines) for machine, lines in compared.items()},
        "reference": reference,
        "measured": {machine: _circumstances(one) for machine, one in machines.items()},
        "alone": [cell for cell in measured["steps"] if cell["how"] == "alone"],
        "modules": measured["modules"],
        "ray": ray,
    }


def links_of(measured: Found) -> dict[str, Link]:
    """Return gloo's link within the machine, and networks that add to its latency and may be narrower."""
    here = fit_link([one for one in measured["sums"] if one["processes"] == 2])
    share = ASSUMED["share_of_line_rate"]
    wide = {
        name: Link(here.latency + more, min(here.bandwidth, share * bits / 8)) for name, (more, bits) in LINKS.items()
    }
    return {"one machine": here, **wide}


def preparation(measured: Found) -> float | None:
    """Return how long one process takes for a row before training: it is looked at and copied; None if not measured."""
    if measured["ray"] is None:
        return None
    one = measured["ray"]["fits"]["one process"]
    return float((one["survey_s"] + one["copy_s"]) / measured["ray"]["rows"])


def simulated(
    measured: Found, workers: Mapping[str, Worker], links: Mapping[str, Link], billion: list[Found]
) -> list[Found]:
    """Return the formula beside the simulation: mean of a step, and of a whole training."""
    lines = []
    for name, told in measured["networks"].items():
        for line in billion:
            count, batch = line["workers"], line["batch"]
            if line["network"] != name or batch != BATCHES[1] or count not in (8, 128):
                continue
            link, numbers = links[USUAL_LINK], told["parameters"]
            drawn = simulate_steps(workers[name], link, numbers, count, batch, _DRAWN)
            failures = Failures(**line["failures"])
            useful = sum(line["parts"][part] for part in ("compute", "waiting", "communication", "reading"))
            whole = useful + line["parts"]["checkpoints"] + line["parts"]["restarts"]
            played = [simulate_training(useful, count, failures, seed) for seed in range(_PLAYED)]
            lines.append(
                {
                    "network": name,
                    "workers": count,
                    "batch": batch,
                    "step_s": sum(step_parts(workers[name], link, numbers, count, batch).values()),
                    "simulated_step_s": float(drawn.mean()),
                    "training_s": whole,
                    "simulated_training_s": float(np.mean(played)),
                }
            )
    return lines


def _billion(
    measured: Found, name: str, worker: Worker, links: Mapping[str, Link], count: int, batch: int, assumed: Found
) -> Found:
    link, numbers, reading = links[USUAL_LINK], measured["networks"][name]["parameters"], measured["reading"]
    storage = Storage(reading["bytes_per_row"], assumed["storage_bytes_per_second"], reading["seconds_per_row"])
    step = sum(step_parts(worker, link, numbers, count, batch).values())
    # A checkpoint is written where a chunk ends.
    every = max(assumed["seconds_between_checkpoints"], step * assumed["chunk_rows"] / batch)
    failures = Failures(
        assumed["seconds_between_deaths_of_a_worker"],
        assumed["restart_s"],
        every,
        measured["save_s"][name] + assumed["seconds_to_hand_a_checkpoint_over"],
    )
    parts = training_parts(worker, link, numbers, count, batch, EPOCHS * ROWS, storage, failures)
    prepare = preparation(measured)
    if prepare is not None:
        # All rows are read twice, and written once.
        moved = 2 * assumed["raw_bytes_per_row"] + reading["bytes_per_row"]
        parts["preparation"] = ROWS * max(prepare / count, moved / assumed["storage_bytes_per_second"])
    return {
        "network": name,
        "workers": count,
        "batch": batch,
        "parts": parts,
        "seconds": sum(parts.values()),
        "most": max(parts, key=lambda part: parts[part]),
        "failures": {
            "between": failures.between,
            "restart": failures.restart,
            "every": failures.every,
            "save": failures.save,
        },
    }


def _speed_up(alone: Worker, worker: Worker, link: Link, numbers: int, count: int, batch: int) -> float:
    one = sum(step_parts(alone, link, numbers, 1, batch).values())
    return one / sum(step_parts(worker if count > 1 else alone, link, numbers, count, batch).values())


def _costs(worker: Worker, alone: Worker) -> Found:
    return {
        "fixed_s": worker.fixed,
        "per_lane_s": worker.per_lane,
        "per_row_s": worker.per_row,
        "slowest_of": {str(count): worker.slowest(count) for count in WORKERS},
        "alone_fixed_s": alone.seconds(0.0, 4),
        "alone_per_row_s": alone.per_row,
    }


def _errors(lines: list[Found]) -> Found:
    off = np.abs(np.log([line["ratio"] for line in lines]))
    return {"median": float(np.expm1(np.median(off))), "most": float(np.expm1(off.max())), "steps": len(lines)}


def _rings(measured: Found) -> dict[str, float]:
    """Return for more than two processes what the ring of two predicts for sums over what they take, in the median."""
    link = fit_link([one for one in measured["sums"] if one["processes"] == 2])
    found: dict[str, list[float]] = {}
    for one in measured["sums"]:
        if one["processes"] > 2:
            predicted = link.seconds(one["processes"], one["numbers"])
            found.setdefault(str(one["processes"]), []).append(predicted / one["seconds"])
    return {count: float(np.median(ratios)) for count, ratios in found.items()}


def _circumstances(one: Found) -> Found:
    return {key: one[key] for key in ("command", "revision", "machine", "processes")}
