"""LightGBM's own text of a model, read strictly: LightGBM follows the numbers in it without looking."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from plr.persistence.schema import MalformedError, require

__all__ = ["END", "check_booster_text", "trees_of"]

Numbers = NDArray[np.float64]

END = "end of trees\n"

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
# Bits of a decision type: the split is by categories; and above, how missing entries are known.
_BY_CATEGORY, _MOST_TYPE = 1, 15


def trees_of(model: str) -> str:
    """Return the text of a model up to the end of its trees; what follows has no part in predictions."""
    before, found, _ = model.partition(END)
    require(bool(found), "LightGBM writes models in a way that this version of plr does not know")
    return before + END


def check_booster_text(text: str) -> int:
    """Refuse a text that LightGBM would not have written; return the number of columns that the model wants."""
    header, found, rest = text.partition("\nTree=0\n")
    if not found:
        header, found, rest = text.partition("\n" + END)
    body = (found[1:] + rest).encode()
    columns, sizes = _check_header(header)
    at = 0
    for number, size in enumerate(sizes):
        block, at = body[at : at + size], at + size
        start = b"Tree=%d\n" % number
        require(block.startswith(start) and len(block) == size, "its trees are not where their sizes say")
        _check_tree(block[len(start) :], columns)
    require(body[at:] == END.encode(), "its trees do not end where they should")
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


def _check_tree(block: bytes, columns: int) -> None:
    lines = block[:-3].split(b"\n")
    found = {key.decode("ascii", "replace"): value for key, _, value in (line.partition(b"=") for line in lines)}
    require(found.get("is_linear") == b"0", "its trees have linear models in their leaves, which files do not hold")
    needed = {*_SPLITS, *_LEAVES, *_ALONE}
    known = len(found) == len(lines) and needed <= found.keys() <= needed | {*_CATEGORIES}
    require(known and block.endswith(b"\n\n\n"), "invalid tree: unknown or missing lines")
    leaves, by_category = (int(_read(found, name, 1)[0]) for name in ("num_leaves", "num_cat"))
    require(leaves >= 1 and by_category >= 0, "invalid tree: no leaves")
    _read(found, "shrinkage", 1)
    if leaves == 1:
        # Of a single leaf, LightGBM leaves out all but its value.
        require(by_category == 0, "invalid tree: a leaf with splits")
        found = {name: value for name, value in found.items() if value}
    counts = dict.fromkeys(_LEAVES, leaves) | dict.fromkeys(_SPLITS, max(leaves - 1, 1))
    parts = {name: _read(found, name, count) for name, count in counts.items() if leaves > 1 or name in found}
    require(
        "leaf_value" in parts and bool(np.isfinite(parts["leaf_value"]).all()), "invalid tree: a leaf is not finite"
    )
    if leaves > 1:
        features, types = parts["split_feature"], parts["decision_type"]
        require(bool(((features >= 0) & (features < columns)).all()), "invalid tree: column out of range")
        require(bool(((types >= 0) & (types <= _MOST_TYPE)).all()), "invalid tree: unknown type of split")
        _check_children(parts["left_child"], parts["right_child"], leaves)
        chosen = parts["threshold"][types.astype(np.int64) & _BY_CATEGORY == _BY_CATEGORY]
        _check_categories(found, by_category, chosen)


def _check_children(left: Numbers, right: Numbers, leaves: int) -> None:
    """Check that each split but the first, and each leaf, hangs below one split, and all below the first."""
    once = sorted([*left, *right]) == [*range(-leaves, 0), *range(1, leaves - 1)]
    # LightGBM numbers splits as it makes them, so a way down never comes back.
    down = all(bool(((children < 0) | (children > np.arange(len(children)))).all()) for children in (left, right))
    require(once and down, "invalid tree: child index out of range")


def _check_categories(found: Mapping[str, bytes], count: int, chosen: Numbers) -> None:
    has = len(found.keys() & {*_CATEGORIES})
    require(has == (2 if count else 0) and (count > 0 or not chosen.size), "invalid tree: categories missing")
    if count:
        bounds, words = _read(found, "cat_boundaries", count + 1), _read(found, "cat_threshold")
        right = bounds[0] == 0 and (np.diff(bounds) >= 1).all() and len(words) == bounds[-1]
        require(bool(right and ((words >= 0) & (words < 2**32)).all()), "invalid tree: categories out of range")
        inside = (chosen >= 0) & (chosen < count) & (chosen == np.floor(chosen))
        require(bool(inside.all()), "invalid tree: categories out of range")


def _read(found: Mapping[str, bytes], name: str, count: int | None = None) -> Numbers:
    line = found[name]
    right = count in (None, line.count(b" ") + 1) and (_WHOLE if name in _WHOLES else _REAL).fullmatch(line)
    if not right:
        raise MalformedError(f"invalid tree: {name} has invalid numbers, or too few")
    return np.array(line.split(b" "), dtype=np.float64)
