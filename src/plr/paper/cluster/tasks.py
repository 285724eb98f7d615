"""What runs on the workers of a cluster: a cell, a stack of cells, compiling; errors come back as words."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plr.errors import PlrError
from plr.paper.execution import Fit, run_cell, warm_up
from plr.paper.grid import Cell
from plr.paper.methods import METHODS, MODELS, Method, get_method
from plr.paper.problems import Workbench
from plr.paper.work import describe

__all__ = ["Outcome", "Parcel", "do_cell", "do_stack", "pack", "warm"]


@dataclass(frozen=True)
class Parcel:
    """Where a run's data and methods lie in the cluster, under a name of its own.

    Inside an object, the reference is handed over as it is: a worker fetches what it stands for once, not with every
    cell.
    """

    name: str
    reference: Any


@dataclass(frozen=True)
class Outcome:
    """What became of some cells: the fits of each, or in words why there are none.

    ``unfit`` says that the worker can do no such cell at all.
    """

    fits: list[list[Fit]]
    seconds: float = 0.0
    error: str | None = None
    unfit: bool = False


# Of the run that this process last worked for.
_KEPT: dict[str, Workbench] = {}


def pack(workbench: Workbench) -> tuple[Workbench, dict[str, Method], dict[str, Any]]:
    """Return what workers need besides plr: the data, and what this process may have added to plr's own lists."""
    protocol = workbench.protocol
    methods = {name: get_method(name) for name in protocol.methods}
    return workbench, methods, {name: MODELS[name] for name in protocol.models}


def do_cell(parcel: Parcel, cell: Cell) -> Outcome:
    """Do one cell on a CPU."""
    workbench = _unpack(parcel)
    return _outcome(lambda: [run_cell(cell, workbench)])


def do_stack(parcel: Parcel, cells: Sequence[Cell], device: str) -> Outcome:
    """Do some cells of one data set and architecture at once, on the GPU that Ray has set aside or on the CPU."""
    from plr.paper.stacking import check_device, run_stack

    workbench = _unpack(parcel)
    try:
        name = check_device(device)
    except PlrError as error:
        return Outcome([], error=str(error), unfit=True)
    return _outcome(lambda: run_stack(cells, workbench, name))


def warm(parcel: Parcel, cells: Sequence[Cell]) -> None:
    """Compile what some cells need, for all later processes of this node."""
    warm_up(cells, _unpack(parcel).protocol)


def _outcome(work: Callable[[], list[list[Fit]]]) -> Outcome:
    began = time.perf_counter()
    try:
        fits = work()
    except Exception as error:
        # As words, because an error may not survive the way to another process, and its place in the code does not.
        return Outcome([], time.perf_counter() - began, describe(error))
    return Outcome(fits, time.perf_counter() - began)


def _unpack(parcel: Parcel) -> Workbench:
    if parcel.name not in _KEPT:
        import ray

        workbench, methods, models = ray.get(parcel.reference)
        METHODS.update(methods)
        MODELS.update(models)
        _KEPT.clear()
        _KEPT[parcel.name] = workbench
    return _KEPT[parcel.name]
