"""Objects of scikit-learn whose compiled code follows indices without looking: looked at here, once, when read.

Each is checked in full, so that whatever numbers a file holds, predictions stay inside their arrays, come to an end and
need no more memory than rows and file account for. What cannot be checked must be trusted by name. The trees of plr's
own forests are kept as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import MATRIX
from plr.persistence.schema import MalformedError, RefusedError, UntrustedError, hold, require

__all__ = ["StoredTree", "check_compiled"]

_BAD_TREE = "invalid tree: child index or column out of range"
_BAD_ROWS, _BAD_INDEX = "invalid rows of neighbours", "invalid index of neighbours"
_BAD_VECTORS = "invalid support vectors"
_DEEPEST = 60
_MOST_JOBS = 1024
_SVM_KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
_METRICS = ("euclidean", "l2", "minkowski", "manhattan", "l1", "cityblock", "chebyshev")
_SINGLE = ("n_outputs_", "n_trees_per_iteration_")
_TREE = "sklearn.tree._tree.Tree"
_PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
_INDICES = ("sklearn.neighbors._kd_tree.KDTree", "sklearn.neighbors._ball_tree.BallTree")
_TREES = ("sklearn.tree._classes.DecisionTreeRegressor", "sklearn.tree._classes.ExtraTreeRegressor")
_HISTOGRAM = "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingRegressor"
_DUMMY = "sklearn.dummy.DummyRegressor"
_NEIGHBOURS = "sklearn.neighbors._regression.KNeighborsRegressor"


def check_compiled(found: Any, trusted: Container[str] = ()) -> None:
    """Refuse an object that contains something that compiled code would be led astray by.

    ``trusted`` names types that may do what cannot be checked; what can be is checked for them as well.
    """
    seen: set[tuple[int, str]] = set()
    left: list[tuple[Any, str, int]] = [(found, "", 0)]
    while left:
        part, owner, depth = left.pop()
        if (id(part), owner) in seen or isinstance(part, str | bytes | int | float | bool | type(None)):
            continue
        seen.add((id(part), owner))
        require(depth <= _DEEPEST, "one of its regressors is nested too deep")
        inside: Iterable[Any]
        if isinstance(part, np.ndarray):
            inside = part.ravel() if part.dtype == object else ()
        elif isinstance(part, list | tuple | set | frozenset):
            inside = part
        elif isinstance(part, dict):
            inside = [*part.keys(), *part.values()]
        else:
            _check_object(part, owner, trusted)
            inside, owner = getattr(part, "__dict__", {}).values(), _name(part)
        left += [(entry, owner, depth + 1) for entry in inside]


def _check_object(part: Any, owner: str, trusted: Container[str]) -> None:
    name, state = _name(part), getattr(part, "__dict__", {})
    for attribute, value in state.items():
        # A method that is replaced would not do what is relied on here.
        shadowed = callable(getattr(type(part), attribute, None)) or attribute in ("_impl", "_in_fit")
        require(not shadowed or name in trusted, "a regressor has a method replaced")
        right = attribute != "n_jobs" or value is None or _whole(value, -_MOST_JOBS, _MOST_JOBS)
        require(right, "the n_jobs of a regressor is out of range")
    if name in _PARTS and owner not in _PARTS[name] and owner not in trusted:
        raise RefusedError(f"holds a {type(part).__name__} where scikit-learn has none")
    if name not in _CHECKS or (name in _ESTIMATORS and not any(attribute.endswith("_") for attribute in state)):
        return
    try:
        if name in _ESTIMATORS:
            columns = 1 if name == _DUMMY else part.n_features_in_
            require(type(columns) is int and columns > 0, "a regressor has no columns")
            hold("a regressor has several outputs", [state.get(attribute, 1) == 1 for attribute in _SINGLE])
        usual = _CHECKS[name](part)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise MalformedError(f"one of its regressors is no valid {type(part).__name__}") from error
    if usual is False and name not in trusted:
        raise UntrustedError(
            f"holds a {type(part).__name__} of an unusual kind, whose numbers plr cannot check. If you know where the "
            f"file comes from, name its type, {name}, with {{parameter}}"
        )


def _check_tree(tree: Any) -> None:
    # The tree shows as many nodes as it says, whether it has them or not.
    hold(_BAD_TREE, tree.node_count == tree.capacity > 0, tree.n_outputs == 1, tree.max_n_classes >= 1)
    left, right, feature = (np.asarray(part) for part in (tree.children_left, tree.children_right, tree.feature))
    leaf = left == -1
    hold(_BAD_TREE, leaf == (right == -1), leaf | ((feature >= 0) & (feature < tree.n_features)))
    _check_children(left, right, ~leaf)


def _check_children(left: Any, right: Any, split: Any) -> None:
    # Children come after their parents and are inside the tree, so that a way down ends.
    place = np.arange(len(left))
    hold(_BAD_TREE, *(~split | ((child > place) & (child < len(left))) for child in (left, right)))


def _check_tree_regressor(regressor: Any) -> None:
    hold(_BAD_TREE, _name(regressor.tree_) == _TREE, regressor.tree_.n_features == regressor.n_features_in_)


def _check_forest(forest: Any) -> None:
    # Only the first tree looks at the rows.
    hold("a forest has no trees", type(forest.estimators_) is list, len(forest.estimators_) > 0)
    _check_members(forest.estimators_, forest.n_features_in_)


def _check_stages(stages: Any) -> bool:
    trees = stages.estimators_
    hold(
        "invalid stages of boosting", isinstance(trees, np.ndarray), trees.ndim == 2, trees.shape[1] == 1 <= len(trees)
    )
    _check_members(trees.ravel(), stages.n_features_in_)
    hold(_BAD_TREE, [tree.tree_.max_n_classes == 1 for tree in trees.ravel()])
    # Stages are added to what this predicts without a look at how many rows that has.
    return _name(stages.init_) == _DUMMY or (isinstance(stages.init_, str) and stages.init_ == "zero")


def _check_members(trees: Any, columns: int) -> None:
    for tree in trees:
        require(_name(tree) in _TREES and tree.n_features_in_ == columns, "a forest has trees of other columns")
        _check_tree_regressor(tree)


def _check_dummy(dummy: Any) -> None:
    hold("invalid constant", np.size(dummy.constant_) == 1, np.asarray(dummy.constant_).dtype.kind == "f")


def _check_histogram(model: Any) -> bool:
    columns, mapper, offset = model.n_features_in_, model._bin_mapper, model._baseline_prediction
    by_category = mapper.is_categorical_
    hold("boosting has no first prediction", isinstance(offset, np.ndarray), offset.size == 1)
    hold("boosting has other columns", isinstance(by_category, np.ndarray), by_category.shape == (columns,))
    known = [np.asarray(mapper.bin_thresholds_[place]) for place in np.flatnonzero(by_category)]
    hold("invalid categories", *((part >= 0) & (part < 256) for part in known))
    hold(_BAD_TREE, type(model._predictors) is list, [len(each) == 1 for each in model._predictors])
    for (predictor,) in model._predictors:
        require(_name(predictor) == _PREDICTOR, _BAD_TREE)
        _check_predictor(predictor)
        splits = predictor.nodes[predictor.nodes["is_leaf"] == 0]
        feature = splits["feature_idx"].astype(np.int64)
        hold(_BAD_TREE, feature >= 0, feature < columns, by_category[feature[splits["is_categorical"] != 0]] != 0)
    return model._preprocessor is None


def _check_predictor(predictor: Any) -> None:
    nodes = predictor.nodes
    hold(_BAD_TREE, isinstance(nodes, np.ndarray), nodes.ndim == 1, len(nodes) > 0)
    split = nodes["is_leaf"] == 0
    _check_children(nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), split)
    tables = predictor.raw_left_cat_bitsets, predictor.binned_left_cat_bitsets
    hold(_BAD_TREE, [isinstance(table, np.ndarray) and table.ndim == 2 and table.shape[1] == 8 for table in tables])
    by_category = split & (nodes["is_categorical"] != 0)
    hold(_BAD_TREE, nodes["bitset_idx"][by_category].astype(np.int64) < min(map(len, tables)))


def _check_neighbours(model: Any) -> bool:
    rows = model._fit_X
    hold(_BAD_ROWS, isinstance(rows, np.ndarray), rows.ndim == 2, rows.dtype.kind == "f", np.isfinite(rows))
    hold(_BAD_ROWS, rows.shape[1] == model.n_features_in_, len(rows) == model.n_samples_fit_ == len(model._y))
    hold(_BAD_ROWS, _whole(model.n_neighbors, 1, len(rows)), model._fit_method in ("kd_tree", "ball_tree", "brute"))
    if model._fit_method != "brute":
        hold(_BAD_INDEX, _name(model._tree) in _INDICES, model._tree.__getstate__()[0].shape == rows.shape)
    usual = set(model.effective_metric_params_) <= {"p"} and model.metric_params is None
    return model.effective_metric_ in _METRICS and usual


def _check_index(tree: Any) -> bool:
    data, order, nodes, bounds, leaf_size, levels, count, *_, metric, weight = tree.__getstate__()
    rows, columns = data.shape
    # Without a metric, compiled code would follow a pointer to nothing.
    hold(_BAD_INDEX, rows > 0, columns > 0, leaf_size >= 1, weight is None, metric is not None)
    hold(_BAD_INDEX, order.shape == (rows,), order >= 0, order < rows)
    # Nodes come in levels; an inner one's children are at twice its place.
    hold(_BAD_INDEX, 0 < levels < 64 and count == len(nodes) == 2**levels - 1)
    hold(_BAD_INDEX, bounds.shape == (2 if _name(tree) == _INDICES[0] else 1, count, columns))
    first, last = nodes["idx_start"].astype(np.int64), nodes["idx_end"].astype(np.int64)
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    hold(_BAD_INDEX, first >= 0, first <= last, last <= rows, 2 * inner + 2 < count)
    return _name(metric) == "sklearn.metrics._dist_metrics.EuclideanDistance64"


def _check_support_vectors(model: Any) -> bool:
    if model._sparse is not False or not isinstance(model.kernel, str):
        return False
    count, places, vectors, sizes = len(model.support_), model.support_, model.support_vectors_, model._n_support
    arrays = (places, vectors, sizes, model._dual_coef_, model._intercept_, model._probA, model._probB)
    hold(_BAD_VECTORS, model.kernel in _SVM_KERNELS, [isinstance(part, np.ndarray) for part in arrays])
    hold(_BAD_VECTORS, places.shape == (count,), sizes.shape == (2,), model._probA.size == model._probB.size == 0)
    hold(_BAD_VECTORS, model._dual_coef_.shape == (1, count), model._intercept_.shape == (1,))
    if model.kernel == "precomputed":
        rows = model.shape_fit_[0]
        hold("support vectors have other rows", rows == model.n_features_in_, places >= 0, places < rows)
    else:
        require(vectors.shape == (count, model.n_features_in_), "support vectors have other columns")
    return True


def _check_random_state(state: Any) -> None:
    described = state.get_state(legacy=False)
    hold("invalid random state", described["bit_generator"] == "MT19937", 0 <= described["state"]["pos"] <= 624)


def _check_generator(generator: Any) -> bool:
    return type(generator.bit_generator).__name__ == "PCG64"


def _whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high


def _name(part: Any) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


_ESTIMATORS: dict[str, Callable[[Any], bool | None]] = {
    **dict.fromkeys(_TREES, _check_tree_regressor),
    _DUMMY: _check_dummy,
    "sklearn.ensemble._forest.ExtraTreesRegressor": _check_forest,
    "sklearn.ensemble._forest.RandomForestRegressor": _check_forest,
    "sklearn.ensemble._gb.GradientBoostingRegressor": _check_stages,
    _HISTOGRAM: _check_histogram,
    _NEIGHBOURS: _check_neighbours,
    "sklearn.svm._classes.NuSVR": _check_support_vectors,
    "sklearn.svm._classes.SVR": _check_support_vectors,
}
_CHECKS = {
    **_ESTIMATORS,
    **dict.fromkeys(_INDICES, _check_index),
    _TREE: _check_tree,
    _PREDICTOR: _check_predictor,
    "numpy.random.mtrand.RandomState": _check_random_state,
    "numpy.random._generator.Generator": _check_generator,
}
# What is only safe inside the models that look at the rows for it.
_PARTS = {_TREE: _TREES, _PREDICTOR: (_HISTOGRAM,), **dict.fromkeys(_INDICES, (_NEIGHBOURS,))}


@dataclass(frozen=True, eq=False)
class StoredTree:
    """A tree that was read from a file; it predicts what the tree that was written did, to the bit.

    Attributes
    ----------
    left, right, feature, threshold : ndarrays, one entry per node
        Rows go left where the feature is at most the threshold. Leaves have no children: -1.
    values : ndarray, one row per leaf
        In the order of the leaves among the nodes.
    """

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    values: NDArray[np.float64] = field(metadata=MATRIX)

    def __post_init__(self) -> None:
        leaf = self.left == -1
        lengths = {len(part) for part in (self.left, self.right, self.feature, self.threshold)}
        hold("invalid tree: its arrays differ in length", lengths == {len(leaf)} != {0}, leaf.sum() == len(self.values))
        hold(_BAD_TREE, leaf == (self.right == -1), self.feature >= 0)
        _check_children(self.left, self.right, ~leaf)

    @classmethod
    def of(cls, tree: Any) -> StoredTree:
        """Return one of scikit-learn's trees as arrays."""
        left = np.asarray(tree.children_left, dtype=np.int32)
        leaf = left == -1
        feature, threshold = np.where(leaf, 0, tree.feature).astype(np.int32), np.where(leaf, 0.0, tree.threshold)
        values = np.asarray(tree.value)[leaf].reshape(int(leaf.sum()), -1)
        return cls(left, np.asarray(tree.children_right, dtype=np.int32), feature, threshold, values)

    def predict(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return each row's leaf."""
        node = np.zeros(len(X), dtype=np.int64)
        moving = np.arange(len(X) if self.left[0] != -1 else 0)
        while moving.size:
            at = node[moving]
            goes_left = X[moving, self.feature[at]] <= self.threshold[at]
            node[moving] = np.where(goes_left, self.left[at], self.right[at])
            moving = moving[self.left[node[moving]] != -1]
        leaf = np.cumsum(self.left == -1) - 1
        return self.values[leaf[node]]
