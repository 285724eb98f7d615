"""Files that are not what they claim: each is refused with one line, runs nothing and allocates nothing large."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import random
import re
import struct
from contextlib import suppress
from itertools import combinations

import numpy as np
import pytest

from plr import PartialLabelRegressor, load_model, save_model
from plr.densities import MODELS
from plr.densities.forest import Forest
from plr.densities.network import DensityNetwork
from plr.errors import ModelFileError
from plr.learners import MLP, Boosting, Density
from plr.persistence import read_manifest
from support.model_files import (
    Bomb,
    change_model,
    members_of,
    model_of,
    problem,
    rebuild,
    refuses,
    with_header,
    written,
    zipped,
)

LEARNERS = {
    "linear": "linear",
    "mlp": MLP(hidden=(3,), epochs=2),
    "boosting": Boosting(trees=3, leaves=3),
    "density": Density(models=["trees", "network"]),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    X, S = problem()
    with pytest.MonkeyPatch.context() as patch:
        # Files are loaded hundreds of times; few trees have all that many have.
        patch.setitem(MODELS, "trees", lambda _: [Forest(rows_per_leaf=5, trees=6)])
        patch.setitem(MODELS, "network", lambda _: [DensityNetwork(bins=6, weight_decay=5.0, hidden=(4, 4), most=20)])
        for name, learner in LEARNERS.items():
            model = PartialLabelRegressor(learner, random_state=0).fit(X, S)
            save_model(model, folder / f"{name}.plr", extra={"a": 1})
    return folder


@pytest.fixture
def good(files):
    return files / "mlp.plr"


def test_foreign_files(tmp_path):
    def plain(name, content):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    refuses(plain("empty", b""), "is empty")
    refuses(plain("text", b"x,y\n1,2\n"), "not a plr model file")
    refuses(plain("pickle", pickle.dumps(Bomb())), "not a plr model file")
    refuses(plain("short", b"PK\x03\x04"), "not a plr model file")
    refuses(plain("zeros", bytes(10_000)), "not a plr model file")
    refuses(plain("header", struct.pack("<Q", 2**40) + b"{}"), "not a plr model file")
    refuses(plain("deep", struct.pack("<Q", 100_000) + b'{"a":' * 20_000), "damaged")
    refuses(tmp_path, "^[^:]*is a folder; give the path of a model file.$")
    refuses(tmp_path / "missing", "does not exist")
    refuses(tmp_path / "text" / "below", "cannot be read|does not exist")
    refuses(zipped(tmp_path / "zip", [("hello.txt", b"hello")]), "not a plr model file")
    refuses(written(tmp_path / "tensors", {"a": np.zeros(3)}), "not a plr model file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refuses(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    refuses(tmp_path / "pipe", "not a file")
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    refuses(plain("array.npy", array.getvalue()), "not a plr model file")


def test_truncated_files(good, tmp_path):
    content = good.read_bytes()
    step = max(1, len(content) // 60)
    for length in [*range(0, len(content), step), *range(len(content) - 30, len(content))]:
        (tmp_path / "cut").write_bytes(content[:length])
        refuses(tmp_path / "cut")
    (tmp_path / "long").write_bytes(content + b"more")
    refuses(tmp_path / "long", "do not cover it")
    (tmp_path / "before").write_bytes(b"#!/bin/sh\n" + content)
    refuses(tmp_path / "before", "not a plr model file")


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_flipped_bits_are_noticed_or_harmless(name, files, tmp_path):
    content = (files / f"{name}.plr").read_bytes()
    X, _ = problem()
    expected = load_model(files / f"{name}.plr").predict(X)
    draw = random.Random(name)
    # The header is few among many bytes, and stands at the beginning: half of the flips are there.
    ends = [*range(3000)]
    places = [draw.randrange(len(content)) for _ in range(100)] + [draw.choice(ends) for _ in range(100)]
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 1 << draw.randrange(8)
        (tmp_path / "flipped").write_bytes(flipped)
        try:
            loaded = load_model(tmp_path / "flipped")
        except ModelFileError:
            continue
        np.testing.assert_array_equal(loaded.predict(X), expected)


def test_wrong_digests_and_swapped_arrays(good, tmp_path):
    members = members_of(good)
    for name, part in members.items():
        if len(part):
            changed = bytearray(part if isinstance(part, bytes) else part.tobytes())
            changed[len(changed) // 2] ^= 1
            again = (
                bytes(changed) if isinstance(part, bytes) else np.frombuffer(changed, part.dtype).reshape(part.shape)
            )
            digest = read_digest(good) if name == "manifest" else None
            path = written(tmp_path / "changed", members | {name: again}, digest)
            refuses(path, f"array {name} is not what was written")
    arrays = [name for name in members if name.startswith("a")]
    first, second = next(
        (one, other)
        for one, other in combinations(arrays, 2)
        if members[one].shape == members[other].shape and members[one].tobytes() != members[other].tobytes()
    )
    swapped = members | {first: members[second], second: members[first]}
    refuses(written(tmp_path / "swapped", swapped), "not what was written")


def read_digest(path):
    content = path.read_bytes()
    return json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])["__metadata__"]["plr"]


def test_arrays_that_are_not_those_of_the_manifest(good, tmp_path):
    members = members_of(good)
    for name in ("../up", "/absolute", "", "ünï", "a" * 1000):
        refuses(written(tmp_path / "names", members | {name: b"x"}), "not those of its manifest")
    fewer = {name: part for name, part in members.items() if name != "a3"}
    refuses(written(tmp_path / "fewer", fewer), "not those of its manifest")
    bare = {name: part for name, part in members.items() if name != "manifest"}
    refuses(written(tmp_path / "bare", bare), "not a plr model file")
    refuses(rebuild(good, tmp_path / "unused", lambda parts: parts.update(t99=b"x")), "nothing uses")
    refuses(rebuild(good, tmp_path / "no_model", lambda parts: parts.pop("model")), "no array 'model'")
    assert not (tmp_path.parent / "up").exists()


def test_bombs(good, tmp_path):
    def manifest(content):
        return written(tmp_path / "bomb", {"manifest": content})

    refuses(manifest(b"[" * 17_000_000), "larger than any")
    refuses(manifest(b"[" * 100_000), "cannot be read")
    refuses(manifest(b"[" + b"[]," * 2_000_000 + b"0]"), "more values")
    refuses(rebuild(good, tmp_path / "model", lambda parts: parts.update(model=b"[" * 100_000)), "cannot be read")
    many = rebuild(good, tmp_path / "many", lambda parts: parts.update(model=b"[" + b"{}," * 2_000_000 + b"0]"))
    refuses(many, "more values")
    crowd = b'{"__metadata__":{"plr":"0"}' + b"".join(
        b',"a%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % number for number in range(400_000)
    )
    (tmp_path / "crowd").write_bytes(struct.pack("<Q", len(crowd) + 1) + crowd + b"}")
    refuses(tmp_path / "crowd", "not a plr model file")


def test_members_named_again_and_again(files, tmp_path):
    def repeat(model):
        part = model["attributes"]["fields"]["model_"]["fields"]["booster"]
        model["parameters"]["cv"] = [part] * 5000

    refuses(change_model(files / "boosting.plr", tmp_path / "echo", repeat), "twice")


def test_manifests_that_lie(good, tmp_path):
    def told(**changes):
        return rebuild(good, tmp_path / "told", lambda _: None, describe=lambda manifest: manifest.update(changes))

    refuses(told(version=4, plr="9.9.9"), r"format 4, written by plr 9\.9\.9.*Install a newer plr")
    refuses(told(version="1"), "no version")
    refuses(told(version=True), "no version")
    refuses(told(format="other"), "not a plr manifest")
    refuses(told(extra=[]), "incomplete")
    refuses(told(digests=[]), "incomplete")
    refuses(written(tmp_path / "list", {"manifest": b"[1]"}), "not a plr manifest")
    refuses(written(tmp_path / "nan", {"manifest": b'{"format": NaN}'}), "cannot be read")
    refuses(written(tmp_path / "bytes", {"manifest": b"\xff\xfe"}), "cannot be read")
    refuses(written(tmp_path / "numbers", {"manifest": np.zeros(3)}), "not made of bytes")
    assert read_manifest(good)["extra"] == {"a": 1}


@pytest.mark.parametrize(
    "what",
    [
        {"dtype": "O"},
        {"dtype": "C64"},
        {"dtype": "BF16"},
        {"dtype": "F4"},
        {"dtype": "I64"},
        {"dtype": "F32"},
        {"dtype": ["F64"]},
        {"shape": [2**62, 2**62]},
        {"shape": [0, 2**39, 2**39]},
        {"shape": [-1]},
        {"shape": [1.0]},
        {"shape": 3},
        {"shape": [1] * 40},
        {"data_offsets": [0, 2**40]},
        {"data_offsets": [8, 0]},
        {"data_offsets": None},
    ],
    ids=str,
)
def test_headers_that_lie(what, good, tmp_path):
    refuses(with_header(good, tmp_path / "lie", lambda header: header["a3"].update(what)))


def test_headers_with_other_metadata(good, tmp_path):
    for metadata in (None, {}, {"plr": "0" * 64}, {"plr": 3}, {"other": "x"}, []):
        refuses(with_header(good, tmp_path / "lie", lambda header, given=metadata: header.update(__metadata__=given)))


def test_arrays_of_types_that_plr_does_not_write(good, tmp_path):
    def plant(array):
        return rebuild(good, tmp_path / "planted", lambda members: members.update(a3=array))

    refuses(plant(np.zeros(3, np.complex64)), "type or shape")
    refuses(plant(np.zeros(3, np.float16)), "type or shape")
    refuses(plant(np.zeros((1, 1, 1, 1, 1))), "type or shape")
    refuses(plant(np.array([2, 3], np.uint8).view(np.bool_)), "neither true nor false")
    refuses(rebuild(good, tmp_path / "pickle", lambda members: members.update({"model": pickle.dumps(Bomb())})))


def nodes(data, found):
    """Collect every place in JSON where something else could stand."""
    if isinstance(data, dict | list):
        for key, entry in data.items() if isinstance(data, dict) else enumerate(data):
            found.append((data, key))
            nodes(entry, found)
    return found


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_models_with_right_digests_and_wrong_content(name, files, tmp_path):
    """Whatever stands in a file: it is refused, or makes a model whose errors are Python's, not the machine's."""
    X, S = problem()
    path = files / f"{name}.plr"
    arrays = [member for member in members_of(path) if member.startswith("a")]
    draw = random.Random(name)
    model = model_of(path)
    for _ in range(60):
        changed = copy.deepcopy(model)
        holder, key = draw.choice(nodes(changed, []))
        values = [None, True, -1, 0, 7, 2**40, 10**30, 1e300, "x", [], {}, {"tuple": []}, {"float": "nan"}]
        holder[key] = draw.choice([*values, *({"array": member} for member in arrays)])
        change_model(path, tmp_path / "changed", lambda _, changed=changed: changed)
        try:
            loaded = load_model(tmp_path / "changed")
        except ModelFileError:
            continue
        with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            loaded.predict(X)
            loaded.identify(X, S)


@pytest.mark.parametrize("name", ["mlp", "density"])
def test_arrays_with_right_digests_and_wrong_numbers(name, files, tmp_path):
    """Compiled code follows sizes and indices: any that lead astray are refused before."""
    X, _ = problem()
    path = files / f"{name}.plr"
    whole = [each for each, part in members_of(path).items() if each.startswith("a") and part.dtype.kind == "i"]
    assert whole
    draw = random.Random(name)
    for _ in range(60):

        def spoil(members):
            each = draw.choice(whole)
            numbers = members[each].copy()
            numbers[draw.randrange(len(numbers))] = draw.choice([-5, -1, 0, 3, 1000, 2**31 - 1])
            members[each] = numbers

        rebuild(path, tmp_path / "spoilt", spoil)
        try:
            loaded = load_model(tmp_path / "spoilt")
        except ModelFileError:
            continue
        loaded.predict(X)


@pytest.mark.parametrize("name", ["mlp", "density"])
def test_arrays_of_other_shapes_and_types(name, files, tmp_path):
    X, _ = problem()
    path = files / f"{name}.plr"
    draw = random.Random(name)
    arrays = [each for each in members_of(path) if each.startswith("a")]
    ways = [
        lambda array: array[:-1],
        lambda array: np.concatenate([array, array]),
        lambda array: array[..., None],
        lambda array: array.reshape(-1),
        lambda array: array.astype(draw.choice([np.float32, np.int32, np.int64, np.uint8])),
        lambda array: np.full(array.shape, np.nan) if array.dtype.kind == "f" else array[:0],
    ]
    for _ in range(60):
        each, way = draw.choice(arrays), draw.choice(ways)
        rebuild(
            path, tmp_path / "spoilt", lambda members, each=each, way=way: members.update({each: way(members[each])})
        )
        try:
            loaded = load_model(tmp_path / "spoilt")
        except ModelFileError:
            continue
        with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            loaded.predict(X)


def test_networks_and_trees_that_lead_astray_are_refused(files, tmp_path):
    def array_of(path, *way):
        part = model_of(path)["attributes"]["fields"]["model_"]
        for step in way:
            part = part["fields"][step] if isinstance(step, str) else part["tuple"][step]
        return part["array"]

    def with_numbers(path, name, change):
        def spoil(members):
            members[name] = members[name].copy()
            change(members[name])

        return rebuild(path, tmp_path / "spoilt", spoil)

    path = files / "mlp.plr"
    sizes = array_of(path, "network", "layout", "sizes")
    for layer, size in ((0, 5), (1, 300), (2, 2), (1, -3)):
        refuses(with_numbers(path, sizes, lambda found, at=layer, to=size: found.__setitem__(at, to)), "network")
    activations = array_of(path, "network", "layout", "activations")
    refuses(with_numbers(path, activations, lambda found: found.fill(9)), "activation")

    path = files / "density.plr"
    for field, value in (("left", 0), ("right", 10**6), ("left", -1), ("feature", 2), ("feature", -1)):
        name = array_of(path, "mixture", "models", 0, "trees", 0, field)
        refuses(with_numbers(path, name, lambda found, to=value: found.__setitem__(0, to)), "tree|columns")


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (rb"left_child=\S+", b"left_child=99999"),
        (rb"split_feature=\S+", b"split_feature=7"),
        (rb"num_leaves=\d+", b"num_leaves=1000000"),
        (rb"tree_sizes=\S+", b"tree_sizes=99999999999"),
        (rb"\Atree", b"\xff\xfe"),
    ],
)
def test_trees_of_lightgbm_that_lead_astray_are_refused(pattern, replacement, files, tmp_path):
    def spoil(members):
        name = next(name for name in members if name.startswith("t"))
        members[name], count = re.subn(pattern, replacement, members[name], count=1)
        assert count == 1

    refuses(rebuild(files / "boosting.plr", tmp_path / "spoilt", spoil), "tree|invalid text")


def test_nothing_is_made_that_files_do_not_know(good, tmp_path):
    def plant(part):
        return lambda model: model["parameters"].update(learner=part)

    for part in (
        {"kind": "os.system", "fields": {}},
        {"kind": "learner mlp", "fields": {"self": 1}},
        {"kind": "learner refit", "fields": {}},
        {"kind": "learner mlp", "fields": []},
        {"kind": ["x"], "fields": {}},
        {"pickle": "a00001"},
        {"array": "manifest"},
        {"array": ["a1"]},
        {"text": "a1"},
        {"text": "../../etc/passwd"},
        {"dict": [[{"tuple": []}, 1]]},
    ):
        refuses(change_model(good, tmp_path / "planted", plant(part)))
    refuses(
        change_model(good, tmp_path / "own", lambda model: model["attributes"]["fields"].update(predict=1)), "fields of"
    )
    deep = {"tuple": []}
    for _ in range(300):
        deep = {"tuple": [deep]}
    refuses(change_model(good, tmp_path / "deep", plant(deep)), "nested too deep")


def test_arrays_where_words_should_stand(files, tmp_path):
    def replace(model):
        fields = model["attributes"]["fields"]["model_"]["fields"]
        fields["point"], fields["out_of_fold"] = fields["out_of_fold"], None

    refuses(change_model(files / "density.plr", tmp_path / "point", replace), "the point of a part")


def test_parts_of_one_kind_where_another_should_stand(files, tmp_path):
    def swap(model):
        fields = model["attributes"]["fields"]
        fields["noise_"]["fields"]["target"], fields["model_"]["fields"]["features"] = (
            fields["model_"]["fields"]["features"],
            fields["noise_"]["fields"]["target"],
        )

    refuses(change_model(files / "linear.plr", tmp_path / "swapped", swap), "wrong type or value")
