"""How many bytes a vector of the kernels holds: what a register of this machine does, or what is asked for."""

from __future__ import annotations

import os

import numba
from numba.core.codegen import get_host_cpu_features

from plr.errors import ParameterError

__all__ = ["VARIABLE", "VECTOR_BYTES", "choose_vector_bytes", "widest_vector_bytes"]

VARIABLE = "PLR_VECTOR_BYTES"
_WIDTHS = (64, 32, 16)


def widest_vector_bytes() -> int:
    """Return the bytes of the widest registers that Numba compiles for.

    Those of the processor, unless Numba is told otherwise: ``NUMBA_CPU_NAME=generic`` makes it use what every processor
    of the kind has, which is 16 bytes on x86 (SSE2) and on ARM (NEON).
    """
    chosen = numba.config.CPU_FEATURES
    features = set((get_host_cpu_features() if chosen is None else chosen).split(","))
    if "+avx512f" in features:
        return 64
    return 32 if "+avx" in features else 16


def choose_vector_bytes(asked: str, widest: int) -> int:
    """Return the width that a user asks for, the widest where nothing is asked.

    >>> choose_vector_bytes("16", 32)
    16
    """
    if not asked.strip():
        return widest
    allowed = [width for width in _WIDTHS if width <= widest]
    if asked.strip() not in map(str, allowed):
        raise ParameterError(
            f"The environment variable {VARIABLE} is {asked!r}, but vectors on this machine hold "
            f"{' or '.join(map(str, allowed))} bytes. Set it to one of these, or leave it unset for {widest}."
        )
    return int(asked)


VECTOR_BYTES = choose_vector_bytes(os.environ.get(VARIABLE, ""), widest_vector_bytes())
