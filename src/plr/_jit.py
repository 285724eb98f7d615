"""The one way plr compiles a function.

Every kernel carries the same flags: cached on disk, so that the second process starts fast; without the GIL, so that
several fits run on several cores; free to reorder sums, so that loops become vector code, but never free to assume that
NaN and infinity do not occur: kernels test for both. They count no references, which costs more than the work of a row
does, and therefore cannot allocate: every array they write to is handed in.

Kernels are in `plr.losses`, `plr.weighting`, `plr.network`, and in files whose names begin with an underscore. The
cache is kept under a digest of all of them. Inputs are read-only views, so that each kernel is compiled once. A kernel
that calls another by name takes in its code and optimises it again; so the stages of training (forward, backward, loss,
validation) are compiled apart and called through pointers (`plr.network.training.Stages`), which brings the first fit
of a fresh installation from minutes to a quarter of one.

Some private parts of Numba are used, as of LightGBM and scikit-learn elsewhere; ``tests/test_private_interfaces.py``
has a test for each, which names the files that rely on it. Numba and LightGBM are bounded in ``pyproject.toml``; raise
a bound when these tests and those marked ``kernel`` pass.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba

from plr._registers import VECTOR_BYTES
from plr.errors import ParameterError

__all__ = ["LOCK", "UNUSED", "compile_scalar", "inlined", "jit", "pointer"]

F = TypeVar("F", bound=Callable[..., object])

LOCK = threading.RLock()
"""Held while anything is compiled: Numba's settings are global, and two threads would do the same work twice."""

_FLAGS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz", "arcp", "afn"},
    "_nrt": False,
}


def inlined(function: F) -> F:
    """Compile a small function into each kernel that calls it: a call with several arrays costs more than it does."""
    # None of them is called from Python: without wrappers for that, a first fit is three seconds shorter.
    return _compile(function, forceinline=True, no_cpython_wrapper=True)


def jit(function: F) -> F:
    """Compile ``function`` on first call, with the flags every plr kernel shares."""
    return _compile(function)


def pointer(function: Callable[..., object], signature: object) -> object:
    """Compile ``function`` for one signature, now, into a pointer that other kernels are handed and call.

    A kernel that calls another one by name takes its code in and optimises it again, so compile time doubles with every
    level. A pointer costs ten nanoseconds a call, nothing for work on a block of rows, and is optimised once.
    """
    plain = getattr(function, "py_func", function)
    with _own_cache() as flags:
        return numba.cfunc(signature, **flags)(plain)


def _compile(function: F, **more: bool) -> F:
    with _own_cache() as flags:
        if getattr(function, "__closure__", None):
            # What it is made of may be another in the next process; it is cached as part of the kernel that calls it.
            flags["cache"] = False
        compiled: F = numba.njit(**flags, **more)(function)
    return compiled


@contextlib.contextmanager
def _own_cache() -> Iterator[dict[str, Any]]:
    """Give the flags to compile with, while Numba's setting of where it caches is ours; one thread at a time."""
    with LOCK:
        outside = numba.config.CACHE_DIR
        folder = _cache_folder(outside)
        numba.config.CACHE_DIR = folder
        try:
            yield {**_FLAGS, "cache": bool(folder)}
        finally:
            numba.config.CACHE_DIR = outside


@functools.lru_cache(maxsize=4)
def _cache_folder(chosen: str) -> str:
    """Return where compiled kernels are kept, a folder per state of their sources; empty where nowhere is safe.

    Numba's own cache looks at the file a function stands in, not at the files it calls into, and would go on using an
    outer kernel after an inner one has changed. It tells processors apart, but not widths of vectors, each of which has
    a folder too. Loading a cached kernel runs it, so it lies where Numba is told to, in the package, or in the user's
    own cache folder, never where others may write.
    """
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for pattern in ("losses.py", "weighting/*.py", "network/*.py", "**/_[!_]*.py"):
        for source in sorted(package.glob(pattern)):
            digest.update(source.read_bytes())
    name = f"plr-kernels-{VECTOR_BYTES}-{digest.hexdigest()[:16]}"
    if chosen:
        return str(Path(chosen) / name)
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for home in (package / "__pycache__", user):
        with contextlib.suppress(OSError):
            (home / name).mkdir(parents=True, exist_ok=True)
            if os.access(home / name, os.W_OK):
                return str(home / name)
    return ""


def compile_scalar(function: Callable[..., float], arguments: int, role: str, wanted: int) -> object:
    """Compile a function of ``arguments`` floats into a pointer that kernels call with ``wanted``.

    Raises
    ------
    plr.errors.ParameterError
        Where Numba cannot compile the function; the message names the way out.
    """
    plain = getattr(function, "py_func", function)
    try:
        with LOCK:
            return _compile_scalar(plain, arguments, wanted)
    except (numba.core.errors.NumbaError, TypeError, AttributeError) as error:
        name = getattr(plain, "__name__", repr(plain))
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ParameterError(
            f"{name!r}, given as {role}, cannot be compiled: {reason}. It must be a function of {arguments} floats "
            f"that returns one and uses nothing but numbers and the math module. For any other there is "
            f"plr.learners.Module, which takes the loss and the score as PyTorch functions."
        ) from error


@functools.lru_cache(maxsize=256)
def _compile_scalar(plain: Callable[..., float], arguments: int, wanted: int) -> object:
    flags: dict[str, Any] = {"nopython": True, "error_model": "numpy"}
    if arguments != wanted:
        plain = _IGNORING[arguments, wanted](numba.jit(**flags)(plain))
    return numba.cfunc(numba.float64(*[numba.float64] * wanted), **flags)(plain)


# Functions of more arguments than the one they call, by both numbers.
_IGNORING: dict[tuple[int, int], Callable[..., Any]] = {
    (2, 3): lambda function: lambda a, b, _c: function(a, b),
    (3, 5): lambda function: lambda a, b, c, _d, _e: function(a, b, c),
    (4, 5): lambda function: lambda a, b, c, d, _e: function(a, b, c, d),
}

UNUSED: dict[int, Callable[..., float]] = {3: lambda _a, _b, _c: 0.0, 5: lambda _a, _b, _c, _d, _e: 0.0}
"""What fills the place of a function that no kernel will call, by its number of arguments."""
