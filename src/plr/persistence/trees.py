"""Regression trees as arrays: what scikit-learn's compiled trees know, without a pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import MATRIX
from plr.persistence.compiled import BAD_TREE, check_children
from plr.persistence.schema import hold

__all__ = ["StoredTree"]

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
    values: Floats = field(metadata=MATRIX)

    def __post_init__(self) -> None:
        leaf = self.left == _NO_CHILD
        lengths = {len(part) for part in (self.left, self.right, self.feature, self.threshold)}
        hold("invalid tree: its arrays differ in length", lengths == {len(leaf)} != {0}, leaf.sum() == len(self.values))
        hold(BAD_TREE, leaf == (self.right == _NO_CHILD), self.feature >= 0)
        check_children(self.left, self.right, ~leaf)

    @classmethod
    def of(cls, tree: Any) -> StoredTree:
        """Return one of scikit-learn's trees as arrays."""
        left = np.asarray(tree.children_left, dtype=np.int32)
        leaf = left == _NO_CHILD
        feature, threshold = np.where(leaf, 0, tree.feature).astype(np.int32), np.where(leaf, 0.0, tree.threshold)
        values = np.asarray(tree.value)[leaf].reshape(int(leaf.sum()), -1)
        return cls(left, np.asarray(tree.children_right, dtype=np.int32), feature, threshold, values)

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
