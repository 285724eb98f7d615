"""Changes of what skops has written inside a model file, with right sums; run as a script, it loads and predicts.

    python mutations.py FIRST COUNT FILE [FILE ...]

Each change is announced before it is tried, so that a crash of the interpreter can be told from its last line.
"""

from __future__ import annotations

import copy
import io
import json
import random
import resource
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from plr import load_model
from plr.errors import ModelFileError
from support.model_files import problem, rebuild, zip_members, zipped

# What sixty rows may need beyond what the interpreter and its libraries have taken.
MEMORY = 1_500_000_000
WHOLE = [-(2**31), -1000, -5, -1, 0, 1, 2, 3, 7, 60, 1000, 2**31 - 1, 2**40, 2**62]
REAL = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, 5e-324, 3.7]
JSON = [
    "null",
    "true",
    "false",
    "-1",
    "0",
    "1",
    "2",
    "5",
    "1000",
    "1073741824",
    "10000000000",
    "1e300",
    '"x"',
    "[]",
    "{}",
]


def places_in(part, found):
    """Collect everywhere in a schema that something else could stand."""
    if isinstance(part, dict | list):
        for key, entry in part.items() if isinstance(part, dict) else enumerate(part):
            found.append((part, key))
            places_in(entry, found)
    return found


def saved(array):
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def change_numbers(array, draw):
    array = array.copy()
    for _ in range(draw.choice([1, 1, 3])):
        names = array.dtype.names
        part = array[draw.choice(names)] if names else array
        if part.size:
            value = draw.choice(REAL if part.dtype.kind == "f" else WHOLE)
            with np.errstate(all="ignore"):
                part.reshape(-1)[draw.randrange(part.size)] = np.array(value).astype(part.dtype)
    return array


def change_shape(array, draw):
    ways = [
        lambda: array[: draw.randrange(len(array) + 1)] if array.ndim else array.reshape(1),
        lambda: np.concatenate([array, array]) if array.ndim else array.reshape(1, 1),
        lambda: array.reshape(-1),
        lambda: array[..., None],
        lambda: np.ascontiguousarray(array.T),
        lambda: np.asfortranarray(array),
        lambda: array[..., :1] if array.ndim > 1 else array,
        lambda: (
            array.astype(draw.choice(["<f4", "<i4", "<i8", "<u8", "|u1", ">f8"])) if not array.dtype.names else array
        ),
        lambda: array[:0] if array.ndim else array,
        lambda: np.resize(array, (100_000, *array.shape[1:])) if array.size < 1000 else array,
    ]
    return draw.choice(ways)()


def change_bytes(content, draw):
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 4])):
        changed[draw.randrange(min(len(changed) - 1, 128), len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def change_schema(schema, draw):
    schema = copy.deepcopy(schema)
    places = places_in(schema, [])
    nodes = [place for place in places if isinstance(place[0][place[1]], dict) and "__loader__" in place[0][place[1]]]
    leaves = [place for place in nodes if place[0][place[1]]["__loader__"] == "JsonNode"]
    way = draw.randrange(6)
    if way <= 2 and leaves:
        holder, key = draw.choice(leaves)
        holder[key] = {**holder[key], "content": draw.choice(JSON), "__id__": draw.randrange(10**9)}
    elif way == 3 and len(nodes) > 1:
        (one, a), (other, b) = draw.sample(nodes, 2)
        one[a] = copy.deepcopy(other[b])
    elif way == 4 and nodes:
        holder, key = draw.choice(nodes)
        if isinstance(holder, dict):
            del holder[key]
        else:
            holder.pop(key)
    else:
        holder, key = draw.choice(places)
        holder[key] = draw.choice([None, True, -1, 0, 7, 2**40, 1e300, "x", [], {}, "builtins", "numpy", "ObjectNode"])
    return schema


def mutate(inner, draw):
    """Change one or two of the members of what skops has written."""
    arrays = [name for name in inner if name.endswith(".npy")]
    for _ in range(draw.choice([1, 1, 2])):
        way = draw.randrange(8)
        name = draw.choice(arrays)
        if way <= 2:
            inner[name] = saved(change_numbers(np.load(io.BytesIO(inner[name])), draw))
        elif way == 3:
            inner[name] = saved(change_shape(np.load(io.BytesIO(inner[name])), draw))
        elif way == 4:
            other = draw.choice(arrays)
            inner[name], inner[other] = inner[other], inner[name]
        elif way == 5:
            inner[name] = change_bytes(inner[name], draw)
            return
        else:
            inner["schema.json"] = json.dumps(change_schema(json.loads(inner["schema.json"]), draw)).encode()


def mutated(path, target, seed):
    """Write the file anew after changes of one of its foreign regressors."""
    draw = random.Random(f"{Path(path).stem} {seed}")

    def in_members(members):
        name = max((name for name in members if name.startswith("s")), key=lambda name: len(members[name]))
        inner = zip_members(io.BytesIO(members[name]))
        mutate(inner, draw)
        made = io.BytesIO()
        zipped(made, inner.items())
        members[name] = made.getvalue()

    return rebuild(path, target, in_members)


def main(first, count, *paths):
    X, _ = problem()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for path in paths:
        load_model(path).predict(X)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            refused = failed = 0
            for seed in range(int(first), int(first) + int(count)):
                print(f"{Path(path).stem} {seed}", flush=True)
                mutated(path, Path(folder) / "mutated", seed)
                try:
                    model = load_model(Path(folder) / "mutated")
                except ModelFileError:
                    refused += 1
                    continue
                try:
                    model.predict(X)
                    model.predict(X[:1])
                except MemoryError:
                    raise
                except Exception:
                    failed += 1
            print(f"{Path(path).stem}: {count} changes, {refused} refused, {failed} errors of predict", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
