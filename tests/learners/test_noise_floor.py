"""A noise scale that collapses does so to the same floor, whichever learner it was learned by."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from sklearn.dummy import DummyRegressor

import plr
from plr import CandidateSets, PartialLabelRegressor
from plr._codes import NARROWEST
from plr.learners import MLP, Boosting, Linear, Refit
from plr.learners import objectives as library
from plr.learners.objectives import Metric
from plr.losses import Squared
from plr.network import network
from plr.noise import fit_noise
from plr.weighting import Posterior, Rule
from support.pairs import all_pairs

pytestmark = pytest.mark.usefixtures("small_forests")
ROWS = 400
# Each row has the truth, 0, and one false label; what is predicted is 0 exactly, since false labels cancel out.
S = CandidateSets.from_lists([[0.0, 5.0] if row % 2 else [0.0, -5.0] for row in range(ROWS)])
X = np.zeros((ROWS, 2))
SPREAD = float(S.values.std())
FLOOR = NARROWEST * SPREAD


@pytest.fixture(autouse=True)
def zero_networks(monkeypatch):
    """Let networks begin at zero, where all gradients are zero."""

    def zeros(sizes, random):
        return np.zeros(sum((n_in + 1) * n_out for n_in, n_out in pairwise(sizes)))

    monkeypatch.setattr("plr.network.network.initial_parameters", zeros)
    monkeypatch.setattr("plr.network.lanes.initial_parameters", zeros)


def learned(learner, noise="student"):
    model = PartialLabelRegressor(learner, Posterior(noise), random_state=0).fit(X, S)
    return model.model_.report.noise_scale[-1]


@all_pairs(
    learner=[
        pytest.param(Boosting(warm_up=0, trees=60), id="boosting"),
        pytest.param(Refit(DummyRegressor(), max_rounds=60, tol=0.0), id="refit"),
        pytest.param(MLP(hidden=(4,), epochs=60, batch_size=ROWS), id="mlp"),
    ],
    noise=["student", "gaussian", "laplace"],
    scale_target=[True, False],
)
def test_learners(learner, noise, scale_target):
    assert_allclose(learned(learner.set_params(scale_target=scale_target), noise), FLOOR, rtol=1e-6)


@pytest.mark.parametrize("scale_target", [True, False])
def test_the_linear_learner(scale_target):
    # It stops where its predictions do not move, so that false labels must not cancel out at once.
    sets = CandidateSets.from_lists([[0.0, 5.0] if row % 3 else [0.0, -5.0] for row in range(ROWS)])
    model = PartialLabelRegressor(Linear(scale_target=scale_target), random_state=0).fit(X, sets)
    assert_allclose(model.model_.report.noise_scale[-1], NARROWEST * sets.values.std(), rtol=1e-6)


@pytest.mark.parametrize("noise", ["student", "gaussian", "laplace"])
def test_the_noise_around_predictions(noise):
    assert_allclose(fit_noise(np.zeros(ROWS), S, Posterior(noise)).scale, FLOOR, rtol=1e-6)


def test_validation_rows_of_a_network():
    settings = network.NetworkSettings((4,), ("relu",), 60, ROWS, initial_scale=SPREAD)
    rule = Rule(Posterior(), Squared())
    judge = network.Validation(X, S, rules=(network.BY_LOSS, 1))
    found = network.train_network(X, network.kernel_sets(S), rule, settings, seed=0, validation=judge)
    exact = rule.initial_state(FLOOR)
    assert_allclose(found.validation[-1, 1], -rule.evidence(np.zeros(ROWS), S, exact).mean(), rtol=1e-6)


def test_metrics_of_boosting():
    rule = Rule(Posterior(), Squared())
    judge = Metric(S, rule, "evidence", SPREAD)
    scores = [judge.score(np.zeros(ROWS)) for _ in range(60)]
    assert_allclose(scores[-1], -rule.evidence(np.zeros(ROWS), S, rule.initial_state(FLOOR)).mean(), rtol=1e-6)


def test_objectives_of_libraries():
    made = library.for_lightgbm(S, warm_up=0)
    for _ in range(60):
        made._core.round(np.zeros(ROWS))
    assert_allclose(made._core.noise_scale, FLOOR, rtol=1e-6)


@pytest.mark.parametrize("learner", [Linear(), MLP(hidden=(4,), epochs=60, batch_size=ROWS)], ids=["linear", "mlp"])
def test_rows_from_a_folder(tmp_path, learner):
    from plr.columns.features import learn_features
    from plr.sources.folder import Folder
    from plr.streaming.folder_fit import fit_folder
    from plr.streaming.folder_rows import Reading

    (tmp_path / "rows").mkdir()
    # A column that says nothing: one that is constant would be left out, and some feature there must be.
    table = pa.table({"x": np.tile([0.0, 0.0, 1.0, 1.0], ROWS // 4), "y": S.to_arrow()})
    pq.write_table(table, tmp_path / "rows" / "part.parquet")
    folder = Folder.open(tmp_path / "rows")
    some = folder.sample(ROWS, 0)[0]
    reading = Reading(folder, learn_features(some, ["y"], tmp_path).settled(some), ("y",))
    model = fit_folder(PartialLabelRegressor(learner, random_state=0), reading, tmp_path / "scratch").model
    # Some rows are held out, so that labels are not quite as wide and false ones not quite cancel out.
    assert model.model_.report.noise_scale[-1] < 1e-3 * SPREAD
    if isinstance(learner, Linear):
        assert_allclose(model.model_.report.noise_scale[-1], FLOOR, rtol=0.05)


def test_torch():
    torch = pytest.importorskip("torch")
    from plr.torch import PosteriorLoss

    rows = torch.zeros(ROWS), torch.tensor(np.asarray(S, dtype=np.float32)), torch.ones(ROWS, 2, dtype=torch.bool)
    for noise in ("student", "gaussian", "laplace"):
        loss = PosteriorLoss(noise, initial_scale=SPREAD, momentum=1.0)
        for _ in range(60):
            loss(*rows)
        assert_allclose(float(loss.scale), FLOOR, rtol=1e-6)
    for small in (torch.float16, torch.bfloat16):
        loss = PosteriorLoss(initial_scale=1.0, momentum=1.0, dtype=small)
        for _ in range(60):
            loss(*rows)
        assert float(loss.scale) > 0.0


def test_torch_modules():
    torch = pytest.importorskip("torch")
    from plr.learners import Module

    net = torch.nn.Linear(2, 1)
    torch.nn.init.zeros_(net.weight)
    torch.nn.init.zeros_(net.bias)
    learner = Module(net, epochs=60, batch_size=ROWS, optimizer="sgd", monitor="evidence")
    model = PartialLabelRegressor(learner, Posterior(), random_state=0).fit(X, S, validation=(X, S))
    assert_allclose(model.model_.report.noise_scale[-1], FLOOR, rtol=1e-4)
    rule = Rule(Posterior(), Squared())
    sets = CandidateSets(S.values / SPREAD, S.offsets)
    wanted = -rule.evidence(np.zeros(ROWS), sets, rule.initial_state(NARROWEST)).mean()
    assert_allclose(model.model_.report.validation[-1], wanted, rtol=1e-4)


def test_stacks():
    torch = pytest.importorskip("torch")
    from plr.paper.stacked.fits import Layers, StackedFit, ValidationRows
    from plr.paper.stacked.packing import pack
    from plr.paper.stacked.plain import train_epochs

    layers = Layers(2, (4,))
    sets = np.asarray(S, dtype=np.float32)
    judge = ValidationRows(X, sets, sets, np.zeros(ROWS))
    parameters = np.zeros(layers.parameters, np.float32)
    fit = StackedFit(X, sets, judge, parameters, (1,), 0.01, 0, Posterior(), scale=SPREAD)
    stack, state = pack([fit], layers, 60, "cpu")
    train_epochs(stack, state, torch.arange(ROWS).repeat(60, 1), 0, ROWS, 3.0)
    assert_allclose(state.scales[0], FLOOR, rtol=1e-5)


def test_no_second_floor_is_defined():
    """Scales move by `next_scale`, or as tensors do next to `NARROWEST`; nothing else has a floor for them."""
    for path in sorted(Path(plr.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for moved in re.findall(r"\[SCALE\] = (.*)", text):
            assert moved.startswith("next_scale(") or not re.search(r"max\(|maximum\(|clip\(|[0-9]e-", moved), path
        for call in re.findall(r"\bnext_scale\((.*?)\)\n", text):
            assert not re.search(r"[0-9]e-|LOWEST|NARROWEST", call), path
    holders = {
        str(path.relative_to(Path(plr.__file__).parent))
        for path in Path(plr.__file__).parent.rglob("*.py")
        if re.search(r"\bNARROWEST\b", path.read_text(encoding="utf-8"))
    }
    assert {str(Path(name)) for name in holders} == {
        str(Path(name)) for name in ("_codes.py", "weighting/rule.py", "torch/posterior.py", "paper/stacked/packing.py")
    }
