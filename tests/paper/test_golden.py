"""The record of what plr answers: features have tests that exist, and differences are found and told from wording."""

import csv
import sys
from pathlib import Path

import pytest

# The benchmarks are scripts beside the package, not installed with it.
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.golden import comparing, library  # noqa: E402

FEATURES = list(csv.DictReader((ROOT / "benchmarks/golden/features.csv").open(encoding="utf-8")))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature["feature"][:40])
def test_every_feature_is_named_somewhere_and_held_by_tests_that_exist(feature):
    assert all((ROOT / place).exists() for place in feature["named in"].split())
    for test in feature["tests"].split():
        file, *names = test.split("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert all(f"def {name}(" in text or f"class {name}" in text for name in names), test


def test_numbers_are_compared_within_a_tolerance_and_everything_else_exactly():
    before = {"prediction": [1.0, 200.0], "exit_code": 0, "words": "Done.", "error": "ParameterError"}
    same = {**before, "prediction": [1.0 + 1e-5, 200.0]}
    assert list(comparing.compare(before, same, 1e-6)) == []
    other = {"prediction": [1.1, 200.0], "exit_code": 2, "words": "Ready.", "more": 1}
    found = sorted(comparing.compare(before, other, 1e-6))
    assert [one[0] for one in found] == ["error", "exit_code", "more (new)", "prediction [0]", "words"]
    assert [one[0] for one in found if comparing.is_wording(one)] == ["more (new)", "words"]


def test_nan_is_equal_to_itself_alone():
    assert list(comparing.compare([float("nan")], [float("nan")], 1e-6)) == []
    assert list(comparing.compare([float("nan")], [1.0], 1e-6))


def test_answers_come_out_the_same_twice():
    case = library.Case("linear", options={"weighting": "posterior", "start": None})
    assert list(comparing.compare(case.answer(), case.answer(), 0.0)) == []
