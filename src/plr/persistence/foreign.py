"""Regressors that are not plr's own, in the format of skops, which builds what it is told to from names it trusts.

Trusted are the types that skops trusts, and those named here. Numbers of a foreign regressor reach the compiled code of
its library; those of trees and of neighbours are looked at before, since a wrong one would be followed out of memory.
"""

from __future__ import annotations

import functools
import io
import json
import types
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from plr.errors import DependencyError, ModelFileError
from plr.persistence.compiled import check_compiled
from plr.persistence.kinds import MalformedError, require

__all__ = ["UntrustedError", "is_code", "pack", "unpack"]

_CODE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    types.GeneratorType,
    functools.partial,
    np.ufunc,
    type,
)

_KERNELS = ("CompoundKernel", "ConstantKernel", "DotProduct", "ExpSineSquared", "Exponentiation", "Matern")
_KERNELS_TOO = ("PairwiseKernel", "Product", "RBF", "RationalQuadratic", "Sum", "WhiteKernel")
_SPLITTERS = ("GroupKFold", "GroupShuffleSplit", "KFold", "LeaveOneGroupOut", "LeaveOneOut", "PredefinedSplit")
_SPLITTERS_TOO = ("RepeatedKFold", "ShuffleSplit", "StratifiedKFold", "TimeSeriesSplit")

# Types of scikit-learn's that skops leaves to its users. None of them does anything when it is made.
_HARMLESS = {
    *(f"sklearn.gaussian_process.kernels.{name}" for name in (*_KERNELS, *_KERNELS_TOO)),
    *(f"sklearn.model_selection._split.{name}" for name in (*_SPLITTERS, *_SPLITTERS_TOO)),
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
}

_MOST_MEMBERS = 200_000
_LARGEST_SCHEMA = 200_000_000
# Arrays of sparse matrices are packed, by numpy; to so many times their size at most.
_MOST_RATIO, _MUCH = 100, 1_000_000


def is_code(value: object) -> bool:
    """Return whether something is code rather than an object."""
    return isinstance(value, _CODE) or type(value).__module__.partition(".")[0] == "numba"


def pack(value: Any, place: str) -> bytes:
    """Return an object as skops writes it; refuse one that cannot be made from that again."""
    skops = _skops(f"The model's {place} is a {type(value).__name__}, which plr keeps in model files with skops")
    try:
        content: bytes = skops.dumps(value)
        skops.loads(content, trusted=skops.get_untrusted_types(data=content))
        _check_archive(content)
    except Exception as error:
        # Objects of any kind raise errors of any kind.
        why = " ".join(str(error).split())
        raise ModelFileError(
            f"The model cannot be written to a file because of its {place}: {type(value).__name__} holds something "
            f"that skops cannot keep ({type(error).__name__}: {why[:200]})."
        ) from error
    return content


def unpack(content: bytes | bytearray, trusted: Sequence[str]) -> Any:
    """Make an object of what skops has written, if it names trusted types only."""
    skops = _skops("The model holds a regressor in the format of skops")
    _check_archive(content)
    data = bytes(content)
    try:
        unknown = skops.get_untrusted_types(data=data)
    except Exception as error:
        raise MalformedError("skops cannot read one of its regressors") from error
    refused = sorted(set(unknown) - _HARMLESS - set(trusted))
    if refused:
        names = ", ".join(repr(name) for name in refused)
        raise UntrustedError(
            f"holds objects of types that are not trusted: {names}. If you know them and where the file comes from, "
            f"load it with load_model(path, trusted=[{names}]), or --trust {','.join(refused)} on the command line."
        )
    try:
        found = skops.loads(data, trusted=sorted(unknown))
    except Exception as error:
        raise MalformedError("skops cannot make one of its regressors") from error
    check_compiled(found)
    return found


class UntrustedError(MalformedError):
    """The file is whole, but asks for more trust than it has been given."""


def _skops(why: str) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise DependencyError(f"{why}, and that is not installed. Install it with: pip install 'plr[skops]'") from error
    return skops.io


def _check_archive(content: bytes | bytearray) -> None:
    """Check that nothing inside is larger than it looks: plain members, and arrays as large as they say."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            require(len(entries) <= _MOST_MEMBERS, "one of its regressors has too many parts")
            require(len({entry.filename for entry in entries}) == len(entries), "a regressor has parts twice")
            for entry in entries:
                plain = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
                require(plain, "one of its regressors is packed in a way that plr does not use")
            require(sum(entry.file_size for entry in entries) <= len(content), "a regressor has parts in parts")
            for entry in entries:
                if entry.filename.endswith(".npy"):
                    with archive.open(entry) as member:
                        _check_array(member, entry.file_size)
                elif entry.filename.endswith(".npz"):
                    _check_packed(archive.read(entry))
                elif entry.filename.endswith(".bin"):
                    # Bytes that numpy would take for an array are none.
                    require(not archive.read(entry).startswith((b"\x93NUMPY", b"PK")), "a regressor has a false part")
                else:
                    require(entry.filename == "schema.json", "a regressor has a part that skops does not write")
                    require(entry.file_size <= _LARGEST_SCHEMA, "one of its regressors is too large")
                    json.loads(archive.read(entry))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, KeyError, EOFError, OSError) as error:
        raise MalformedError("one of its regressors cannot be read") from error


def _check_packed(content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            fits = entry.file_size <= max(_MUCH, _MOST_RATIO * entry.compress_size)
            require(fits and entry.compress_size <= len(content), "a sparse matrix is larger than it looks")
            with archive.open(entry) as member:
                _check_array(member, entry.file_size)


def _check_array(member: Any, size: int) -> None:
    """Check that the header of an array asks for as much as follows."""
    version = np.lib.format.read_magic(member)
    require(version in ((1, 0), (2, 0)), "an array is of a kind that numpy does not write")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(member)
    require(not dtype.hasobject, "an array holds objects")
    count = 1
    for length in shape:
        count *= int(length)
    require(count >= 0 and count * dtype.itemsize == size - member.tell(), "an array is not as large as it says")
