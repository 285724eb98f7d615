"""The module learner on data of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset
from torch_nets import ROWS, Restless, TwoParts, Words, explained, fit, perceptron, problem, small

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import (
    CandidateError,
    FeatureError,
    InfeasibleError,
    ParameterError,
)
from plr.torch import PartialLabelDataset


class TestData:
    def test_of_every_kind_is_the_same_data(self) -> None:
        X, _, _ = problem()
        X = np.where(np.abs(X) < 0.5, 0.0, X).astype(np.float32)
        learner = small(epochs=3)
        wanted = fit(learner, X).predict(X)

        class Items(Dataset):
            def __len__(self) -> int:
                return len(X)

            def __getitem__(self, row: int) -> Any:
                return X[row].astype(np.float64)

        kinds = {
            "float64": X.astype(np.float64),
            "tensor": torch.tensor(X),
            "half": torch.tensor(X).double(),
            "sparse": sparse.csr_matrix(X),
            "frame": pd.DataFrame(X),
            "lists": X.tolist(),
            "items": Items(),
            "tensors": TensorDataset(torch.tensor(X)),
            "arrays": list(X),
        }
        for name, kind in kinds.items():
            assert_array_equal(fit(learner, kind).predict(kind), wanted, err_msg=name)

    def test_items_with_several_parts(self) -> None:
        X, _, _ = problem()
        wanted = fit(small(TwoParts, epochs=2), TensorDataset(torch.tensor(X[:, :1]), torch.tensor(X[:, 1:])))
        named = [{"right": row[1:], "left": row[:1]} for row in X]
        assert_array_equal(fit(small(TwoParts, epochs=2), named).predict(named[:7]), wanted.predict(
            TensorDataset(torch.tensor(X[:7, :1]), torch.tensor(X[:7, 1:])))
        )  # fmt: skip

    def test_texts_reach_a_module_that_reads_them(self) -> None:
        class Letters(Words):
            def forward(self, texts: list[str]) -> torch.Tensor:
                return super().forward(torch.tensor([[ord(letter) % 20 for letter in text] for text in texts]))

        texts = ["abc", "bcd", "cde", "xyz"] * 20
        S = [[float(ord(text[0]))] for text in texts]
        model = PartialLabelRegressor(small(Letters, epochs=30), random_state=0).fit(texts, S)
        assert model.predict(np.array(["abc", "xyz"], dtype=object)) == pytest.approx([97, 120], abs=2)

    def test_datasets_in_the_regressor(self) -> None:
        X, _, S = problem()
        rows = TensorDataset(torch.tensor(X))
        learner = small(epochs=5, validation_fraction=0.2)
        model = PartialLabelRegressor(learner, random_state=0, cv=2).fit(rows, S)
        plain = PartialLabelRegressor(learner, random_state=0, cv=2).fit(X, S)
        assert_array_equal(model.predict(rows), plain.predict(X))
        assert_array_equal(model.identify().probabilities, plain.identify().probabilities)

    def test_scaled_features(self) -> None:
        X, y, _ = problem()
        wild = X * [1e6, 1e-6, 1.0] + [1e7, 0.0, -5.0]
        assert explained(fit(small(scale_features=True), wild).predict(wild), y) > 0.9
        flat = nn.Sequential(nn.Flatten(), perceptron(6))
        images = np.stack([wild, wild], axis=2)
        fitted = fit(small(flat, scale_features=True), images)
        assert np.size(fitted.reader.scaling.centre) == 3
        assert explained(fitted.predict(images), y) > 0.9

    def test_weights_of_zero_are_rows_that_are_not_there(self) -> None:
        X, _, S = problem()
        weight = (np.arange(ROWS) >= 100).astype(float)
        whole = fit(small(Restless, epochs=3), sample_weight=weight)
        part = fit(small(Restless, epochs=3), X[100:], S[100:])
        assert_array_equal(whole.predict(X), part.predict(X))

    def test_start_and_density_of_false_labels(self) -> None:
        X, y, S = problem()
        truth = np.isclose(S.values, y[S.row_index]).astype(float)
        told = fit(
            small(epochs=3), weighting="average", start=truth / np.add.reduceat(truth, S.offsets[:-1])[S.row_index]
        )
        supervised = fit(small(epochs=3), X, CandidateSets.from_labels(y))
        untold = fit(small(epochs=3), weighting="average")
        assert told.report.loss[0] < untold.report.loss[0]
        assert told.report.loss[2] > 1.2 * supervised.report.loss[2]
        density = fit(small(epochs=1), log_q=np.where(truth == 1, -9.0, 9.0)).report.loss[0]
        assert density < 0.7 * fit(small(epochs=1)).report.loss[0]

    def test_workers_change_nothing(self) -> None:
        X, _, _ = problem()
        alone, helped = (fit(small(epochs=2, loader={"num_workers": n})).predict(X[:100]) for n in (0, 1))
        assert_array_equal(alone, helped)

    def test_absurd_padding_names_the_row(self) -> None:
        _, y, _ = problem()
        lists = [[value] for value in y]
        lists[7] = list(np.linspace(0, 1, 1_000_000))
        with pytest.raises(InfeasibleError, match="1000000 candidates of row 7"):
            fit(small(), S=CandidateSets.from_lists(lists))


class Stream(IterableDataset):
    def __init__(self, X: np.ndarray, S: CandidateSets, prior: bool = False) -> None:
        self.X, self.S, self.prior = X, S, prior

    def __iter__(self) -> Any:
        for row, values in zip(self.X, self.S, strict=True):
            yield (row, values, np.ones(len(values))) if self.prior else (row, values)


class TestFitDataset:
    def test_map_style_and_iterable(self) -> None:
        X, y, S = problem()
        items = [(row.astype(np.float32), values) for row, values in zip(X, S, strict=True)]
        for dataset in (Stream(X, S), Stream(X, S, prior=True), items, PartialLabelDataset(X, S)):
            fitted = small(epochs=15).fit_dataset(dataset, seed=3)
            assert explained(fitted.predict(X), y) > 0.8
            assert_array_equal(fitted.predict(dataset), fitted.predict(X))
        assert_array_equal(
            small(epochs=2).fit_dataset(Stream(X, S)).predict(X), small(epochs=2).fit_dataset(Stream(X, S)).predict(X)
        )

    def test_a_map_style_dataset_is_the_same_as_rows(self) -> None:
        X, _, S = problem()
        rows = fit(small(epochs=5), seed=4).predict(X)
        assert_allclose(small(epochs=5).fit_dataset(PartialLabelDataset(X, S), seed=4).predict(X), rows, rtol=1e-6)

    @pytest.mark.parametrize("monitor", ["loss", "evidence"])
    def test_validation(self, monitor: str) -> None:
        X, _, S = problem()
        learner = small(epochs=200, patience=3, monitor=monitor, learning_rate=0.1)
        report = learner.fit_dataset(Stream(X[:200], S[:200]), validation=Stream(X[200:], S[200:])).report
        assert report.rounds == report.best_round + 4 < 200

    @pytest.mark.parametrize(
        ("act", "error", "message"),
        [
            (lambda data: small().fit_dataset([]), CandidateError, "no rows"),
            (lambda data: small().fit_dataset(iter(data)), FeatureError, "IterableDataset"),
            (lambda data: small().fit_dataset(problem()[0]), CandidateError, r"Row 0.*\(features, candidates\)"),
            (lambda data: small(scale_features=True).fit_dataset(data), ParameterError, "scale_features"),
            (lambda data: small(validation_fraction=0.1).fit_dataset(data), ParameterError, "validation dataset"),
            (lambda data: small(scheduler="cosine").fit_dataset(data), ParameterError, "__len__"),
            (lambda data: small(lambda features: None).fit_dataset(data), ParameterError, "number of features"),
            (lambda data: fit(small(), data, None), FeatureError, "fit_dataset"),
        ],
    )
    def test_bad_input(self, act: Any, error: type[Exception], message: str) -> None:
        X, _, S = problem()
        with pytest.raises(error, match=message):
            act(Stream(X, S))
