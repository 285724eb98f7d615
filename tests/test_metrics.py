"""Coverage and width of intervals, in one go and in batches."""

import numpy as np
import pytest

from plr import metrics
from plr.metrics import CoverageMetrics


def many(rows=5000, seed=0):
    random = np.random.default_rng(seed)
    width = random.uniform(1, 3, rows)
    return np.column_stack([-width / 2, width / 2]), random.uniform(-1.5, 1.5, rows)


def naive_score(intervals, y, asked):
    """The interval score of each row, in words of its definition."""
    found = []
    for (lower, upper), label in zip(intervals, y, strict=True):
        penalty = 2 / (1 - asked)
        beyond = lower - label if label < lower else label - upper if label > upper else 0.0
        found.append(upper - lower + penalty * beyond)
    return found


def test_figures_are_those_of_their_definitions():
    intervals, y = many(300)
    coverage = CoverageMetrics(0.8)
    coverage.add(intervals, y)
    found = coverage.figures()
    inside = (intervals[:, 0] <= y) & (y <= intervals[:, 1])
    assert found["coverage"] == pytest.approx(inside.mean())
    assert found["coverage_error"] == pytest.approx(inside.std() / np.sqrt(300), rel=0.02)
    assert found["mean_width"] == pytest.approx(np.ptp(intervals, axis=1).mean())
    assert found["interval_score"] == pytest.approx(np.mean(naive_score(intervals, y, 0.8)))
    parts = found["by_width"]
    assert [part["rows"] for part in parts] == [30] * 10
    order = np.argsort(np.ptp(intervals, axis=1))
    assert parts[3]["coverage"] == pytest.approx(inside[order[90:120]].mean())
    assert [part["mean_width"] for part in parts] == sorted(part["mean_width"] for part in parts)


def test_batches_and_weights():
    intervals, y = many()
    whole, parts, weighed = CoverageMetrics(0.9), CoverageMetrics(0.9), CoverageMetrics(0.9)
    whole.add(np.concatenate([intervals, intervals[:100]]), np.concatenate([y, y[:100]]))
    for first in range(0, 5000, 1000):
        rows = slice(first, first + 1000)
        parts.add(intervals[rows], y[rows])
    parts.add(intervals[:100], y[:100])
    weighed.add(intervals, y, weight=np.where(np.arange(5000) < 100, 2.0, 1.0))
    for key in ("coverage", "mean_width", "interval_score"):
        assert parts.figures()[key] == pytest.approx(whole.figures()[key])
        assert weighed.figures()[key] == pytest.approx(whole.figures()[key])
    assert weighed.figures()["coverage_error"] > whole.figures()["coverage_error"]


def test_of_very_many_rows_widths_are_those_of_a_sample(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_KEPT", 500)
    intervals, y = many()
    coverage = CoverageMetrics(0.9, 5000)
    for first in range(0, 5000, 1000):
        rows = np.arange(first, first + 1000)
        coverage.add(intervals[rows], y[rows], numbers=rows)
    found = coverage.figures()
    assert found["mean_width"] == pytest.approx(np.ptp(intervals, axis=1).mean())
    assert sum(part["rows"] for part in found["by_width"]) == 500


def test_one_width_has_no_parts():
    coverage = CoverageMetrics(0.9)
    middle = np.random.default_rng(0).uniform(0, 100, 50)
    coverage.add(np.column_stack([middle - 0.1, middle + 0.1]), middle)
    assert coverage.figures()["by_width"] == []
    assert coverage.figures()["coverage"] == 1.0
    # Of fifty rows, all is not for sure.
    assert coverage.figures()["coverage_error"] > 0.01
