"""Files that are not what they claim: each is refused with one line, runs nothing and allocates nothing large."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import pickle
import random
import struct
import zipfile
from contextlib import suppress
from itertools import combinations

import numpy as np
import pytest

from plr import PartialLabelRegressor, load_model, save_model
from plr.errors import ModelFileError
from plr.learners import MLP, Boosting, Density
from plr.persistence import read_manifest
from support.model_files import Bomb, change_model, members_of, problem, rebuild, refuses, zipped

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
    for name, learner in LEARNERS.items():
        save_model(PartialLabelRegressor(learner, random_state=0).fit(X, S), folder / f"{name}.plr", extra={"a": 1})
    return folder


@pytest.fixture
def good(files):
    return files / "mlp.plr"


def test_foreign_files(tmp_path):
    def written(name, content):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    refuses(written("empty", b""), "is empty")
    refuses(written("text", b"x,y\n1,2\n"), "no model file")
    refuses(written("pickle", pickle.dumps(Bomb())), "no model file")
    refuses(written("short", b"PK\x03\x04"), "no model file")
    refuses(written("zeros", bytes(10_000)), "no model file")
    refuses(tmp_path, "^[^:]*is a folder; give the path of a model file.$")
    refuses(tmp_path / "missing", "does not exist")
    refuses(tmp_path / "text" / "below", "cannot be read|does not exist")
    refuses(zipped(tmp_path / "zip", [("hello.txt", b"hello")]), "no manifest.json")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refuses(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    refuses(tmp_path / "pipe", "not a file")
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    refuses(written("array.npy", array.getvalue()), "no model file")


def test_truncated_files(good, tmp_path):
    content = good.read_bytes()
    step = max(1, len(content) // 60)
    for length in [*range(0, len(content), step), *range(len(content) - 30, len(content))]:
        (tmp_path / "cut").write_bytes(content[:length])
        refuses(tmp_path / "cut")
    (tmp_path / "long").write_bytes(content + b"more")
    refuses(tmp_path / "long", "end is missing")
    (tmp_path / "before").write_bytes(b"#!/bin/sh\n" + content)
    refuses(tmp_path / "before", "no model file")


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_flipped_bits_are_noticed_or_harmless(name, files, tmp_path):
    content = (files / f"{name}.plr").read_bytes()
    X, _ = problem()
    expected = load_model(files / f"{name}.plr").predict(X)
    draw = random.Random(name)
    # Headers are few among many bytes, and stand at the ends: half of the flips are there.
    ends = [*range(400), *range(len(content) - 900, len(content))]
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


def test_wrong_sums_and_swapped_members(good, tmp_path):
    members = members_of(good)
    for name in (name for name in members if name != "manifest.json" and members[name]):
        changed = bytearray(members[name])
        changed[len(changed) // 2] ^= 1
        parts = [(each, bytes(changed) if each == name else members[each]) for each in members]
        refuses(zipped(tmp_path / "changed", parts), f"content of {name} is not what was written")
    first, second = next(
        (one, other)
        for one, other in combinations(members, 2)
        if len(members[one]) == len(members[other]) and members[one] != members[other]
    )
    swap = {first: second, second: first}
    parts = [(name, members[swap.get(name, name)]) for name in members]
    refuses(zipped(tmp_path / "swapped", parts), "not what was written")


def test_names_that_lead_elsewhere(good, tmp_path):
    members = members_of(good)
    every = list(members.items())
    for name in ("../up", "/absolute", "a/b", "C:\\x", "..", "ünï", "A"):
        refuses(zipped(tmp_path / "names", [*every, (name, b"x")]), "name that plr does not give|cannot be read|add up")
    refuses(zipped(tmp_path / "extra", [*every, ("more", b"x")]), "members are not those")
    refuses(zipped(tmp_path / "fewer", every[:-1]), "members are not those")
    with pytest.warns(UserWarning, match="Duplicate"):
        zipped(tmp_path / "twice", [*every, every[-1]])
    refuses(tmp_path / "twice", "two members")
    assert not (tmp_path.parent / "up").exists()
    refuses(rebuild(good, tmp_path / "unused", lambda parts: parts.update(more=b"x")), "nothing uses")


def test_bombs(good, tmp_path):
    members = list(members_of(good).items())
    packed = zipfile.ZIP_DEFLATED
    refuses(zipped(tmp_path / "bomb", [*members, ("a99999", bytes(200_000_000))], packed), "packed in a way")
    refuses(zipped(tmp_path / "manifest", [("manifest.json", b"[" * 9_000_000)]), "larger than any")
    refuses(zipped(tmp_path / "deep", [("manifest.json", b"[" * 100_000)]), "cannot be read")
    refuses(zipped(tmp_path / "many", [("manifest.json", b"[" + b"[]," * 2_000_000 + b"0]")]), "more parts")
    # A directory that claims to be larger than it is, and members that do.
    content = bytearray(good.read_bytes())
    claims = bytearray(content)
    struct.pack_into("<HH", claims, len(claims) - 14, 65000, 65000)
    (tmp_path / "claims").write_bytes(claims)
    refuses(tmp_path / "claims", "directory does not fit")
    entry = content.rindex(b"PK\x01\x02")
    struct.pack_into("<LL", content, entry + 20, 2**31, 2**31)
    (tmp_path / "large").write_bytes(content)
    refuses(tmp_path / "large", "do not add up")


def test_members_named_again_and_again(files, tmp_path):
    def repeat(model):
        part = model["attributes"]["model_"]["fields"]["booster"]
        model["parameters"]["cv"] = [part] * 5000

    refuses(change_model(files / "boosting.plr", tmp_path / "echo", repeat), "twice")


def test_a_directory_of_many_entries_is_not_read(tmp_path):
    refuses(zipped(tmp_path / "crowd", [(f"a{number}", b"") for number in range(50_001)]), "directory does not fit")


def test_manifests_that_lie(good, tmp_path):
    def told(**changes):
        return rebuild(good, tmp_path / "told", lambda _: None, describe=lambda manifest: manifest.update(changes))

    refuses(told(version=3, plr="9.9.9"), r"format 3, written by plr 9\.9\.9.*Install a newer plr")
    refuses(told(version="1"), "no version")
    refuses(told(version=True), "no version")
    refuses(told(format="other"), "another's")
    refuses(told(extra=[]), "lacks something")
    refuses(told(members=[]), "lacks something")
    refuses(zipped(tmp_path / "list", [("manifest.json", b"[1]")]), "another's")
    refuses(zipped(tmp_path / "nan", [("manifest.json", b'{"format": NaN}')]), "cannot be read")
    refuses(zipped(tmp_path / "bytes", [("manifest.json", b"\xff\xfe")]), "cannot be read")
    assert read_manifest(good)["extra"] == {"a": 1}


@pytest.mark.parametrize(
    "what",
    [
        {"dtype": "|O"},
        {"dtype": "O"},
        {"dtype": ["<f8"]},
        {"dtype": "<c16"},
        {"dtype": "<U4"},
        {"shape": [2**62, 2**62]},
        {"shape": [0, 2**39, 2**39]},
        {"shape": [-1]},
        {"shape": [1.0]},
        {"shape": 3},
        {"shape": [1] * 40},
        {"order": "K"},
        {"sha256": None},
        {"size": 2**40},
    ],
    ids=str,
)
def test_arrays_that_lie(what, good, tmp_path):
    def lie(manifest):
        name = next(name for name in manifest["members"] if name.startswith("a"))
        manifest["members"][name].update(what)

    refuses(rebuild(good, tmp_path / "lie", lambda _: None, describe=lie))


def test_an_array_of_objects_is_no_array(good, tmp_path):
    content = io.BytesIO()
    np.save(content, np.array([Bomb()], dtype=object), allow_pickle=True)

    def plant(members):
        members[next(name for name in members if name.startswith("a"))] = content.getvalue()

    refuses(rebuild(good, tmp_path / "planted", plant), "not as large as it says")
    refuses(rebuild(good, tmp_path / "pickle", lambda members: members.update({"model.json": pickle.dumps(Bomb())})))


def nodes(data, found):
    """Collect every place in JSON where something else could stand."""
    if isinstance(data, dict | list):
        for key, entry in data.items() if isinstance(data, dict) else enumerate(data):
            found.append((data, key))
            nodes(entry, found)
    return found


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_models_with_right_sums_and_wrong_content(name, files, tmp_path):
    """Whatever stands in a file: it is refused, or makes a model whose errors are Python's, not the machine's."""
    X, S = problem()
    path = files / f"{name}.plr"
    arrays = [member for member in members_of(path) if member.startswith("a")]
    draw = random.Random(name)
    model = json.loads(members_of(path)["model.json"])
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
def test_arrays_with_right_sums_and_wrong_numbers(name, files, tmp_path):
    """Compiled code follows sizes and indices: any that lead astray are refused before."""
    X, _ = problem()
    path = files / f"{name}.plr"
    described = read_manifest(path)["members"]
    whole = [each for each, what in described.items() if what.get("dtype", "")[1:] in ("i4", "i8")]
    assert whole
    draw = random.Random(name)
    for _ in range(60):

        def spoil(members):
            each = draw.choice(whole)
            numbers = np.frombuffer(members[each], described[each]["dtype"]).copy()
            numbers[draw.randrange(len(numbers))] = draw.choice([-5, -1, 0, 3, 1000, 2**31 - 1])
            members[each] = numbers.tobytes()

        rebuild(path, tmp_path / "spoilt", spoil)
        try:
            loaded = load_model(tmp_path / "spoilt")
        except ModelFileError:
            continue
        loaded.predict(X)


def test_networks_and_trees_that_lead_astray_are_refused(files, tmp_path):
    def array_of(path, *way):
        part = json.loads(members_of(path)["model.json"])["attributes"]["model_"]
        for step in way:
            part = part["fields"][step] if isinstance(step, str) else part["tuple"][step]
        return part["array"]

    def with_numbers(path, name, dtype, change):
        def spoil(members):
            numbers = np.frombuffer(members[name], dtype).copy()
            change(numbers)
            members[name] = numbers.tobytes()

        return rebuild(path, tmp_path / "spoilt", spoil)

    path = files / "mlp.plr"
    sizes = array_of(path, "network", "layout", "sizes")
    for layer, size in ((0, 5), (1, 300), (2, 2), (1, -3)):
        refuses(with_numbers(path, sizes, "<i8", lambda found, at=layer, to=size: found.__setitem__(at, to)), "network")
    activations = array_of(path, "network", "layout", "activations")
    refuses(with_numbers(path, activations, "<i8", lambda found: found.fill(9)), "activation")

    path = files / "density.plr"
    for field, value in (("left", 0), ("right", 10**6), ("left", -1), ("feature", 2), ("feature", -1)):
        name = array_of(path, "mixture", "models", 0, field)
        refuses(with_numbers(path, name, "<i4", lambda found, to=value: found.__setitem__(0, to)), "tree|columns")


def test_nothing_is_made_that_files_do_not_know(good, tmp_path):
    def plant(part):
        return lambda model: model["parameters"].update(learner=part)

    for part in (
        {"kind": "os.system", "fields": {}},
        {"made": "os.system", "parameters": {}},
        {"made": "learner mlp", "parameters": {"self": 1}},
        {"made": "learner refit", "parameters": {}},
        {"kind": ["x"], "fields": {}},
        {"pickle": "a00001"},
        {"array": "manifest.json"},
        {"text": "../../etc/passwd"},
        {"dict": [[{"tuple": []}, 1]]},
    ):
        refuses(change_model(good, tmp_path / "planted", plant(part)))
    refuses(change_model(good, tmp_path / "own", lambda model: model["attributes"].update(predict=1)), "attributes")
    deep = {"tuple": []}
    for _ in range(300):
        deep = {"tuple": [deep]}
    refuses(change_model(good, tmp_path / "deep", plant(deep)), "nested too deep")


def test_arrays_where_words_should_stand(files, tmp_path):
    def replace(model):
        fields = model["attributes"]["model_"]["fields"]
        fields["point"], fields["out_of_fold"] = fields["out_of_fold"], None

    refuses(change_model(files / "density.plr", tmp_path / "point", replace), "the point of a part")


def test_sums_are_those_of_the_members(good):
    manifest, members = read_manifest(good), members_of(good)
    for name, what in manifest["members"].items():
        assert hashlib.sha256(members[name]).hexdigest() == what["sha256"]
