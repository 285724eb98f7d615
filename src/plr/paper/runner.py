"""Run all cells of a protocol on all cores, a GPU or a cluster; can be stopped and resumed at any time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from plr._parameters import check_integer
from plr.cluster import session
from plr.errors import ParameterError, StoreError, unknown_name
from plr.paper.cluster import GridLoop, check_cluster, check_device_name, describe_cluster
from plr.paper.problems import Workbench
from plr.paper.protocol import Protocol
from plr.paper.stacking import check_device, device_name, run_stacks
from plr.paper.store import Store
from plr.paper.work import RunProgress, RunSummary, Work
from plr.threads import default_workers

__all__ = ["ENGINES", "RunProgress", "RunSummary", "run_benchmark"]

ENGINES = ("local", "ray")
"""What cells are given to: the threads of this process, or a Ray cluster."""

_SECONDS_BETWEEN_BEATS = 5.0
# Workers of a cluster first have to start, and to import everything.
_SECONDS_BEFORE_NOTICE_ON_RAY = 8.0


def run_benchmark(
    protocol: Protocol,
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    device: str = "cpu",
    engine: str = "local",
    address: str | None = None,
    data_home: str | os.PathLike[str] | None = None,
    workbench: Workbench | None = None,
    command: str | None = None,
    callback: Callable[[RunProgress], None] | None = None,
) -> RunSummary:
    """Do what is left of a protocol and keep the results in the folder ``out``.

    Parameters
    ----------
    protocol : Protocol
    out : path
        Folder of the store; made if needed, resumed if it holds results of the same protocol.
    workers : int, optional
        Threads; all cores by default. On a cluster the largest number of tasks at a time; all it can do by default.
        Results do not depend on it.
    device : str, default="cpu"
        ``cpu`` trains one network per thread, by the compiled kernel. ``cuda`` and ``cuda:N`` train all networks of a
        data set at once on a GPU (`plr.paper.stacked`), and ``torch`` does so on the CPU; the rows are then taken in
        another order, so that results agree up to that. What cannot be stacked is left to the CPU.
    engine : {"local", "ray"}, default="local"
        Where cells are done: in this process, or as tasks of a Ray cluster, with the same results. The store stays with
        this process.
    address : str, optional
        Of a Ray cluster: ``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``; by default one is started on this machine, and
        stopped in the end. A connection that the process has opened itself is used as it is.
    data_home : path, optional
        Folder to look for data sets in first.
    workbench : Workbench, optional
        One of the protocol, with its data sets loaded; by default it is made here.
    command : str, optional
        The command line, for the record.
    callback : callable, optional
        Called with the `RunProgress` now and then, from one thread at a time.

    Returns
    -------
    RunSummary
    """
    # Mistakes and missing data sets are found out before a folder is made.
    number = default_workers() if workers is None else check_integer("workers", workers, low=1)
    _check_engine(engine, address, device)
    if workbench is None:
        workbench = Workbench(protocol, data_home)
    with ExitStack() as stack:
        if engine == "ray" and not _is_finished(out, protocol):
            stack.enter_context(session.session(address, cpus=number))
            check_cluster(device)
        store = stack.enter_context(Store.create(out, protocol))
        work = Work(protocol, store, workbench, callback)
        work.report()
        if work.is_over():
            return work.summary()
        if engine == "ray":
            loop = GridLoop(work, device, workers)
            work.compile(loop.warm, _SECONDS_BEFORE_NOTICE_ON_RAY)
            store.begin(command, describe_cluster(device))
            _run_in_threads(work, [loop.run])
            return work.summary()
        if device != "cpu":
            store.begin(command, device_name(device))
            _run_in_threads(work, [lambda: run_stacks(work, check_device(device))])
        # What is left after a GPU is done on the CPU, and the record is to say so.
        if not work.stop.is_set() and not work.is_over():
            work.compile()
            store.begin(command)
            _run_in_threads(work, [work.loop] * number)
        return work.summary()


def _run_in_threads(work: Work, loops: list[Callable[[], None]]) -> None:
    """Run each loop in a thread of its own until all have ended; claims are renewed meanwhile."""
    with ThreadPoolExecutor(len(loops), thread_name_prefix="plr-benchmark") as pool:
        futures = [pool.submit(loop) for loop in loops]
        beaten = time.monotonic()
        try:
            # Waiting in short steps keeps the main thread ready to hear Ctrl-C.
            while not all(future.done() for future in futures):
                time.sleep(0.05)
                if time.monotonic() - beaten > _SECONDS_BETWEEN_BEATS:
                    beaten = time.monotonic()
                    # The worker that next writes meets the same error and reports it.
                    with suppress(StoreError):
                        work.store.beat()
        except BaseException:
            work.stop.set()
            raise
    for future in futures:
        future.result()


def _check_engine(engine: str, address: str | None, device: str) -> None:
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    if engine == "ray":
        session.import_ray()
        check_device_name(device)
    elif address is not None:
        raise ParameterError("An address (--address) is for a Ray cluster (--engine ray); leave it out, or add that.")
    elif device != "cpu":
        check_device(device)


def _is_finished(out: str | os.PathLike[str], protocol: Protocol) -> bool:
    """Return whether a folder has all of a protocol already, so that nothing need be started."""
    try:
        with Store.open(out) as store:
            return store.protocol.digest == protocol.digest and set(store.states().values()) == {"done"}
    except StoreError:
        return False
