"""The module learner's training: best epochs, seeds, checkpoints, and the way back from a bad step."""

from __future__ import annotations

import os
import traceback
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import nn
from torch.optim import lr_scheduler

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import (
    DataError,
    DivergenceError,
    ParameterError,
)
from plr.learners import Module
from support.torch_nets import ROWS, Restless, fit, perceptron, problem, small


class TestValidation:
    @pytest.mark.parametrize("monitor", ["loss", "evidence"])
    def test_the_best_epoch_is_kept(self, monitor: str) -> None:
        X, _, S = problem()
        learner = small(epochs=15, learning_rate=0.1, monitor=monitor)
        judges = (X[200:], S[200:])
        fitted = fit(learner, X[:200], S[:200], validation=judges)
        report = fitted.report
        assert len(report.validation) == 15
        assert report.best_round == int(np.argmin(report.validation))
        upto = small(epochs=report.best_round + 1, learning_rate=0.1)
        assert_array_equal(fit(upto, X[:200], S[:200]).predict(X), fitted.predict(X))

    def test_scores_are_those_of_the_formula(self) -> None:
        X, y, _ = problem()
        fitted = fit(small(epochs=3), validation=(X[:50], CandidateSets.from_labels(y[:50])))
        mse = np.mean((fitted.predict(X[:50]) - y[:50]) ** 2) / float(fitted.target.scale) ** 2
        assert fitted.report.validation.min() == pytest.approx(mse, rel=1e-4)

    def test_fraction_is_the_same_as_in_the_compiled_network(self) -> None:
        X, y, _ = problem()
        held = np.sort(np.random.default_rng([7, 1]).permutation(ROWS)[:75])
        spoiled = y.copy()
        spoiled[held] = y[held][::-1]
        learner = small(epochs=3, validation_fraction=0.25, scale_target=False, learning_rate=1e-3)
        one, other = (fit(learner, X, CandidateSets.from_labels(labels), seed=7).report for labels in (y, spoiled))
        assert_array_equal(one.loss, other.loss)
        assert not np.array_equal(one.validation, other.validation)

    def test_patience_needs_rows(self) -> None:
        with pytest.raises(ParameterError, match="patience needs validation rows"):
            fit(small(patience=3))
        X, _, S = problem()
        with pytest.raises(ParameterError, match="not both"):
            fit(small(validation_fraction=0.5), validation=(X, S))


class TestSameSeed:
    def test_same_bits_whatever_happened_before(self) -> None:
        X, _, _ = problem()
        torch.manual_seed(5)
        one = fit(small(Restless, epochs=3), seed=3).predict(X)
        torch.manual_seed(6)
        before = torch.get_rng_state()
        threads = torch.get_num_threads()
        same = fit(small(Restless, epochs=1, threads=2), seed=3)
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == threads
        same.predict(X)
        assert torch.equal(torch.get_rng_state(), before)
        assert_array_equal(fit(small(Restless, epochs=3), seed=3).predict(X), one)
        assert not np.allclose(fit(small(Restless, epochs=3), seed=4).predict(X), one)

    def test_workers_change_nothing(self) -> None:
        X, _, S = problem()
        learner = small(Restless(), epochs=3)
        found = [
            PartialLabelRegressor(learner, random_state=0, n_jobs=jobs, cv=3).fit(X, S).identify() for jobs in (None, 3)
        ]
        assert_array_equal(found[0].probabilities, found[1].probabilities)


class StopError(Exception):
    pass


class TestCheckpoint:
    def interrupted(self, learner: Module, epoch: int, **more: Any) -> None:
        def stop(done: int, total: int, loss: float) -> None:
            if done == epoch:
                raise StopError

        with pytest.raises(StopError):
            fit(learner, callback=stop, **more)

    @pytest.mark.parametrize(
        "changed",
        [
            {"scheduler": "cosine", "validation_fraction": 0.2, "monitor": "evidence"},
            {"optimizer": "sgd", "validation_fraction": 0.2, "patience": 3, "learning_rate": 0.05},
            {"scheduler": lambda o, n: lr_scheduler.ReduceLROnPlateau(o, patience=0), "optimizer": "rmsprop"},
        ],
        ids=["adamw", "sgd", "rmsprop"],
    )
    def test_taken_up_it_ends_where_it_would_have(self, tmp_path: Any, changed: dict[str, Any]) -> None:
        X, _, _ = problem()
        learner = small(Restless, epochs=8, **changed)
        whole = fit(learner)
        learner.set_params(checkpoint=tmp_path / "folder" / "training.pt")
        self.interrupted(learner, 3)
        told: list[int] = []
        resumed = fit(learner, callback=lambda done, total, loss: told.append(done))
        assert told == list(range(4, whole.report.rounds + 1))
        again = fit(learner)
        for fitted in (resumed, again):
            assert_array_equal(fitted.predict(X), whole.predict(X))
            for name in ("loss", "noise_scale", "validation", "best_round", "rounds"):
                assert_array_equal(getattr(fitted.report, name), getattr(whole.report, name))
        assert os.listdir(tmp_path / "folder") == ["training.pt"]

    @pytest.mark.parametrize(
        ("changed", "more", "message"),
        [
            ({"learning_rate": 0.5}, {}, "learning_rate was 0.02 and is 0.5"),
            ({"epochs": 9}, {}, "epochs was 6 and is 9"),
            ({"optimizer": torch.optim.NAdam}, {}, "optimizer was adamw and is .*NAdam"),
            ({"module": lambda: nn.Linear(3, 1)}, {}, "module was Sequential .* and is Linear"),
            ({"loader": {"drop_last": True}}, {}, "drop_last was False and is True"),
            ({}, {"seed": 9}, "seed was 0 and is 9"),
            ({}, {"weighting": "average"}, r"weighting was Posterior\(\) and is Average\(\)"),
            ({}, {"sample_weight": np.arange(1.0, ROWS + 1)}, "data was"),
        ],
        ids=["rate", "epochs", "optimizer", "module", "drop", "seed", "weighting", "data"],
    )
    def test_of_another_training(
        self, tmp_path: Any, changed: dict[str, Any], more: dict[str, Any], message: str
    ) -> None:
        path = tmp_path / "training.pt"
        self.interrupted(small(epochs=6, checkpoint=path), 1)
        kept = path.read_bytes()
        with pytest.raises(DataError, match=message):
            fit(small(**({"epochs": 6, "checkpoint": str(path)} | changed)), **more)
        assert path.read_bytes() == kept

    def test_folds_leave_it_alone(self, tmp_path: Any) -> None:
        X, _, S = problem()
        path = tmp_path / "training.pt"
        model = PartialLabelRegressor(small(epochs=2, checkpoint=path), random_state=0, cv=2).fit(X, S)
        kept = path.read_bytes()
        assert len(model.identify().index) == ROWS
        assert path.read_bytes() == kept

    def test_other_starting_weights_are_another_training(self, tmp_path: Any) -> None:
        path = tmp_path / "training.pt"
        self.interrupted(small(perceptron(), epochs=6, checkpoint=path), 1)
        with pytest.raises(DataError, match="module was"):
            fit(small(perceptron(), epochs=6, checkpoint=path))

    @pytest.mark.parametrize("part", ["loss", "score", "optimizer"])
    def test_other_functions_of_the_same_name_are_another_training(self, tmp_path: Any, part: str) -> None:
        def function(power: float) -> Any:
            return {
                "loss": lambda f, v: (f - v).abs() ** power,
                "score": lambda f, v, loss: -loss * power,
                "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=power / 100),
            }[part]

        path = tmp_path / "training.pt"
        self.interrupted(small(epochs=3, checkpoint=path, **{part: function(1.0)}), 1)
        name = "weighting" if part == "score" else part
        with pytest.raises(DataError, match=f"of another training: {name} was"):
            fit(small(epochs=3, checkpoint=path, **{part: function(2.0)}))
        fit(small(epochs=3, checkpoint=path, **{part: function(1.0)}))

    def test_a_module_as_loss(self, tmp_path: Any) -> None:
        path = tmp_path / "training.pt"
        one, same, other = (nn.HuberLoss("none", delta) for delta in (1.0, 1.0, 0.01))
        self.interrupted(small(epochs=3, checkpoint=path, loss=one), 1)
        with pytest.raises(DataError, match="loss was HuberLoss"):
            fit(small(epochs=3, checkpoint=path, loss=other))
        fit(small(epochs=3, checkpoint=path, loss=same))
        fit(small(epochs=3, checkpoint=path, loss=one))

    def test_files_that_are_none(self, tmp_path: Any) -> None:
        path, mark = tmp_path / "training.pt", tmp_path / "mark"

        class Trap:
            def __reduce__(self) -> Any:
                return os.mkdir, (str(mark),)

        torch.save({"format": 1, "identity": {}, "state": Trap()}, path)
        with pytest.raises(DataError, match="is no checkpoint, or is damaged; delete it or name another"):
            fit(small(checkpoint=path))
        assert not mark.exists()
        for damaged in (b"", b"no checkpoint", [1, 2], {}, {"format": 1}, {"format": 1, "identity": {}, "state": {}}):
            path.write_bytes(damaged) if isinstance(damaged, bytes) else torch.save(damaged, path)
            with pytest.raises(DataError, match="is no checkpoint, or is damaged") as caught:
                fit(small(checkpoint=path))
            assert "weights_only" not in "".join(traceback.format_exception(caught.value))
        torch.save({"format": 0}, path)
        with pytest.raises(DataError, match="another version of plr"):
            fit(small(checkpoint=path))
        with pytest.raises(DataError, match="cannot be written"):
            fit(small(checkpoint=path / "below"))


class TestDivergence:
    def test_a_loss_that_is_no_number_at_the_first_step(self) -> None:
        X, _, _ = problem()
        net = perceptron()
        with pytest.raises(
            DivergenceError, match=r"nan at step 1 of epoch 1 of 40, at learning rate 0\.02.*loss"
        ) as caught:
            fit(small(net, loss=lambda f, v: f * torch.nan))
        fitted = caught.value.fitted
        assert_array_equal(fitted.module[0].weight.detach(), net[0].weight.detach())
        assert np.isfinite(fitted.predict(X)).all()
        assert fitted.report.rounds == 0

    def test_a_learning_rate_that_is_far_too_large(self) -> None:
        X, _, _ = problem()
        with pytest.raises(DivergenceError, match=r"smaller learning_rate, clip=1\.0") as caught:
            fit(small(optimizer="sgd", learning_rate=1e20), weighting="average")
        assert np.isfinite(caught.value.fitted.predict(X)).all()

    def test_the_last_good_weights_are_kept(self) -> None:
        calls = []

        def fails_at_ten(f: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            return (f - v) ** 2 * (torch.inf if len(calls) == 10 else 1.0)

        learner = small(Restless(), loss=fails_at_ten, epochs=3)
        with pytest.raises(DivergenceError, match="inf at step 5 of epoch 2 of 3") as caught:
            fit(learner, weighting="average")
        kept = caught.value.fitted
        assert kept.report.rounds == 1
        assert int(kept.module.layers[1].num_batches_tracked) == 9

    def test_a_last_step_to_infinity(self) -> None:
        def spoil(parameters: Any) -> torch.optim.Optimizer:
            optimizer = torch.optim.SGD(parameters, lr=0.01)
            optimizer.register_step_post_hook(lambda *_: parameters[0].data.fill_(torch.nan))
            return optimizer

        X, _, _ = problem()
        with pytest.raises(DivergenceError, match="parameters became infinite") as caught:
            fit(small(optimizer=spoil, batch_size=ROWS, epochs=1))
        assert np.isfinite(caught.value.fitted.predict(X)).all()
