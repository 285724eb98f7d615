"""Torch modules in model files: their numbers, never their code."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from plr import PartialLabelRegressor, load_model, save_model
from plr.errors import FeatureError, ModelFileError, ParameterError, PlrWarning
from plr.folds import features_of
from support.model_files import members_of, problem, refuses
from support.module_nets import ROWS, fitted, make_net


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("module") / "net.plr"
    save_model(fitted(scale_features=True)[0], path, extra={"a": 1})
    return path


class Odd(nn.Module):
    """Has numbers of every kind that files hold, of no, one and five dimensions."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(2, 1)
        self.norm = nn.BatchNorm1d(2)
        self.lone = nn.Parameter(torch.tensor(0.5))
        for name in (
            "float64",
            "float16",
            "bfloat16",
            "int8",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "bool",
            "complex64",
        ):
            self.register_buffer(f"as_{name}", torch.tensor([[0, 1, 3]]).to(getattr(torch, name)))
        self.register_buffer("deep", torch.arange(32.0).reshape(2, 2, 2, 2, 2))
        self.register_buffer("empty", torch.empty(0, 3))
        self.register_buffer("limits", torch.tensor([float("nan"), float("inf"), -0.0]))

    def forward(self, x):
        return self.line(self.norm(x)) + self.lone


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, 1)

    def forward(self, tokens):
        return self.head(self.embedding(tokens).mean(1))


class Drawn(nn.Module):
    """Draws something that is no part of its state."""

    def __init__(self):
        super().__init__()
        self.frequencies = torch.randn(2, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(torch.sin(x @ self.frequencies))


class OfSet(torch.utils.data.Dataset):
    def __init__(self, X):
        self.X = torch.from_numpy(X)

    def __len__(self):
        return len(self.X)

    def __getitem__(self, row):
        return self.X[row], self.X[row]


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 1)

    def forward(self, left, right):
        return self.line(torch.cat([left, right], 1))


CASES = {
    "factory": (make_net, {"scale_features": True}, ROWS),
    "module": (make_net(2), {"autocast": True}, ROWS),
    "odd": (Odd, {}, ROWS),
    "half": (lambda: make_net(2).bfloat16(), {}, ROWS),
    "double": (lambda: make_net(2).double(), {}, ROWS.astype(np.float64)),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(1)), {}, ROWS),
    "images": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(2, 1)),
        {"scale_features": True},
        np.random.default_rng(0).normal(size=(60, 1, 2, 2)),
    ),
    "tokens": (Embedded, {}, np.random.default_rng(0).integers(0, 10, size=(60, 3))),
    "dataset": (Both, {"loader": {"num_workers": 0}}, OfSet(ROWS)),
    "drawn": (Drawn, {}, ROWS),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_loaded_predicts_the_same_to_the_bit(name, tmp_path):
    module, options, X = CASES[name]
    model, _, S = fitted(module, X, **options)
    path = tmp_path / "net.plr"
    save_model(model, path)
    loaded = load_model(path, module=module)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    before, after = model.identify(X, S), loaded.identify(X, S)
    np.testing.assert_array_equal(after.probabilities, before.probabilities)
    # Not all rows: a model that knows them as those of training scores them out of fold.
    most = np.arange(1, len(S))
    part = features_of(X, most)
    assert loaded.score(part, S[most]) == model.score(part, S[most])
    for key, tensor in model.model_.module.state_dict().items():
        again = loaded.model_.module.state_dict()[key]
        assert (again.dtype, again.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(again.nan_to_num(7), tensor.nan_to_num(7)), key
    np.testing.assert_array_equal(loaded.model_.report.loss, model.model_.report.loss)
    save_model(loaded, tmp_path / "again.plr")
    assert (tmp_path / "again.plr").read_bytes() == path.read_bytes()
    # It can be fitted anew, and comes out as it did.
    np.testing.assert_array_equal(loaded.fit(X, S).predict(X), model.predict(X))


def test_loading_changes_neither_the_module_given_nor_random_numbers(file):
    given = make_net(2)
    before = {name: part.clone() for name, part in given.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    loaded = load_model(file, module=given)
    load_model(file, module=make_net)
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(part, before[name]) for name, part in given.state_dict().items())
    assert loaded.model_.module is not given
    assert not loaded.model_.module.training


def test_a_bare_module_is_kept_as_well(tmp_path):
    _, S = problem()
    net = make_net(2)
    model = PartialLabelRegressor(net, random_state=0).fit(ROWS, S)
    save_model(model, tmp_path / "net.plr")
    loaded = load_model(tmp_path / "net.plr", module=net)
    np.testing.assert_array_equal(loaded.predict(ROWS), model.predict(ROWS))


def cost(prediction, value):
    return (prediction - value).abs()


def test_parameters_that_are_code_are_named_and_missed(tmp_path):
    optimizer = functools.partial(torch.optim.SGD, nesterov=True, momentum=0.8)
    model, X, S = fitted(optimizer=optimizer, loss=cost, device=torch.device("cpu"), clip=1.5, checkpoint="c.pt")
    path = tmp_path / "net.plr"
    save_model(model, path)
    content = members_of(path)["model"].decode()
    assert "checkpoint" in content
    assert "c.pt" not in content
    loaded = load_model(path, module=make_net)
    assert (loaded.learner.clip, loaded.learner.device, loaded.learner.checkpoint) == (1.5, "cpu", None)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(
        ParameterError, match=r"missing: loss \(cost\), optimizer \(SGD\)\. Give.*learner__optimizer=\.\.\."
    ):
        loaded.fit(X, S)
    loaded.set_params(learner__optimizer=optimizer, learner__loss=cost)
    np.testing.assert_array_equal(loaded.fit(X, S).predict(X), model.predict(X))


class Talkative(nn.Linear):
    def get_extra_state(self):
        return {"words": "many"}

    def set_extra_state(self, state):
        raise AssertionError


def test_what_cannot_be_kept_is_refused_when_saving(tmp_path):
    def refused(match, *arguments, **options):
        with pytest.raises(ModelFileError, match=match):
            save_model(fitted(*arguments, **options)[0], tmp_path / "net.plr")
        assert list(tmp_path.iterdir()) == []

    refused("keeps a dict under '_extra_state'", Talkative(2, 1))
    collate = {"collate_fn": torch.utils.data.default_collate}
    refused("its collate function, default_collate, is code", Both, OfSet(ROWS), loader=collate)
    sparse = make_net(2)
    sparse.register_buffer("thin", torch.eye(3).to_sparse())
    refused("'thin' of the module is sparse", sparse)


def test_a_file_says_what_module_it_needs(file, tmp_path):
    refuses(file, r"the weights of a torch module, Sequential: 33 numbers in 4 tensors.*made it, with module\.")
    rows, S = problem()
    save_model(PartialLabelRegressor("linear").fit(rows, S), tmp_path / "line.plr")
    with pytest.raises(ParameterError, match="holds a Linear and no torch module; leave out module"):
        load_model(tmp_path / "line.plr", module=make_net)


def test_modules_that_do_not_fit_are_refused(file):
    refuses(
        file,
        "the module lacks '0.weight', '0.bias', '2.weight' and 1 more; the file lacks 'weight'",
        module=nn.Linear(2, 1),
    )
    refuses(file, r"'0.weight' has the shape \(8, 2\) in the file and \(8, 5\) in the module", module=make_net(5))
    refuses(file, "'0.weight' has the type float32 in the file and float64", module=lambda: make_net(2).double())
    for bad, message in (
        (3, "must be a torch.nn.Module"),
        (dict, "returned a dict"),
        (lambda n: n / 0, "ZeroDivision"),
    ):
        with pytest.raises(ParameterError, match=message):
            load_model(file, module=bad)

    class Stubborn(nn.Sequential):
        def load_state_dict(self, state, strict=True):
            raise RuntimeError("first line\nno")

    refuses(file, "Stubborn does not take the weights of the file: RuntimeError: no", module=Stubborn(*make_net(2)))


def test_a_module_that_reads_otherwise_is_warned_of(file):
    other = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    with pytest.warns(PlrWarning, match=r"'\(1\): ReLU\(\)' where this one has '\(1\): Tanh\(\)'"):
        load_model(file, module=other)


WITHOUT = """
import sys
class Blocker:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
import plr, plr.errors
try:
    plr.load_model(sys.argv[1])
except plr.errors.DependencyError as error:
    print(error)
"""


def test_without_torch_a_file_says_what_to_install(file):
    done = subprocess.run([sys.executable, "-c", WITHOUT, file], capture_output=True, text=True, check=False)
    assert "need PyTorch, which is not installed" in done.stdout, done.stderr


def test_loading_other_files_imports_no_torch(tmp_path):
    rows, S = problem()
    save_model(PartialLabelRegressor("linear").fit(rows, S), tmp_path / "line.plr")
    code = "import sys, plr; plr.load_model('line.plr'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.strip() == "False", done.stderr


def test_tables_of_arrow_are_features_of_a_module():
    import pyarrow as pa

    rows, _ = problem()
    table = pa.table({"a": rows[:, 0], "b": rows[:, 1]})
    model, _, _ = fitted(X=table, scale_features=True)
    np.testing.assert_array_equal(model.predict(table), fitted(X=rows, scale_features=True)[0].predict(rows))
    with pytest.raises(FeatureError, match="takes numbers"):
        fitted(lambda: nn.Linear(2, 1), X=pa.table({"a": rows[:, 0], "b": ["x"] * 60}))


def test_nothing_warns_when_all_is_well(file):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(file, module=make_net).predict(ROWS)
