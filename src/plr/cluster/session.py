"""A connection to a Ray cluster, or a cluster of this machine's own, for as long as a block lasts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NamedTuple

from plr.errors import ClusterError, DependencyError

__all__ = ["Size", "cluster_size", "import_ray", "session"]

# Ray itself goes on trying for many minutes. A client makes the cluster start a process for it first.
_SECONDS_TO_CONNECT = 15.0
_SECONDS_FOR_A_CLIENT = 30.0

# Only what Ray says when something is lost; its notices are for those who start a cluster by hand.
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}

_TRIAL = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='critical')"


class Size(NamedTuple):
    """What a cluster has: nodes that are alive, their CPUs and their GPUs."""

    nodes: int
    cpus: int
    gpus: int

    def __str__(self) -> str:
        counts = [(self.nodes, "node"), (self.cpus, "CPU"), *([(self.gpus, "GPU")] if self.gpus else [])]
        return ", ".join(f"{number} {name}{'' if number == 1 else 's'}" for number, name in counts)


def import_ray() -> Any:
    """Return the module, or say how to install it."""
    # Read when Ray is imported; whoever wants to report has set it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise DependencyError(
            "Working on a cluster needs Ray, which is not installed: pip install 'plr[ray]'."
        ) from error
    return ray


@contextmanager
def session(address: str | None = None, *, cpus: int | None = None, gpus: int | None = None) -> Iterator[Any]:
    """Connect to a Ray cluster, or start one on this machine, while the block lasts.

    A connection that the process has opened itself is used as it is and left open. Otherwise what is printed inside the
    block goes to stderr: that is where Ray's notices of processes that died belong, and it prints them to stdout.

    Parameters
    ----------
    address : str, optional
        Of a cluster that is there: ``auto`` (the one of this machine, or of the variable RAY_ADDRESS), ``HOST:PORT``,
        or ``ray://HOST:PORT`` from a machine that is no part of it. By default a cluster is started on this machine,
        and stopped in the end whatever happens; should this process be killed, it ends by itself.
    cpus, gpus : int, optional
        How many tasks that ask for one each a cluster started here does at a time; what the machine has by default.

    Yields
    ------
    module
        ``ray``, connected.

    Raises
    ------
    DependencyError
        Where Ray is not installed.
    ClusterError
        Where nothing answers at the address, or no cluster can be started.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    with redirect_stdout(sys.stderr):
        try:
            if address is None:
                _start(ray, cpus, gpus)
            else:
                _connect(ray, address)
            yield ray
        finally:
            ray.shutdown()


def cluster_size() -> Size:
    """Return what the cluster connected to has at the moment."""
    nodes = [node["Resources"] for node in import_ray().nodes() if node["Alive"]]
    cpus, gpus = (int(sum(node.get(name, 0) for node in nodes)) for name in ("CPU", "GPU"))
    return Size(len(nodes), cpus, gpus)


def _start(ray: Any, cpus: int | None, gpus: int | None) -> None:
    # A task that is too large for the memory would otherwise be tried again for ever.
    os.environ.setdefault("RAY_task_oom_retries", "3")
    # Workers would otherwise make way for everything else on the machine, and wait for each other in every step.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        ray.init(address="local", num_cpus=cpus, num_gpus=gpus, include_dashboard=False, **_QUIET)
    except Exception as error:
        raise ClusterError(f"Ray cannot start a cluster on this machine: {_first_line(str(error))}") from error


def _connect(ray: Any, address: str) -> None:
    # Nothing interrupts Ray's own attempt, neither a limit of ours nor Ctrl-C, so that another process makes the first.
    seconds = _SECONDS_FOR_A_CLIENT if "://" in address else _SECONDS_TO_CONNECT
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _no_cluster(
            f"No Ray cluster answers at {address!r} within {seconds:.0f} s",
            address,
            " One that asks for a token answers where RAY_AUTH_MODE=token is set.",
        ) from None
    if trial.returncode:
        lines = trial.stderr.strip().splitlines() or ["no reason given"]
        raise _no_cluster(f"Ray cannot connect to {address!r} ({lines[-1].strip()})", address)
    try:
        ray.init(address=address, **_QUIET)
    except Exception as error:
        raise _no_cluster(f"Ray cannot connect to {address!r} ({_first_line(str(error))})", address) from error


def _no_cluster(problem: str, address: str, more: str = "") -> ClusterError:
    return ClusterError(
        f"{problem}; start one (ray start --head), name another, or leave {{parameter}} out for a cluster on this "
        f"machine.{more}",
        parameter="address",
        value=address,
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
