"""Labels on another scale: `target_transform`, and `CandidateSets.map`."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, QuantileTransformer

from plr import CandidateSets, PartialLabelRegressor, load_model, make_candidates, save_model
from plr.errors import CandidateError, ParameterError
from plr.learners import Committee, Module
from plr.preprocessing.label_scale import LabelScale, Power, YeoJohnson, get_transform
from plr.preprocessing.scaling import Affine
from plr.weighting import Posterior

ROWS = 500


@pytest.fixture(scope="module")
def data():
    """Labels whose logarithms are a line and noise, as many again to judge by, and what they are on average."""
    random = np.random.default_rng(0)
    X = random.uniform(0, 1, size=(2 * ROWS, 2))
    middle = 2 * X[:, 0] + X[:, 1]
    y = np.exp(middle + 0.3 * random.normal(size=2 * ROWS))
    return X, y, np.exp(middle + 0.3**2 / 2), make_candidates(y[:ROWS], 4, set_size="fixed", random_state=1)


def fitted(data, transform, **more):
    X, _, _, S = data
    given = {"learner": "linear", "weighting": "posterior", "start": "density", "random_state": 0, **more}
    return PartialLabelRegressor(target_transform=transform, **given).fit(X[:ROWS], S)


@pytest.mark.parametrize("transform", ["log", "yeo-johnson", PowerTransformer("box-cox")], ids=str)
def test_predictions_are_mean_labels(data, transform):
    X, _, mean, _ = data
    found = fitted(data, transform).predict(X[ROWS:])
    assert np.mean((found - mean[ROWS:]) ** 2) < 0.2 * np.mean(
        (fitted(data, None).predict(X[ROWS:]) - mean[ROWS:]) ** 2
    )
    assert abs(np.mean(found) / np.mean(mean[ROWS:]) - 1) < 0.05


def test_the_mean_of_labels_lies_above_the_label_at_the_mean_of_logarithms(data):
    X, _, _, _ = data
    model = fitted(data, "log").model_
    there = model.scale.undo(model.model.predict(X[:ROWS]))
    inside = there < np.quantile(there, 0.5)
    assert_allclose((model.predict(X[:ROWS]) / there)[inside], np.exp(0.5 * model.noise**2), rtol=0.02)
    assert 0.2 < model.noise < 0.4


def test_intervals_are_wider_where_labels_are_large(data):
    X, y, mean, _ = data
    model = fitted(data, "log")
    intervals = model.predict_interval(X[ROWS:])
    covered = (intervals[:, 0] <= y[ROWS:]) & (y[ROWS:] <= intervals[:, 1])
    order = np.argsort(mean[ROWS:])
    assert intervals.min() >= 0.0
    assert np.mean(covered) > 0.85
    assert min(np.mean(covered[part]) for part in np.array_split(order, 3)) > 0.8
    width = intervals[order, 1] - intervals[order, 0]
    assert np.mean(width[-100:]) > 2 * np.mean(width[:100])


def test_candidates_are_found_as_well_as_on_logarithms_by_hand(data):
    X, y, _, S = data
    model = fitted(data, "log")
    by_hand = PartialLabelRegressor("linear", "posterior", start="density", random_state=0)
    by_hand.fit(X[:ROWS], S.map(np.log))
    ours = np.mean(model.identify().value == y[:ROWS])
    assert ours > np.mean(S.values[S.offsets[:-1] + by_hand.identify().index] == y[:ROWS]) - 0.04
    assert_array_equal(np.isin(model.identify().value, S.values), True)


def test_the_committee_chooses_by_itself_or_is_told(data):
    X, _, mean, _ = data
    errors = {
        transform: np.mean((fitted(data, transform, learner="auto", effort="low").predict(X[ROWS:]) - mean[ROWS:]) ** 2)
        for transform in ("auto", None, "log")
    }
    assert errors["auto"] < errors[None]
    assert errors["log"] < errors[None]


@pytest.mark.parametrize("transform", ["log", "yeo-johnson"])
def test_it_is_cloned_pickled_saved_and_searched(data, transform, tmp_path):
    X, _, _, S = data
    model = fitted(data, transform)
    model.calibrate()
    assert clone(model).target_transform == transform
    save_model(model, tmp_path / "model.plr")
    for again in (pickle.loads(pickle.dumps(model)), load_model(tmp_path / "model.plr")):
        assert_array_equal(again.predict(X), model.predict(X))
        assert_array_equal(again.predict_interval(X[:20]), model.predict_interval(X[:20]))
    search = GridSearchCV(
        PartialLabelRegressor("linear", "posterior", start="density", random_state=0),
        {"target_transform": [None, "log"]},
        cv=2,
    )
    assert search.fit(X[:ROWS], S).best_params_ == {"target_transform": "log"}


@pytest.mark.parametrize(
    ("learner", "transform"),
    [(Ridge(), "log"), ("linear", PowerTransformer()), ("linear", QuantileTransformer(n_quantiles=20))],
    ids=str,
)
def test_what_is_scikit_learns_is_loaded_again(data, learner, transform, tmp_path):
    X, _, _, _ = data
    model = fitted(data, transform, learner=learner)
    save_model(model, tmp_path / "model.plr")
    assert_array_equal(load_model(tmp_path / "model.plr").predict(X), model.predict(X))


def test_a_torch_module_is_loaded_again(data, tmp_path):
    torch = pytest.importorskip("torch")
    X, _, _, S = data
    module = torch.nn.Linear(2, 1)
    model = PartialLabelRegressor(Module(module, epochs=1), target_transform="log", random_state=0).fit(X[:50], S[:50])
    save_model(model, tmp_path / "model.plr")
    assert_allclose(load_model(tmp_path / "model.plr", module=module).predict(X), model.predict(X))


@pytest.mark.parametrize("unit", [1e12, 1e-12])
def test_the_unit_of_what_a_transformer_makes_does_not_matter(data, unit):
    X, _, _, S = data
    root = FunctionTransformer(np.sqrt, np.square)
    one, other = (fitted((X, None, None, sets), root) for sets in (S, S.map(lambda labels: unit * labels)))
    assert other.model_.noise / np.sqrt(unit) == pytest.approx(one.model_.noise, rel=1e-3)
    assert_allclose(other.predict(X) / unit, one.predict(X), rtol=1e-3)
    # In the units of labels, as with other learners.
    noise = [model.model_.report.noise_scale[-1] for model in (one, other)]
    assert noise[1] / unit == pytest.approx(noise[0], rel=1e-3)
    assert 0.5 < noise[0] / one.noise_scale_ < 2.0


@pytest.mark.parametrize("transform", [QuantileTransformer(n_quantiles=50), FunctionTransformer(np.sqrt, np.square)])
def test_a_transformer_does_not_see_rows_without_weight(data, transform):
    X, _, _, S = data
    weight = np.ones(ROWS)
    weight[0] = 0.0
    model = PartialLabelRegressor("linear", "posterior", target_transform=transform)
    far = CandidateSets.from_lists([[-500.0, 1e6], *S[1:].to_lists()])
    plain, other = (clone(model).fit(X[:ROWS], sets, sample_weight=weight).predict(X) for sets in (S, far))
    assert_allclose(other, plain, rtol=1e-6)


@pytest.mark.parametrize("transform", ["log", "yeo-johnson"])
def test_labels_that_are_the_same_but_for_one(transform):
    S = CandidateSets.from_lists([[3.0, 3.0]] * 1500 + [[3.0, 5.0]])
    found = get_transform(transform, S, None)
    assert_allclose(found.undo(found.apply(np.array([3.0, 5.0]))), [3.0, 5.0])


def test_the_committee_begins_as_it_does_on_labels_as_they_are(data, monkeypatch):
    X, _, _, S = data
    seen, original = [], Committee.fit
    monkeypatch.setattr(Committee, "fit", lambda self, task: seen.append(task) or original(self, task))
    learner = Committee("low", cv=2, fewest_rows=100)
    model = PartialLabelRegressor(learner, target_transform="log", random_state=0).fit(X[:40], S[:40])
    (task,) = seen
    target = task.density.mixture.target
    assert_allclose(target.undo(np.zeros(1)), task.S.values.mean(), rtol=1e-6)
    assert model._training.density is None


def test_plain_labels_are_transformed_too(data):
    X, y, mean, _ = data
    model = PartialLabelRegressor("linear", target_transform="log").fit(X[:ROWS], y[:ROWS])
    assert abs(np.mean(model.predict(X[ROWS:])) / np.mean(mean[ROWS:]) - 1) < 0.03


def test_the_density_of_false_labels_goes_along(data):
    X, y, _, _ = data
    random = np.random.default_rng(3)
    # False labels that lie where true ones do: only their density tells that they are common there.
    S = np.column_stack([y[:ROWS], random.choice(y, size=(ROWS, 2))])
    found = {
        false: np.mean(
            fitted((X, None, None, S), "log", weighting=Posterior(false_labels=false)).identify().value == y[:ROWS]
        )
        for false in ("uniform", "estimated")
    }
    assert found["estimated"] > found["uniform"] - 0.02


def test_what_has_no_logarithm_is_named():
    X = np.arange(6.0)[:, None]
    with pytest.raises(CandidateError, match=r"candidate -2 in row 3 has no logarithm.*'yeo-johnson'"):
        PartialLabelRegressor("linear", target_transform="log").fit(X, [[1, 2], [3], [1, 4], [-2, 5], [2], [6]])


@pytest.mark.parametrize("wrong", ["logs", 3, PowerTransformer, object()])
def test_what_is_no_transformation_is_refused(wrong):
    with pytest.raises(ParameterError, match=r"target_transform (must be|'logs'; did you mean 'log')"):
        PartialLabelRegressor(target_transform=wrong).fit([[0.0], [1.0]], [1.0, 2.0])


def test_a_transformation_must_increase(data):
    X, _, _, S = data
    falling = FunctionTransformer(np.negative, np.negative)
    with pytest.raises(ParameterError, match="strictly increasing"):
        PartialLabelRegressor("linear", target_transform=falling).fit(X[:ROWS], S)


@pytest.mark.parametrize(
    "power",
    [Power(1.0, 2.0, 0.0), Power(1.0, 2.0, -0.7), Power(1.0, 2.0, 1.4), YeoJohnson(2.0, 0.3), YeoJohnson(1.0, 2.0)],
    ids=str,
)
def test_powers_are_undone_and_know_their_slope(power):
    labels = np.linspace(0.5, 9.0, 40)
    if isinstance(power, YeoJohnson):
        labels -= 4.0
        expected = stats.yeojohnson(labels / power.unit, power.power)
        assert_allclose(power.apply(labels), expected)
    assert_allclose(power.undo(power.apply(labels)), labels)
    step = 1e-6
    slope = (power.apply(labels + step) - power.apply(labels - step)) / (2 * step)
    assert_allclose(power.log_slope(labels), np.log(slope), atol=1e-6)


def test_transformers_are_undone_and_know_their_slope():
    S = make_candidates(np.random.default_rng(0).lognormal(size=200), 1, random_state=0)
    labels = np.quantile(S.values, np.linspace(0.05, 0.9, 30))
    for given in ("yeo-johnson", QuantileTransformer(n_quantiles=50)):
        found = get_transform(given, S, None)
        assert_allclose(found.undo(found.apply(labels)), labels, rtol=1e-6)
        step = 1e-3
        slope = (found.apply(labels + step) - found.apply(labels - step)) / (2 * step)
        assert np.median(np.abs(found.log_slope(labels) - np.log(slope))) < 0.05


def test_the_mean_of_labels_is_that_of_draws():
    scale = LabelScale(Power(1.0, 1.0, 0.0), Affine(np.float64(0.0), np.float64(1.0)), -1.0, 5.0)
    drawn = np.clip(1.5 + 0.4 * np.random.default_rng(0).normal(size=200_000), -1.0, 5.0)
    assert scale.mean(np.array([1.5]), 0.4)[0] == pytest.approx(scale.undo(drawn).mean(), rel=5e-3)


@pytest.mark.parametrize("noise", [0.4, 6.0])
def test_noise_is_as_wide_beyond_all_candidates_as_at_their_end(noise):
    scale = LabelScale(Power(1.0, 1.0, 0.0), Affine(np.float64(0.0), np.float64(1.0)), 0.0, 5.0)
    widths = scale.spread(np.array([0.0, 5.0, -3.0, 20.0]), noise)
    assert_allclose(widths[2:], widths[:2])


def test_powers_for_labels_in_the_least_of_units():
    labels = np.random.default_rng(0).lognormal(sigma=3.0, size=200)
    S = CandidateSets.from_labels(labels / labels.max() * 1e-300)
    found = get_transform("yeo-johnson", S, None)
    assert_allclose(found.undo(found.apply(S.values)), S.values, rtol=1e-6)


class TestMap:
    def test_all_else_stays(self):
        S = CandidateSets.from_lists([[1, 10], [100]], prior=[[0.2, 0.8], [1.0]])
        found = S.map(np.log10)
        assert found.to_lists() == [[0.0, 1.0], [2.0]]
        assert_array_equal(found.prior, S.prior)
        assert S.to_lists() == [[1.0, 10.0], [100.0]]

    def test_what_a_function_cannot_take_is_named(self):
        S = CandidateSets.from_lists([[1, 10], [0]])
        with pytest.raises(CandidateError, match="makes -inf of the candidate 0 in row 1"):
            S.map(np.log)
        with pytest.raises(CandidateError, match="one number for each"):
            S.map(np.sum)
