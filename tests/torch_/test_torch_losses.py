"""The losses of `plr.torch` against the compiled formula and its plain-Python twin."""

from __future__ import annotations

import functools
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.nn import functional

from plr import CandidateSets
from plr._codes import NARROWEST
from plr.errors import EmptySetError, LengthError, ParameterError, PriorError
from plr.losses import LOSSES, Absolute, Huber, Loss, Pointwise, Squared
from plr.torch import (
    AverageLoss,
    CandidateLoss,
    IdentificationLoss,
    PosteriorLoss,
    ProgressiveLoss,
    ScoreLoss,
    make_loss,
    pad,
)
from plr.weighting import WEIGHTINGS, Average, Custom, Identify, Posterior, Progressive, Rule, Weighting
from support import naive
from support.pairs import all_pairs

SCALE = 0.7


def boltzmann(prediction: Any, value: Any, loss: Any) -> Any:
    return -loss / 0.3


def posterior(noise: str = "student", degrees: float = 3.0) -> Any:
    return functools.partial(PosteriorLoss, noise, degrees, initial_scale=SCALE, dtype=torch.float64)


PAIRS: dict[str, tuple[Weighting, Any]] = {
    "average": (Average(), AverageLoss),
    "identification": (Identify(), IdentificationLoss),
    "progressive": (Progressive(), ProgressiveLoss),
    "progressive-mild": (Progressive(1.3, 0.2), functools.partial(ProgressiveLoss, 1.3, 0.2)),
    "progressive-none": (Progressive(0.5, 0.0), functools.partial(ProgressiveLoss, 0.5, 0.0)),
    "posterior": (Posterior(), posterior()),
    "posterior-gaussian": (Posterior("gaussian"), posterior("gaussian")),
    "posterior-laplace": (Posterior("laplace"), posterior("laplace")),
    "posterior-heavy": (Posterior(degrees=0.5), posterior(degrees=0.5)),
    "custom": (Custom(boltzmann), functools.partial(ScoreLoss, boltzmann)),
}
PAIRS |= {
    name: (make(), functools.partial(make_loss, make())) for name, make in WEIGHTINGS.items() if name not in PAIRS
}
POINTWISE: dict[str, Loss] = {name: make() for name, make in LOSSES.items()} | {"huber-narrow": Huber(0.25)}
every_pair = pytest.mark.parametrize(("weighting", "loss"), list(itertools.product(PAIRS, POINTWISE)))


@functools.cache
def compiled(weighting: str, loss: str) -> Rule:
    return Rule(PAIRS[weighting][0], POINTWISE[loss])


def made(weighting: str, loss: object = "squared", **more: Any) -> CandidateLoss:
    return PAIRS[weighting][1](loss=loss, **more)


def hard_rows(with_prior: bool) -> tuple[np.ndarray, CandidateSets, np.ndarray]:
    """Predictions and sets on a grid of 1/64, where ties are ties, and rows that are easily got wrong."""
    random = np.random.default_rng(0)
    rows = [random.integers(-640, 640, size=random.integers(1, 9)) / 64 for _ in range(60)]
    centres = list(random.integers(-640, 640, size=60) / 64)
    special: list[tuple[float, list[float]]] = [
        (1.0, [2.5]),
        (1.0, [1.0]),
        (1.0, [1.0, 1.0]),
        (1.0, [0.75, 1.25]),
        (1.0, [1.0, 1.0, 1.0, -1.0]),
        (1.0, [1.0, 2.0, 3.0]),
        (1.0, [1.0, 1e6, -1e9]),
        (0.0, [1e15, 2.0, -1e200]),
        (1e12, [1.0, 2.0]),
        (0.5, [0.5 + 1e-12, 4.0]),
        (0.25, [0.5, 0.0, 0.25 + 1e-3]),
        (0.0, list(np.linspace(-3, 3, 257))),
    ]
    for centre, values in special:
        centres.append(centre)
        rows.append(np.array(values))
    sizes = sum(len(row) for row in rows)
    prior = None
    if with_prior:
        shares = random.choice([0.0, 1e-12, 0.01, 0.3, 1.0, 7.0], size=sizes)
        prior = [part + (not part.any()) for part in np.split(shares, np.cumsum([len(row) for row in rows])[:-1])]
    return np.array(centres), CandidateSets.from_lists(rows, prior), random.normal(size=sizes)


def evaluated(
    loss: CandidateLoss, centres: np.ndarray, S: CandidateSets, log_q: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, values and gradients of every row, in float64, NaN in the padding."""
    candidates, mask, prior = pad(S, torch.float64)
    candidates[~mask] = torch.nan
    density = None
    if log_q is not None:
        density = torch.full_like(candidates, torch.nan)
        density[mask] = torch.tensor(log_q)
    prediction = torch.tensor(centres, requires_grad=True)
    loss.eval()
    rows = loss(prediction, candidates, mask, prior, log_q=density)
    rows.sum().backward()
    weights = loss.weights(prediction, candidates, mask, prior, log_q=density)
    assert not weights.requires_grad
    assert (weights[~mask] == 0).all()
    return weights[mask].numpy(), rows.detach().numpy(), prediction.grad.numpy()


class TestAgreement:
    @all_pairs(
        weighting=PAIRS,
        loss=POINTWISE,
        with_prior=[pytest.param(False, id="uniform"), pytest.param(True, id="prior")],
    )
    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_with_the_compiled_formula(self, weighting: str, loss: str, with_prior: bool) -> None:
        centres, S, log_q = hard_rows(with_prior)
        rule = compiled(weighting, loss)
        for density in (None, log_q) if weighting.startswith("posterior") else (None,):
            found = evaluated(made(weighting, POINTWISE[loss], reduction="none"), centres, S, density)
            wanted = rule.evaluate(centres, S, rule.initial_state(SCALE), *(() if density is None else (density,)))
            assert_allclose(found[0], wanted.weights, rtol=1e-6, atol=1e-12)
            assert_allclose(found[1], wanted.loss, rtol=1e-6, atol=1e-9)
            assert_allclose(found[2], wanted.gradient, rtol=1e-6, atol=1e-9)

    @every_pair
    def test_with_the_plain_twin(self, weighting: str, loss: str) -> None:
        centres, S, _ = hard_rows(True)
        centres, S = centres[:60], S[:60]
        found = evaluated(made(weighting, POINTWISE[loss], reduction="none"), centres, S)
        for i, (centre, values) in enumerate(zip(centres, S, strict=True)):
            span = slice(S.offsets[i], S.offsets[i + 1])
            row = naive.row(PAIRS[weighting][0], POINTWISE[loss], centre, values, S.prior[span], scale=SCALE)
            assert_allclose(found[0][span], row.weights, rtol=1e-6, atol=1e-12)
            assert_allclose([found[1][i], found[2][i]], [row.value, row.gradient], rtol=1e-6, atol=1e-9)

    @pytest.mark.parametrize("weighting", ["average", "identification", "progressive", "progressive-mild"])
    def test_any_weighting_makes_its_loss(self, weighting: str) -> None:
        centres, S, _ = hard_rows(True)
        named, general = made(weighting, reduction="none"), make_loss(PAIRS[weighting][0], reduction="none")
        for one, other in zip(evaluated(named, centres, S), evaluated(general, centres, S), strict=True):
            assert_allclose(one, other, rtol=0)

    def test_a_weighting_without_a_torch_form_is_named(self) -> None:
        with pytest.raises(ParameterError, match=r"Custom.*has no torch_score"):
            make_loss(Custom(boltzmann))

    @pytest.mark.parametrize("noise", ["gaussian", "laplace", "student"])
    def test_next_scale(self, noise: str) -> None:
        centres, S, _ = hard_rows(True)
        centres, S = centres[:60], S[:60]
        importance = np.arange(60.0)
        rule = Rule(Posterior(noise), Squared())
        state = rule.initial_state(SCALE)
        weights = rule.evaluate(centres, S, state).weights
        loss = posterior(noise)()
        rows = torch.tensor(centres), *pad(S, torch.float64)
        found = loss.next_scale(*rows, sample_weight=torch.tensor(importance))
        assert_allclose(found, rule.update_scale(centres, S, state, weights, importance)[0], rtol=1e-9)
        shares = np.split(weights, S.offsets[1:-1])
        assert_allclose(
            loss.next_scale(*rows), naive.next_scale(Posterior(noise), centres, list(S), shares, SCALE), rtol=1e-9
        )

    @pytest.mark.parametrize("weighting", PAIRS)
    def test_float32_is_close(self, weighting: str) -> None:
        centres, S, _ = hard_rows(False)
        centres, S = centres[:60], S[:60]
        rows = torch.tensor(centres), *pad(S, torch.float64)
        loss = made(weighting, "huber").eval()
        single = loss(rows[0].float(), rows[1].float(), rows[2])
        assert single.dtype == torch.float32
        assert_allclose(single, loss(*rows), rtol=1e-4)

    @pytest.mark.parametrize("weighting", PAIRS)
    def test_float32_survives_what_overflows(self, weighting: str) -> None:
        loss = made(weighting, "absolute").eval()
        prediction = torch.zeros(3, requires_grad=True)
        candidates = torch.tensor([[1e-30, 1.0, 1e38], [0.0, 0.0, -3e38], [2.0, 1e30, 0.0]])
        prior = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [1e-3, 1e-3, 0.998]])
        loss(prediction, candidates, torch.ones(3, 3, dtype=torch.bool), prior).backward()
        assert torch.isfinite(prediction.grad).all()


class TestLaws:
    @pytest.mark.parametrize("weighting", PAIRS)
    def test_padding_and_order_change_nothing(self, weighting: str) -> None:
        centres, S, _ = hard_rows(True)
        candidates, mask, prior = pad(S[:60], torch.float64)
        prediction = torch.tensor(centres[:60])
        loss = made(weighting).eval()
        plain = loss(prediction, candidates, mask, prior)
        wide = [functional.pad(part, (2, 3)) for part in (candidates + 5 * ~mask, mask, prior)]
        assert_allclose(loss(prediction, *wide), plain, rtol=1e-12)
        assert_allclose(loss(prediction, *(part.flip(1) for part in (candidates, mask, prior))), plain, rtol=1e-12)

    @pytest.mark.parametrize("weighting", PAIRS)
    def test_one_candidate_is_supervision(self, weighting: str) -> None:
        loss = made(weighting).eval()
        value = loss(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [5.0]]), torch.tensor([[True], [True]]))
        assert float(value) == pytest.approx((4 + 9) / 2)

    def test_reductions_and_sample_weights(self) -> None:
        rows = torch.tensor([0.0, 0.0]), torch.tensor([[1.0], [3.0]]), torch.tensor([[True], [True]])
        weight = torch.tensor([1.0, 3.0])
        assert AverageLoss(reduction="none")(*rows).tolist() == [1.0, 9.0]
        assert float(AverageLoss(reduction="sum")(*rows, sample_weight=weight)) == 28.0
        assert float(AverageLoss()(*rows, sample_weight=weight)) == 7.0

    def test_given_weights_take_the_place_of_the_formula(self) -> None:
        rows = torch.tensor([0.0]), torch.tensor([[1.0, 3.0]]), torch.tensor([[True, True]])
        assert float(IdentificationLoss()(*rows, weights=torch.tensor([[0.25, 0.75]]))) == pytest.approx(7.0)

    def test_a_candidate_without_weight_may_cost_anything(self) -> None:
        prediction = torch.tensor([0.0], requires_grad=True)
        candidates = torch.tensor([[1.0, 1e30, -1e25]])
        IdentificationLoss(loss=lambda f, y: (f - y).abs() ** 3)(
            prediction, candidates, torch.ones(1, 3, dtype=torch.bool)
        ).backward()
        assert prediction.grad.tolist() == [-3.0]

    def test_not_a_number_is_passed_on(self) -> None:
        rows = torch.tensor([[1.0, 3.0]]), torch.tensor([[True, True]])
        for weighting in PAIRS:
            assert made(weighting)(torch.tensor([torch.nan]), *rows).isnan()

    @pytest.mark.parametrize(
        "given",
        ["huber", Huber(2.0), torch.nn.SmoothL1Loss(reduction="none"), lambda f, y: functional.softplus(f - y)],
        ids=["name", "instance", "module", "function"],
    )
    def test_losses_of_every_kind(self, given: Any) -> None:
        loss = ProgressiveLoss(loss=given)
        assert torch.isfinite(loss(torch.zeros(2), torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)))


class TestScale:
    def rows(self, spread: float) -> tuple[Any, ...]:
        random = torch.Generator().manual_seed(0)
        truth = torch.randn(400, generator=random)
        wrong = 20 * torch.rand(400, 2, generator=random) - 10
        candidates = torch.cat([(truth + spread * torch.randn(400, generator=random))[:, None], wrong], 1)
        return truth, candidates, torch.ones_like(candidates, dtype=torch.bool)

    @pytest.mark.parametrize("noise", ["gaussian", "laplace", "student"])
    def test_learned_in_training_and_frozen_in_evaluation(self, noise: str) -> None:
        loss = PosteriorLoss(noise, initial_scale=5.0, momentum=0.3)
        prediction, candidates, mask = self.rows(0.1)
        for _ in range(40):
            for part in torch.arange(400).split(100):
                loss(prediction[part], candidates[part], mask[part])
        learned = float(loss.scale)
        assert 0.05 < learned < 0.15
        settled = float(loss.next_scale(prediction, candidates, mask))
        assert learned == pytest.approx(settled, rel=0.1)
        loss.eval()
        loss(prediction, candidates, mask)
        assert float(loss.scale) == learned

    def test_momentum_of_one_is_a_whole_round(self) -> None:
        loss, rows = PosteriorLoss("gaussian", momentum=1.0), self.rows(0.5)
        wanted = loss.next_scale(*rows)
        loss(*rows)
        assert_allclose(loss.scale, wanted, rtol=1e-6)

    def test_never_collapses_nor_leaves_the_numbers(self) -> None:
        loss = PosteriorLoss(initial_scale=2.0, momentum=1.0)
        exact = torch.ones(3), torch.ones(3, 2), torch.ones(3, 2, dtype=torch.bool)
        loss(*exact)
        assert float(loss.scale) == pytest.approx(2.0 * NARROWEST)
        loss(torch.full((3,), torch.nan), *exact[1:])
        loss(*exact, sample_weight=torch.zeros(3))
        assert float(loss.scale) == pytest.approx(2.0 * NARROWEST)

    def test_state_dict_and_pickle(self) -> None:
        loss, rows = PosteriorLoss(), self.rows(0.5)
        loss(*rows)
        other = PosteriorLoss()
        other.load_state_dict(loss.state_dict())
        assert float(other.scale) == float(loss.scale) != 1.0
        assert float(pickle.loads(pickle.dumps(loss)).scale) == float(loss.scale)


class TestTorch:
    """What people do to a torch module."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("weighting", "loss"),
        [
            pytest.param("average", "absolute", marks=pytest.mark.slow),
            pytest.param("identification", "squared", marks=pytest.mark.slow),
            pytest.param("progressive", "huber", marks=pytest.mark.slow),
            ("posterior", "squared"),
            ("custom", lambda f, y: torch.cosh(f - y) - 1),
        ],
        ids=["average", "identification", "progressive", "posterior", "own"],
    )
    def test_compiles_in_one_piece(self, weighting: str, loss: Any) -> None:
        torch._dynamo.reset()
        plain, compiled_ = (made(weighting, loss).train() for _ in range(2))
        graph = torch.compile(compiled_, fullgraph=True, backend="aot_eager")
        centres, S, _ = hard_rows(True)
        for rows in (30, 60):
            padded = pad(S[:rows], torch.float32)
            grads = []
            for function in (plain, graph):
                prediction = torch.tensor(centres[:rows], dtype=torch.float32, requires_grad=True)
                function(prediction, *padded, sample_weight=torch.ones(rows)).backward()
                grads.append(prediction.grad)
            assert_allclose(grads[1], grads[0], rtol=1e-5, atol=1e-7)
        for one, other in zip(plain.buffers(), compiled_.buffers(), strict=True):
            assert_allclose(other, one, rtol=1e-6)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("weighting", PAIRS)
    def test_half_precision_predictions_are_weighed_in_full(self, weighting: str, dtype: Any) -> None:
        loss = made(weighting).eval()
        net = torch.nn.Linear(3, 1)
        candidates = torch.tensor([[100.1, 300.0], [100.2, 99.9]])
        mask = torch.ones(2, 2, dtype=torch.bool)
        with torch.autocast("cpu", dtype=dtype):
            prediction = net(torch.ones(2, 3))
            assert prediction.dtype == dtype
            value = loss(prediction, candidates, mask)
        value.backward()
        assert value.dtype == torch.float32
        assert_allclose(value.item(), loss(prediction.float(), candidates, mask).item(), rtol=1e-6)
        assert torch.isfinite(net.weight.grad).all()

    def test_per_row_gradients_by_vmap(self) -> None:
        loss = PosteriorLoss().eval()
        centres, S, _ = hard_rows(False)
        candidates, mask, _ = pad(S[:5], torch.float64)
        ensemble = torch.tensor(centres[:15]).reshape(3, 5)
        found = torch.func.vmap(torch.func.grad(lambda f: loss(f, candidates, mask)))(ensemble)
        for one, wanted in zip(found, ensemble, strict=True):
            single = wanted.clone().requires_grad_()
            loss(single, candidates, mask).backward()
            assert_allclose(one, single.grad, rtol=1e-12)


class TestBadInput:
    rows = torch.zeros(2), torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)

    @pytest.mark.parametrize(
        ("changed", "error", "message"),
        [
            ((torch.zeros(3),), LengthError, r"\(2,\) or \(2, 1\).*found \(3,\)"),
            ((torch.zeros(2, 3),), LengthError, r"found \(2, 3\)"),
            ((torch.zeros(1, 2),), LengthError, r"found \(1, 2\)"),
            ((torch.zeros(2), torch.ones(2)), LengthError, r"\(rows, largest set\), found \(2,\)"),
            ((torch.zeros(2), torch.ones(2, 0)), EmptySetError, "no column"),
            ((torch.zeros(2), torch.ones(2, 3), torch.ones(2, 2).bool()), LengthError, r"mask.*\(2, 3\).*\(2, 2\)"),
            ((torch.zeros(2), torch.ones(2, 3), torch.ones(2, 3)), ParameterError, "bool.*float32"),
            (
                (torch.zeros(2), torch.ones(2, 2), torch.tensor([[True, False], [False, False]])),
                EmptySetError,
                "Row 1 of the batch",
            ),
            ((*rows, torch.ones(3, 2)), LengthError, "prior"),
            ((*rows, torch.tensor([[1.0, 0, 0], [0, 0, 0]])), PriorError, "Row 1"),
            ((*rows, None, torch.ones(2, 1)), LengthError, "sample_weight"),
        ],
    )
    def test_shapes(self, changed: tuple[Any, ...], error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            AverageLoss()(*(changed + self.rows[len(changed) :]))

    def test_a_loss_that_reduces(self) -> None:
        for make in (AverageLoss, IdentificationLoss):
            with pytest.raises(LengthError, match=r"shape \(\) where \(2, 3\) is expected.*not reduced"):
                make(loss=functional.mse_loss)(*self.rows)
        with pytest.raises(LengthError, match="The score gave shape"):
            ScoreLoss(lambda f, y, cost: cost.sum())(*self.rows)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: AverageLoss(loss="square"), "did you mean 'squared'"),
            (lambda: AverageLoss(loss=Absolute), r"give an instance, Absolute\(\)"),
            (lambda: AverageLoss(loss=Huber(-1.0)), "delta must be above 0"),
            (lambda: AverageLoss(loss=Pointwise(math.dist, math.dist)), "give a torch function"),
            (lambda: AverageLoss(reduction="avg"), "Unknown reduction"),
            (lambda: ProgressiveLoss(beta1=0.0), "beta1 must be above 0"),
            (lambda: PosteriorLoss("normal"), "Unknown noise"),
            (lambda: PosteriorLoss(initial_scale=0.0), "initial_scale must be above 0"),
            (lambda: PosteriorLoss(momentum=2.0), "momentum must be"),
            (lambda: ScoreLoss("square"), "score must be a function"),
        ],
    )
    def test_parameters(self, make: Any, message: str) -> None:
        with pytest.raises(ParameterError, match=message):
            make()
