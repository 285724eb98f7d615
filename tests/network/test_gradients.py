"""The kernels' gradients against PyTorch's automatic ones in float64, and the density head against its definition."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from plr import CandidateSets
from plr._codes import Sets
from plr.losses import LOSSES, Loss, Pointwise, get_loss
from plr.network.initialisation import initial_parameters
from plr.network.layers import ACTIVATIONS, Layout
from plr.network.network import SCALAR_HEAD, Network, NetworkSettings, kernel_sets, make_memory
from plr.network.training import DENSITY, Head, Memory, batch_gradient, get_stages
from plr.weighting import WEIGHTINGS, Custom, Posterior, Progressive, Rule, Weighting, get_weighting
from plr.weighting.rule import frozen
from support.pairs import all_pairs

torch = pytest.importorskip("torch")
Tensor = torch.Tensor

SCALE = 0.6
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
DEPTHS = {0: (), 1: (7,), 2: (9, 6), 3: (5, 9, 3)}
# One of the two is enough for the kernel tests, which are compiled for each width of vectors.
DTYPES = (pytest.param("float32", marks=pytest.mark.kernel), "float64")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def boltzmann(prediction: float, value: float, loss: float) -> float:
    return -3.0 * loss


def pseudo_huber(prediction: float, value: float) -> float:
    return math.sqrt(1.0 + (prediction - value) ** 2) - 1.0


def pseudo_huber_derivative(prediction: float, value: float) -> float:
    return (prediction - value) / math.sqrt(1.0 + (prediction - value) ** 2)


ALL_WEIGHTINGS: dict[str, Weighting] = {name: make() for name, make in WEIGHTINGS.items()} | {
    "custom": Custom(boltzmann),
    "posterior-gaussian": Posterior("gaussian"),
    "posterior-laplace": Posterior("laplace"),
}
ALL_LOSSES: dict[str, Loss] = {name: make() for name, make in LOSSES.items()} | {
    "pointwise": Pointwise(pseudo_huber, pseudo_huber_derivative)
}


@functools.cache
def compiled(weighting: str, loss: str) -> Rule:
    return Rule(ALL_WEIGHTINGS[weighting], ALL_LOSSES[loss])


# ---------------------------------------------------------------------------------------------------------------------
# The second implementation: flat candidates, PyTorch, float64


def torch_losses(loss: str, residual: Tensor) -> Tensor:
    size = residual.abs()
    if loss == "huber":
        delta = ALL_LOSSES[loss].delta
        return torch.where(size <= delta, residual**2 / 2, delta * (size - delta / 2))
    return {"squared": residual**2, "absolute": size, "pointwise": torch.sqrt(1 + residual**2) - 1}[loss]


def torch_scores(weighting: str, residual: Tensor, cost: Tensor) -> Tensor:
    chosen = ALL_WEIGHTINGS[weighting]
    if isinstance(chosen, Progressive):
        return chosen.beta2 * cost**-chosen.beta1
    if isinstance(chosen, Posterior):
        centre = torch.zeros_like(residual)  # a plain 0.0 would make it float32
        family = {
            "gaussian": torch.distributions.Normal(centre, centre + SCALE),
            "laplace": torch.distributions.Laplace(centre, centre + SCALE),
            "student": torch.distributions.StudentT(centre + chosen.degrees, centre, centre + SCALE),
        }[chosen.noise]
        return family.log_prob(residual)
    return {"average": 0 * cost, "identification": -1e12 * cost, "custom": -3 * cost}[weighting]


def torch_rows(
    weighting: str, loss: str, prediction: Tensor, S: CandidateSets, log_q: np.ndarray | None, fixed: np.ndarray | None
) -> Tensor:
    """Each row's weighted loss; no gradient passes through the weights."""
    at = torch.as_tensor(np.repeat(np.arange(len(S)), S.sizes))
    residual = prediction[at] - torch.as_tensor(S.values.copy())
    cost = torch_losses(loss, residual)
    with torch.no_grad():
        if fixed is None:
            score = torch_scores(weighting, residual, cost) + torch.as_tensor(np.log(S.prior_or_uniform))
            if log_q is not None and weighting.startswith("posterior"):
                score = score - torch.as_tensor(log_q)
            highest = torch.full((len(S),), -math.inf, dtype=score.dtype).scatter_reduce(0, at, score, "amax")
            share = torch.exp(score - highest[at])
            weights = share / torch.zeros(len(S), dtype=score.dtype).index_add(0, at, share)[at]
        else:
            weights = torch.as_tensor(fixed)
    return torch.zeros(len(S), dtype=cost.dtype).index_add(0, at, weights * cost)


def torch_outputs(flat: Tensor, sizes: list[int], activations: tuple[str, ...], X: np.ndarray) -> Tensor:
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "identity": lambda x: x,
        "relu": torch.relu,
        "silu": torch.nn.functional.silu,
        "tanh": torch.tanh,
    }
    x, at = torch.as_tensor(X.astype(np.float64)), 0
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        matrix = flat[at : at + n_in * n_out].reshape(n_out, n_in)
        at += n_in * n_out
        x = x @ matrix.T + flat[at : at + n_out]
        at += n_out
        if layer < len(activations):
            x = functions[activations[layer]](x)
    assert at == flat.numel()
    return x


# ---------------------------------------------------------------------------------------------------------------------


class Case:
    """A network, data and a batch, given to both implementations."""

    def __init__(
        self,
        dtype: str,
        hidden: tuple[int, ...],
        activations: tuple[str, ...] | str = "relu",
        columns: int = 5,
        rows: int = 37,
        outputs: int = 1,
        prior: bool = True,
        log_q: bool = False,
        seed: int = 0,
    ) -> None:
        self.random = np.random.default_rng([seed, rows, columns, *hidden])
        self.dtype, self.sizes = np.dtype(dtype), [columns, *hidden, outputs]
        self.activations = (activations,) * len(hidden) if isinstance(activations, str) else activations
        self.X = self.random.normal(size=(rows, columns)).astype(self.dtype)
        sizes = self.random.integers(1, 6, rows)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        values = self.random.normal(size=offsets[-1])
        self.S = CandidateSets(values, offsets, self.random.uniform(0.1, 1, len(values)) if prior else None)
        self.log_q = self.random.normal(size=len(values)) if log_q else None
        self.parameters = (1.5 * initial_parameters(self.sizes, self.random)).astype(self.dtype)
        self.layout = Layout(
            np.array(self.sizes, dtype=np.int64),
            np.array([ACTIVATIONS[name] for name in self.activations], dtype=np.int64),
        )

    def memory(self, rule: Rule) -> Memory:
        settings = NetworkSettings(tuple(self.sizes[1:-1]), self.activations, epochs=1, initial_scale=SCALE)
        largest = int(self.S.sizes.max())
        return make_memory(self.parameters, sum(self.sizes), len(self.X), largest, rule, settings, self.random)

    def sets(self, fixed: np.ndarray | None = None) -> Sets:
        return kernel_sets(self.S, log_q=self.log_q, fixed=fixed)

    def kernel(
        self,
        rule: Rule,
        *,
        head: Head = SCALAR_HEAD,
        batch: np.ndarray | None = None,
        fixed: np.ndarray | None = None,
        sample_weight: np.ndarray | None = None,
        memory: Memory | None = None,
    ) -> Memory:
        memory = self.memory(rule) if memory is None else memory
        memory.totals[:] = 0
        batch_gradient(
            get_stages(self.X.dtype.name),
            self.layout,
            head,
            rule.formula,
            self.X,
            self.sets(fixed),
            frozen(np.empty(0) if sample_weight is None else sample_weight),
            np.arange(len(self.X)) if batch is None else batch,
            fixed is not None,
            rule.learns_scale,
            memory,
        )
        return memory

    def torch(
        self,
        row_losses: Callable[[Tensor], Tensor],
        batch: np.ndarray | None = None,
        sample_weight: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the mean over the batch, and each row's loss."""
        flat = torch.tensor(self.parameters.astype(np.float64), requires_grad=True)
        losses = row_losses(torch_outputs(flat, self.sizes, self.activations, self.X))
        importance = torch.ones(len(losses)) if sample_weight is None else torch.as_tensor(sample_weight)
        chosen = torch.arange(len(losses)) if batch is None else torch.as_tensor(batch)
        (importance * losses)[chosen].mean().backward()
        return flat.grad.numpy(), losses.detach().numpy()

    def scalar(self, weighting: str, loss: str, fixed: np.ndarray | None = None) -> Callable[[Tensor], Tensor]:
        return lambda outputs: torch_rows(weighting, loss, outputs[:, 0], self.S, self.log_q, fixed)


def assert_gradient(found: np.ndarray, wanted: np.ndarray) -> None:
    norm = np.linalg.norm(wanted)
    assert norm > 1e-3, "a case without a gradient shows nothing"
    assert np.linalg.norm(found - wanted) / norm <= TOLERANCE[found.dtype.name]


class TestScalarHead:
    @all_pairs(weighting=ALL_WEIGHTINGS, loss=ALL_LOSSES, depth=DEPTHS, dtype=DTYPES)
    def test_every_weighting_loss_and_depth(self, weighting: str, loss: str, depth: int, dtype: str) -> None:
        case = Case(dtype, DEPTHS[depth], "tanh")
        memory = case.kernel(compiled(weighting, loss))
        gradient, losses = case.torch(case.scalar(weighting, loss))
        assert_gradient(memory.gradient, gradient)
        assert_allclose(memory.totals[:2], [losses.sum(), len(losses)], rtol=TOLERANCE[dtype])

    @all_pairs(activation=ACTIVATIONS, depth=[1, 3], dtype=DTYPES)
    def test_every_activation(self, activation: str, depth: int, dtype: str) -> None:
        case = Case(dtype, DEPTHS[depth], activation)
        memory = case.kernel(compiled("progressive", "squared"))
        assert_gradient(memory.gradient, case.torch(case.scalar("progressive", "squared"))[0])

    @every_dtype
    @pytest.mark.parametrize(
        "mix", [("tanh", "silu", "relu"), ("silu", "identity", "tanh"), ("relu", "relu", "silu")], ids="-".join
    )
    def test_activation_per_layer(self, mix: tuple[str, ...], dtype: str) -> None:
        case = Case(dtype, DEPTHS[3], mix)
        memory = case.kernel(compiled("average", "absolute"))
        assert_gradient(memory.gradient, case.torch(case.scalar("average", "absolute"))[0])

    @all_pairs(
        hidden=[
            pytest.param(sizes, id=str(sizes)) for sizes in [(1,), (4,), (8, 4), (11, 6), (13, 16, 1), (20, 30, 10)]
        ],
        columns=[1, 2, 4, 7, 8],
        dtype=DTYPES,
    )
    def test_layer_sizes(self, hidden: tuple[int, ...], columns: int, dtype: str) -> None:
        """The tiles are four by four; everything that does not fit them has code of its own."""
        case = Case(dtype, hidden, "silu", columns=columns, rows=23)
        memory = case.kernel(compiled("average", "squared"))
        assert_gradient(memory.gradient, case.torch(case.scalar("average", "squared"))[0])

    @every_dtype
    @pytest.mark.parametrize("rows", [1, 3, 4, 255, 256, 257, 511, 600])
    def test_blocks(self, rows: int, dtype: str) -> None:
        case = Case(dtype, (9, 6), ("relu", "silu"), rows=rows)
        memory = case.kernel(compiled("posterior", "squared"))
        gradient, losses = case.torch(case.scalar("posterior", "squared"))
        assert_gradient(memory.gradient, gradient)
        assert_allclose(memory.totals[:2], [losses.sum(), rows], rtol=TOLERANCE[dtype])

    @every_dtype
    def test_batch_in_any_order(self, dtype: str) -> None:
        case = Case(dtype, (9, 6), rows=700, log_q=True)
        batch = case.random.permutation(700)[:301].astype(np.int64)
        memory = case.kernel(compiled("posterior", "huber"), batch=batch)
        assert_gradient(memory.gradient, case.torch(case.scalar("posterior", "huber"), batch)[0])

    @every_dtype
    def test_memory_carries_nothing_over(self, dtype: str) -> None:
        case = Case(dtype, (9, 6), "silu", rows=600)
        rule = compiled("progressive", "squared")
        few = np.arange(41, 50)
        fresh = case.kernel(rule, batch=few)
        used = case.kernel(rule, batch=few, memory=case.kernel(rule))
        assert_array_equal(used.gradient, fresh.gradient)
        assert_array_equal(used.totals, fresh.totals)

    @every_dtype
    @pytest.mark.parametrize("weighting", ALL_WEIGHTINGS)
    def test_sample_weight(self, weighting: str, dtype: str) -> None:
        case = Case(dtype, (9, 6), rows=300)
        importance = case.random.uniform(0, 3, 300)
        importance[::7] = 0
        memory = case.kernel(compiled(weighting, "squared"), sample_weight=importance)
        gradient, losses = case.torch(case.scalar(weighting, "squared"), sample_weight=importance)
        assert_gradient(memory.gradient, gradient)
        assert_allclose(memory.totals[:2], [importance @ losses, importance.sum()], rtol=TOLERANCE[dtype])

    @every_dtype
    def test_zero_sample_weight_is_absence(self, dtype: str) -> None:
        case = Case(dtype, (9, 6), rows=40)
        importance = np.repeat([1.0, 0.0], 20)
        rule = compiled("progressive", "squared")
        half = case.kernel(rule, batch=np.arange(20)).gradient.copy()
        assert_allclose(2 * case.kernel(rule, sample_weight=importance).gradient, half, rtol=1e-4, atol=1e-7)

    @every_dtype
    @pytest.mark.parametrize("loss", ALL_LOSSES)
    def test_fixed_weights(self, loss: str, dtype: str) -> None:
        """The weights of a start take the place of the rule's."""
        case = Case(dtype, (9, 6), rows=300)
        fixed = case.random.uniform(0, 1, len(case.S.values))
        fixed /= np.add.reduceat(fixed, case.S.offsets[:-1])[np.repeat(np.arange(300), case.S.sizes)]
        memory = case.kernel(compiled("posterior", loss), fixed=fixed)
        assert_gradient(memory.gradient, case.torch(case.scalar("posterior", loss, fixed))[0])

    @every_dtype
    @pytest.mark.parametrize("weighting", ALL_WEIGHTINGS)
    def test_density_of_false_labels(self, weighting: str, dtype: str) -> None:
        case = Case(dtype, (9, 6), log_q=True)
        memory = case.kernel(compiled(weighting, "squared"))
        assert_gradient(memory.gradient, case.torch(case.scalar(weighting, "squared"))[0])

    @every_dtype
    def test_no_prior(self, dtype: str) -> None:
        case = Case(dtype, (9, 6), prior=False)
        memory = case.kernel(compiled("progressive", "squared"))
        assert_gradient(memory.gradient, case.torch(case.scalar("progressive", "squared"))[0])

    @every_dtype
    def test_average_squared_is_squared_on_the_mean(self, dtype: str) -> None:
        case = Case(dtype, (9, 6))
        on_sets = case.kernel(compiled("average", "squared")).gradient.copy()
        case.S = CandidateSets.from_lists(case.S.mean()[:, None])
        on_means = case.kernel(compiled("average", "squared")).gradient
        assert_allclose(on_sets, on_means, rtol=1e-5, atol=1e-6)

    @every_dtype
    @pytest.mark.parametrize("weighting", ["posterior", "posterior-gaussian", "posterior-laplace"])
    def test_spread(self, weighting: str, dtype: str) -> None:
        """What the next noise scale comes from, as the public rule computes it."""
        case = Case(dtype, (9, 6), rows=300)
        rule = compiled(weighting, "squared")
        importance = case.random.uniform(0.1, 3, 300)
        memory = case.kernel(rule, sample_weight=importance)
        prediction = Network(case.layout, case.parameters).predict(case.X)
        state = rule.initial_state(SCALE)
        weights = rule.evaluate(prediction, case.S, state).weights
        wanted = rule.update_scale(prediction, case.S, state, weights, importance)[0]
        mean = memory.totals[2] / memory.totals[1]
        assert_allclose(mean if weighting == "posterior-laplace" else math.sqrt(mean), wanted, rtol=1e-9)

    @all_pairs(rows=[1, 256, 300, 1025], outputs=[1, 3], dtype=DTYPES)
    def test_outputs(self, rows: int, outputs: int, dtype: str) -> None:
        case = Case(dtype, (9, 6), ("silu", "tanh"), rows=rows, outputs=outputs)
        wanted = torch_outputs(torch.tensor(case.parameters, dtype=torch.float64), case.sizes, case.activations, case.X)
        found = Network(case.layout, case.parameters).outputs(case.X)
        assert found.shape == (rows, outputs)
        assert_allclose(found, wanted.numpy(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])

    def test_names_resolve_to_what_was_tested(self) -> None:
        for name in WEIGHTINGS:
            assert repr(get_weighting(name)) == repr(ALL_WEIGHTINGS[name])
        for name in LOSSES:
            assert repr(get_loss(name)) == repr(ALL_LOSSES[name])


BINS, LOW, WIDTH = 11, -2.0, 0.4
DENSITY_HEAD = Head(DENSITY, LOW, WIDTH)


def hats(y: np.ndarray) -> np.ndarray:
    """Each bin's triangle around its centre, cut off at the ends of the range and scaled to area 1 by quadrature."""
    centres = LOW + WIDTH * np.arange(BINS)
    fine = np.linspace(centres[0], centres[-1], 100 * (BINS - 1) + 1)

    def triangle(at: np.ndarray) -> np.ndarray:
        return np.maximum(0, 1 - np.abs(np.clip(at, fine[0], fine[-1])[:, None] - centres) / WIDTH)

    return triangle(y) / np.trapezoid(triangle(fine), fine, axis=0)


class TestDensityHead:
    @staticmethod
    def reference(case: Case) -> Callable[[Tensor], Tensor]:
        at = torch.as_tensor(np.repeat(np.arange(len(case.S)), case.S.sizes))
        ratio = case.S.prior_or_uniform / np.exp(0 if case.log_q is None else case.log_q)
        heights = torch.as_tensor(hats(case.S.values) * ratio[:, None])

        def row_losses(outputs: Tensor) -> Tensor:
            likelihood = (torch.softmax(outputs, 1)[at] * heights).sum(1)
            return -torch.log(torch.zeros(len(case.S), dtype=likelihood.dtype).index_add(0, at, likelihood))

        return row_losses

    @all_pairs(
        hidden=[pytest.param((), id="()"), pytest.param((9, 6), id="(9, 6)")],
        log_q=[pytest.param(False, id="q-uniform"), pytest.param(True, id="q-given")],
        prior=[pytest.param(False, id="uniform"), pytest.param(True, id="prior")],
        dtype=DTYPES,
    )
    def test_gradient(self, hidden: tuple[int, ...], log_q: bool, prior: bool, dtype: str) -> None:
        case = Case(dtype, hidden, "tanh", rows=300, outputs=BINS, prior=prior, log_q=log_q)
        assert case.S.values.max() > LOW + WIDTH * (BINS - 1), "labels beyond the last bin belong to the test"
        memory = case.kernel(compiled("average", "squared"), head=DENSITY_HEAD)
        gradient, losses = case.torch(self.reference(case))
        assert_gradient(memory.gradient, gradient)
        assert_allclose(memory.totals[:2], [losses.sum(), 300], rtol=TOLERANCE[dtype])

    @every_dtype
    def test_sample_weight(self, dtype: str) -> None:
        case = Case(dtype, (9, 6), "tanh", rows=300, outputs=BINS)
        importance = case.random.uniform(0, 3, 300)
        memory = case.kernel(compiled("average", "squared"), head=DENSITY_HEAD, sample_weight=importance)
        gradient, losses = case.torch(self.reference(case), sample_weight=importance)
        assert_gradient(memory.gradient, gradient)
        assert_allclose(memory.totals[:2], [importance @ losses, importance.sum()], rtol=TOLERANCE[dtype])

    @every_dtype
    def test_integrates_to_one(self, dtype: str) -> None:
        labels = np.linspace(LOW, LOW + WIDTH * (BINS - 1), 40 * (BINS - 1) + 1)
        case = Case(dtype, (), rows=len(labels), outputs=BINS)
        case.X[:] = case.X[0]
        case.S = CandidateSets.from_lists(labels[:, None])
        rule = compiled("average", "squared")
        memory = case.memory(rule)
        density = np.empty(len(labels))
        for i in range(len(labels)):
            case.kernel(rule, head=DENSITY_HEAD, batch=np.array([i]), memory=memory)
            density[i] = np.exp(-memory.totals[0])
        assert density.max() > 1.5 * density.min()
        assert_allclose(np.trapezoid(density, labels), 1, rtol=1e-6 if dtype == "float32" else 1e-12)

    @every_dtype
    @pytest.mark.parametrize("factor", [30.0, 1e4])
    def test_underflow_stays_finite(self, factor: float, dtype: str) -> None:
        """Logits so far apart that all of a row's candidates lie where the density is 0."""
        case = Case(dtype, (), rows=64, outputs=BINS)
        case.parameters *= case.dtype.type(factor)
        memory = case.kernel(compiled("average", "squared"), head=DENSITY_HEAD)
        assert np.isfinite(memory.gradient).all()
        assert np.isfinite(memory.totals).all()
