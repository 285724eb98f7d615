"""Regressors of others inside a file: names nobody trusts, bombs, trees that lead astray."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from model_files import Bomb, members_of, problem, rebuild, refuses, zipped
from sklearn.ensemble import RandomForestRegressor

from plr import PartialLabelRegressor, save_model
from plr.learners import Refit


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    pytest.importorskip("skops")
    X, S = problem()
    path = tmp_path_factory.mktemp("forest") / "forest.plr"
    learner = Refit(RandomForestRegressor(2, random_state=0), cv=2, max_rounds=1)
    save_model(PartialLabelRegressor(learner, random_state=0).fit(X, S), path)
    return path


def with_regressor(path, target, change):
    """Write the file anew after ``change`` of the members of what skops has written."""

    def in_members(members):
        name = max((name for name in members if name.startswith("s")), key=lambda name: len(members[name]))
        inner = members_of(io.BytesIO(members[name]))
        change(inner)
        made = io.BytesIO()
        zipped(made, inner.items(), change.__dict__.get("packing", zipfile.ZIP_STORED))
        members[name] = made.getvalue()

    return rebuild(path, target, in_members)


def test_regressors_that_ask_for_code(forest, tmp_path):
    def ask(inner):
        inner["schema.json"] = (
            inner["schema.json"]
            .replace(b'"RandomForestRegressor"', b'"system"')
            .replace(b'"sklearn.ensemble._forest"', b'"os"')
        )

    refuses(with_regressor(forest, tmp_path / "asks", ask), "not trusted: 'os.system'")


def test_regressors_that_are_bombs(forest, tmp_path):
    def packed(inner):
        inner["bomb.npy"] = bytes(100_000_000)

    packed.packing = zipfile.ZIP_DEFLATED
    refuses(with_regressor(forest, tmp_path / "bomb", packed), "packed in a way")

    def huge(inner):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
        inner[next(name for name in inner if name.endswith(".npy"))] = header.getvalue()

    refuses(with_regressor(forest, tmp_path / "huge", huge), "not as large as it says")

    def objects(inner):
        content = io.BytesIO()
        np.save(content, np.array([Bomb()], dtype=object), allow_pickle=True)
        inner[next(name for name in inner if name.endswith(".npy"))] = content.getvalue()

    refuses(with_regressor(forest, tmp_path / "objects", objects), "holds objects")
    refuses(with_regressor(forest, tmp_path / "other", lambda inner: inner.update({"x.py": b"1"})), "does not write")
    refuses(with_regressor(forest, tmp_path / "schema", lambda inner: inner.update({"schema.json": b"{}"})))


def test_trees_of_scikit_learn_that_lead_nowhere(forest, tmp_path):
    def astray(inner):
        for name, content in inner.items():
            if name.endswith(".npy"):
                array = np.load(io.BytesIO(content))
                if array.dtype.names and "left_child" in array.dtype.names:
                    array["left_child"][0] = 10**6
                    changed = io.BytesIO()
                    np.save(changed, array)
                    inner[name] = changed.getvalue()

    refuses(with_regressor(forest, tmp_path / "astray", astray), "a tree is none")
