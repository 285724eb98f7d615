"""How long each method takes."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from plr.paper.methods import METHODS, get_method
from plr.paper.protocol import Protocol
from plr.paper.tables import in_paper_order

__all__ = ["MethodTime", "measure_times", "times_csv"]


@dataclass(frozen=True)
class MethodTime:
    """The time that a method took with a model, on one kind of device.

    Attributes
    ----------
    method, model, device : str
    fits : int
        Each setting of hyper-parameters is a fit.
    seconds : float
        In all.
    """

    method: str
    model: str
    device: str
    fits: int
    seconds: float

    @property
    def seconds_per_fit(self) -> float:
        """The mean time of a fit."""
        return self.seconds / self.fits


def measure_times(
    cells: Iterable[Mapping[str, Any]], runs: Iterable[Mapping[str, Any]], protocol: Protocol
) -> list[MethodTime]:
    """Add up the seconds of finished cells by method, model and device.

    Parameters
    ----------
    cells, runs : iterable of dict
        What `plr.paper.store.Store.cells` and ``runs`` return.
    protocol : Protocol
        Says how many fits a cell consists of.
    """
    devices = {run["id"]: run["device"] for run in runs}
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for cell in cells:
        if cell["state"] == "done" and cell["seconds"] is not None:
            found[cell["method"], cell["model"], devices[cell["run"]]].append(cell["seconds"])
    fits = {method: len(get_method(method).settings(protocol)) for method, _, _ in found}
    order = {method: place for place, method in enumerate(in_paper_order(fits, METHODS))}
    return [
        MethodTime(method, model, device, fits[method] * len(seconds), sum(seconds))
        for (method, model, device), seconds in sorted(found.items(), key=lambda item: (order[item[0][0]], item[0]))
    ]


def times_csv(times: Iterable[MethodTime]) -> str:
    """Return the times as CSV, one line a method, model and device."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", "model", "device", "fits", "seconds", "seconds_per_fit"])
    for time in times:
        seconds = (f"{time.seconds:.4g}", f"{time.seconds_per_fit:.4g}")
        writer.writerow([time.method, time.model, time.device, time.fits, *seconds])
    return out.getvalue()
