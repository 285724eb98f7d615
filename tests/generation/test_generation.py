"""Every mechanism hides the truth once, where it says, and draws false labels from where it says."""

import dataclasses
import json

import numpy as np
import pytest

from plr.errors import CandidateError, FeatureError, InfeasibleError, LengthError, ParameterError
from plr.generation import MECHANISMS, SET_SIZES, make_candidates, recipe, resolve_options
from plr.paper.datasets import load
from support.refusals import refused

ROWS = 20_000
COUNTED = [name for name, kind in MECHANISMS.items() if kind.counted]
UNCOUNTED = [name for name in MECHANISMS if name not in COUNTED]


@pytest.fixture(scope="module")
def y():
    return np.random.default_rng(7).normal(50.0, 10.0, ROWS)


@pytest.fixture(scope="module", name="X")
def features():
    return np.random.default_rng(8).normal(size=(ROWS, 4))


def rows_of(sets):
    return np.repeat(np.arange(len(sets)), sets.sizes)


def false_of(sets, index):
    """The false labels and the row of each."""
    is_false = np.ones(len(sets.values), dtype=bool)
    is_false[(sets.offsets[:-1] + index)[index >= 0]] = False
    return sets.values[is_false], rows_of(sets)[is_false]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_truth_is_in_its_set_once_at_the_index_given(mechanism, missing, y, X):
    sets, index = make_candidates(y, mechanism=mechanism, X=X, missing=missing, random_state=0, return_index=True)
    assert len(sets) == ROWS
    assert sets.sizes.min() >= 1
    assert (index < 0).sum() == round(missing * ROWS)
    kept = np.flatnonzero(index >= 0)
    assert (index[kept] < sets.sizes[kept]).all()
    np.testing.assert_array_equal(sets.values[sets.offsets[kept] + index[kept]], y[kept])
    hits = np.bincount(rows_of(sets), sets.values == y[rows_of(sets)], minlength=ROWS)
    np.testing.assert_array_equal(hits, index >= 0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_position_is_uniform_and_tells_nothing(mechanism, y, X):
    sets, index = make_candidates(y, mechanism=mechanism, X=X, random_state=1, return_index=True)
    for size in np.unique(sets.sizes):
        rows = np.flatnonzero(sets.sizes == size)
        if size == 1 or len(rows) < 500:
            continue
        seen = np.bincount(index[rows], minlength=size)
        expected = len(rows) / size
        # Four standard deviations of a chi-square statistic with size - 1 degrees of freedom.
        assert ((seen - expected) ** 2 / expected).sum() < size - 1 + 4 * np.sqrt(2 * (size - 1))
        # Sorted false labels with the truth put in anywhere would give it away.
        sets_of_size = sets.values[sets.offsets[rows][:, None] + np.arange(size)]
        rising = (np.diff(sets_of_size, axis=1) > 0).mean()
        assert rising == pytest.approx(0.5, abs=4 / np.sqrt(len(rows)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_same_seed_same_sets(mechanism, y, X):
    def made(seed):
        return make_candidates(y[:500], mechanism=mechanism, X=X[:500], missing=0.1, random_state=seed)

    for seed in (3, np.random.SeedSequence(3)):
        assert made(seed) == made(seed)
    assert made(3) == made(np.random.default_rng(3))
    assert made(np.random.RandomState(3)) == made(np.random.RandomState(3))
    assert made(3) != made(4)
    shared = np.random.RandomState(3)
    assert made(shared) != made(shared)


@pytest.mark.parametrize("mechanism", [name for name in COUNTED if name != "digits"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_set_sizes_of_both_protocols(mechanism, missing, y, X):
    options = {"mechanism": mechanism, "X": X, "missing": missing, "random_state": 0}
    fixed = make_candidates(y, 3, set_size="fixed", **options)
    np.testing.assert_array_equal(fixed.sizes, 4)
    upto = make_candidates(y, 3, set_size="upto", **options)
    shares = np.bincount(upto.sizes, minlength=5)[1:] / ROWS
    np.testing.assert_allclose(shares, 0.25, atol=0.02)
    assert make_candidates(y, 3, **options) == upto
    if not missing:
        alone = make_candidates(y, 0, **options)
        np.testing.assert_array_equal(alone.values, y)


def test_default_is_four_false_labels(y):
    assert make_candidates(y, random_state=0) == make_candidates(y, 4, set_size="upto", random_state=0)


@pytest.mark.parametrize("size", SET_SIZES)
@pytest.mark.parametrize("number", [2, 16])
def test_mean_of_the_set_mean_has_its_closed_form(size, number):
    """With k false labels centred at c the mean of a set is (y + k c) / (k + 1) on average."""
    y = load("abalone").target
    y = np.tile(y, 20)
    k = np.full(1, number) if size == "fixed" else np.arange(number + 1)
    pull = (1 / (k + 1)).mean()
    centre = (y.min() + y.max()) / 2
    means = make_candidates(y, number, set_size=size, random_state=0).mean()
    expected = pull * y + (1 - pull) * centre
    tolerance = 5 * (means - expected).std() / np.sqrt(len(y))
    assert means.mean() == pytest.approx(expected.mean(), abs=tolerance)
    slope = np.polyfit(y, means, 1)[0]
    assert slope == pytest.approx(pull, abs=tolerance / y.std())


def test_uniform_fills_the_span(y):
    false, _ = false_of(*make_candidates(y, random_state=0, return_index=True))
    assert y.min() <= false.min() < false.max() <= y.max()
    counts, _ = np.histogram(false, bins=10, range=(y.min(), y.max()))
    np.testing.assert_allclose(counts / len(false), 0.1, atol=0.01)
    false, _ = false_of(*make_candidates(y, span=(-3, 5), random_state=0, return_index=True))
    assert -3 <= false.min() < -2.99
    assert 4.99 < false.max() <= 5


def test_gaussian_lies_around_the_truth(y):
    false, rows = false_of(*make_candidates(y, mechanism="gaussian", spread=0.2, random_state=0, return_index=True))
    away = false - y[rows]
    assert away.mean() == pytest.approx(0, abs=0.05)
    assert away.std() == pytest.approx(0.2 * y.std(), rel=0.02)


def test_marginal_takes_other_rows_labels_never_its_own():
    y = np.arange(4.0)
    sets, index = make_candidates(y, 3000, set_size="fixed", mechanism="marginal", random_state=0, return_index=True)
    false, rows = false_of(sets, index)
    assert not (false == y[rows]).any()
    table = np.zeros((4, 4))
    np.add.at(table, (rows, false.astype(int)), 1 / 3000)
    np.testing.assert_allclose(table, (1 - np.eye(4)) / 3, atol=0.04)


def test_marginal_missing_truth_does_not_come_back_by_chance():
    y = np.repeat([1.0, 2.0], 500)
    sets, index = make_candidates(y, mechanism="marginal", missing=0.5, random_state=0, return_index=True)
    rows = rows_of(sets)
    assert not (sets.values == y[rows])[index[rows] < 0].any()
    with pytest.raises(ParameterError, match="to lose its truth"):
        make_candidates(np.ones(50), mechanism="marginal", missing=0.5, random_state=0)


def test_units_are_read_back_in_every_unit(y):
    sets, index = make_candidates(y, mechanism="units", random_state=0, return_index=True)
    assert (sets.sizes == 1).mean() == pytest.approx(0.2, abs=1e-4)
    false, rows = false_of(sets, index)
    in_fahrenheit = np.isclose(false, 1.8 * y[rows] + 32)
    in_celsius = np.isclose(false, (y[rows] - 32) / 1.8)
    assert (in_fahrenheit | in_celsius).all()
    assert in_fahrenheit.mean() == pytest.approx(0.5, abs=0.02)


def test_units_with_three_maps():
    maps = [(1, 0), (10, 0), (1, 5)]
    sets = make_candidates(np.full(900, 20.0), mechanism="units", maps=maps, unambiguous=0, random_state=0)
    np.testing.assert_array_equal(sets.sizes, 3)
    readings = {tuple(np.sort(row)) for row in sets.to_lists()}
    assert readings == {(2.0, 15.0, 20.0), (20.0, 195.0, 200.0), (2.5, 20.0, 25.0)}


def test_digits_change_one_printed_digit():
    y = np.round(np.random.default_rng(0).uniform(-500, 500, ROWS), 2)
    sets, index = make_candidates(y, 3, mechanism="digits", set_size="fixed", random_state=0, return_index=True)
    assert (sets.sizes == 1).mean() == pytest.approx(0.2, abs=1e-4)
    assert set(np.unique(sets.sizes)) == {1, 4}
    false, rows = false_of(sets, index)
    places = {}
    for value, row in zip(false[:3000].tolist(), rows[:3000].tolist(), strict=True):
        truth, changed = f"{abs(y[row]):.2f}", f"{abs(value):.2f}".rjust(len(f"{abs(y[row]):.2f}"), "0")
        assert float(f"{value:.2f}") == value
        assert len(truth) == len(changed)
        different = [place for place, pair in enumerate(zip(truth, changed, strict=True)) if pair[0] != pair[1]]
        assert len(different) == 1
        places.setdefault(row, set()).add(different[0])
    assert all(len(place) == 1 for place in places.values())
    assert {place for place, *_ in places.values()} == {0, 1, 2, 3, 4, 5}
    for row in sets.to_lists()[:1000]:
        assert len(set(row)) == len(row)


def test_digits_keep_what_is_not_printed():
    y = np.array([12.3456, 0.5])
    sets, index = make_candidates(
        y, 9, mechanism="digits", set_size="fixed", decimals=0, unambiguous=0, random_state=0, return_index=True
    )
    assert sets.sizes.tolist() == [10, 10]
    false, rows = false_of(sets, index)
    np.testing.assert_allclose(false - y[rows], np.rint(false - y[rows]), atol=1e-9)
    np.testing.assert_allclose(np.sort(false[rows == 1]), 0.5 + np.arange(1, 10))


def test_folding_lists_the_unwrappings_in_the_range(y):
    low, high = y.min(), y.max()
    period = (high - low) / 3
    sets = make_candidates(y, mechanism="folding", unambiguous=0, random_state=0)
    turns = (sets.values - y[rows_of(sets)]) / period
    np.testing.assert_allclose(turns, np.rint(turns), atol=1e-9)
    assert sets.values.min() >= low - 1e-9
    assert sets.values.max() <= high + 1e-9
    assert set(np.unique(sets.sizes)) <= {3, 4}
    assert all(len(set(np.rint(row))) == len(row) for row in sets.to_lists()[:500])
    some = make_candidates(y, mechanism="folding", random_state=0)
    assert (some.sizes == 1).mean() == pytest.approx(0.2, abs=1e-4)


def test_folding_with_period_and_span_of_ones_own():
    sets = make_candidates([0.5, 9.0], mechanism="folding", period=2, span=(0, 4), unambiguous=0, random_state=0)
    assert [sorted(row) for row in sets.to_lists()] == [[0.5, 2.5], [1.0, 3.0, 9.0]]


def test_folding_with_one_unwrapping_still_has_a_false_one_for_missing_truth(y):
    sets, index = make_candidates(y, mechanism="folding", period=1e4, missing=0.1, random_state=0, return_index=True)
    np.testing.assert_array_equal(sets.sizes, 1)
    np.testing.assert_array_equal(sets.values[index < 0], y[index < 0] + 1e4)
    outside = make_candidates(
        np.full(10, -250.0), mechanism="folding", period=100, span=(0, 4), missing=0.5, random_state=0
    )
    assert sorted(outside.values.tolist()) == [-250.0] * 5 + [-150.0] * 5


def test_biased_follows_the_features_not_the_truth(y, X):
    sets, index = make_candidates(
        y, 1, set_size="fixed", mechanism="biased", X=100 * X + 7, random_state=0, return_index=True
    )
    false, rows = false_of(sets, index)
    coefficients, residual, *_ = np.linalg.lstsq(np.column_stack([np.ones(ROWS), X]), false, rcond=None)
    assert np.linalg.norm(coefficients[1:]) == pytest.approx(y.std(), rel=0.05)
    assert np.sqrt(residual[0] / ROWS) == pytest.approx(0.5 * y.std(), rel=0.03)
    assert coefficients[0] == pytest.approx(y.mean(), abs=0.3)
    assert abs(np.corrcoef(false, y[rows])[0, 1]) < 0.03
    none = make_candidates(y, 1, set_size="fixed", mechanism="biased", X=X, shift=0.0, random_state=0)
    assert len(none.values) == 2 * ROWS


def test_marginal_with_a_pool_of_ones_own():
    sets = make_candidates([5.0, 6.0], 50, set_size="fixed", mechanism="marginal", pool=[1.0, 2.0], random_state=0)
    assert set(sets.values) == {1.0, 2.0, 5.0, 6.0}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_resolved_options_leave_nothing_to_the_rows(mechanism, y, X):
    options = resolve_options(mechanism, y[:500], X=X[:500], random_state=0)
    assert set(options) == {field.name for field in dataclasses.fields(MECHANISMS[mechanism])}
    assert None not in options.values()
    again = resolve_options(mechanism, 3 * y[500:1000], X=X[500:1000], random_state=1, **options)
    assert again == options == json.loads(json.dumps(options), object_hook=as_tuples)
    # A row's false labels are the same whatever the other rows are.
    same, other = (
        make_candidates(
            np.r_[y[:1], rest], mechanism=mechanism, X=np.r_[X[:1], X[: len(rest)]], random_state=5, **options
        )
        for rest in (y[1:2], 100 * y[1:2])
    )
    assert same[:1].values.tolist() == other[:1].values.tolist()


def as_tuples(found):
    """Undo what JSON does to tuples."""
    return {name: freeze(value) for name, value in found.items()}


def freeze(value):
    return tuple(map(freeze, value)) if isinstance(value, list) else value


def test_options_resolved_from_the_same_rows_change_nothing(y):
    for mechanism in set(MECHANISMS) - {"biased"}:
        options = resolve_options(mechanism, y[:500])
        made = [make_candidates(y[:500], mechanism=mechanism, random_state=2, **given) for given in ({}, options)]
        assert made[0] == made[1]


def test_million_rows_need_no_loop():
    y = np.random.default_rng(0).normal(size=1_000_000)
    sets, index = make_candidates(y, random_state=0, return_index=True)
    np.testing.assert_array_equal(sets.values[sets.offsets[:-1] + index], y)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "empty"),
        ([1.0, np.nan], r"y\[1\] is nan"),
        ([1.0, 2.0, np.inf], {"row": 2, "value": np.inf}),
        ([[1.0, 2.0]], "one dimension"),
        (["a", "b"], "must be numbers"),
    ],
)
def test_bad_labels(labels, message):
    with refused(CandidateError, message):
        make_candidates(labels)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"false_labels": -1}, "false_labels must be at least 0, got -1"),
        ({"false_labels": 2.5}, {"parameter": "false_labels"}),
        ({"false_labels": True}, {"parameter": "false_labels"}),
        ({"missing": 1.0}, "missing, a share of rows, must be at least 0 and below 1, got 1.0"),
        ({"missing": -0.1}, {"parameter": "missing", "value": -0.1}),
        ({"missing": np.nan}, {"parameter": "missing"}),
        ({"set_size": "fix"}, "did you mean 'fixed'"),
        ({"mechanism": "unifrom"}, {"parameter": "mechanism", "value": "unifrom"}),
        ({"spread": 1.0}, "'uniform' has no option 'spread'; it has span"),
        ({"mechanism": "marginal", "span": (0, 1)}, {"parameter": "span"}),
        ({"mechanism": "marginal", "pool": []}, {"parameter": "pool"}),
        ({"mechanism": "marginal", "pool": [1.0, np.nan]}, {"parameter": "pool"}),
        ({"mechanism": "gaussian", "deviation": 0}, {"parameter": "deviation"}),
        ({"mechanism": "biased", "X": [[1], [2], [3]], "centre": (1.0,)}, "an intercept and 1 slopes"),
        ({"mechanism": "biased", "X": [[1], [2], [3]], "centre": "ab"}, {"parameter": "centre"}),
        ({"span": (1, 0)}, {"parameter": "span"}),
        ({"span": 3}, {"parameter": "span"}),
        ({"span": (0, np.inf)}, {"parameter": "span"}),
        ({"span": (-1e308, 1e308)}, {"parameter": "span"}),
        ({"mechanism": "gaussian", "spread": 0}, {"parameter": "spread"}),
        ({"mechanism": "units", "false_labels": 4}, "false_labels does not apply to 'units'"),
        ({"mechanism": "folding", "set_size": "upto"}, {"parameter": "set_size"}),
        ({"mechanism": "units", "maps": [(1, 0)]}, "at least two units"),
        ({"mechanism": "units", "maps": [(1, 0), (1, 0)]}, {"parameter": "maps"}),
        ({"mechanism": "units", "maps": [(1, 0), (0, 2)]}, {"parameter": "maps"}),
        ({"mechanism": "units", "maps": [1, 2]}, "pairs"),
        ({"mechanism": "units", "maps": [(1, 0), (2,)]}, {"parameter": "maps"}),
        ({"mechanism": "digits", "false_labels": 10}, {"parameter": "false_labels", "value": 10}),
        ({"mechanism": "digits", "decimals": -1}, {"parameter": "decimals"}),
        ({"mechanism": "digits", "decimals": 15}, "too many digits"),
        ({"mechanism": "digits", "unambiguous": 1.5}, {"parameter": "unambiguous"}),
        ({"mechanism": "folding", "period": 0.0}, {"parameter": "period"}),
        ({"mechanism": "folding", "period": 1e-12}, "too small"),
        ({"mechanism": "biased"}, {"parameter": "X"}),
        ({"mechanism": "biased", "X": np.ones((3, 2))}, "constant"),
        ({"mechanism": "biased", "X": [[1], [2], [3]], "shift": np.inf}, {"parameter": "shift"}),
        ({"random_state": "seed"}, "random_state must be a seed or a generator"),
        ({"random_state": -1}, {"parameter": "random_state"}),
    ],
)
def test_bad_parameters(arguments, expected):
    with refused(ParameterError, expected):
        make_candidates([1.0, 2.0, 10.0], **({"random_state": 0} | arguments))


@pytest.mark.parametrize("mechanism", ["uniform", "gaussian", "biased", "folding"])
def test_equal_labels_are_refused_where_they_set_the_scale(mechanism):
    with pytest.raises(ParameterError, match="all 5"):
        make_candidates([5.0, 5.0], mechanism=mechanism, X=[[1.0], [2.0]], random_state=0)
    assert make_candidates([5.0], span=(0, 9), random_state=0).sizes[0] >= 1


def test_bad_features():
    place = {"row": 1, "column": 0}
    for X, error, fields in [
        ([[1.0]], LengthError, {}),
        ([1.0, 2.0], FeatureError, {}),
        ([[1.0], [np.nan]], FeatureError, place),
    ]:
        with refused(error, fields):
            make_candidates([1.0, 2.0], mechanism="biased", X=X)
    with pytest.raises(FeatureError, match="must be numbers"):
        make_candidates([1.0, 2.0], X=[["a"], ["b"]])


def test_absurd_sizes_are_refused_before_memory_runs_out():
    for number in (10**9, 10**13, 10**30):
        with pytest.raises(InfeasibleError, match="candidates"):
            make_candidates([1.0, 2.0, 3.0], number, set_size="fixed")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_recipe_is_complete_and_can_be_written_down(mechanism):
    made = recipe(mechanism=mechanism, missing=0.1, random_state=5)
    assert json.loads(json.dumps(made))["mechanism"] == mechanism
    decided = {field.name for field in dataclasses.fields(MECHANISMS[mechanism]) if field.default is not None}
    assert set(made["options"]) == decided
    assert ("false_labels" in made) == ("set_size" in made) == (mechanism in COUNTED)
    assert (made["seed"], made["missing"]) == (5, 0.1)
    with pytest.raises(ParameterError, match="no option 'speed'"):
        recipe(mechanism=mechanism, speed=1)


def test_every_mechanism_is_documented():
    for name, kind in MECHANISMS.items():
        assert f"``{name}``" in make_candidates.__doc__
        for field in dataclasses.fields(kind):
            assert f"{field.name} : " in kind.__doc__
