"""The module learner on data of every kind."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import (
    CandidateError,
    FeatureError,
    InfeasibleError,
    ParameterError,
)
from plr.torch import PartialLabelDataset
from support.torch_nets import ROWS, Restless, TwoParts, Words, explained, fit, perceptron, problem, small


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
            "gradient": torch.tensor(X, requires_grad=True),
            "nullable": pd.DataFrame(X).astype("Float32"),
        }
        if torch.cuda.is_available():
            kinds["cuda"] = torch.tensor(X, device="cuda")
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

    @pytest.mark.parametrize("dataset", [False, True])
    def test_whole_numbers_are_floats_after_training_on_floats(self, dataset: bool) -> None:
        X, _, S = problem()
        learner = small(nn.Linear(3, 1), epochs=1)
        fitted = learner.fit_dataset(PartialLabelDataset(X, S)) if dataset else fit(learner)
        wanted = fitted.predict([[1.0, 2.0, 3.0]])
        for rows in ([[1, 2, 3]], np.array([[1, 2, 3]]), torch.tensor([[1, 2, 3]]), sparse.csr_matrix([[1, 2, 3]])):
            assert_array_equal(fitted.predict(rows), wanted)

    def test_frames_of_numbers_of_several_kinds(self) -> None:
        X, _, S = problem()
        frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0, "c": pd.array(X[:, 2].round(), dtype="Int64")})
        model, plain = (PartialLabelRegressor(small(epochs=1, batch_size=ROWS), random_state=0) for _ in range(2))
        array = np.column_stack([X[:, 0], X[:, 1] > 0, X[:, 2].round()])
        assert_array_equal(model.fit(frame, S).predict(frame), plain.fit(array, S).predict(array))
        frame.loc[5, "c"] = pd.NA
        with pytest.raises(FeatureError, match="row 5"):
            fit(small(), frame)
        tokens = pd.DataFrame(np.arange(2 * ROWS).reshape(ROWS, 2) % 20).astype("Int64")
        fit(small(Words, epochs=1), tokens)

    @pytest.mark.parametrize(("rows", "sizes"), [(100, {32}), (97, {32}), (20, {20})])
    @pytest.mark.parametrize("dataset", [False, True])
    def test_incomplete_last_batches_are_left_out_on_demand(self, dataset: bool, rows: int, sizes: set[int]) -> None:
        X, _, S = problem()
        seen: list[int] = []

        class Counting(nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                seen.append(len(x) if self.training else 0)
                return super().forward(x)

        learner = small(lambda: Counting(3, 1), epochs=2, batch_size=32, loader={"drop_last": True})
        pairs, judges = PartialLabelDataset(X[:rows], S[:rows]), PartialLabelDataset(X[:33], S[:33])
        if dataset:
            fitted = learner.fit_dataset(pairs, validation=judges)
        else:
            fitted = fit(learner, X[:rows], S[:rows], validation=(X[:33], S[:33]))
        assert set(seen) - {0} == sizes
        assert seen.count(max(sizes)) == 2 * max(rows // 32, 1)
        assert len(fitted.predict(X)) == ROWS

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


class Noisy(Dataset):
    """Draws features from torch, numpy and Python."""

    def __init__(self, S: CandidateSets) -> None:
        self.S = S

    def __len__(self) -> int:
        return len(self.S)

    def __getitem__(self, row: int) -> Any:
        drawn = [float(torch.randn(1)), np.random.normal(), random.gauss(0.0, 1.0)]  # noqa: NPY002
        return torch.tensor(drawn), self.S.values[self.S.offsets[row] : self.S.offsets[row + 1]]


class NoisyStream(IterableDataset):
    def __init__(self, S: CandidateSets) -> None:
        self.rows = Noisy(S)

    def __iter__(self) -> Any:
        return (self.rows[row] for row in range(len(self.rows)))


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

    def test_features_of_several_parts_are_no_pairs(self) -> None:
        X, _, S = problem()
        left, right = torch.tensor(X[:, :1]), torch.tensor(X[:, 1:])
        parts = [(one, other) for one, other in zip(left, right, strict=True)]
        fitted = small(TwoParts, epochs=1).fit_dataset(PartialLabelDataset(parts, S))
        wanted = fitted.predict(TensorDataset(left, right))
        assert np.ptp(wanted) > 0
        for rows in (
            parts,
            PartialLabelDataset(parts, S),
            [[part, values] for part, values in zip(parts, S, strict=True)],
        ):
            assert_array_equal(fitted.predict(rows), wanted)

    def test_items_that_are_lists(self) -> None:
        X, _, S = problem()
        items = [[row, values.tolist()] for row, values in zip(X, S, strict=True)]
        fitted = small(epochs=1).fit_dataset(items)
        assert_array_equal(fitted.predict(items), fitted.predict(X))
        assert_array_equal(fitted.predict(X[:, :3].tolist()), fitted.predict(X))
        # Three numbers and three candidates would make an array.
        assert_array_equal(fitted.predict([[row, [1.0, 2.0, 3.0]] for row in X]), fitted.predict(X))

    @pytest.mark.parametrize("workers", [0, 1])
    def test_random_numbers_of_a_dataset(self, workers: int) -> None:
        _, _, S = problem()
        learner = small(nn.Linear(3, 1), epochs=1, loader={"num_workers": workers})
        for kind in (Noisy, NoisyStream):
            before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
            losses = [learner.fit_dataset(kind(S[:64]), seed=seed).report.loss[0] for seed in (1, 1, 2)]
            assert losses[0] == losses[1] != losses[2]
            assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
            assert random.getstate() == before[1]

    @pytest.mark.parametrize("monitor", ["loss", "evidence"])
    @pytest.mark.parametrize("kind", [PartialLabelDataset, lambda X, S: Stream(X, S), lambda X, S: []])
    def test_validation_without_rows(self, monitor: str, kind: Any) -> None:
        X, _, S = problem()
        with pytest.raises(CandidateError, match="The validation dataset has no rows"):
            small(epochs=1, monitor=monitor).fit_dataset(Stream(X, S), validation=kind(X[:0], S[:0]))

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
