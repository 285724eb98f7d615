"""Model files taken apart and put together again, with whatever a test wants changed."""

from __future__ import annotations

import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from plr import load_model, make_candidates
from plr.errors import ModelFileError
from plr.persistence.container import MANIFEST, write_members

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
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rebuild(path, target, change, *, describe=None):
    """Write the file anew, with right sizes and sums, after ``change(members)`` and ``describe(manifest)``."""
    members = members_of(path)
    manifest = json.loads(members.pop(MANIFEST))
    change(members)

    def made(digests):
        known = manifest["members"]
        manifest["members"] = {
            name: {**known.get(name, {}), "size": len(members[name]), "sha256": digests[name]} for name in members
        }
        if describe is not None:
            describe(manifest)
        return json.dumps(manifest).encode()

    write_members(Path(target), {name: memoryview(content) for name, content in members.items()}, made)
    return target


def change_model(path, target, change):
    """Write the file anew after ``change(model)``, where the model is what model.json holds."""

    def in_members(members):
        model = json.loads(members["model.json"])
        members["model.json"] = json.dumps(change(model) or model).encode()

    return rebuild(path, target, in_members)


def zipped(target, members, compression=zipfile.ZIP_STORED):
    """Write any ZIP; ``members`` are pairs, as names may come twice."""
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return target
