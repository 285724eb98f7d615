"""Files of torch modules that are not what they claim: each is refused with one line, and runs nothing."""

from __future__ import annotations

import pickle
import random
from itertools import combinations

import numpy as np
import pytest

from plr import load_model, save_model
from plr.errors import ModelFileError
from support.model_files import Bomb, change_model, members_of, model_of, rebuild, refuses, with_header, written
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


def test_swapped_arrays_are_noticed(file, tmp_path):
    members = members_of(file)
    arrays = [name for name in members if name.startswith("a")]
    first, second = next(
        (one, other)
        for one, other in combinations(arrays, 2)
        if members[one].shape == members[other].shape and members[one].tobytes() != members[other].tobytes()
    )
    written(tmp_path / "swapped", members | {first: members[second], second: members[first]})
    refuses(tmp_path / "swapped", "not what was written", module=make_net)


def module_of(model):
    return model["attributes"]["fields"]["model_"]["fields"]


def state_of(model):
    return module_of(model)["state"]["dict"]


def learner_of(model):
    return model["attributes"]["fields"]["learner_"]["fields"]


def parameter_of(model, name):
    return next(pair for pair in learner_of(model)["parameters"]["dict"] if pair[0] == name)


def set_first(place, value):
    def change(model):
        state_of(model)[0][1]["fields"][place] = value

    return change


HOSTILE = {
    "another shape": (set_first("shape", {"tuple": [4, 4]}), "other|shape"),
    "a larger shape": (set_first("shape", {"tuple": [2**30, 2**30]}), "tensor"),
    "a negative shape": (set_first("shape", {"tuple": [-8, -2]}), "tensor"),
    "no shape": (set_first("shape", 16), "tensor"),
    "many dimensions": (set_first("shape", {"tuple": [8, 2, *[1] * 40]}), "tensor"),
    "another type": (set_first("dtype", "bfloat16"), "tensor"),
    "whole numbers": (set_first("dtype", "int32"), "tensor"),
    "objects": (set_first("dtype", "object"), "tensor"),
    "a type of torch's that is none": (set_first("dtype", "Tensor"), "tensor"),
    "numbers in the file's own words": (set_first("numbers", [1.0, 2.0]), "tensor|nothing uses"),
    "a name with lines": (lambda model: state_of(model)[0].__setitem__(0, "a\nb"), "the state"),
    "a tensor less": (lambda model: state_of(model).pop(), "nothing uses|lacks"),
    "a name of code": (lambda model: module_of(model).update(architecture="os.system\n"), "the architecture"),
    "a device": (lambda model: module_of(model).update(device="meta"), "the device"),
    "no batch": (lambda model: module_of(model).update(batch_size=0), "the batch_size"),
    "a scaling of other columns": (
        lambda model: module_of(model)["reader"]["fields"]["scaling"]["fields"].update(centre=1.0, scale=2.0),
        "scaled by other columns|nothing uses",
    ),
    "features of a type": (lambda model: module_of(model)["reader"]["fields"].update(dtype="load"), "the dtype"),
    "features of another type": (
        lambda model: module_of(model)["reader"]["fields"].update(dtype="float64"),
        "other numbers",
    ),
    "a collate": (lambda model: module_of(model)["reader"]["fields"].update(collate="os.mkdir"), "fields of"),
    "a module": (lambda model: learner_of(model)["parameters"]["dict"].append(["module", "os.mkdir"]), "parameters"),
    "a module kept": (
        lambda model: (
            learner_of(model)["parameters"]["dict"].append(["module", "os.mkdir"]),
            learner_of(model)["left_out"]["dict"].clear(),
        ),
        "the module of a learner",
    ),
    "a checkpoint": (
        lambda model: parameter_of(model, "checkpoint").__setitem__(1, "x"),
        "the checkpoint",
    ),
    "a compiler": (
        lambda model: parameter_of(model, "compile").__setitem__(1, {"dict": [["options", "x"]]}),
        "the compile",
    ),
    "workers": (
        lambda model: parameter_of(model, "loader").__setitem__(1, {"dict": [["num_workers", 10**6]]}),
        "the loader",
    ),
    "another learner": (
        lambda model: model["attributes"]["fields"].update(learner_={"kind": "learner linear", "fields": {}}),
        "do not belong together",
    ),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_files_are_refused(name, file, tmp_path):
    change, match = HOSTILE[name]
    changed = change_model(file, tmp_path / "net.plr", lambda model: change(model) and None)
    refuses(changed, match, module=make_net)


def test_arrays_of_another_type_or_size_are_refused(file, tmp_path):
    name = state_of(model_of(file))[0][1]["fields"]["numbers"]["array"]

    def plant(change):
        return rebuild(file, tmp_path / "planted", lambda members: members.update({name: change(members[name])}))

    refuses(plant(lambda array: array.astype(np.float64)), "tensor", module=make_net)
    refuses(plant(lambda array: array.view(np.int32)), "tensor", module=make_net)
    refuses(plant(lambda array: array[:-1]), "tensor", module=make_net)
    refuses(plant(lambda array: array.reshape(4, 4)), "tensor", module=make_net)
    refuses(plant(lambda _: pickle.dumps(Bomb())), "tensor", module=make_net)
    for what in ({"dtype": "F64"}, {"dtype": "I32"}, {"shape": [4, 4]}):
        lied = with_header(file, tmp_path / "lie", lambda header, what=what: header[name].update(what))
        refuses(lied, module=make_net)
