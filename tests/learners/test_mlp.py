"""The network learner: its parameters, its precision, its scaling and the data it must survive."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from plr import CandidateSets
from plr.errors import DivergenceError, ParameterError, TargetScaleError
from plr.learners import MLP, Task
from plr.learners.mlp import FittedNetwork
from plr.losses import LOSSES, get_loss
from plr.weighting import WEIGHTINGS, Rule, get_weighting
from support.pairs import all_pairs

# These compile most kernels; in one process, so that it is done once.
pytestmark = pytest.mark.xdist_group("kernels")

ROWS = 400


@functools.cache
def compiled(weighting: str, loss: str) -> Rule:
    return Rule(get_weighting(weighting), get_loss(loss))


def small(**changed: Any) -> MLP:
    return MLP(**({"hidden": (8,), "epochs": 30, "batch_size": 64, "learning_rate": 0.02} | changed))


def fit(
    learner: MLP, X: np.ndarray, S: Any, weighting: str = "average", loss: str = "squared", **more: Any
) -> FittedNetwork:
    sets = S if isinstance(S, CandidateSets) else CandidateSets.from_lists(np.asarray(S)[:, None])
    return learner.fit(Task(X, sets, compiled(weighting, loss), **more))


def problem(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 3))
    return X, 10 * np.sin(X[:, 0]) + 5 * X[:, 1] + 0.1 * random.normal(size=rows) + 100


def candidates(y: np.ndarray, false_labels: int = 2) -> CandidateSets:
    others = np.random.default_rng(1).choice(y, size=(len(y), false_labels))
    return CandidateSets.from_padded(np.column_stack([others, y]))


def explained(fitted: FittedNetwork, X: np.ndarray, y: np.ndarray) -> float:
    return 1 - float(np.mean((fitted.predict(X) - y) ** 2) / np.var(y))


class TestParameters:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"hidden": 20}, r"hidden must be a sequence of layer sizes such as \(20, 30, 10\), got 20"),
            ({"hidden": "wide"}, "hidden must be a sequence of layer sizes.*got 'wide'"),
            ({"hidden": None}, "hidden must be a sequence of layer sizes.*got None"),
            ({"hidden": (20, 0)}, "A size in hidden must be at least 1, got 0"),
            ({"hidden": (2.5,)}, "A size in hidden must be a whole number, got 2.5"),
            ({"hidden": (True,)}, "A size in hidden must be a whole number, got True"),
            ({"activation": "rellu"}, "Unknown activation 'rellu'; did you mean 'relu'"),
            ({"activation": ("relu",), "hidden": (4, 4)}, "names 1 functions for 2 hidden layers"),
            ({"activation": ("relu", "tan"), "hidden": (4, 4)}, "did you mean 'tanh'"),
            ({"epochs": 0}, "epochs must be at least 1, got 0"),
            ({"epochs": 1.5}, "epochs must be a whole number, got 1.5"),
            ({"epochs": "many"}, "epochs must be a whole number, got 'many'"),
            ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
            ({"optimizer": "adamW"}, "Unknown optimizer 'adamW'; did you mean 'adam"),
            ({"optimizer": None}, "Unknown optimizer None"),
            ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
            ({"learning_rate": np.inf}, "learning_rate must be a finite number, got inf"),
            ({"schedule": "cosin"}, "did you mean 'cosine'"),
            ({"weight_decay": -1e-3}, "weight_decay must be at least 0, got -0.001"),
            ({"momentum": 1.0}, "momentum must be .*got 1.0"),
            ({"momentum": -0.1}, "momentum must be at least 0"),
            ({"validation_fraction": 0.0}, "validation_fraction must be above 0"),
            ({"validation_fraction": 0.95}, "validation_fraction must be .* at most 0.9, got 0.95"),
            ({"validation_fraction": 1e-6}, "validation_fraction=1e-06 of 400 rows leaves nothing"),
            ({"monitor": "los"}, "did you mean 'loss'"),
            ({"patience": 0}, "patience must be at least 1, got 0"),
            ({"dtype": "float16"}, "Unknown dtype 'float16'; did you mean 'float"),
        ],
        ids=str,
    )
    def test_out_of_range(self, changed: dict[str, Any], message: str) -> None:
        X, y = problem()
        with pytest.raises(ParameterError, match=message):
            fit(MLP(**changed), X, y)

    @pytest.mark.parametrize("activation", [None, 3])
    def test_activation_of_another_kind(self, activation: object) -> None:
        with pytest.raises(ParameterError, match="activation"):
            MLP(activation=activation).settings(100)

    def test_momentum_of_one_says_below_one(self) -> None:
        with pytest.raises(ParameterError) as caught:
            MLP(momentum=1.0).settings(100)
        assert "at most 1," not in str(caught.value)

    @pytest.mark.parametrize("hidden", [(4, 3), [4, 3], np.array([4, 3])], ids=["tuple", "list", "array"])
    def test_hidden_in_any_sequence(self, hidden: Any) -> None:
        assert MLP(hidden=hidden).settings(10).hidden == (4, 3)

    def test_activation_per_layer(self) -> None:
        assert MLP(hidden=(4, 3), activation=["tanh", "silu"]).settings(10).activations == ("tanh", "silu")
        assert MLP(hidden=(4, 3), activation="tanh").settings(10).activations == ("tanh", "tanh")
        assert MLP(hidden=()).settings(10).activations == ()

    def test_dtype(self) -> None:
        auto = MLP(batch_size=100)
        assert auto.settings(100).dtype == "float64"
        assert auto.settings(101).dtype == "float32"
        assert MLP(batch_size=100, dtype="float32").settings(5).dtype == "float32"
        assert MLP(batch_size=100, dtype="float64").settings(500).dtype == "float64"

    def test_dtype_arrives(self) -> None:
        X, y = problem()
        assert fit(small(epochs=1), X, y).network.parameters.dtype == np.float32
        assert fit(small(epochs=1, batch_size=ROWS), X, y).network.parameters.dtype == np.float64

    def test_epochs_auto(self) -> None:
        epochs = {rows: MLP(batch_size=100).settings(rows).epochs for rows in (1, 100, 2_000, 20_000, 10_000_000)}
        assert list(epochs.values()) == sorted(epochs.values(), reverse=True)
        assert epochs[1] == epochs[100]
        # In the middle range the number of steps is constant.
        assert abs(epochs[2_000] * 20 - epochs[20_000] * 200) <= 200
        assert MLP(epochs=7).settings(10).epochs == 7

    def test_learner_does_not_change(self) -> None:
        X, y = problem()
        learner = small(epochs="auto", batch_size=ROWS, hidden=(2,))
        before = dict(vars(learner))
        fit(learner, X, y)
        assert vars(learner) == before


class TestFit:
    @all_pairs(weighting=WEIGHTINGS, loss=LOSSES, dtype=["float32", "float64"])
    def test_learns_from_candidates(self, weighting: str, loss: str, dtype: str) -> None:
        X, y = problem()
        fitted = fit(small(dtype=dtype, epochs=60), X, candidates(y), weighting, loss)
        assert explained(fitted, X, y) > (0.3 if weighting == "average" else 0.8)
        assert fitted.report.loss[-1] < fitted.report.loss[0]
        assert fitted.report.rounds == len(fitted.report.loss) == 60
        assert fitted.report.best_round is None

    @pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
    @pytest.mark.parametrize("activation", ["relu", "silu", "tanh", "identity"])
    def test_optimizers_and_activations(self, optimizer: str, activation: str) -> None:
        X, y = problem()
        decay = 1.0 if optimizer == "adamw" else 0.0
        fitted = fit(small(optimizer=optimizer, activation=activation, weight_decay=decay), X, y)
        assert explained(fitted, X, y) > 0.85

    def test_no_hidden_layer_is_linear(self) -> None:
        X, y = problem()
        learner = small(hidden=(), epochs=400, dtype="float64", optimizer="adam", weight_decay=0.0)
        design = np.column_stack([X, np.ones(ROWS)])
        wanted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
        assert_allclose(fit(learner, X, y).predict(X), wanted, atol=0.01 * y.std())

    def test_same_seed_same_bits(self) -> None:
        X, y = problem()
        one, same, other = (fit(small(), X, candidates(y), "posterior", seed=s).predict(X) for s in (3, 3, 4))
        assert_array_equal(one, same)
        assert not np.allclose(one, other)

    def test_noise_scale_in_label_units(self) -> None:
        X, y = problem()
        one = fit(small(), X, candidates(y), "posterior").report.noise_scale
        ten = fit(small(), X, candidates(10 * y), "posterior").report.noise_scale
        assert len(one) == 30
        assert one[-1] < 0.5 * one[0]
        assert_allclose(ten, 10 * one, rtol=1e-2)
        assert fit(small(), X, candidates(y)).report.noise_scale.size == 0

    def test_sample_weight(self) -> None:
        """Rows that do not count are not learned from."""
        X, y = problem()
        spoiled = np.where(np.arange(ROWS) % 2, y, -y)
        weight = (np.arange(ROWS) % 2).astype(float)
        assert explained(fit(small(), X, spoiled, sample_weight=weight), X, y) > 0.85
        assert explained(fit(small(), X, spoiled), X, y) < 0.5

    def test_callback(self) -> None:
        heard: list[tuple[int, int, float]] = []
        X, y = problem()
        fitted = fit(small(), X, y, callback=lambda *told: heard.append(told))
        assert heard[-1] == (30, 30, fitted.report.loss[-1])

    def test_density_of_false_labels(self) -> None:
        X, y = problem()
        S = candidates(y)
        log_q = np.tile([5.0, 5.0, -5.0], ROWS)
        told = fit(small(), X, S, "posterior", log_q=log_q).report.loss[0]
        supervised = fit(small(), X, y, "posterior").report.loss[0]
        untold = fit(small(), X, S, "posterior").report.loss[0]
        assert abs(told - supervised) < 0.5 * abs(untold - supervised)

    def test_divergence_names_the_way_out(self) -> None:
        X, y = problem()
        wild = small(optimizer="sgd", learning_rate=1e12)
        with pytest.raises(DivergenceError, match="smaller learning_rate"):
            fit(wild, X, candidates(y), "identification")


class TestValidation:
    def test_fraction(self) -> None:
        X, y = problem()
        fitted = fit(small(validation_fraction=0.25), X, candidates(y), "progressive")
        report = fitted.report
        assert len(report.validation) == 30
        assert report.best_round == report.validation.argmin()

    def test_fraction_rows_are_not_trained_on(self) -> None:
        """Spoiling the labels of rows set aside changes the scores alone."""
        X, y = problem()
        held = np.sort(np.random.default_rng([7, 1]).permutation(ROWS)[:100])
        spoiled = y.copy()
        spoiled[held] = y[held][::-1]
        learner = small(validation_fraction=0.25, dtype="float64")
        one, other = fit(learner, X, y, seed=7), fit(learner, X, spoiled, seed=7)
        assert_array_equal(one.report.loss, other.report.loss)
        assert (other.report.validation > one.report.validation).all()

    def test_given_rows(self) -> None:
        X, y = problem()
        V, v = X[:100] + 0.1, y[:100]
        fitted = fit(small(), X, candidates(y), "progressive", validation=(V, CandidateSets.from_lists(v[:, None])))
        report = fitted.report
        assert report.best_round == report.validation.argmin()
        # Plain labels as target: the score is the mean squared error in units of the scaled labels.
        mse = np.mean((fitted.predict(V) - v) ** 2) / float(fitted.target.scale) ** 2
        assert_allclose(report.validation.min(), mse, rtol=1e-4)

    def test_evidence(self) -> None:
        X, y = problem()
        S = candidates(y)
        by_loss, by_evidence = (
            fit(small(monitor=m), X, S, "average", validation=(X[:100], S[:100])).report for m in ("loss", "evidence")
        )
        assert_array_equal(by_loss.loss, by_evidence.loss)
        assert not np.allclose(by_loss.validation, by_evidence.validation)
        assert by_evidence.best_round == by_evidence.validation.argmin()

    def test_patience(self) -> None:
        X, y = problem()
        judge = (X[:100], CandidateSets.from_lists(200 - y[:100, None]))
        report = fit(small(epochs=500, patience=3), X, y, validation=judge).report
        assert report.rounds == report.best_round + 4 < 500

    def test_not_both(self) -> None:
        X, y = problem()
        judge = (X[:10], CandidateSets.from_lists(y[:10, None]))
        with pytest.raises(ParameterError, match="not both"):
            fit(small(validation_fraction=0.5), X, y, validation=judge)


class TestScaling:
    @pytest.mark.parametrize(("factor", "offset"), [(1e-9, 0.0), (1.0, 1e7), (1e30, -1e33), (1e-200, 0.0)])
    def test_labels_of_any_size(self, factor: float, offset: float) -> None:
        X, y = problem()
        plain = fit(small(), X, y).predict(X)
        moved = fit(small(), X, y * factor + offset).predict(X)
        assert_allclose((moved - offset) / factor, plain, atol=0.05 * y.std())

    @pytest.mark.parametrize(("factor", "offset"), [(1e-12, 0.0), (1.0, 1e6), (1e20, 1e23)])
    def test_features_of_any_size(self, factor: float, offset: float) -> None:
        X, y = problem()
        plain = fit(small(), X, y).predict(X)
        assert_allclose(fit(small(), X * factor + offset, y).predict(X * factor + offset), plain, atol=0.05 * y.std())

    def test_off(self) -> None:
        X, y = problem()
        raw = fit(small(scale_target=False, scale_features=False, epochs=1), X, y)
        # A network that has hardly been trained is near zero, and nothing moves its output to the labels' centre.
        assert np.abs(raw.predict(X)).max() < 50
        assert_allclose(raw.report.loss[0], np.mean(y**2), rtol=0.2)
        scaled = fit(small(epochs=1), X, y)
        assert scaled.report.loss[0] < 3

    def test_raw_labels_that_overflow(self) -> None:
        X, y = problem()
        y[17] = -1e19
        with pytest.raises(TargetScaleError, match=r"-1e\+19 in row 17.*scale_target=True, or double precision"):
            fit(small(scale_target=False), X, y)
        raw = small(scale_target=False, dtype="float64", epochs=1)
        assert np.isfinite(fit(raw, X, y).predict(X)).all()

    def test_span_beyond_float64(self) -> None:
        X, y = problem()
        y[:2] = 1.7e308, -1.7e308
        with pytest.raises(TargetScaleError, match="a span beyond float64"):
            fit(small(), X, y)

    @pytest.mark.parametrize("rows", [50, ROWS])
    def test_constant_labels(self, rows: int) -> None:
        X, _ = problem(rows)
        fitted = fit(small(epochs=200), X, np.full(rows, 1e5))
        assert_allclose(fitted.predict(X), 1e5, atol=0.2)

    def test_constant_features(self) -> None:
        X, y = problem()
        wide = np.column_stack([X, np.full(ROWS, 1e9), np.zeros(ROWS)])
        assert explained(fit(small(), wide, y), wide, y) > 0.85
        nothing = np.full((ROWS, 2), 3.0)
        assert_allclose(fit(small(), nothing, y).predict(nothing), y.mean(), atol=0.1 * y.std())

    @pytest.mark.parametrize("rows", [1, 2, 63, 64, 65])
    def test_few_rows(self, rows: int) -> None:
        X, y = problem(rows)
        assert np.isfinite(fit(small(epochs=3), X, candidates(y), "posterior").predict(X)).all()

    def test_sets_of_very_different_sizes(self) -> None:
        X, y = problem()
        lists = [np.append(y[i], np.linspace(70, 130, 5000 if i == 0 else i % 3)) for i in range(ROWS)]
        fitted = fit(small(), X, CandidateSets.from_lists(lists), "progressive")
        assert explained(fitted, X, y) > 0.7


class TestStart:
    def test_start_is_used(self) -> None:
        X, y = problem()
        S = candidates(y)
        start = np.tile([0.0, 0.0, 1.0], ROWS)
        plain = fit(small(), X, S, "identification").predict(X)
        assert not np.array_equal(fit(small(), X, S, "identification", start=start).predict(X), plain)
