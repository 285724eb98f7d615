"""What belongs to the whole process is left alone, or used in turns: random numbers, LightGBM's number of threads."""

from __future__ import annotations

import random
import threading
from typing import Any

import lightgbm
import numpy as np
import pytest
from lightgbm import LGBMRegressor
from numpy.testing import assert_array_equal
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.learners import Boosting, Refit
from plr.learners.committee import boosted_trees
from plr.learners.trees import lightgbm_threads
from plr.threads import LIGHTGBM, Turns

LONG = 60.0


def problem(rows: int = 120) -> tuple[np.ndarray, CandidateSets]:
    X = np.random.default_rng(0).normal(size=(rows, 3))
    return X, make_candidates(X[:, 0] + 0.1 * X[:, 1], 2, random_state=0)


class TestRandomNumbersOfModules:
    def draws(self, kinds: str) -> list[float]:
        import torch

        found = {
            "torch": lambda: float(torch.rand(1)),
            "numpy": lambda: float(np.random.random()),  # noqa: NPY002
            "python": random.random,
        }
        return [found[kind]() for kind in kinds.split()]

    def reseed(self) -> None:
        import torch

        torch.manual_seed(5)
        np.random.seed(5)  # noqa: NPY002
        random.seed(5)

    def fit(self, callback: Any = None) -> np.ndarray:
        torch = pytest.importorskip("torch")
        from plr.learners import Module

        X, S = problem()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        learner = Module(net, epochs=4, batch_size=32, device="cpu")
        model = PartialLabelRegressor(learner, random_state=0)
        return model.fit(X, S, callback=callback).predict(X)

    def test_a_callback_draws_as_if_there_were_no_training(self) -> None:
        """What it draws is the user's, goes on after the fit, and moves nothing in the training."""
        pytest.importorskip("torch")
        alone = self.fit()
        self.reseed()
        wanted = [self.draws("torch numpy python") for _ in range(5)]
        self.reseed()
        found = []
        assert_array_equal(self.fit(lambda *_: found.append(self.draws("torch numpy python"))), alone)
        found.append(self.draws("torch numpy python"))
        assert found == wanted

    def test_other_threads_draw_from_numpy_and_python(self) -> None:
        """Whoever draws in the middle of an epoch gets what it would have got, and nothing of it is taken back."""
        torch = pytest.importorskip("torch")
        from plr.learners import Module

        class Slow(torch.nn.Module):
            """Waits in its forward pass until another thread has drawn."""

            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(3, 1)

            def forward(self, x: Any) -> Any:
                if self.training:
                    other = threading.Thread(target=lambda: found.append(draw("numpy python")))
                    other.start()
                    other.join(LONG)
                return self.layer(x)

            def __deepcopy__(self, memo: Any) -> Any:
                return self

        draw, found = self.draws, []
        X, S = problem()
        self.reseed()
        wanted = [self.draws("numpy python") for _ in range(4)]
        self.reseed()
        learner = Module(Slow(), epochs=3, batch_size=len(S), device="cpu")
        PartialLabelRegressor(learner, random_state=0).fit(X, S)
        found.append(self.draws("numpy python"))
        assert found == wanted

    def test_the_same_for_one_job_and_two(self) -> None:
        torch = pytest.importorskip("torch")
        from plr.learners import Module

        X, S = problem()
        net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        self.reseed()
        states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
        found = [
            PartialLabelRegressor(Module(net, epochs=3, device="cpu"), random_state=0, n_jobs=jobs, cv=3).fit(X, S)
            for jobs in (1, 2)
        ]
        assert_array_equal(*(model.identify().probabilities for model in found))
        assert torch.equal(torch.get_rng_state(), states[0])
        assert_array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
        assert random.getstate() == states[2]

    def test_a_factory_that_draws_from_numpy_is_seeded(self) -> None:
        torch = pytest.importorskip("torch")
        from plr.learners import Module

        def make() -> Any:
            net = torch.nn.Linear(3, 1)
            torch.nn.init.constant_(net.weight, np.random.normal() + random.gauss(0.0, 1.0))  # noqa: NPY002
            return net

        X, S = problem()
        found = []
        for seed in (1, 2):
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
            model = PartialLabelRegressor(Module(make, epochs=1, device="cpu"), random_state=0).fit(X, S)
            found.append(model.predict(X))
            state = np.random.get_state()[1]  # noqa: NPY002
            np.random.seed(seed)  # noqa: NPY002
            assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
        assert_array_equal(*found)


class TestTurns:
    def test_one_thread_each_at_the_same_time(self) -> None:
        turns, together = Turns(), threading.Barrier(2, timeout=LONG)

        def work() -> None:
            with turns.work(1):
                together.wait()

        other = threading.Thread(target=work)
        other.start()
        work()
        other.join(LONG)
        assert not together.broken

    @pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1), (1, None), (None, 1), (2, 2), (None, None)])
    def test_other_numbers_wait(self, first: int | None, second: int | None) -> None:
        turns, inside, waiting = Turns(), threading.Event(), threading.Event()

        def work() -> None:
            waiting.set()
            with turns.work(second):
                inside.set()

        with turns.work(first):
            # Who has the turn has it however often it is asked for.
            with turns.work(second):
                assert turns.mine
            other = threading.Thread(target=work)
            other.start()
            assert waiting.wait(LONG)
            assert not inside.wait(0.05)
        assert inside.wait(LONG)
        other.join(LONG)
        assert not turns.mine

    def test_how_many_threads_a_model_uses(self) -> None:
        assert lightgbm_threads(LinearRegression()) == 0
        assert lightgbm_threads(boosted_trees()) == 1
        assert lightgbm_threads(make_pipeline(StandardScaler(), LGBMRegressor(n_jobs=1))) == 1
        assert lightgbm_threads(LGBMRegressor()) is None
        assert lightgbm_threads(LGBMRegressor(n_jobs=2)) is None
        assert lightgbm_threads(LGBMRegressor(n_jobs=1, num_threads=2)) is None

    @pytest.mark.parametrize(
        "learner",
        ["committee", Boosting(trees=3), Refit(LGBMRegressor(n_estimators=3, verbosity=-1), max_rounds=1, cv=2)],
        ids=["committee", "boosting", "refit"],
    )
    def test_lightgbm_works_in_turns(self, monkeypatch: pytest.MonkeyPatch, learner: Any) -> None:
        calls = []
        for name in ("update", "predict"):
            method = getattr(lightgbm.Booster, name)

            def checked(booster: Any, *given: Any, name: str = name, method: Any = method, **named: Any) -> Any:
                calls.append(name)
                assert LIGHTGBM.mine
                return method(booster, *given, **named)

            monkeypatch.setattr(lightgbm.Booster, name, checked)
        X, S = problem()
        model = (
            PartialLabelRegressor(learner, effort="low", random_state=0, n_jobs=2)
            if learner == "committee"
            else (PartialLabelRegressor(learner, random_state=0, n_jobs=2))
        )
        model.fit(X, S).predict(X)
        assert {"update", "predict"} == set(calls)
        assert not LIGHTGBM.mine
