"""A stack gives each fit what the compiled kernel gives it alone, and the fused kernel what the plain engine gives."""

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plr.candidates import CandidateSets  # noqa: E402
from plr.errors import ParameterError  # noqa: E402
from plr.losses import Pointwise, Squared  # noqa: E402
from plr.network import network  # noqa: E402
from plr.paper.stacked import training  # noqa: E402
from plr.paper.stacked.fits import Layers, StackedFit  # noqa: E402
from plr.paper.stacked.training import draw_orders, predict_stack, train_stack  # noqa: E402
from plr.weighting import Average, Custom, Identify, Posterior, Progressive, Rule, Weighting  # noqa: E402
from support.stacked_fits import LAYERS, METHODS, make_fits, shorter, table  # noqa: E402

ACTIVATIONS = {0: "identity", 1: "relu"}


def alone(fit, epochs, batch_size):
    """Train one fit by the compiled kernel."""
    settings = network.NetworkSettings(
        LAYERS.hidden,
        tuple(ACTIVATIONS[code] for code in fit.activations),
        epochs,
        batch_size=batch_size,
        learning_rate=fit.learning_rate,
        initial_scale=fit.scale,
    )
    check = fit.validation
    return network.train_network(
        fit.features,
        network.kernel_sets(CandidateSets.from_padded(fit.targets.astype(float))),
        Rule(fit.weighting, fit.loss),
        settings,
        seed=2,
        validation=network.Validation(
            check.features,
            CandidateSets.from_padded(check.own.astype(float)),
            truth=check.truth.astype(float),
            rules=(0, 1, 2),
        ),
    )


def assert_same(result, training):
    np.testing.assert_allclose(result.loss, training.loss, rtol=2e-4)
    np.testing.assert_allclose(result.scores, training.validation, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(result.last, training.last.parameters, atol=2e-4)
    for rule in range(3):
        assert result.best_epoch[rule] == training.best[rule].epoch
        np.testing.assert_allclose(result.best[rule], training.best[rule].network.parameters, atol=2e-4)


def test_fits_equal_the_compiled_kernel():
    fits = make_fits(activations=((0, 1, 1), (0, 0, 0), (1, 1, 1)))
    for fit, result in zip(fits, train_stack(fits, LAYERS, epochs=6), strict=True):
        assert_same(result, alone(fit, 6, 256))


def test_batches_equal_the_compiled_kernel(monkeypatch):
    fit = make_fits(METHODS[4:5], rows=50, sizes=(3,))[0]
    orders = compiled_orders(50, seed=2, epochs=3)
    monkeypatch.setattr(
        training, "draw_orders", lambda rows, seeds, first, count, device: orders[first : first + count]
    )
    assert_same(train_stack([fit], LAYERS, epochs=3, batch_size=16)[0], alone(fit, 3, 16))


def compiled_orders(rows, seed, epochs):
    """Return the orders that the compiled kernel takes the rows in: Fisher and Yates's shuffle, by splitmix64."""
    random = np.random.default_rng(seed)
    network.initial_parameters(list(LAYERS.sizes), random)
    state = int(random.integers(0, 2**63, 1)[0])
    order, found = list(range(rows)), []
    for _ in range(epochs):
        for i in range(rows - 1, 0, -1):
            state = (state + 0x9E3779B97F4A7C15) % 2**64
            z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
            j = (((z ^ (z >> 31)) >> 32) * (i + 1)) >> 32
            order[i], order[j] = order[j], order[i]
        found.append(list(order))
    return torch.tensor(found, dtype=torch.int32)


def test_neighbours_change_nothing():
    fits = make_fits(rows=40)
    together = train_stack([*fits, shorter(fits[0], 17)], LAYERS, epochs=3, batch_size=16)
    by_itself = train_stack(fits[3:4], LAYERS, epochs=3, batch_size=16)[0]
    np.testing.assert_allclose(together[3].last, by_itself.last, atol=1e-6)
    short = train_stack([shorter(fits[0], 17)], LAYERS, epochs=3, batch_size=16)[0]
    np.testing.assert_allclose(together[-1].last, short.last, atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_fused_kernel_equals_the_plain_engine():
    # Triton decides at import whether it interprets kernels, which needs no GPU.
    code = """
        import numpy as np
        from plr.losses import Squared
        from plr.weighting import Progressive
        from support.stacked_fits import LAYERS, METHODS, make_fits, shorter
        from plr.paper.stacked.training import train_stack
        fits = make_fits(METHODS, rows=20, sizes=(2,)) + make_fits(METHODS[:1], rows=20, activations=((0, 0, 0),))
        fits.append(shorter(fits[0], 11))
        # More rows than a block, a beta2 as large as the paper's, and labels that overflow.
        fits += make_fits([(Progressive(0.5, 1e4), Squared())], rows=70, sizes=(2,))
        wild = make_fits([METHODS[3]], rows=20, sizes=(2,))[0]
        fits.append(type(wild)(**{**vars(wild), "targets": wild.targets + np.float32(3e19)}))
        plain, fused = (train_stack(fits, LAYERS, epochs=2, batch_size=66, engine=name) for name in ("plain", "fused"))
        assert not np.isfinite(fused[-1].loss).any() and not np.isfinite(plain[-1].loss).any()
        for one, other in zip(plain[:-1], fused[:-1], strict=True):
            for name in ("last", "best", "best_epoch", "loss", "scores"):
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-3, atol=1e-4, err_msg=name)
        print("equal")
    """
    assert interpreted(code, TRITON_INTERPRET="1").strip() == "equal"


def interpreted(code, **variables):
    """Run some code in a new process and return what it prints."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=1200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_predictions_are_those_of_each_network():
    fits = make_fits(METHODS[:2], activations=((0, 1, 1), (1, 1, 1)))
    results = train_stack(fits, LAYERS, epochs=2)
    rows, _ = table(9, 5)
    found = predict_stack(
        LAYERS, np.stack([result.last for result in results]), np.array([fit.activations for fit in fits]), rows
    )
    for fit, prediction in zip(fits, found, strict=True):
        expected = alone(fit, 2, 256).last.predict(rows)
        np.testing.assert_allclose(prediction, expected, rtol=1e-3, atol=1e-4)


def test_orders_are_permutations_that_seed_and_epoch_decide():
    orders = draw_orders([5, 300, 5], [1, 2, 1], 0, 4, "cpu").numpy()
    for begin, rows in ((0, 5), (5, 300), (305, 5)):
        np.testing.assert_array_equal(np.sort(orders[:, begin : begin + rows]), np.tile(np.arange(rows), (4, 1)))
    np.testing.assert_array_equal(orders[:, :5], orders[:, 305:])
    assert (orders[0, 5:305] != orders[1, 5:305]).any()
    np.testing.assert_array_equal(orders[2:, 5:305], draw_orders([300], [2], 2, 2, "cpu").numpy())
    # Every row comes first about as often as any other.
    first = draw_orders([10], [3], 0, 5000, "cpu").numpy()[:, 0]
    assert abs(np.bincount(first, minlength=10) - 500).max() < 100


def test_training_that_leaves_the_numbers_is_seen():
    fit = make_fits(METHODS[:1], sizes=(2,))[0]
    wild = StackedFit(**{**vars(fit), "targets": fit.targets * np.float32(1e30)})
    result, tame = train_stack([wild, fit], LAYERS, epochs=2)
    assert not np.isfinite(result.loss).all()
    assert np.isfinite(tame.last).all()


def test_callback_hears_epochs_and_stops_training():
    heard = []

    def stop(done):
        heard.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_stack(make_fits(METHODS[:1]), LAYERS, epochs=50, callback=stop)
    assert heard == [1]


def test_deeper_networks_are_refused():
    fit = make_fits(METHODS[:1], sizes=(2,))[0]
    with pytest.raises(ParameterError, match="1 to 3 hidden layers, got 4"):
        train_stack([fit], Layers(3, (5, 5, 5, 5)), epochs=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activations": (0, 2, 1)}, "has activations that"),
        ({"activations": (0, 1)}, "has activations that"),
        ({"weighting": Custom(abs)}, "the weighting Custom, which has no torch_score"),
        ({"weighting": Posterior("laplace")}, "not Posterior.noise='laplace'."),
        ({"loss": Pointwise(abs, abs)}, "the loss Pointwise, which has no torch_value"),
        ({"features": np.zeros((40, 4), np.float32)}, "has features that"),
        ({"targets": np.zeros((7, 2), np.float32)}, "has targets that"),
        ({"parameters": np.zeros(3, np.float32)}, "has parameters that"),
    ],
)
def test_what_would_be_trained_as_something_else_is_refused(changes, message):
    fit = make_fits(METHODS[:1], sizes=(2,))[0]
    with pytest.raises(ParameterError, match=message):
        train_stack([StackedFit(**{**vars(fit), **changes})], LAYERS, epochs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"engine": "bogus"}, "engine"), ({"epochs": 0}, "epochs"), ({"batch_size": 0}, "batch_size")],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ParameterError, match=message):
        train_stack(make_fits(METHODS[:1]), LAYERS, **{"epochs": 1, **options})


def test_narrow_networks_and_single_rows_equal_the_compiled_kernel():
    fit = shorter(make_fits(METHODS[4:5], sizes=(2,))[0], 1)
    assert_same(train_stack([fit], LAYERS, epochs=3, batch_size=1)[0], alone(fit, 3, 1))


def test_sets_of_one_train_on_the_label():
    X, y = table(30, 0)
    fit = make_fits(METHODS[:1], sizes=(2,))[0]
    fits = [
        StackedFit(**{**vars(fit), "features": X, "targets": y[:, None], "weighting": weighting})
        for weighting in (Average(), Identify(), Progressive(beta1=0.3), Posterior())
    ]
    first, *others = train_stack(fits, LAYERS, epochs=2)
    for other in others:
        np.testing.assert_allclose(first.last, other.last, atol=1e-6)


class Boltzmann(Weighting):
    """A weighting that the fused kernel has no code for."""

    @staticmethod
    def score(prediction, value, loss):
        return -loss / 0.3

    torch_score = score


def test_a_weighting_with_a_torch_form_equals_the_compiled_kernel():
    fits = make_fits([METHODS[4], (Boltzmann(), Squared())], sizes=(2,))
    for fit, result in zip(fits, train_stack(fits, LAYERS, epochs=3), strict=True):
        assert_same(result, alone(fit, 3, 256))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_fused_engine_names_what_it_does_not_know():
    with pytest.raises(ParameterError, match="does not know the weighting Boltzmann"):
        train_stack(make_fits([(Boltzmann(), Squared())]), LAYERS, epochs=1, engine="fused")


@pytest.mark.slow
def test_stacks_need_torch_numpy_and_scikit_learn_alone():
    code = """
        import sys
        class Absent:
            def find_spec(self, name, path=None, target=None):
                absent = {"lightgbm", "llvmlite", "numba", "pyarrow", "rich", "typer"}
                if name.partition(".")[0] in absent:
                    raise ModuleNotFoundError(name, name=name)
        sys.meta_path.insert(0, Absent())
        from support.stacked_fits import LAYERS, make_fits
        from plr.paper.stacked.training import train_stack
        from plr.paper.stacking import run_stack
        print(len(train_stack(make_fits(), LAYERS, epochs=1)))
    """
    assert interpreted(code).strip() == "14"
