"""What is said of the package in several places is the same everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import plr

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize(
    ("path", "version"), [("CITATION.cff", r"^version: (.+)$"), ("recipe/recipe.yaml", r'version: "(.+)"')]
)
def test_the_version_is_that_of_the_package(path, version):
    found = re.search(version, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    assert found[1] == plr.__version__


def test_the_recipe_needs_what_the_package_needs():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    needed = re.findall(
        r"^    - ([\w-]+) ([<>=][\w.,<>=]+)$", recipe.split("  run:\n")[1].split("tests:")[0], re.MULTILINE
    )
    assert {f"{name}{bounds}" for name, bounds in needed} == set(PROJECT["dependencies"])


def test_the_supported_pythons_are_those_that_the_workflows_test():
    classifiers = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    ends = f'python: ["{classifiers[0]}", "{classifiers[-1]}"]'
    for workflow in ("ci", "build"):
        assert ends in (ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text(encoding="utf-8")
    assert PROJECT["requires-python"] == f">={classifiers[0]}"
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    assert f"Python {classifiers[0]} to {classifiers[-1]}" in page
