"""The module learner: any torch module, optimiser, scheduler and loss, inside and outside the regressor."""

from __future__ import annotations

import dataclasses
import functools
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from torch import nn
from torch.optim import lr_scheduler

from plr import PartialLabelRegressor, make_candidates
from plr.learners import MLP, Module, Task
from plr.losses import LOSSES
from plr.weighting import WEIGHTINGS
from support.torch_nets import ROWS, Restless, Words, compiled, explained, fit, perceptron, problem, small


class TestLearns:
    @pytest.mark.parametrize(
        ("weighting", "loss"),
        # Each is held against the compiled formula elsewhere.
        [
            pytest.param(weighting, loss, marks=[pytest.mark.slow] * (weighting != "posterior" and loss != "squared"))
            for weighting in WEIGHTINGS
            for loss in LOSSES
        ],
    )
    def test_from_candidates(self, weighting: str, loss: str) -> None:
        X, y, S = problem()
        fitted = small().fit(Task(X, S, compiled(weighting, loss)))
        assert explained(fitted.predict(X), y) > (0.3 if weighting == "average" else 0.9)
        assert fitted.report.rounds == len(fitted.report.loss) == 40
        assert fitted.report.loss[-1] < fitted.report.loss[0]
        assert fitted.predict(X).dtype == np.float64
        assert not fitted.module.training

    def test_images(self) -> None:
        digits = load_digits()
        net = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 32), nn.ReLU(),
            nn.Linear(32, 1),
        )  # fmt: skip
        X, y = digits.images[:600, None] / 16, digits.target[:600].astype(float)
        S = make_candidates(y, 2, random_state=0)
        model = PartialLabelRegressor(small(net, epochs=25, learning_rate=0.005), random_state=0).fit(X, S)
        assert model.score(X, y) > 0.8

    def test_tokens(self) -> None:
        random = np.random.default_rng(0)
        X = random.integers(20, size=(400, 6), dtype=np.int32)
        y = random.normal(size=20)[X].mean(1) * 7
        model = PartialLabelRegressor(small(Words(), epochs=60), random_state=0).fit(
            X, make_candidates(y, 2, random_state=0)
        )
        assert model.score(X, y) > 0.9

    def test_noise_scale_agrees_with_the_compiled_network(self) -> None:
        X, _, S = problem()
        task = Task(X, S, compiled("posterior"))
        net = functools.partial(perceptron, 3)
        ours = fit(small(net, epochs=100, optimizer="adam", scheduler="cosine")).report.noise_scale
        kernel = MLP(hidden=(32,), epochs=100, batch_size=64, learning_rate=0.02, optimizer="adam", weight_decay=0.0)
        theirs = kernel.fit(task).report.noise_scale
        assert len(ours) == 100
        assert ours[-1] == pytest.approx(theirs[-1], rel=0.15)
        assert ours[0] > 5 * ours[-1]

    def test_one_candidate_per_row_is_supervision(self) -> None:
        X, y, _ = problem()
        model = PartialLabelRegressor(small(), "identification", random_state=0).fit(X, y)
        assert model.score(X, y) > 0.95

    def test_single_step_is_the_mean_gradient_of_the_formula(self) -> None:
        X, _, S = problem()
        rule = compiled("progressive")
        net = nn.Linear(3, 1)
        one = Module(net, "sgd", 0.1, epochs=1, batch_size=ROWS, scale_target=False, device="cpu")
        weight = np.linspace(0, 2, ROWS)
        fitted = one.fit(Task(X, S, rule, sample_weight=weight))
        prediction = net(torch.tensor(X, dtype=torch.float32)).detach().numpy()[:, 0].astype(float)
        found = rule.evaluate(prediction, S, rule.initial_state())
        slope = (weight / weight[weight > 0].mean() * found.gradient)[weight > 0]
        moved = (net.bias - fitted.module.bias).item()
        assert moved == pytest.approx(0.1 * slope.mean(), rel=1e-4)
        assert fitted.report.loss[0] == pytest.approx(np.average(found.loss, weights=weight), rel=1e-5)


class TestParts:
    @pytest.mark.parametrize(
        "optimizer",
        [
            "adam", "sgd", "rmsprop", torch.optim.NAdam, functools.partial(torch.optim.SGD, momentum=0.5),
            lambda parameters: torch.optim.LBFGS(parameters, line_search_fn="strong_wolfe"),
        ],
        ids=["adam", "sgd", "rmsprop", "class", "partial", "lbfgs"],
    )  # fmt: skip
    def test_optimizers(self, optimizer: Any) -> None:
        X, y, _ = problem()
        # LBFGS wants to see all rows in each step.
        more = {"batch_size": ROWS, "epochs": 5} if "lambda" in str(optimizer) else {}
        learner = small(optimizer=optimizer, learning_rate=0.01, **more)
        model = PartialLabelRegressor(learner, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.8

    def test_learning_rate_and_decay_reach_the_optimizer(self) -> None:
        seen = []

        def make(parameters: Any, lr: float, weight_decay: float = 0.0) -> torch.optim.Optimizer:
            seen.append((lr, weight_decay))
            return torch.optim.SGD(parameters, lr=lr, weight_decay=weight_decay)

        fit(small(optimizer=make, learning_rate=0.003, weight_decay=0.5, epochs=1))
        assert seen == [(0.003, 0.5)]

    @pytest.mark.parametrize(
        "scheduler",
        [
            "cosine",
            lambda optimizer, steps: lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=steps),
            lambda optimizer, steps: lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.1),
        ],
        ids=["cosine", "one-cycle", "plateau"],
    )
    def test_schedulers(self, scheduler: Any) -> None:
        rates: list[float] = []

        class Recording(torch.optim.Adam):
            def step(self, closure: Any = None) -> Any:
                rates.append(self.param_groups[0]["lr"])
                return super().step(closure)

        fit(small(optimizer=Recording, scheduler=scheduler, epochs=30))
        assert len(rates) == 30 * 5
        assert rates[-1] < 0.2 * max(rates)

    def test_gradient_is_clipped(self) -> None:
        norms = []

        class Recording(torch.optim.SGD):
            def step(self, closure: Any = None) -> Any:
                loss = super().step(closure)
                norms.append(math.sqrt(sum(float((p.grad**2).sum()) for p in self.param_groups[0]["params"])))
                return loss

        fit(small(optimizer=Recording, clip=0.01, epochs=2))
        assert max(norms) <= 0.01 * (1 + 1e-5)

    def test_own_loss_and_score(self) -> None:
        X, y, _ = problem()
        same = small(loss=lambda f, v: (f - v) ** 2, score=lambda f, v, loss: 10 / loss.clamp(min=1e-30).sqrt())
        assert_allclose(fit(same).predict(X), fit(small(), weighting="progressive").predict(X), rtol=1e-3)
        own = small(loss=lambda f, v: torch.log(torch.cosh(f - v)))
        assert explained(fit(own, weighting="identification").predict(X), y) > 0.9

    def test_pretrained_weights_are_where_training_starts(self) -> None:
        net = perceptron()
        before = [parameter.clone() for parameter in net.parameters()]
        fitted = fit(small(net, learning_rate=1e-12, weight_decay=0.0, epochs=1))
        for mine, trained, kept in zip(net.parameters(), fitted.module.parameters(), before, strict=True):
            assert_array_equal(mine.detach(), kept.detach())
            assert_allclose(trained.detach(), kept.detach(), atol=1e-8)

    def test_factories(self) -> None:
        seen = []

        def make(features: int) -> nn.Module:
            seen.append(features)
            return perceptron(features)

        one, other = (fit(small(make, epochs=1), seed=s).module[0].weight for s in (1, 2))
        assert seen == [3, 3]
        assert not torch.equal(one, other)
        assert fit(small(lambda: nn.LazyLinear(1), epochs=1)).module.weight.shape == (1, 3)
        shared = nn.Linear(3, 1)
        before = shared.weight.clone()
        fit(small(lambda: shared, epochs=1))
        assert torch.equal(shared.weight, before)

    def test_double_precision_modules(self) -> None:
        fitted = fit(small(lambda: perceptron().double(), scale_target=False, learning_rate=1e-3, epochs=1))
        assert fitted.module[0].weight.dtype == torch.float64

    @pytest.mark.parametrize("changed", [{"autocast": True}, {"compile": {"backend": "eager"}}], ids=str)
    def test_autocast_and_compile(self, changed: dict[str, Any]) -> None:
        X, y, _ = problem()
        fitted = fit(small(**changed))
        assert explained(fitted.predict(X), y) > 0.9
        assert_allclose(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))

    def test_lone_last_row_joins_a_batch(self) -> None:
        X, _, S = problem()
        fit(small(Restless, epochs=1), X[:65], S[:65])


class TestEstimator:
    def test_a_bare_module_is_a_learner(self) -> None:
        X, _, S = problem()
        model = PartialLabelRegressor(perceptron(), random_state=0)
        assert isinstance(clone(model).learner, nn.Module)
        learner = pickle.loads(pickle.dumps(model)).fit(X[:50], S[:50]).learner_
        assert isinstance(learner, Module)

    def test_clone_pickle_and_grid(self) -> None:
        X, _, S = problem()
        model = PartialLabelRegressor(small(perceptron(), epochs=10), random_state=0)
        assert_array_equal(
            pickle.loads(pickle.dumps(clone(model))).fit(X, S).predict(X), clone(model).fit(X, S).predict(X)
        )
        search = GridSearchCV(model, {"learner__learning_rate": [1e-9, 0.02]}, cv=2).fit(X, S)
        assert search.best_params_ == {"learner__learning_rate": 0.02}
        restored = pickle.loads(pickle.dumps(search.best_estimator_))
        assert_array_equal(restored.predict(X), search.predict(X))

    def test_the_learner_does_not_change(self) -> None:
        learner = small(perceptron(), epochs=1)
        before = dict(vars(learner))
        weights = learner.module[0].weight.clone()
        fit(learner)
        assert vars(learner) == before
        assert torch.equal(learner.module[0].weight, weights)

    def test_callback(self) -> None:
        heard: list[Any] = []
        fitted = fit(small(epochs=4), callback=lambda *told: heard.append(told))
        assert heard == [(epoch + 1, 4, loss) for epoch, loss in enumerate(fitted.report.loss)]

    def test_trained_elsewhere_it_predicts_here(self) -> None:
        X, _, _ = problem()
        fitted = fit(small(epochs=1))
        gone = dataclasses.replace(fitted, device="cuda:99")
        assert_array_equal(gone.predict(X), fitted.predict(X))
