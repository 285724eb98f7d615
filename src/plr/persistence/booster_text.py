"""LightGBM's own text of a model, read strictly: LightGBM follows the numbers in it without looking."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from plr.persistence.kinds import MalformedError, require

__all__ = ["END", "check_booster_text", "trees_of"]

END = "end of trees\n"

_WHOLE = re.compile(rb"-?\d{1,18}( -?\d{1,18})*")
_REAL = re.compile(rb"(-?\d+(\.\d+)?(e[+-]?\d{1,3})?|-?inf|-?nan)( (-?\d+(\.\d+)?(e[+-]?\d{1,3})?|-?inf|-?nan))*")
_INFO = re.compile(r"none|\[[-+0-9.e]+:[-+0-9.e]+\]|-?\d{1,18}(:-?\d{1,18})*|\[-?inf:-?inf\]|\[-?nan:-?nan\]")
_OBJECTIVE = re.compile(r"[a-z0-9_]+( [a-z0-9_]+(:[0-9a-z.+-]+)?)*")

_HEADER = {
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "feature_names",
    "feature_infos",
    "tree_sizes",
}
_MORE = {"objective", "monotone_constraints"}
# What a tree says of each split, of each leaf, and of its categories: whole numbers, or any.
_SPLITS = {
    "split_feature": True,
    "split_gain": False,
    "threshold": False,
    "decision_type": True,
    "left_child": True,
    "right_child": True,
    "internal_value": False,
    "internal_weight": False,
    "internal_count": True,
}
_LEAVES = {"leaf_value": False, "leaf_weight": False, "leaf_count": True}
_CATEGORIES = ("cat_boundaries", "cat_threshold")
_ALONE = ("num_leaves", "num_cat", "is_linear", "shrinkage")
# Bits of a decision type: the split is by categories; and above, how missing entries are known.
_BY_CATEGORY, _MOST_TYPE = 1, 15


def trees_of(model: str) -> str:
    """Return the text of a model up to the end of its trees; what follows has no part in predictions."""
    before, found, _ = model.partition(END)
    if not found:
        raise MalformedError("LightGBM writes models in a way that this version of plr does not know")
    return before + END


def check_booster_text(text: str) -> int:
    """Refuse a text that LightGBM would not have written; return the number of columns that the model wants."""
    header, found, rest = text.partition("\nTree=0\n")
    if not found:
        header, found, rest = text.partition("\n" + END)
        body = found[1:].encode() + rest.encode()
    else:
        body = found[1:].encode() + rest.encode()
    columns, sizes = _check_header(header)
    at = 0
    for number, size in enumerate(sizes):
        block = body[at : at + size]
        require(block.startswith(b"Tree=%d\n" % number), "its trees are not where their sizes say")
        require(len(block) == size, "its trees are not as many as their sizes say")
        _check_tree(block[block.index(b"\n") + 1 :], columns)
        at += size
    require(body[at:] == END.encode(), "its trees do not end where they should")
    return columns


def _check_header(header: str) -> tuple[int, list[int]]:
    lines = header.rstrip("\n").split("\n")
    require(lines[0] == "tree", "its trees have no beginning")
    pairs = [line.partition("=") for line in lines[1:]]
    found = {key: value for key, _, value in pairs}
    require(len(found) == len(pairs) and found.keys() - _MORE == _HEADER, "its trees have another beginning")
    require(found["version"] in ("v3", "v4"), "its trees are of another version of LightGBM")
    require(found["num_class"] == found["num_tree_per_iteration"] == "1", "its trees are for several outputs")
    require(found["label_index"] == "0", "its trees have a label that is none")
    columns = int(_whole(found["max_feature_idx"].encode(), 1)[0]) + 1
    names, infos = found["feature_names"].split(" "), found["feature_infos"].split(" ")
    require(columns == len(names) == len(infos), "its trees name other columns than they use")
    require(all(name and name.isprintable() for name in names), "its trees have names that are none")
    require(all(_INFO.fullmatch(info) for info in infos), "its trees have columns that are none")
    require(
        _OBJECTIVE.fullmatch(found.get("objective", "none")) is not None, "its trees have an objective that is none"
    )
    if "monotone_constraints" in found:
        directions = _whole(found["monotone_constraints"].encode(), columns)
        require(bool((np.abs(directions) <= 1).all()), "its trees have directions that are none")
    sizes = found["tree_sizes"].encode()
    return columns, [] if not sizes else [int(size) for size in _whole(sizes, sizes.count(b" ") + 1)]


def _check_tree(block: bytes, columns: int) -> None:
    require(block.endswith(b"\n\n\n"), "a tree does not end")
    pairs = [line.partition(b"=") for line in block[:-3].split(b"\n")]
    found = {key.decode("ascii", "replace"): value for key, _, value in pairs}
    require(found.get("is_linear") == b"0", "its trees have linear models in their leaves, which files do not hold")
    known = {*_SPLITS, *_LEAVES, *_CATEGORIES, *_ALONE}
    require(len(found) == len(pairs) and found.keys() <= known, "a tree says what no tree says")
    require(found.keys() >= known - {*_CATEGORIES}, "a tree lacks something")
    leaves, by_category = int(_whole(found["num_leaves"], 1)[0]), int(_whole(found["num_cat"], 1)[0])
    require(leaves >= 1 and by_category >= 0, "a tree has no leaves")
    _real(found["shrinkage"], 1)
    if leaves == 1:
        # Of a single leaf, LightGBM leaves out all but its value.
        require(by_category == 0, "a leaf has splits")
        require(bool(np.isfinite(_real(found["leaf_value"], 1)).all()), "a leaf is not finite")
        for name in (*_SPLITS, "leaf_weight", "leaf_count"):
            if found[name]:
                _read(found, name, {**_SPLITS, **_LEAVES}[name], 1)
        return
    for name, is_whole in _LEAVES.items():
        values = _read(found, name, is_whole, leaves)
        require(name != "leaf_value" or bool(np.isfinite(values).all()), "a leaf is not finite")
    splits = {name: _read(found, name, is_whole, leaves - 1) for name, is_whole in _SPLITS.items()}
    features, kinds = splits["split_feature"], splits["decision_type"]
    require(bool(((features >= 0) & (features < columns)).all()), "a tree splits by a column that is none")
    require(bool(((kinds >= 0) & (kinds <= _MOST_TYPE)).all()), "a tree splits in a way that is none")
    _check_children(splits["left_child"], splits["right_child"], leaves)
    places = splits["threshold"][kinds.astype(np.int64) & _BY_CATEGORY == _BY_CATEGORY]
    _check_categories(found, by_category, places)


def _check_children(left: NDArray[np.float64], right: NDArray[np.float64], leaves: int) -> None:
    """Check that each split but the first, and each leaf, hangs below one split, and all below the first."""
    below = np.concatenate([left, right])
    require(sorted(below) == [*range(-leaves, 0), *range(1, leaves - 1)], "a tree is none")
    for children in (left, right):
        # LightGBM numbers splits as it makes them, so a way down never comes back.
        require(bool(((children < 0) | (children > np.arange(len(children)))).all()), "a tree is none")


def _check_categories(found: Mapping[str, bytes], count: int, places: NDArray[np.float64]) -> None:
    if count == 0:
        require(not places.size and not found.keys() & {*_CATEGORIES}, "a tree splits by categories that it lacks")
        return
    require(found.keys() >= {*_CATEGORIES}, "a tree splits by categories that it lacks")
    bounds = _whole(found["cat_boundaries"], count + 1)
    require(bool(bounds[0] == 0 and (np.diff(bounds) >= 1).all()), "a tree has categories that are none")
    words = found["cat_threshold"]
    values = _whole(words, words.count(b" ") + 1)
    require(len(values) == bounds[-1], "a tree has categories that are none")
    require(bool(((values >= 0) & (values < 2**32)).all()), "a tree has categories that are none")
    inside = (places >= 0) & (places < count) & (places == np.floor(places))
    require(bool(inside.all()), "a tree splits by categories that it lacks")


def _read(found: Mapping[str, bytes], name: str, is_whole: bool, count: int) -> NDArray[np.float64]:
    return _whole(found[name], count).astype(np.float64) if is_whole else _real(found[name], count)


def _whole(line: bytes, count: int) -> NDArray[np.int64]:
    return _numbers(line, count, _WHOLE).astype(np.int64)


def _real(line: bytes, count: int) -> NDArray[np.float64]:
    return _numbers(line, count, _REAL)


def _numbers(line: bytes, count: int, pattern: re.Pattern[bytes]) -> NDArray[np.float64]:
    right = line.count(b" ") + 1 == count and pattern.fullmatch(line) is not None
    require(right, "its trees have numbers that are none, or too few")
    return np.array(line.split(b" "), dtype=np.float64)
