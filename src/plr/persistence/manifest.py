"""The manifest of a model file: what wrote it, what it holds, and in which version of the format."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import plr
from plr.errors import ModelFileError
from plr.persistence.container import MANIFEST, Members, damaged

__all__ = ["MODEL", "UPGRADES", "VERSION", "Difference", "differences", "make_manifest", "model_json", "read_parts"]

FORMAT = "plr model"
VERSION = 2
MODEL = "model.json"


def _without_diagnosis(manifest: dict[str, Any], model: Any) -> tuple[dict[str, Any], Any]:
    """Let what was identified before the data were looked at come without a word of caution."""
    found = model["attributes"].get("_identified") if isinstance(model, dict) and "attributes" in model else None
    if isinstance(found, dict) and isinstance(found.get("fields"), dict):
        found["fields"].setdefault("caution", "")
    return manifest, model


UPGRADES: dict[int, Callable[[dict[str, Any], Any], tuple[dict[str, Any], Any]]] = {1: _without_diagnosis}
"""For each older version, what makes a manifest and a model of the next one of them."""

# So much there may be in every file, and more in one that is large itself. A part costs some hundred bytes once it is
# read, and in a file it may be two.
_LARGEST_MANIFEST, _LARGEST_MODEL, _LARGEST_SHARE = 8_000_000, 16_000_000, 2
_MOST_PARTS, _BYTES_A_PART = 300_000, 40
# Open ends count as ends: looked for from every quote, a missing one would take time without bound.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_PACKAGES = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "lightgbm": "lightgbm", "skops": "skops"}
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,40}")


def make_manifest(
    described: dict[str, dict[str, Any]],
    sizes: dict[str, int],
    digests: dict[str, str],
    extra: dict[str, Any],
    modules: Iterable[str] = (),
) -> bytes:
    """Return the manifest of a file with these members, made with the packages of these modules besides the usual."""
    packages = dict.fromkeys([*_PACKAGES.values(), *(_PACKAGES.get(name, name) for name in sorted(modules))])
    members = {name: {"size": sizes[name], "sha256": digests[name], **described.get(name, {})} for name in sizes}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "plr": plr.__version__,
        "packages": {name: version for name in packages if (version := _version(name))},
        "extra": extra,
        "members": members,
    }
    return _to_json(manifest, _LARGEST_MANIFEST, "extra", sum(sizes.values()))


def model_json(data: Any, beside: int) -> bytes:
    """Return the model's plain data as it stands in a file with so many bytes beside it."""
    return _to_json(data, _LARGEST_MODEL, "What the model consists of", beside)


def _to_json(data: Any, most: int, what: str, beside: int) -> bytes:
    """Return data as JSON; refuse what could not be read again."""
    try:
        content = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{what} must be made of texts, finite numbers, lists and dictionaries: {error}."
        ) from error
    size = beside + len(content)
    most = max(most, size // _LARGEST_SHARE)
    parts, allowed = _count_parts(content), _most_parts(size)
    if len(content) > most or parts > allowed:
        raise ModelFileError(
            f"{what} is too large for a model file: {len(content):,} bytes in {parts:,} parts, where {most:,} bytes in "
            f"{allowed:,} parts are read."
        )
    return content


def read_parts(members: Members) -> tuple[dict[str, Any], Any]:
    """Return the manifest and the model, as plain data of the newest version, and check what they say of the file."""
    manifest = _parse_json(members, MANIFEST, _LARGEST_MANIFEST)
    version = manifest.get("version") if isinstance(manifest, dict) else None
    if manifest is None or not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise damaged(members.path, "its manifest is another's")
    if type(version) is not int or version < 1:
        raise damaged(members.path, "it has no version")
    if version > VERSION:
        raise ModelFileError(
            f"{members.path} has format {version}, written by plr {str(manifest.get('plr'))[:20]}; this plr, "
            f"{plr.__version__}, reads formats up to {VERSION}. Install a newer plr."
        )
    described, extra = manifest.get("members"), manifest.get("extra")
    if not isinstance(extra, dict) or not isinstance(described, dict):
        raise damaged(members.path, "its manifest lacks something")
    if described.keys() | {MANIFEST} != members.sizes.keys() or MANIFEST in described:
        raise damaged(members.path, "its members are not those of its manifest")
    for name, what in described.items():
        if not isinstance(what, dict) or what.get("size") != members.sizes[name]:
            raise damaged(members.path, f"its {name} has not the size that its manifest says")
    model = _parse_json(members, MODEL, _LARGEST_MODEL, str(described.get(MODEL, {}).get("sha256")))
    for step in range(version, VERSION):
        manifest, model = UPGRADES[step](manifest, model)
    return manifest, model


class Difference(NamedTuple):
    """A package of which another version wrote a file than is installed."""

    package: str
    written: str
    installed: str | None

    def __str__(self) -> str:
        return f"{self.package} {self.written}, and {self.installed or 'none'} is installed"


def differences(manifest: dict[str, Any], modules: Iterable[str]) -> list[Difference]:
    """Return which packages of some modules had another major or minor version when the file was written."""
    written = manifest.get("packages")
    found = []
    for package in sorted({_PACKAGES.get(name, name) for name in modules}):
        version = written.get(package) if isinstance(written, dict) else None
        if isinstance(version, str) and _VERSION.fullmatch(version):
            installed = _version(package)
            if installed is None or version.split(".")[:2] != installed.split(".")[:2]:
                found.append(Difference(package, version, installed))
    return found


def _parse_json(members: Members, name: str, most: int, digest: str | None = None) -> Any:
    """Return what a member of JSON holds, provided it is small enough to be taken apart."""
    content = members.read(name, max(most, members.total // _LARGEST_SHARE))
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        raise damaged(members.path, f"the content of {name} is not what was written")
    if _count_parts(content) > _most_parts(members.total):
        raise damaged(members.path, f"its {name} has more parts than any plr writes")
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise damaged(members.path, f"its {name} cannot be read") from error


def _count_parts(content: bytes | bytearray) -> int:
    """Return how many values JSON has, about; what stands inside texts does not count."""
    bare = _TEXT.sub(b"", content)
    return sum(bare.count(mark) for mark in (b"[", b"{", b","))


def _most_parts(size: int) -> int:
    """Return how many parts may be described in a file of so many bytes."""
    return max(_MOST_PARTS, size // _BYTES_A_PART)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
