"""LightGBM's text is read strictly: what passes cannot lead LightGBM out of its memory."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import lightgbm
import numpy as np
import pytest

import plr
from plr.persistence.boosters import check_booster_text, trees_of
from plr.persistence.schema import MalformedError


def booster(**params):
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(size=(200, 2)), random.integers(0, 40, 200)])
    labels = X[:, 0] + np.isin(X[:, 2], [3, 7, 33])
    given = {"num_leaves": 5, "min_data_per_group": 5, "min_data_in_leaf": 3, "cat_smooth": 1} | params
    given |= {"verbosity": -1, "num_threads": 1}
    return lightgbm.train(given, lightgbm.Dataset(X, labels, categorical_feature=[2]), 6)


@pytest.fixture(scope="module")
def text():
    found = trees_of(booster().model_to_string())
    assert "cat_threshold=" in found
    return found


def test_what_lightgbm_writes_passes(text):
    assert check_booster_text(text) == 3
    for params in (
        {"objective": "huber"},
        {"objective": "quantile", "alpha": 0.3},
        {"monotone_constraints": [1, -1, 0]},
        {"min_data_in_leaf": 190},
        {"zero_as_missing": True},
        {"num_leaves": 2},
    ):
        assert check_booster_text(trees_of(booster(**params).model_to_string())) == 3


def test_linear_trees_are_refused():
    with pytest.raises(MalformedError, match="linear models in their leaves"):
        check_booster_text(trees_of(booster(linear_tree=True).model_to_string()))


def sized(text):
    """Correct the sizes of trees, so that other checks are reached."""
    blocks = re.split(r"(?=^Tree=\d+$)", text.partition("end of trees")[0], flags=re.MULTILINE)[1:]
    return re.sub(r"tree_sizes=.*", "tree_sizes=" + " ".join(str(len(block)) for block in blocks), text)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"left_child=\S+", "left_child=99999"),
        (r"left_child=\S+", "left_child=-99999"),
        (r"left_child=\S+", "left_child=0"),
        (r"split_feature=\S+", "split_feature=3"),
        (r"split_feature=\S+", "split_feature=-1"),
        (r"num_leaves=\d+", "num_leaves=1000000"),
        (r"num_leaves=\d+", "num_leaves=-1"),
        (r"num_cat=\d+", "num_cat=50"),
        (r"num_cat=[1-9]\d*", "num_cat=0"),
        (r"cat_boundaries=0 \d+", "cat_boundaries=0 9999"),
        (r"cat_threshold=\d+", "cat_threshold=1 1"),
        (r"cat_threshold=\d+", "cat_threshold=-1"),
        (r"decision_type=\d+", "decision_type=1"),
        (r"leaf_value=\S+", "leaf_value=nan"),
        (r"leaf_value=\S+", "leaf_value=0x10"),
        (r"leaf_value=\S+ ", "leaf_value="),
        (r"is_linear=0", "is_linear=1"),
        (r"shrinkage=.*", "shrinkage=1\nnum_leaves=3"),
        (r"max_feature_idx=2", "max_feature_idx=200"),
        (r"max_feature_idx=2", "max_feature_idx=1"),
        (r"num_class=1", "num_class=3"),
        (r"num_tree_per_iteration=1", "num_tree_per_iteration=2"),
        (r"version=v4", "version=v9"),
        (r"feature_infos=\S+", "feature_infos=[a:b]"),
        (r"objective=\S+", "objective=regression\nfree=1"),
        (r"end of trees\n", "end of trees\nparameters:\n[machines: here]\n"),
        (r"\A", "x"),
    ],
)
def test_a_text_changed_is_refused(pattern, replacement, text):
    changed, count = re.subn(pattern, replacement, text, count=1)
    assert count == 1
    with pytest.raises(MalformedError):
        check_booster_text(sized(changed))


def test_sizes_that_lie_are_refused(text):
    for wrong in ("5", "5 5", "-1", "99999999999", "1 2 3 4 5 6"):
        with pytest.raises(MalformedError):
            check_booster_text(re.sub(r"tree_sizes=.*", f"tree_sizes={wrong}", text))


FED = """
    import sys, numpy as np, lightgbm
    X = np.random.default_rng(1).normal(size=(50, 3)) * [1, 1, 40]
    for text in sys.stdin.read().split("\\0"):
        try:
            lightgbm.Booster(model_str=text).predict(X, num_threads=1)
        except (lightgbm.basic.LightGBMError, ValueError):
            pass
    print("alive")
"""


def test_what_passes_does_not_crash_lightgbm(text):
    draw = random.Random(0)
    passed = []
    for _ in range(600):
        characters = list(text)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(text.index("Tree=0") if draw.random() < 0.2 else len(text))
            characters[place] = draw.choice("0123456789- .e\n=")
        changed = "".join(characters)
        try:
            check_booster_text(changed)
        except MalformedError:
            continue
        passed.append(changed)
    assert len(passed) > 50
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FED)],
        input="\0".join(passed),
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(plr.__file__).parents[1]), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.strip().endswith("alive")
