"""Writing candidate sets as what other libraries hold, padded arrays and Arrow columns, and as one line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plr.candidates.flat import Floats
from plr.errors import InfeasibleError

if TYPE_CHECKING:
    from plr.candidates.container import CandidateSets

__all__ = ["write_arrow", "write_padded", "write_summary"]

# Padding is refused where one set is this large, or where it would take so many bytes and so many times the data.
_LARGEST_SET = 1_000_000
_PADDED_LIMIT = 256 * 1024**2
_PADDED_EXCESS = 10


def write_padded(S: CandidateSets, fill: float) -> Floats:
    """Make an array of shape (rows, largest size); refuse where it would dwarf the data."""
    if not len(S):
        return np.empty((0, 0))
    sizes = S.sizes
    width = int(sizes.max())
    needed, held = 8 * len(S) * width, S.values.nbytes + S.offsets.nbytes
    if width >= _LARGEST_SET or (needed > _PADDED_LIMIT and needed > _PADDED_EXCESS * held):
        raise InfeasibleError(
            f"Padding {len(S)} rows to the {width} candidates of row {int(sizes.argmax())} would take "
            f"{needed / 1024**2:,.0f} MiB for {held / 1024**2:,.0f} MiB of data; work on values and offsets, or "
            "leave such rows out."
        )
    if len(S.values) == len(S) * width:
        return S.values.reshape(len(S), width).copy()
    padded = np.full((len(S), width), fill, dtype=np.float64)
    padded[np.arange(width) < sizes[:, np.newaxis]] = S.values
    return padded


def write_arrow(S: CandidateSets) -> Any:
    """Make an Arrow list array that shares the values."""
    import pyarrow as pa

    if S.offsets[-1] > np.iinfo(np.int32).max:
        return pa.LargeListArray.from_arrays(pa.array(S.offsets), pa.array(S.values))
    return pa.ListArray.from_arrays(pa.array(S.offsets.astype(np.int32)), pa.array(S.values))


def write_summary(S: CandidateSets) -> str:
    """Describe rows, sizes, values and prior in one line."""
    if not len(S):
        return "CandidateSets(0 rows)"
    sizes = S.sizes
    span = f"{sizes.min()}–{sizes.max()} (mean {sizes.mean():.3g})" if sizes.min() < sizes.max() else f"{sizes[0]}"
    kind = "uniform prior" if S.prior is None else "given prior"
    return (
        f"CandidateSets({len(S)} row{'s' if len(S) > 1 else ''}, sizes {span}, "
        f"values {S.values.min():.6g} to {S.values.max():.6g}, {kind})"
    )
