"""Model files taken apart and put together again, with whatever a test wants changed."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from plr import load_model, make_candidates
from plr.errors import ModelFileError
from plr.persistence.file import digest_of

# What may be allocated to find out that a file is none.
SMALL = 50_000_000


def problem():
    X = np.random.default_rng(0).uniform(size=(60, 2))
    return X, make_candidates(X.sum(axis=1), 2, random_state=0)


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def refuses(path, match=None, **options):
    """Check that a file is refused in one line, cheaply."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=match) as caught:
            load_model(path, **options)
        assert tracemalloc.get_traced_memory()[1] < SMALL
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message


def members_of(path):
    """Return what a file holds: bytes of texts, JSON and foreign regressors, and arrays."""
    return {name: part if name.startswith("a") else part.tobytes() for name, part in load_file(path).items()}


def model_of(path):
    return json.loads(members_of(path)["model"])


def written(target, members, digest=None):
    """Write any safetensors file; ``digest`` is that of the manifest, unless it is right."""
    arrays = {
        name: np.frombuffer(part, np.uint8) if isinstance(part, bytes) else np.ascontiguousarray(part)
        for name, part in members.items()
    }
    found = digest_of(arrays["manifest"]) if "manifest" in arrays else ""
    save_file(arrays, target, {"plr": found if digest is None else digest})
    return target


def rebuild(path, target, change, *, describe=None):
    """Write the file anew, with right digests, after ``change(members)`` and ``describe(manifest)``."""
    members = members_of(path)
    manifest = json.loads(members.pop("manifest"))
    change(members)
    manifest["digests"] = {
        name: digest_of(np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part)
        for name, part in members.items()
    }
    if describe is not None:
        describe(manifest)
    return written(target, {"manifest": json.dumps(manifest).encode(), **members})


def change_model(path, target, change):
    """Write the file anew after ``change(model)``, where the model is what its JSON holds."""

    def in_members(members):
        model = json.loads(members["model"])
        members["model"] = json.dumps(change(model) or model).encode()

    return rebuild(path, target, in_members)


def with_header(path, target, change):
    """Write the file anew after ``change(header)``, with nothing else made to agree."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    changed = json.dumps(change(header) or header).encode()
    target.write_bytes(struct.pack("<Q", len(changed)) + changed + content[8 + length :])
    return target


def zip_members(content):
    with zipfile.ZipFile(content) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(target, members, compression=zipfile.ZIP_STORED):
    """Write any ZIP; ``members`` are pairs, as names may come twice."""
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return target
