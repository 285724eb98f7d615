"""The module learner refuses what it cannot use, and says what to do."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import (
    DependencyError,
    FeatureError,
    LengthError,
    ParameterError,
    TargetScaleError,
)
from plr.losses import Pointwise
from plr.weighting import Custom
from support.torch_nets import ROWS, Words, fit, perceptron, problem, small


class TestBadInput:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"module": "net"}, "module must be a torch.nn.Module or a function that makes one, got 'net'"),
            ({"module": dict}, "factory dict returned a dict; expected a torch.nn.Module"),
            ({"module": nn.Flatten()}, "Flatten has no parameters; there is nothing to train"),
            ({"module": perceptron().requires_grad_(False)}, "all its parameters frozen"),
            ({"module": nn.Linear(3, 2)}, r"shape \(64, 2\) for 64 rows; expected.*\(64,\) or \(64, 1\)"),
            ({"module": nn.LSTM(3, 1)}, "returned a tuple for 64 rows; expected a tensor"),
            ({"optimizer": "adamW"}, "Unknown optimizer 'adamW'; did you mean 'adam"),
            ({"optimizer": 3}, "optimizer must be a name"),
            ({"optimizer": list}, "expected a torch optimizer"),
            ({"optimizer": torch.optim.LBFGS, "weight_decay": 0.1}, "takes no weight_decay"),
            ({"learning_rate": 0.0}, "learning_rate must be above 0"),
            ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
            ({"scheduler": "cosin"}, "did you mean 'cosine'"),
            ({"scheduler": 1.0}, "scheduler must be None"),
            ({"scheduler": lambda o, n: None}, "expected a torch scheduler"),
            ({"epochs": 0}, "epochs must be at least 1"),
            ({"batch_size": 0}, "batch_size must be at least 1"),
            ({"clip": 0.0}, "clip must be above 0"),
            ({"loss": "squre"}, "did you mean 'squared'"),
            ({"score": 3}, "score must be a function"),
            ({"device": "cpuu"}, "PyTorch knows no device 'cpuu'"),
            ({"device": None}, "device must be"),
            ({"autocast": 1}, "autocast must be True or False"),
            ({"compile": "yes"}, "compile must be True or False"),
            ({"validation_fraction": 0.0}, "validation_fraction must be above 0"),
            ({"validation_fraction": 1e-6}, "leaves nothing to train or validate on"),
            ({"monitor": "los"}, "did you mean 'loss'"),
            ({"patience": 0}, "patience must be at least 1"),
            ({"checkpoint": 3}, "checkpoint must be the path of a file"),
            ({"threads": 0}, "threads must be at least 1"),
            ({"loader": 3}, "loader must be a dict"),
            ({"loader": {"shuffle": True}}, "shuffle is chosen by the learner"),
            ({"loader": {"num_worker": 1}}, "did you mean 'num_workers'"),
        ],
        ids=lambda part: part if isinstance(part, str) else ",".join(part),
    )
    def test_parameters(self, changed: dict[str, Any], message: str) -> None:
        with pytest.raises(ParameterError, match=message):
            fit(small(**changed))

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
    @pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
    def test_cuda_that_is_not_there(self, device: Any) -> None:
        with pytest.raises(DependencyError, match="finds no CUDA device here; use device='auto' or 'cpu'"):
            fit(small(device=device))

    def test_features_the_module_cannot_take(self) -> None:
        with pytest.raises(RuntimeError) as caught:
            fit(small(perceptron(5)))
        assert caught.value.__notes__ == ["The module was given a tensor of shape (64, 3) and type float32."]
        with pytest.raises(RuntimeError) as caught:
            fit(small(), np.arange(3 * ROWS).reshape(ROWS, 3))
        assert "give floats where they are measurements" in caught.value.__notes__[0]
        with pytest.raises(IndexError):
            fit(small(Words), np.full((ROWS, 2), 99))

    @pytest.mark.parametrize(
        ("X", "error", "message"),
        [
            (pd.DataFrame({"a": ["x"] * ROWS, "b": 1.0}), FeatureError, "type object.*OneHotEncoder"),
            (torch.full((ROWS, 3), torch.nan), FeatureError, r"nan in row 0, at \(0,\)"),
            (np.ones((ROWS - 1, 3)), LengthError, "X has 299 rows and the target 300"),
            (range(ROWS), None, ""),
        ],
        ids=["frame", "nan", "length", "numbers"],
    )
    def test_features(self, X: Any, error: type[Exception] | None, message: str) -> None:
        if error is None:
            fit(small(nn.Sequential(nn.Embedding(ROWS, 1)), epochs=1), X)
            return
        with pytest.raises(error, match=message):
            fit(small(), X)

    def test_compiled_functions_do_not_take_tensors(self) -> None:
        X, _, S = problem()
        score = Custom(lambda prediction, value, loss: -loss)
        with pytest.raises(ParameterError, match=r"Module\(score=...\)"):
            PartialLabelRegressor(small(), score).fit(X, S)
        square = Pointwise(lambda f, y: (f - y) ** 2, lambda f, y: 2 * (f - y))
        with pytest.raises(ParameterError, match=r"Module\(loss=...\)"):
            PartialLabelRegressor(small(), "average", square).fit(X, S)

    def test_what_numba_cannot_compile_points_here(self) -> None:
        X, _, S = problem()
        with pytest.raises(ParameterError, match=r"math module.*plr\.learners\.Module"):
            PartialLabelRegressor("linear", lambda f, y, loss: torch.exp(-loss)).fit(X, S)

    def test_raw_labels_that_overflow(self) -> None:
        X, y, _ = problem()
        labels = CandidateSets.from_labels(np.where(np.arange(ROWS) == 17, -1e19, y))
        with pytest.raises(TargetScaleError, match=r"row 17.*double precision"):
            fit(small(scale_target=False), X, labels)

    def test_without_torch(self) -> None:
        """It is not imported before it is used, and its absence names the extra."""
        code = (
            "import sys\n"
            "class Absent:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name.split('.')[0] == 'torch':\n"
            "            raise ModuleNotFoundError(name)\n"
            "sys.meta_path.insert(0, Absent())\n"
            "import plr\n"
            "from plr.learners import Module\n"
            "for act in (lambda: plr.PartialLabelRegressor(Module(dict)).fit([[0.0], [1.0]], [[0.0], [1.0]]),\n"
            "            lambda: Module(dict).fit_dataset([]), lambda: __import__('plr.torch')):\n"
            "    try:\n"
            "        act()\n"
            "    except plr.errors.DependencyError as error:\n"
            "        assert 'plr[torch]' in str(error), error\n"
            "    else:\n"
            "        raise AssertionError\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
