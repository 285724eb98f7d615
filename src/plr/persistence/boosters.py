"""LightGBM's models: their own text, and what scikit-learn's interface to them says beside it.

Only what LightGBM documents is read, and nothing is set: a fitted regressor comes back as a `StoredRegressor`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted

from plr.persistence.schema import MalformedError, hold, in_one_line, matches, require

if TYPE_CHECKING:
    import lightgbm

__all__ = ["StoredBooster", "StoredRegressor", "check_booster_text", "trees_of"]

Numbers = NDArray[np.float64]
Tree = Mapping[str, bytes]

_END = "end of trees\n"

_REALS = rb"(?:-?\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?|-?inf|-?nan)"
_WHOLE, _REAL = re.compile(rb"-?\d{1,18}(?: -?\d{1,18})*"), re.compile(rb"%b(?: %b)*" % (_REALS, _REALS))
_HEADER = {
    "version": re.compile(r"v[34]"),
    "num_class": re.compile(r"1"),
    "num_tree_per_iteration": re.compile(r"1"),
    "label_index": re.compile(r"0"),
    "max_feature_idx": re.compile(r"\d{1,9}"),
    "feature_names": re.compile(r"\S+( \S+)*"),
    "feature_infos": re.compile(r"\S+( \S+)*"),
    "tree_sizes": re.compile(r"(\d{1,18}( \d{1,18})*)?"),
    "objective": re.compile(r"[a-z0-9_]+( [a-z0-9_]+(:[0-9a-z.+-]+)?)*"),
    "monotone_constraints": re.compile(r"(-1|0|1)( (-1|0|1))*"),
}
_INFO = re.compile(r"none|\[[-+0-9.einfa]+:[-+0-9.einfa]+\]|-?\d{1,18}(:-?\d{1,18})*")
_MAY_LACK = {"objective", "monotone_constraints"}
# What a tree says of each split and of each leaf, in whole numbers or in any, and of itself and its categories.
_WHOLE_SPLITS = ("split_feature", "decision_type", "left_child", "right_child", "internal_count")
_SPLITS = (*_WHOLE_SPLITS, "split_gain", "threshold", "internal_value", "internal_weight")
_LEAVES = ("leaf_value", "leaf_weight", "leaf_count")
_ALONE = ("num_leaves", "num_cat", "is_linear", "shrinkage")
_CATEGORIES = ("cat_boundaries", "cat_threshold")
_WHOLES = {*_WHOLE_SPLITS, *_CATEGORIES, "leaf_count", "num_leaves", "num_cat"}
_NEEDED = {*_SPLITS, *_LEAVES, *_ALONE}
# Bits of a decision type: the split is by categories; and above, how missing entries are known.
_BY_CATEGORY, _MOST_TYPE = 1, 15

# Parameters that LightGBM knows besides those that the regressor names. Not all are kept: what is read from a file is
# handed to LightGBM with every prediction, and there are some that tell it to read other files, or not to look where it
# steps.
_MORE = (
    "alpha bagging_seed cat_l2 cat_smooth deterministic extra_trees feature_fraction_bynode feature_fraction_seed "
    "force_col_wise force_row_wise max_bin max_cat_threshold max_cat_to_onehot min_data_in_bin min_data_per_group "
    "path_smooth seed verbose verbosity"
)
# A name must be one word: LightGBM is given all parameters in one line.
_WORD = re.compile(r"[A-Za-z0-9_]{1,40}")
_MOST_JOBS = 1024


@dataclass(frozen=True)
class StoredBooster:
    """A booster as a file holds it: the text of its trees, and the categories of a frame that it was trained on."""

    trees: str
    categories: Any

    @classmethod
    def of(cls, booster: Any) -> StoredBooster:
        """Return what is kept of a booster."""
        trees = trees_of(booster.model_to_string())
        check_booster_text(trees)
        return cls(trees, booster.pandas_categorical)

    def __post_init__(self) -> None:
        columns = [] if self.categories is None else self.categories
        right = isinstance(columns, list) and all(isinstance(column, list) for column in columns)
        entries = [entry for column in columns for entry in column] if right else []
        right = right and all(isinstance(entry, str | int | float | bool | None) for entry in entries)
        require(right, "categories must be texts and numbers")

    def restore(self) -> Any:
        """Return a booster again, after a strict look at its text."""
        import lightgbm

        columns = check_booster_text(self.trees)
        given = f"{self.trees}\npandas_categorical:{json.dumps(self.categories)}\n"
        try:
            booster = lightgbm.Booster(model_str=given)
        except (lightgbm.basic.LightGBMError, ValueError) as error:
            raise MalformedError(f"LightGBM cannot read its trees ({in_one_line(error)})", {"lightgbm"}) from error
        require(booster.num_feature() == columns, "its trees have other columns than they say")
        return booster


@dataclass(frozen=True, eq=False)
class StoredRegressor:
    """A fitted ``LGBMRegressor`` that was read from a file; it predicts what the one that was written did, to the bit.

    Attributes
    ----------
    parameters : dict
        Those of the ``LGBMRegressor``.
    booster_ : lightgbm.Booster or None
        None where it is not fitted; it then comes back as an ``LGBMRegressor``.
    best_iteration_ : int
    objective_ : str or None
    named : bool
        Whether it was fitted to columns with names.
    """

    parameters: dict[str, Any]
    booster_: lightgbm.Booster | None
    best_iteration_: int
    objective_: str | None
    named: bool

    @classmethod
    def of(cls, regressor: Any) -> StoredRegressor:
        """Return what is kept of an ``LGBMRegressor``."""
        parameters = regressor.get_params(deep=False)
        try:
            check_is_fitted(regressor)
        except NotFittedError:
            return cls(parameters, None, 0, None, False)
        named = hasattr(regressor, "feature_names_in_")
        return cls(parameters, regressor.booster_, int(regressor.best_iteration_), regressor.objective_, named)

    def __post_init__(self) -> None:
        import lightgbm

        known = {*_MORE.split(), *inspect.signature(lightgbm.LGBMRegressor).parameters} - {"self", "kwargs"}
        for name, value in self.parameters.items():
            require(name in known, f"files do not hold LightGBM's parameter {name!r}")
            plain = isinstance(value, bool | None) or matches(value, float)
            plain = plain or (isinstance(value, str) and _WORD.fullmatch(value) is not None)
            require(plain, f"the {name} of LGBMRegressor is neither a number nor a name, and files hold nothing else")
        jobs = self.parameters.get("n_jobs")
        few = jobs is None or (matches(jobs, int) and abs(jobs) <= _MOST_JOBS)
        require(few, f"n_jobs must be at most {_MOST_JOBS}")
        require(self.objective_ is None or _WORD.fullmatch(self.objective_) is not None, "invalid objective")

    def restore(self) -> Any:
        """Return the regressor, or one of LightGBM's where it is not fitted."""
        import lightgbm

        return lightgbm.LGBMRegressor(**self.parameters) if self.booster_ is None else self

    @property
    def _fitted(self) -> Any:
        return self.booster_

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return self._fitted.num_feature()

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns."""
        if not self.named:
            raise AttributeError("It was fitted to columns without names.")
        return np.array(self._fitted.feature_name())

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return one prediction per row."""
        rows = X if hasattr(X, "columns") else check_array(X, accept_sparse=True, ensure_all_finite=False)
        jobs = self.parameters.get("n_jobs")
        return self._fitted.predict(rows, num_threads=effective_n_jobs(jobs) if jobs is not None else 0)


def trees_of(model: str) -> str:
    """Return the text of a model up to the end of its trees; what follows has no part in predictions."""
    before, found, _ = model.partition(_END)
    require(bool(found), "LightGBM writes models in a way that this version of plr does not know")
    return before + _END


def check_booster_text(text: str) -> int:
    """Refuse a text that LightGBM would not have written; return the number of columns that the model wants."""
    header, found, rest = text.partition("\nTree=0\n")
    if not found:
        header, found, rest = text.partition("\n" + _END)
    body = (found[1:] + rest).encode()
    columns, sizes = _check_header(header)
    trees, at = [], 0
    for number, size in enumerate(sizes):
        block, at = body[at : at + size], at + size
        start = b"Tree=%d\n" % number
        require(block.startswith(start) and len(block) == size, "its trees are not where their sizes say")
        trees.append(_lines_of(block[len(start) :]))
    require(body[at:] == _END.encode(), "its trees do not end where they should")
    if trees:
        _check_trees(trees, columns)
    return columns


def _check_header(header: str) -> tuple[int, list[int]]:
    first, *lines = header.rstrip("\n").split("\n")
    found = {key: value for key, _, value in (line.partition("=") for line in lines)}
    known = first == "tree" and len(found) == len(lines) and found.keys() <= _HEADER.keys() <= found.keys() | _MAY_LACK
    require(known, "the header of its trees is not LightGBM's")
    for key, value in found.items():
        right = _HEADER[key].fullmatch(value) is not None and value.isprintable()
        require(right, f"the header of its trees has an invalid {key}")
    require(all(map(_INFO.fullmatch, found["feature_infos"].split(" "))), "its trees have invalid columns")
    columns = int(found["max_feature_idx"]) + 1
    by_column = [found[key] for key in ("feature_names", "feature_infos", "monotone_constraints") if key in found]
    require({value.count(" ") + 1 for value in by_column} == {columns}, "its trees name other columns than they use")
    return columns, [int(size) for size in found["tree_sizes"].split()]


def _lines_of(block: bytes) -> dict[str, bytes]:
    """Return what a tree says, by name."""
    lines = block[:-3].split(b"\n")
    found = {key.decode("ascii", "replace"): value for key, _, value in (line.partition(b"=") for line in lines)}
    require(found.get("is_linear") == b"0", "its trees have linear models in their leaves, which files do not hold")
    known = len(found) == len(lines) and _NEEDED <= found.keys() <= _NEEDED | {*_CATEGORIES}
    require(known and block.endswith(b"\n\n\n"), "invalid tree: unknown or missing lines")
    return found


def _check_trees(trees: Sequence[Tree], columns: int) -> None:
    """Check the numbers of all trees at once."""
    ones = np.ones(len(trees))
    leaves, by_category, _ = (_read(trees, name, ones) for name in ("num_leaves", "num_cat", "shrinkage"))
    hold("invalid tree: no leaves", (leaves >= 1) & (by_category >= 0))
    parts = {name: _read(trees, name, leaves) for name in _LEAVES}
    parts |= {name: _read(trees, name, leaves - 1) for name in _SPLITS}
    hold("invalid tree: a leaf is not finite", np.isfinite(parts["leaf_value"]))
    features, types = parts["split_feature"], parts["decision_type"]
    hold("invalid tree: column out of range", (features >= 0) & (features < columns))
    hold("invalid tree: unknown type of split", (types >= 0) & (types <= _MOST_TYPE))
    splits = (leaves - 1).astype(np.int64)
    _check_children(np.stack([parts["left_child"], parts["right_child"]]), splits)
    ends = np.cumsum(splits)[:-1]
    is_chosen = np.split(types.astype(np.int64) & _BY_CATEGORY == _BY_CATEGORY, ends)
    thresholds = np.split(parts["threshold"], ends)
    for tree, count, threshold, chosen in zip(trees, by_category, thresholds, is_chosen, strict=True):
        _check_categories(tree, int(count), threshold[chosen])


def _check_children(children: Numbers, splits: NDArray[np.int64]) -> None:
    """Check that each split but the first, and each leaf, hangs below one split of its tree, and all below the first.

    Leaves are numbered -1, -2, ..., one more than there are splits.
    """
    tree = np.repeat(np.arange(len(splits)), splits)
    place = np.arange(len(tree)) - np.repeat(np.cumsum(splits) - splits, splits)
    # LightGBM numbers splits as it makes them, so a way down never comes back.
    below = (children < splits[tree]) & ((children > place) | ((children < 0) & (children >= -1 - splits[tree])))
    once = np.unique(children + 3.0 * splits.max() * tree).size == children.size
    hold("invalid tree: child index out of range", once, below)


def _check_categories(tree: Tree, count: int, chosen: Numbers) -> None:
    has = len(tree.keys() & {*_CATEGORIES})
    require(has == (2 if count else 0) and (count > 0 or not chosen.size), "invalid tree: categories missing")
    if count:
        bounds = _read([tree], "cat_boundaries", np.array([count + 1]))
        words = _read([tree], "cat_threshold", bounds[-1:])
        what = "invalid tree: categories out of range"
        hold(what, bounds[0] == 0, np.diff(bounds) >= 1, words >= 0, words < 2**32)
        hold(what, chosen >= 0, chosen < count, chosen == np.floor(chosen))


def _read(trees: Sequence[Tree], name: str, counts: NDArray[Any]) -> Numbers:
    """Return the numbers in one line of each tree, one tree after another; ``counts`` says how many each has."""
    lines = [tree[name] for tree in trees]
    joined = b" ".join(filter(None, lines))
    found = np.array([line.count(b" ") + 1 if line else 0 for line in lines])
    # Of a single leaf, LightGBM writes the value alone.
    left_out = (found == 0) & (counts == 1) & (name in ("leaf_weight", "leaf_count"))
    matched = not joined or (_WHOLE if name in _WHOLES else _REAL).fullmatch(joined)
    hold(f"invalid tree: {name} has invalid numbers, or too few", (found == counts) | left_out, bool(matched))
    return np.fromstring(joined, sep=" ")
