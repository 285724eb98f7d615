"""Kernels under every width of vectors that the machine has, and for a processor that has the least.

The width is settled when plr is imported, so each has a process of its own, which runs the tests marked `kernel`. Those
of the default width are part of this run anyway. Fits under each width agree up to rounding.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from plr import CandidateSets, PartialLabelRegressor
from plr._registers import VARIABLE, VECTOR_BYTES, choose_vector_bytes, widest_vector_bytes
from plr.errors import ParameterError
from plr.learners import MLP, Boosting, GaussianProcess
from plr.losses import Squared
from plr.network.network import DENSITY, Head, NetworkSettings, kernel_sets, train_network
from plr.weighting import WEIGHTINGS, Average, Rule

ROOT = Path(__file__).resolve().parents[1]

# Sixteen bytes are what processors without anything wider have, so they are compiled for such a one.
SETTINGS = {
    "32 bytes": {VARIABLE: "32", "NUMBA_CPU_NAME": None},
    "16 bytes, any processor": {VARIABLE: "16", "NUMBA_CPU_NAME": "generic"},
}
# One process after the other, in the first minutes of a run: its kernels are nobody else's.
OTHERS = [
    pytest.param(setting, id=name, marks=pytest.mark.xdist_group("widths"))
    for name, setting in SETTINGS.items()
    if int(setting[VARIABLE]) < VECTOR_BYTES
]
# Most of the library is compiled once more, so widths between the widest and the narrowest are for the full run.
NARROWEST = [pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow]) for case in OTHERS[:-1]]
NARROWEST += OTHERS[-1:]
every_other = pytest.mark.parametrize("setting", NARROWEST)


def run(setting: dict[str, str | None], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with some variables set, or unset where they are None."""
    # A process started from a worker of pytest-xdist, or with options in a variable, would take itself for one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    for name, value in setting.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


def small_fits() -> dict[str, np.ndarray]:
    """Return predictions of small models of each kind, after few steps where rounding would add up."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    truth = np.tanh(X @ [1.0, -0.5, 0.3, 0.0, 0.2]) + 0.05 * random.normal(size=300)
    # From one candidate to eleven: fewer than a vector holds, as many, and more.
    S = CandidateSets.from_lists([np.append(y, random.uniform(-2, 2, k % 11)) for k, y in enumerate(truth)])
    network = MLP(hidden=(9, 6), epochs=5, batch_size=64, learning_rate=0.01)
    models = {f"mlp, {name}": (network, name) for name in WEIGHTINGS}
    models["linear"] = ("linear", "posterior")
    models["boosting"] = (Boosting(trees=10), "posterior")
    models["gaussian_process"] = (GaussianProcess(chains=1, rounds=2, features=50), "posterior")
    found = {
        name: PartialLabelRegressor(learner, weighting, start=None, random_state=0).fit(X, S).predict(X)
        for name, (learner, weighting) in models.items()
    }
    # The learner "density" takes thousands of steps; its network takes as few here.
    settings = NetworkSettings((9, 6), ("relu", "relu"), epochs=5, batch_size=64, learning_rate=0.01)
    rule, head = Rule(Average(), Squared()), Head(DENSITY, -2.0, 0.5)
    density = train_network(X, kernel_sets(S), rule, settings, seed=0, head=head, outputs=9)
    return found | {"density": density.last.outputs(X)}


class TestEveryWidth:
    @every_other
    def test_kernels(self, setting):
        files = [str(path) for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.kernel" in path.read_text()]
        chosen = "-m", "kernel and not slow", "--maxfail", "5", "--tb", "short", "--hypothesis-profile", "few"
        options = "-q", "-n", "0", "-p", "no:cacheprovider", *chosen
        done = run(setting, "-m", "pytest", *options, *sorted(files))
        assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[:2000]}"

    @every_other
    def test_fits_agree_up_to_rounding(self, setting, tmp_path):
        done = run(setting, __file__, str(tmp_path / "fits.npz"))
        assert done.returncode == 0, done.stderr[-5000:]
        with np.load(tmp_path / "fits.npz") as others:
            for name, own in small_fits().items():
                # Networks and the draws of Gaussian processes are in float32 here, all else in float64.
                rounding = 1e-4 if name.startswith(("mlp", "density", "gaussian_process")) else 1e-8
                assert_allclose(others[name], own, rtol=0, atol=rounding * own.std(), err_msg=name)


@pytest.mark.kernel
def test_vectors_are_as_wide_as_asked_for():
    assert str(VECTOR_BYTES) == os.environ.get(VARIABLE, str(widest_vector_bytes()))


class TestVariable:
    @pytest.mark.parametrize(("asked", "found"), [("", 32), (" ", 32), ("32", 32), ("16", 16)])
    def test_allowed(self, asked, found):
        assert choose_vector_bytes(asked, 32) == found

    @pytest.mark.parametrize("asked", ["64", "128", "24", "0", "-16", "wide", "16.0"])
    def test_what_is_not_allowed_names_what_is(self, asked):
        with pytest.raises(ParameterError, match=rf"PLR_VECTOR_BYTES is '{asked}'.* 32 or 16 bytes"):
            choose_vector_bytes(asked, 32)

    def test_the_command_line_says_so_in_one_line(self, tmp_path):
        table, model = tmp_path / "table.csv", tmp_path / "model.plr"
        table.write_text("a,y\n1,2|3\n2,3|4\n3,4\n4,5|1\n")
        done = run({VARIABLE: "128"}, "-m", "plr", "fit", str(table), "--target", "y", "-o", str(model))
        assert done.returncode == 2
        assert done.stderr.startswith("plr: The environment variable PLR_VECTOR_BYTES is '128'")
        assert len(done.stderr.splitlines()) == 1

    def test_it_follows_what_numba_compiles_for(self, monkeypatch):
        import numba

        for features, width in (("", 16), ("+sse2,-avx", 16), ("+avx,+avx2,-avx512f", 32), ("+avx,+avx512f", 64)):
            monkeypatch.setattr(numba.config, "CPU_FEATURES", features)
            assert widest_vector_bytes() == width

    def test_each_width_has_its_own_cache(self, monkeypatch):
        from plr import _jit

        folders = set()
        for width in (64, 32, 16):
            monkeypatch.setattr(_jit, "VECTOR_BYTES", width)
            _jit._cache_folder.cache_clear()
            folders.add(_jit._cache_folder("somewhere"))
        _jit._cache_folder.cache_clear()
        assert len(folders) == 3


if __name__ == "__main__":
    np.savez(sys.argv[1], **small_fits())
