"""Files of torch modules that are not what they claim: each is refused with one line, and runs nothing."""

from __future__ import annotations

import json
import pickle
import random
from itertools import combinations

import numpy as np
import pytest

from plr import load_model, save_model
from plr.errors import ModelFileError
from support.model_files import Bomb, change_model, members_of, rebuild, refuses, zipped
from support.module_nets import ROWS, fitted, make_net


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("module") / "net.plr"
    save_model(fitted(scale_features=True)[0], path, extra={"a": 1})
    return path


def test_truncated_and_flipped_files(file, tmp_path):
    content = file.read_bytes()
    for length in range(0, len(content), len(content) // 40):
        (tmp_path / "cut").write_bytes(content[:length])
        refuses(tmp_path / "cut", module=make_net)
    expected = load_model(file, module=make_net).predict(ROWS)
    draw = random.Random(0)
    for _ in range(150):
        flipped = bytearray(content)
        flipped[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        (tmp_path / "flipped").write_bytes(flipped)
        try:
            loaded = load_model(tmp_path / "flipped", module=make_net)
        except ModelFileError:
            continue
        np.testing.assert_array_equal(loaded.predict(ROWS), expected)


def test_swapped_members_are_noticed(file, tmp_path):
    members = members_of(file)
    first, second = next(
        (one, other)
        for one, other in combinations(members, 2)
        if len(members[one]) == len(members[other]) and members[one] != members[other]
    )
    swap = {first: second, second: first}
    zipped(tmp_path / "swapped", [(name, members[swap.get(name, name)]) for name in members])
    refuses(tmp_path / "swapped", "not what was written", module=make_net)


def model_of(model):
    return model["attributes"]["model_"]["fields"]


def state_of(model):
    return model_of(model)["state"]["dict"]


def learner_of(model):
    return model["attributes"]["learner_"]["fields"]


def set_first(place, value):
    def change(model):
        state_of(model)[0][1]["tuple"][place] = value

    return change


HOSTILE = {
    "another shape": (set_first(1, {"tuple": [4, 4]}), "other|shape"),
    "a larger shape": (set_first(1, {"tuple": [2**30, 2**30]}), "the state"),
    "a negative shape": (set_first(1, {"tuple": [-8, -2]}), "the state"),
    "no shape": (set_first(1, 16), "the state"),
    "many dimensions": (set_first(1, {"tuple": [8, 2, *[1] * 40]}), "the state"),
    "another type": (set_first(0, "bfloat16"), "the state"),
    "whole numbers": (set_first(0, "int32"), "the state"),
    "objects": (set_first(0, "object"), "the state"),
    "a type of torch's that is none": (set_first(0, "Tensor"), "the state"),
    "numbers in the file's own words": (set_first(2, [1.0, 2.0]), "the state|nothing uses"),
    "a name with lines": (lambda model: state_of(model)[0].__setitem__(0, "a\nb"), "the state"),
    "a tensor less": (lambda model: state_of(model).pop(), "nothing uses|lacks"),
    "a name of code": (lambda model: model_of(model).update(architecture="os.system\n"), "the architecture"),
    "a device": (lambda model: model_of(model).update(device="meta"), "the device"),
    "no batch": (lambda model: model_of(model).update(batch_size=0), "the batch_size"),
    "a scaling of other columns": (
        lambda model: model_of(model)["reader"]["fields"]["scaling"]["fields"].update(centre=1.0, scale=2.0),
        "scaled by other columns|nothing uses",
    ),
    "features of a type": (lambda model: model_of(model)["reader"]["fields"].update(dtype="load"), "the dtype"),
    "features of another type": (
        lambda model: model_of(model)["reader"]["fields"].update(dtype="float64"),
        "other numbers",
    ),
    "a collate": (lambda model: model_of(model)["reader"]["fields"].update(collate="os.mkdir"), "too much"),
    "a module": (lambda model: learner_of(model)["parameters"]["dict"].append(["module", "os.mkdir"]), "parameters"),
    "a module kept": (
        lambda model: (
            learner_of(model)["parameters"]["dict"].append(["module", "os.mkdir"]),
            learner_of(model)["left_out"]["dict"].clear(),
        ),
        "holds a module",
    ),
    "a checkpoint": (
        lambda model: next(p for p in learner_of(model)["parameters"]["dict"] if p[0] == "checkpoint").__setitem__(
            1, "x"
        ),
        "the checkpoint",
    ),
    "a compiler": (
        lambda model: next(p for p in learner_of(model)["parameters"]["dict"] if p[0] == "compile").__setitem__(
            1, {"dict": [["options", "x"]]}
        ),
        "the compile",
    ),
    "workers": (
        lambda model: next(p for p in learner_of(model)["parameters"]["dict"] if p[0] == "loader").__setitem__(
            1, {"dict": [["num_workers", 10**6]]}
        ),
        "the loader",
    ),
    "another learner": (
        lambda model: model["attributes"].update(learner_={"made": "learner linear", "parameters": {}}),
        "its learner is another",
    ),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_files_are_refused(name, file, tmp_path):
    change, match = HOSTILE[name]
    changed = change_model(file, tmp_path / "net.plr", lambda model: change(model) and None)
    refuses(changed, match, module=make_net)


def test_members_of_another_type_or_size_are_refused(file, tmp_path):
    name = members_names(file)[0]

    def told(**changes):
        def describe(manifest):
            manifest["members"][name].update(changes)

        return rebuild(file, tmp_path / "told", lambda _: None, describe=describe)

    refuses(told(dtype="|O"), "of a kind that files do not hold", module=make_net)
    refuses(told(dtype="<f8"), "not as large as it says", module=make_net)
    refuses(told(dtype="<i4"), "the state", module=make_net)
    refuses(told(shape=[4, 4]), "the state", module=make_net)


def members_names(file):
    model = json.loads(members_of(file)["model.json"])
    return [part[1]["tuple"][2]["array"] for part in state_of(model)]


def test_a_pickle_in_place_of_numbers_is_not_read(file, tmp_path):
    name = members_names(file)[0]
    path = rebuild(file, tmp_path / "pickle.plr", lambda members: members.update({name: pickle.dumps(Bomb())}))
    refuses(path, "not as large as it says", module=make_net)
