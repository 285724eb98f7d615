"""Regression trees as arrays: what scikit-learn's compiled trees know, without a pickle."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.persistence.kinds import require

__all__ = ["StoredTree", "joined", "separated"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.int32]

_NO_CHILD = -1


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

    left: Numbers
    right: Numbers
    feature: Numbers
    threshold: Floats
    values: Floats

    def predict(self, X: NDArray[np.float32]) -> Floats:
        """Return each row's leaf."""
        node = np.zeros(len(X), dtype=np.int64)
        moving = np.arange(len(X) if self.left[0] != _NO_CHILD else 0)
        while moving.size:
            at = node[moving]
            goes_left = X[moving, self.feature[at]] <= self.threshold[at]
            node[moving] = np.where(goes_left, self.left[at], self.right[at])
            moving = moving[self.left[node[moving]] != _NO_CHILD]
        leaf = np.cumsum(self.left == _NO_CHILD) - 1
        return self.values[leaf[node]]


def joined(trees: tuple[Any, ...]) -> dict[str, NDArray[Any]]:
    """Return several trees, of scikit-learn's or of this kind, as a few arrays with one tree after the other."""
    parts = [tree if isinstance(tree, StoredTree) else _of_scikit_learn(tree) for tree in trees]
    found: dict[str, NDArray[Any]] = {"nodes": np.array([len(part.left) for part in parts], dtype=np.int64)}
    for name in ("left", "right", "feature", "threshold", "values"):
        found[name] = np.concatenate([getattr(part, name) for part in parts])
    return found


def separated(fields: dict[str, Any]) -> tuple[StoredTree, ...]:
    """Return the trees from these arrays, after a look at whether they are trees."""
    nodes, left, right = fields["nodes"], fields["left"], fields["right"]
    feature, threshold, values = fields["feature"], fields["threshold"], fields["values"]
    total = len(left)
    require(len(nodes) > 0 and bool((nodes >= 1).all() and (nodes <= total).all()), "a forest has no trees")
    require(sum(nodes.tolist()) == total == len(right) == len(feature) == len(threshold), "a forest has gaps")
    is_leaf = left == _NO_CHILD
    require(bool((is_leaf == (right == _NO_CHILD)).all()) and int(is_leaf.sum()) == len(values), "a tree lacks leaves")
    split = ~is_leaf
    require(bool((feature >= 0).all()), "a tree splits by a column that is none")
    # Children come after their parents, so a way down never comes back.
    ends = np.cumsum(nodes)
    place = np.arange(total) - np.repeat(ends - nodes, nodes)
    size = np.repeat(nodes, nodes)
    for child in (left, right):
        require(bool(((child > place) & (child < size))[split].all()), "a tree is none")
    leaves = np.concatenate([[0], np.cumsum(is_leaf)])
    found = []
    for first, last in pairwise([0, *ends.tolist()]):
        span = slice(first, last)
        leaf = slice(int(leaves[first]), int(leaves[last]))
        found.append(StoredTree(left[span], right[span], feature[span], threshold[span], values[leaf]))
    return tuple(found)


def _of_scikit_learn(tree: Any) -> StoredTree:
    left = np.asarray(tree.children_left, dtype=np.int32)
    right = np.asarray(tree.children_right, dtype=np.int32)
    leaf = left == _NO_CHILD
    feature = np.where(leaf, 0, tree.feature).astype(np.int32)
    threshold = np.where(leaf, 0.0, tree.threshold)
    return StoredTree(left, right, feature, threshold, np.asarray(tree.value)[leaf].reshape(int(leaf.sum()), -1))
