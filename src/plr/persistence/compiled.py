"""Objects of scikit-learn whose compiled code follows indices without looking: looked at here, once, when read.

Each is checked in full, so that whatever numbers a file holds, predictions stay inside their arrays, come to an end and
need no more memory than rows and file account for. What cannot be checked must be trusted by name.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np

from plr.persistence.kinds import MalformedError, require, whole

__all__ = ["UntrustedError", "check_compiled"]

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


class UntrustedError(MalformedError):
    """The file is whole, but asks for more trust than it has been given."""


def check_compiled(found: Any, trusted: Container[str] = ()) -> None:
    """Refuse an object that contains something that compiled code would be led astray by.

    ``trusted`` names types that may do what cannot be checked; what can be is checked for them as well.
    """
    _walk(found, "", trusted, set(), 0)


def _walk(part: Any, owner: str, trusted: Container[str], seen: set[int], depth: int) -> None:
    if id(part) in seen or isinstance(part, str | bytes | int | float | bool | type(None)):
        return
    seen.add(id(part))
    require(depth <= _DEEPEST, "one of its regressors is nested too deep")
    name = f"{type(part).__module__}.{type(part).__qualname__}"
    inside: list[Any]
    if isinstance(part, np.ndarray):
        inside = list(part.ravel()) if part.dtype == object else []
    elif isinstance(part, list | tuple | set | frozenset):
        inside = list(part)
    elif isinstance(part, dict):
        inside = [*part.keys(), *part.values()]
    else:
        _check_object(part, name, owner, trusted)
        inside, owner = list(getattr(part, "__dict__", {}).values()), name
    for entry in inside:
        _walk(entry, owner, trusted, seen, depth + 1)


def _check_object(part: Any, name: str, owner: str, trusted: Container[str]) -> None:
    state = getattr(part, "__dict__", {})
    for attribute, value in state.items():
        # A method that is replaced would not do what is relied on here.
        shadowed = callable(getattr(type(part), attribute, None)) or attribute in ("_impl", "_in_fit")
        require(not shadowed or name in trusted, "one of its regressors is none")
        if attribute == "n_jobs":
            require(value is None or whole(-_MOST_JOBS, _MOST_JOBS)(value), "the n_jobs of a regressor is none")
    if name in _PARTS and owner not in _PARTS[name] and owner not in trusted:
        raise UntrustedError(f"holds a {type(part).__name__} where scikit-learn has none")
    check = _CHECKS.get(name)
    fitted = name not in _ESTIMATORS or any(attribute.endswith("_") for attribute in state)
    if check is None or not fitted:
        return
    try:
        if name in _ESTIMATORS:
            columns = 1 if name == _DUMMY else part.n_features_in_
            require(type(columns) is int and columns > 0, "a regressor has no columns")
            for attribute in _SINGLE:
                require(state.get(attribute, 1) == 1, "a regressor has several outputs")
        usual = check(part)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise MalformedError(f"one of its regressors, a {type(part).__name__}, is none") from error
    if usual is False and name not in trusted:
        raise UntrustedError(
            f"holds a {type(part).__name__} of an unusual kind, whose numbers plr cannot check. If you know where the "
            f"file comes from, load it with load_model(path, trusted=[{name!r}]), or --trust {name} on the command line"
        )


def _check_tree(tree: Any) -> None:
    # The tree shows as many nodes as it says, whether it has them or not.
    require(tree.node_count == tree.capacity > 0, "a tree has other nodes than it says")
    require(tree.n_outputs == 1 and tree.max_n_classes >= 1, "a tree has several outputs")
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    place, leaf = np.arange(len(left)), left == -1
    require(bool((leaf == (right == -1)).all()), "a tree lacks leaves")
    for child in (left, right):
        require(bool((leaf | ((child > place) & (child < len(left)))).all()), "a tree is none")
    feature = np.asarray(tree.feature)
    require(
        bool((leaf | ((feature >= 0) & (feature < tree.n_features))).all()), "a tree splits by a column that is none"
    )


def _check_tree_regressor(regressor: Any) -> None:
    require(_name(regressor.tree_) == _TREE, "a tree is none")
    require(regressor.tree_.n_features == regressor.n_features_in_, "a tree has other columns than its model")


def _check_forest(forest: Any) -> None:
    # Only the first tree looks at the rows.
    require(type(forest.estimators_) is list and len(forest.estimators_) > 0, "a forest has no trees")
    _check_members(forest.estimators_, forest.n_features_in_)


def _check_stages(stages: Any) -> bool:
    trees = stages.estimators_
    require(isinstance(trees, np.ndarray) and trees.ndim == 2 and trees.shape[1] == 1 <= len(trees), "stages are none")
    _check_members(trees.ravel(), stages.n_features_in_)
    require(all(tree.tree_.max_n_classes == 1 for tree in trees.ravel()), "a tree has several outputs")
    # Stages are added to what this predicts without a look at how many rows that has.
    return _name(stages.init_) == _DUMMY or (isinstance(stages.init_, str) and stages.init_ == "zero")


def _check_members(trees: Any, columns: int) -> None:
    for tree in trees:
        require(_name(tree) in _TREES and tree.n_features_in_ == columns, "a forest has trees of other columns")
        _check_tree_regressor(tree)


def _check_dummy(dummy: Any) -> None:
    require(np.size(dummy.constant_) == 1 and np.asarray(dummy.constant_).dtype.kind == "f", "a constant is none")


def _check_histogram(model: Any) -> bool:
    columns = model.n_features_in_
    mapper, offset = model._bin_mapper, model._baseline_prediction
    require(isinstance(offset, np.ndarray) and offset.size == 1, "trees have no beginning")
    by_category = mapper.is_categorical_
    require(isinstance(by_category, np.ndarray) and by_category.shape == (columns,), "trees have other columns")
    known = [mapper.bin_thresholds_[place] for place in np.flatnonzero(by_category)]
    require(all(bool(((part >= 0) & (part < 256)).all()) for part in map(np.asarray, known)), "categories are none")
    require(type(model._predictors) is list and all(len(each) == 1 for each in model._predictors), "trees are none")
    for (predictor,) in model._predictors:
        require(_name(predictor) == _PREDICTOR, "a tree is none")
        _check_predictor(predictor)
        nodes = predictor.nodes
        split = nodes["is_leaf"] == 0
        feature = nodes["feature_idx"][split].astype(np.int64)
        require(bool(((feature >= 0) & (feature < columns)).all()), "a tree splits by a column that is none")
        sorts = feature[nodes["is_categorical"][split] != 0]
        require(bool((by_category[sorts] != 0).all()), "a tree splits by categories of a column that has none")
    return model._preprocessor is None


def _check_predictor(predictor: Any) -> None:
    nodes = predictor.nodes
    require(isinstance(nodes, np.ndarray) and nodes.ndim == 1 and len(nodes) > 0, "a tree is none")
    split, place = nodes["is_leaf"] == 0, np.arange(len(nodes))
    for child in (nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)):
        require(bool((~split | ((child > place) & (child < len(nodes)))).all()), "a tree is none")
    by_category = split & (nodes["is_categorical"] != 0)
    tables = predictor.raw_left_cat_bitsets, predictor.binned_left_cat_bitsets
    require(all(isinstance(t, np.ndarray) and t.ndim == 2 and t.shape[1] == 8 for t in tables), "a tree is none")
    rows = min(len(table) for table in tables)
    require(bool((nodes["bitset_idx"][by_category].astype(np.int64) < rows).all()), "a tree lacks categories")


def _check_neighbours(model: Any) -> bool:
    rows = model._fit_X
    require(isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind == "f", "neighbours have no rows")
    require(bool(np.isfinite(rows).all()), "neighbours have rows that are none")
    require(rows.shape[1] == model.n_features_in_ and len(rows) == model.n_samples_fit_, "neighbours have other rows")
    require(whole(1, len(rows))(model.n_neighbors) and len(model._y) == len(rows), "neighbours are none")
    require(model._fit_method in ("kd_tree", "ball_tree", "brute"), "neighbours are none")
    if model._fit_method != "brute":
        require(_name(model._tree) in _INDICES, "an index of neighbours is none")
        require(model._tree.__getstate__()[0].shape == rows.shape, "an index of neighbours has other rows")
    usual = set(model.effective_metric_params_) <= {"p"} and model.metric_params is None
    return model.effective_metric_ in _METRICS and usual


def _check_index(tree: Any) -> bool:
    data, order, nodes, bounds, leaf_size, levels, count, *_, metric, weight = tree.__getstate__()
    rows, columns = data.shape
    require(rows > 0 and columns > 0 and leaf_size >= 1 and weight is None, "an index of neighbours is none")
    require(order.shape == (rows,) and bool(((order >= 0) & (order < rows)).all()), "an index of neighbours is none")
    # Nodes come in levels; an inner one's children are at twice its place.
    require(0 < levels < 64 and count == len(nodes) == 2**levels - 1, "an index of neighbours is none")
    require(bounds.shape[1:] == (count, columns), "an index of neighbours is none")
    require(bounds.shape[0] == (2 if _name(tree) == _INDICES[0] else 1), "an index of neighbours is none")
    first, last = nodes["idx_start"].astype(np.int64), nodes["idx_end"].astype(np.int64)
    require(bool(((first >= 0) & (first <= last) & (last <= rows)).all()), "an index of neighbours is none")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    require(not inner.size or 2 * int(inner.max()) + 2 < count, "an index of neighbours is none")
    # Without one, compiled code would follow a pointer to nothing.
    require(metric is not None, "an index of neighbours is none")
    return _name(metric) == "sklearn.metrics._dist_metrics.EuclideanDistance64"


def _check_support_vectors(model: Any) -> bool:
    if model._sparse is not False or not isinstance(model.kernel, str):
        return False
    require(model.kernel in _SVM_KERNELS, "a kernel is none")
    count = len(model.support_)
    places, vectors, sizes = model.support_, model.support_vectors_, model._n_support
    arrays = (places, vectors, sizes, model._dual_coef_, model._intercept_, model._probA, model._probB)
    require(all(isinstance(part, np.ndarray) for part in arrays), "support vectors are none")
    require(places.shape == (count,) and sizes.shape == (2,), "support vectors are none")
    require(model._dual_coef_.shape == (1, count) and model._intercept_.shape == (1,), "support vectors are none")
    require(model._probA.size == model._probB.size == 0, "support vectors are none")
    if model.kernel == "precomputed":
        rows = model.shape_fit_[0]
        require(rows == model.n_features_in_, "support vectors have other rows")
        require(bool(((places >= 0) & (places < rows)).all()), "support vectors have other rows")
    else:
        require(vectors.shape == (count, model.n_features_in_), "support vectors have other columns")
    return True


def _check_random_state(state: Any) -> None:
    described = state.get_state(legacy=False)
    require(described["bit_generator"] == "MT19937" and 0 <= described["state"]["pos"] <= 624, "a random state is none")


def _check_generator(generator: Any) -> bool:
    return type(generator.bit_generator).__name__ == "PCG64"


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
