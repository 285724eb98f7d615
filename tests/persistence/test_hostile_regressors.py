"""Regressors of others inside a file: names nobody trusts, bombs, trees that lead astray."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVR

from plr import PartialLabelRegressor, load_model, save_model
from plr.learners import Refit
from support.model_files import Bomb, problem, rebuild, refuses, zip_members, zipped


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
        inner = zip_members(io.BytesIO(members[name]))
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

    refuses(with_regressor(forest, tmp_path / "asks", ask), r"not trusted: os\.system\.")


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

    refuses(with_regressor(forest, tmp_path / "astray", astray), "invalid tree")


def wrapped(regressor, path):
    X, S = problem()
    save_model(PartialLabelRegressor(Refit(regressor, cv=2, max_rounds=1), "average", random_state=0).fit(X, S), path)
    return path


def with_array(path, target, is_it, change):
    """Write the file anew after ``change`` of the arrays of a regressor that ``is_it`` finds."""

    def in_inner(inner):
        found = 0
        for name in [name for name in inner if name.endswith(".npy")]:
            array = np.load(io.BytesIO(inner[name]))
            if is_it(array):
                content = io.BytesIO()
                np.save(content, change(array))
                inner[name] = content.getvalue()
                found += 1
        assert found

    return with_regressor(path, target, in_inner)


def test_support_vectors_are_as_many_as_their_places(tmp_path):
    pytest.importorskip("skops")
    path = wrapped(SVR(), tmp_path / "svr.plr")
    # Once followed, this ended the interpreter with exit code 139.
    longer = with_array(
        path,
        tmp_path / "long",
        lambda a: a.dtype == np.int32 and a.ndim == 1 and len(a) > 2,
        lambda a: np.resize(a, 1_000_000),
    )
    refuses(longer, "invalid support vectors")
    narrow = with_array(
        path, tmp_path / "narrow", lambda a: a.ndim == 2 and a.shape[1] == 2, lambda a: np.ascontiguousarray(a[:, :1])
    )
    refuses(narrow, "support vectors have other columns")


def test_neighbours_have_bounds_for_every_node(tmp_path):
    pytest.importorskip("skops")
    path = wrapped(KNeighborsRegressor(algorithm="kd_tree", leaf_size=3), tmp_path / "neighbours.plr")
    refuses(with_array(path, tmp_path / "bounds", lambda a: a.ndim == 3, lambda a: a[:, :1]), "index of neighbours")


def test_numbers_that_ask_for_memory_or_time_are_refused(tmp_path):
    pytest.importorskip("skops")
    path = wrapped(KNeighborsRegressor(n_jobs=3), tmp_path / "neighbours.plr")

    def ask(inner):
        schema = json.loads(inner["schema.json"])
        schema["content"]["content"]["n_jobs"]["content"] = "1000000000"
        inner["schema.json"] = json.dumps(schema).encode()

    refuses(with_regressor(path, tmp_path / "jobs", ask), "n_jobs")


def test_one_array_is_not_read_again_and_again(forest, tmp_path):
    def repeat(inner):
        schema = json.loads(inner["schema.json"])
        node = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy"}
        file = next(name for name in inner if name.endswith(".npy"))
        schema["content"]["content"]["more"] = {
            "__class__": "list",
            "__module__": "builtins",
            "__loader__": "ListNode",
            "__id__": 1,
            "content": [{**node, "__id__": number, "file": file} for number in range(2, 1000)],
        }
        inner["schema.json"] = json.dumps(schema).encode()

    refuses(with_regressor(forest, tmp_path / "echo", repeat), "an array is named twice")


UNCHECKED = {
    "sklearn.preprocessing._polynomial.PolynomialFeatures": make_pipeline(PolynomialFeatures(2), Ridge()),
    "sklearn.ensemble._gb.GradientBoostingRegressor": GradientBoostingRegressor(n_estimators=2, init=Ridge()),
    "sklearn.neighbors._regression.KNeighborsRegressor": KNeighborsRegressor(metric="cosine"),
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_what_cannot_be_checked_must_be_trusted(name, tmp_path):
    pytest.importorskip("skops")
    path = wrapped(UNCHECKED[name], tmp_path / "model.plr")
    refuses(path, f"{name}.*with trusted")
    X, _ = problem()
    assert load_model(path, trusted=[name]).predict(X).shape == (60,)
