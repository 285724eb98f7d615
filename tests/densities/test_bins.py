"""Densities of straight lines between bin centres, and the numbers that sum them up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid

from plr import CandidateSets
from plr.densities.bins import Bins, mean, median, mode, quantiles


@pytest.fixture
def bins():
    return Bins(low=-1.0, width=0.5, count=9)


@pytest.fixture
def heights(bins):
    return bins.nearest_density(np.random.default_rng(0).normal(0.3, 0.5, size=(40, bins.count)))


def test_a_histogram_has_area_one_and_keeps_the_mean(bins):
    S = CandidateSets.from_lists([[0.1], [0.7, 2.2], [-0.4, 0.0, 1.3]], prior=[[1], [3, 1], [1, 2, 1]])
    found = bins.spread(S, S.prior) / bins.areas
    assert_allclose(found @ bins.areas, 1.0)
    assert_allclose((found * bins.areas) @ bins.centres, S.mean())


def test_the_nearest_density(bins):
    already = bins.nearest_density(np.full((1, bins.count), 0.25))
    assert_allclose(already, 0.25)
    wild = np.random.default_rng(1).normal(size=(30, bins.count))
    wild += (1 - wild @ bins.areas)[:, None] / bins.areas.sum()
    found = bins.nearest_density(wild)
    assert (found >= 0).all()
    assert_allclose(found @ bins.areas, 1.0)

    def distance(other):
        return ((other - wild) ** 2) @ bins.areas

    cut = np.maximum(wild, 0) / (np.maximum(wild, 0) @ bins.areas)[:, None]
    assert (distance(found) <= distance(cut) + 1e-12).all()
    nudged = bins.nearest_density(found + 0.01 * np.random.default_rng(2).normal(size=found.shape))
    assert (distance(found) <= distance(nudged) + 1e-12).all()


def test_heights_between_centres(bins, heights):
    labels = np.array([-1.0, -0.75, 3.0, 99.0])
    rows = np.array([0, 1, 2, 3])
    expected = [heights[0, 0], (heights[1, 0] + heights[1, 1]) / 2, heights[2, 8], heights[3, 8]]
    assert_allclose(bins.at(heights, rows, labels), expected)
    assert_allclose(bins.at(heights, slice(None), bins.centres), heights)


def test_points_agree_with_sums_over_a_fine_grid(bins, heights):
    grid = np.linspace(bins.centres[0], bins.centres[-1], 20_001)
    fine = bins.at(heights, slice(None), grid)
    assert_allclose(mean(bins.centres, heights), trapezoid(fine * grid, grid, axis=1), atol=1e-6)
    assert_allclose(mode(bins.centres, heights), grid[fine.argmax(axis=1)], atol=1e-3)
    reached = np.cumsum(fine, axis=1) / fine.sum(axis=1, keepdims=True)
    levels = np.array([0.1, 0.5, 0.99])
    found = quantiles(bins.centres, heights, levels)
    for column, level in enumerate(levels):
        at = (np.searchsorted(grid, found[:, column])).clip(0, len(grid) - 1)
        assert_allclose(reached[np.arange(len(heights)), at], level, atol=2e-3)
    assert_allclose(median(bins.centres, heights), found[:, 1])


def test_quantiles_at_the_ends():
    knots, height = np.array([0.0, 1.0, 2.0, 3.0]), np.array([[0.0, 1.0, 0.0, 0.0]])
    assert_allclose(quantiles(knots, height, np.array([0.0, 0.125, 0.5, 1.0])), [[0.0, 0.5, 1.0, 2.0]])
