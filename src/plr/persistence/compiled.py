"""Objects of scikit-learn whose compiled code follows indices without looking: looked at here, once, when read."""

from __future__ import annotations

from typing import Any

import numpy as np

from plr.persistence.kinds import MalformedError, require

__all__ = ["check_compiled"]

_DEEPEST = 60


def check_compiled(found: Any) -> None:
    """Refuse an object that contains a tree, or an index of neighbours, that is none."""
    _walk(found, set(), 0, None)


def _walk(part: Any, seen: set[int], depth: int, columns: int | None) -> None:
    if id(part) in seen or isinstance(part, str | bytes | int | float | bool | type(None)):
        return
    seen.add(id(part))
    if depth > _DEEPEST:
        raise MalformedError("one of its regressors is nested too deep")
    name = f"{type(part).__module__}.{type(part).__qualname__}"
    if name == "sklearn.tree._tree.Tree":
        _check_tree(part, columns)
    elif name.endswith("_hist_gradient_boosting.predictor.TreePredictor"):
        _check_predictor(part, columns)
    elif name in ("sklearn.neighbors._kd_tree.KDTree", "sklearn.neighbors._ball_tree.BallTree"):
        _check_neighbours(part)
    if isinstance(part, np.ndarray):
        inside = list(part.ravel()) if part.dtype == object else []
    elif isinstance(part, list | tuple | set | frozenset):
        inside = list(part)
    elif isinstance(part, dict):
        inside = [*part.keys(), *part.values()]
    else:
        inside = list(getattr(part, "__dict__", {}).values())
        # A tree is asked with rows of as many columns as the model around it was fitted to.
        own = vars(part).get("n_features_in_") if inside else None
        columns = int(own) if isinstance(own, int | np.integer) else columns
    for entry in inside:
        _walk(entry, seen, depth + 1, columns)


def _check_tree(tree: Any, columns: int | None) -> None:
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    place, leaf = np.arange(len(left)), left == -1
    require(len(left) > 0 and bool((leaf == (right == -1)).all()), "a tree lacks leaves")
    for child in (left, right):
        require(bool((leaf | ((child > place) & (child < len(left)))).all()), "a tree is none")
    limit = tree.n_features if columns is None else min(tree.n_features, columns)
    feature = np.asarray(tree.feature)
    require(bool((leaf | ((feature >= 0) & (feature < limit))).all()), "a tree splits by a column that is none")
    require(len(np.asarray(tree.value)) == len(left), "a tree lacks values")


def _check_predictor(predictor: Any, columns: int | None) -> None:
    nodes = predictor.nodes
    require(isinstance(nodes, np.ndarray) and nodes.dtype.names is not None and len(nodes) > 0, "a tree is none")
    split, place = nodes["is_leaf"] == 0, np.arange(len(nodes))
    for child in (nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)):
        require(bool((~split | ((child > place) & (child < len(nodes)))).all()), "a tree is none")
    limit = 2**31 if columns is None else columns
    feature = nodes["feature_idx"].astype(np.int64)
    require(bool((~split | ((feature >= 0) & (feature < limit))).all()), "a tree splits by a column that is none")
    by_category = split & (nodes["is_categorical"] != 0)
    tables = predictor.raw_left_cat_bitsets, predictor.binned_left_cat_bitsets
    require(all(isinstance(t, np.ndarray) and t.ndim == 2 and t.shape[1] == 8 for t in tables), "a tree is none")
    rows = min(len(table) for table in tables)
    require(bool((nodes["bitset_idx"][by_category].astype(np.int64) < rows).all()), "a tree lacks categories")


def _check_neighbours(tree: Any) -> None:
    data, order, nodes, _ = (np.asarray(part) for part in tree.get_arrays())
    rows = len(data)
    require(order.shape == (rows,) and bool(((order >= 0) & (order < rows)).all()), "an index of neighbours is none")
    first, last = nodes["idx_start"].astype(np.int64), nodes["idx_end"].astype(np.int64)
    require(bool(((first >= 0) & (first <= last) & (last <= rows)).all()), "an index of neighbours is none")
    # Nodes come in levels; an inner one's children are at twice its place.
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    require(not inner.size or 2 * int(inner.max()) + 2 < len(nodes), "an index of neighbours is none")
