"""Regressors that are not plr's own, in the format of skops, which builds objects from names it trusts.

Known without being asked are types of scikit-learn that predict in numpy alone, where a wrong number is an error and no
more, and those whose numbers `compiled` checks before compiled code follows them. All others, whether skops trusts them
or not, must be trusted by whoever loads the file.
"""

from __future__ import annotations

import functools
import io
import json
import math
import re
import types
import warnings
import zipfile
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning

from plr.errors import DependencyError
from plr.persistence.compiled import check_compiled
from plr.persistence.schema import MalformedError, RefusedError, UntrustedError, in_one_line, refusal, require

__all__ = ["is_code", "pack", "unpack"]

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


# Types that are known, by module; among numpy's are functions that labels and features are often sent through.
_NAMES = """
builtins: bool dict float int list set str tuple
numpy: bool bool_ dtype exp expm1 float16 float32 float64 float8 int16 int32 int64 int8 log log10 log1p log2
    ma.MaskedArray ndarray random.PCG64 random._generator.Generator random._pcg64.PCG64 random.mtrand.RandomState
    sqrt square str_ uint16 uint32 uint64 uint8
sklearn._loss: _loss.CyAbsoluteError _loss.CyHalfGammaLoss _loss.CyHalfPoissonLoss _loss.CyHalfSquaredError
    _loss.CyHalfTweedieLoss _loss.CyHalfTweedieLossIdentity _loss.CyHuberLoss _loss.CyPinballLoss link.IdentityLink
    link.Interval link.LogLink loss.AbsoluteError loss.HalfGammaLoss loss.HalfPoissonLoss loss.HalfSquaredError
    loss.HalfTweedieLoss loss.HalfTweedieLossIdentity loss.HuberLoss loss.PinballLoss
sklearn: compose._target.TransformedTargetRegressor dummy.DummyRegressor impute._base.SimpleImputer
    pipeline.Pipeline utils._bunch.Bunch
sklearn.ensemble: _bagging.BaggingRegressor _forest.ExtraTreesRegressor _forest.RandomForestRegressor
    _gb.GradientBoostingRegressor _voting.VotingRegressor
sklearn.ensemble._hist_gradient_boosting: binning._BinMapper gradient_boosting.HistGradientBoostingRegressor
    predictor.TreePredictor
sklearn.gaussian_process: _gpr.GaussianProcessRegressor kernels.CompoundKernel kernels.ConstantKernel
    kernels.DotProduct kernels.ExpSineSquared kernels.Exponentiation kernels.Matern kernels.Product kernels.RBF
    kernels.RationalQuadratic kernels.Sum kernels.WhiteKernel
sklearn.linear_model: _base.LinearRegression _bayes.ARDRegression _bayes.BayesianRidge
    _coordinate_descent.ElasticNet _coordinate_descent.ElasticNetCV _coordinate_descent.Lasso
    _coordinate_descent.LassoCV _glm.glm.GammaRegressor _glm.glm.PoissonRegressor _glm.glm.TweedieRegressor
    _huber.HuberRegressor _least_angle.Lars _least_angle.LarsCV _least_angle.LassoLars _least_angle.LassoLarsCV
    _least_angle.LassoLarsIC _omp.OrthogonalMatchingPursuit _omp.OrthogonalMatchingPursuitCV
    _quantile.QuantileRegressor _ransac.RANSACRegressor _ridge.Ridge _ridge.RidgeCV
    _stochastic_gradient.SGDRegressor _theil_sen.TheilSenRegressor
sklearn.metrics: _dist_metrics.EuclideanDistance64 _scorer._PassthroughScorer
sklearn.model_selection: _search.GridSearchCV _search.RandomizedSearchCV _split.GroupKFold _split.GroupShuffleSplit
    _split.KFold _split.LeaveOneGroupOut _split.LeaveOneOut _split.PredefinedSplit _split.RepeatedKFold
    _split.ShuffleSplit _split.StratifiedKFold _split.TimeSeriesSplit
sklearn.neighbors: _ball_tree.BallTree _kd_tree.KDTree _regression.KNeighborsRegressor
sklearn.neural_network: _multilayer_perceptron.MLPRegressor _stochastic_optimizers.AdamOptimizer
    _stochastic_optimizers.SGDOptimizer
sklearn.preprocessing: _data.MaxAbsScaler _data.MinMaxScaler _data.PowerTransformer _data.QuantileTransformer
    _data.RobustScaler _data.StandardScaler _function_transformer.FunctionTransformer
sklearn.svm: _classes.LinearSVR _classes.NuSVR _classes.SVR
sklearn.tree: _classes.DecisionTreeRegressor _classes.ExtraTreeRegressor _tree.Tree
"""
_KNOWN = {
    f"{module}.{name}"
    for module, names in re.findall(r"^(\S+):([^:]+)$", _NAMES, re.MULTILINE)
    for name in names.split()
}

# How skops makes them, by how their names begin; the first that fits counts.
_LOADERS = {
    "sklearn._loss._loss.": {"LossNode"},
    "sklearn.tree._tree.": {"TreeNode"},
    "sklearn.utils._bunch.": {"DictNode"},
    "sklearn.": {"ObjectNode"},
    "numpy.random.": {"RandomGeneratorNode", "RandomStateNode"},
    "numpy.": {"DTypeNode", "FunctionNode", "MaskedArrayNode", "NdArrayNode", "TypeNode"},
    "builtins.": {"DictNode", "JsonNode", "ListNode", "SetNode", "TupleNode", "TypeNode"},
}
# Compiled classes that take whatever they are given for their state, nothing at all included: what it consists of.
_INDEX = [*["NdArrayNode"] * 4, *["JsonNode"] * 7, "ObjectNode", "JsonNode"]
_STATES = {
    "sklearn.neighbors._ball_tree.BallTree": _INDEX,
    "sklearn.neighbors._kd_tree.KDTree": _INDEX,
    "sklearn.metrics._dist_metrics.EuclideanDistance64": ["JsonNode", "NdArrayNode", "NdArrayNode"],
}

_MOST_MEMBERS = 200_000
_LARGEST_SCHEMA = 200_000_000
# Arrays of sparse matrices are packed, by numpy; to so many times their size at most.
_MOST_RATIO, _MUCH = 100, 1_000_000


def is_code(value: object) -> bool:
    """Return whether something is code rather than an object."""
    return isinstance(value, _CODE) or type(value).__module__.partition(".")[0] == "numba"


def pack(value: Any, place: str) -> tuple[bytes, set[str]]:
    """Return an object as skops writes it, and whose types it is made of; refuse one that cannot be made again."""
    skops = _skops(f"The model's {place} is a {type(value).__name__}, which plr keeps in model files with skops")
    try:
        content: bytes = skops.dumps(value)
        skops.loads(content, trusted=skops.get_untrusted_types(data=content))
        packages = _packages(_types_in(_check_archive(content)))
    except Exception as error:
        # Objects of any kind raise errors of any kind.
        held = f"{type(value).__name__} holds something that skops cannot keep ({in_one_line(error)})"
        raise refusal(place, held) from error
    return content, packages


def unpack(content: bytes, trusted: Sequence[str]) -> tuple[Any, set[str]]:
    """Make an object of what skops has written, if it names known or trusted types only; say whose types they are."""
    skops = _skops("The model holds a regressor in the format of skops")
    types = _types_in(_check_archive(content), trusted)
    packages = _packages(types)
    try:
        unknown = set(skops.get_untrusted_types(data=content))
        unusual = {name for name, loader in types if name not in _KNOWN or loader not in _loaders_of(name)}
        if refused := sorted((unusual | (unknown - _KNOWN)) - set(trusted)):
            raise UntrustedError(
                f"holds objects of types that are not trusted: {','.join(refused)}. Their code runs, or follows "
                f"numbers that plr cannot check. If you know them and where the file comes from, name them with "
                f"{{parameter}}"
            )
        with warnings.catch_warnings():
            # One for each of its parts; that versions differ is said once.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            found = skops.loads(content, trusted=sorted(unknown))
        check_compiled(found, frozenset(trusted))
    except RefusedError:
        raise
    except MalformedError as error:
        raise MalformedError(str(error), packages) from error
    except Exception as error:
        raise MalformedError(f"skops cannot make one of its regressors ({in_one_line(error)})", packages) from error
    return found, packages


def _skops(why: str) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise DependencyError(f"{why}, and that is not installed. Install it with: pip install 'plr[skops]'") from error
    return skops.io


def _loaders_of(name: str) -> Container[str]:
    return next((usual for start, usual in _LOADERS.items() if name.startswith(start)), ())


def _types_in(schema: Any, trusted: Sequence[str] = ()) -> set[tuple[str, str]]:
    """Return the types that skops would make, and how; refuse what would be made otherwise than it says."""
    types: set[tuple[str, str]] = set()
    made: dict[Any, Any] = {}
    files: dict[str, Any] = {}
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if "__loader__" in part:
                name, loader = f"{part.get('__module__')}.{part.get('__class__')}", str(part["__loader__"])
                types.add((name, loader))
                own, file = part.get("__id__"), part.get("file")
                # What has a number that was there before is not made, but is what was.
                what = (name, loader, file, part.get("content") if loader == "JsonNode" else None)
                require(type(own) is int and made.setdefault(own, what) == what, "two of its parts have one number")
                # Each array is read anew, so that a small file could fill the memory.
                require(file is None or files.setdefault(str(file), own) == own, "an array is named twice")
                if name in _STATES and name not in trusted:
                    _check_state(part, _STATES[name])
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)
    return types


def _check_state(part: dict[str, Any], wanted: list[str]) -> None:
    state = part.get("content")
    entries = state.get("content") if isinstance(state, dict) and state.get("__loader__") == "TupleNode" else None
    right = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    require(right and [entry.get("__loader__") for entry in entries or ()] == wanted, "invalid index of neighbours")
    for entry in entries or ():
        usual = {"NdArrayNode": ("ndarray", "numpy"), "ObjectNode": ("EuclideanDistance64", entry.get("type"))}
        declared = entry.get("__class__"), entry.get("type")
        require(declared == usual.get(entry["__loader__"], declared), "invalid index of neighbours")


def _packages(types: set[tuple[str, str]]) -> set[str]:
    return {name.partition(".")[0] for name, _ in types} - {"builtins", "collections"}


def _check_archive(content: bytes) -> Any:
    """Check that nothing inside is larger than it looks, members and arrays alike; return the schema."""
    schema = None
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
                    # numpy must not take bytes for an array.
                    require(not archive.read(entry).startswith((b"\x93NUMPY", b"PK")), "a regressor has a false part")
                else:
                    require(entry.filename == "schema.json", "a regressor has a part that skops does not write")
                    require(entry.file_size <= _LARGEST_SCHEMA, "one of its regressors is too large")
                    schema = json.loads(archive.read(entry))
    except MalformedError:
        raise
    except Exception as error:
        # zipfile, json and numpy's reader of headers raise errors of many kinds.
        raise MalformedError("one of its regressors cannot be read") from error
    return schema


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
    count = math.prod(map(int, shape))
    require(count >= 0 and count * dtype.itemsize == size - member.tell(), "an array is not as large as it says")
