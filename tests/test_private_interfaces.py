"""What plr uses of other packages without their promise to keep it: one test each that says so when it moves."""

from __future__ import annotations

import contextlib
import importlib
import operator
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def relied_on(package: str, what: str, *files: str) -> Iterator[None]:
    """Name the files that have to follow where something fails."""
    assert [name for name in files if not (ROOT / name).is_file()] == []
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        pytest.fail(
            f"{what} of {package} {version(package)} is not what plr relies on in {', '.join(files)}. Change these "
            f"files, or bound {package} in pyproject.toml. {type(error).__name__}: {error}"
        )


@pytest.mark.parametrize(("package", "beyond"), [("numba", "0.69.0"), ("lightgbm", "4.8.0")])
def test_the_next_release_is_not_installed_untried(package: str, beyond: str) -> None:
    wanted = [
        Requirement(line) for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    ]
    bounds = next(requirement.specifier for requirement in wanted if requirement.name == package)
    assert beyond not in bounds, f"plr uses private parts of {package}, but pyproject.toml has no bound below {beyond}"
    assert version(package) in bounds, f"{package} {version(package)} is installed, which pyproject.toml excludes"


class TestNumba:
    def test_kernels_without_reference_counts(self) -> None:
        import numba

        def allocates(count: int) -> float:
            return np.ones(count).sum()

        def slices(array: np.ndarray) -> float:
            return array[1:][0]

        with relied_on("numba", "The option _nrt", "src/plr/_jit.py"):
            with pytest.raises(numba.core.errors.NumbaError):
                numba.njit(_nrt=False)(allocates)(3)
            compiled = numba.njit(_nrt=False)(slices)
            assert compiled(np.arange(3.0)) == 1.0
            assert all("NRT_incref" not in text for text in compiled.inspect_llvm().values())

    def test_flags_of_kernels(self) -> None:
        import numba

        from plr._jit import _FLAGS

        def divided(a: float, b: float) -> float:
            return a / b

        with relied_on("numba", "njit or cfunc with the flags of plr", "src/plr/_jit.py"):
            assert numba.njit(**_FLAGS, forceinline=True)(divided)(1.0, 0.0) == np.inf
            assert numba.cfunc("float64(float64, float64)", **_FLAGS)(divided).ctypes(1.0, 0.0) == np.inf

    def test_types_of_ones_own(self) -> None:
        with relied_on("numba", "The registration of types and operators", "src/plr/_vectors.py"):
            for module, names in {
                "numba.core.cgutils": ("get_or_insert_function",),
                "numba.core.datamodel": ("PrimitiveModel", "register_default"),
                "numba.core.errors": ("TypingError",),
                "numba.core.imputils": ("lower_builtin",),
                "numba.core.typing.templates": ("AbstractTemplate", "infer_global"),
            }.items():
                operator.attrgetter(*names)(importlib.import_module(module))

    def test_operators_and_instructions(self) -> None:
        with relied_on("numba", "What llvmlite makes of vectors", "src/plr/_vectors.py"):
            from plr._jit import jit
            from plr._vectors import DOUBLES, load_some, store_some

            @jit
            def doubled(source: np.ndarray, target: np.ndarray) -> None:
                values = load_some(source, 0, 1, 4.0)
                store_some(target, 0, 1, values + values)

            target = np.zeros(DOUBLES)
            doubled(np.array([1.5]), target)
            assert_array_equal(target, [3.0] + [8.0] * (DOUBLES - 1))

    def test_what_it_compiles_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The width of vectors follows what Numba compiles for, and its cache tells processors apart."""
        import numba

        with relied_on("numba", "The choice of a processor", "src/plr/_registers.py", "src/plr/_jit.py"):
            from numba.core.codegen import JITCPUCodegen, get_host_cpu_features

            assert all(part[0] in "+-" for part in get_host_cpu_features().split(",") if part)
            host = JITCPUCodegen("host").magic_tuple()
            monkeypatch.setattr(numba.config, "CPU_NAME", "generic")
            monkeypatch.setattr(numba.config, "CPU_FEATURES", "")
            generic = JITCPUCodegen("generic").magic_tuple()
            assert generic[1:] == ("generic", "")
            assert host != generic or host[1:] == ("generic", "")

    def test_where_it_caches(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import numba

        def one() -> int:
            return 1

        with relied_on("numba", "The setting CACHE_DIR", "src/plr/_jit.py"):
            monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
            compiled = numba.njit(cache=True)(one)
            monkeypatch.undo()
            compiled()
            assert list(tmp_path.rglob("*.nbi"))


class TestLightGBM:
    def test_spellings_of_parameters(self) -> None:
        with relied_on("lightgbm", "_ConfigAliases", "src/plr/learners/trees.py"):
            from lightgbm.basic import _ConfigAliases

            assert "eta" in _ConfigAliases.get("learning_rate")
            assert "n_estimators" in _ConfigAliases.aliases["num_iterations"]

    def test_state_of_a_regressor(self) -> None:
        import lightgbm

        random = np.random.default_rng(0)
        X, y = random.normal(size=(60, 2)), random.normal(size=60)
        fitted = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1).fit(X, y)
        kept = ["_best_iteration", "_n_features", "_n_features_in", "_objective"]
        # New in LightGBM 4.7.
        kept += ["_fitted_with_feature_names"] if "_fitted_with_feature_names" in vars(fitted) else []
        with relied_on("lightgbm", "What a fitted LGBMRegressor keeps", "src/plr/persistence/boosters.py"):
            state = {name: vars(fitted)[name] for name in kept}
            again = lightgbm.LGBMRegressor(**fitted.get_params())
            vars(again).update(state, _Booster=fitted.booster_, fitted_=True)
            assert vars(fitted)["fitted_"] is True
            assert_array_equal(again.predict(X), fitted.predict(X))

    def test_text_of_a_booster(self) -> None:
        import lightgbm

        from plr.persistence.boosters import check_booster_text, trees_of

        random = np.random.default_rng(0)
        X = np.column_stack([random.normal(size=200), random.integers(0, 5, 200)])
        data = lightgbm.Dataset(X, X[:, 0] + (X[:, 1] == 2), categorical_feature=[1])
        booster = lightgbm.train({"verbose": -1, "num_threads": 1}, data, 3)
        files = ("src/plr/persistence/boosters.py",)
        with relied_on("lightgbm", "The text of a booster", *files):
            trees = trees_of(booster.model_to_string())
            assert check_booster_text(trees) == 2
            again = lightgbm.Booster(model_str=f"{trees}\npandas_categorical:null\n")
            assert_array_equal(again.predict(X), booster.predict(X))
            assert booster.pandas_categorical is None


class TestScikitLearn:
    def test_functions(self) -> None:
        count = "src/plr/_checks.py", "src/plr/regressor.py", "src/plr/learners/refit/fits.py"
        with relied_on("scikit-learn", "_num_samples", *count):
            from sklearn.utils.validation import _num_samples

            assert _num_samples([[1], [2]]) == 2
        with relied_on("scikit-learn", "_safe_indexing", "src/plr/folds.py"):
            from sklearn.utils import _safe_indexing

            assert _safe_indexing(["a", "b", "c"], np.array([2, 0])) == ["c", "a"]

    def test_names_of_types_in_model_files(self) -> None:
        """A type that goes by another name would be refused when a file is read, or not be looked at."""
        from plr.persistence.foreign import _KNOWN

        files = "src/plr/persistence/foreign.py", "src/plr/persistence/compiled.py"
        with relied_on("scikit-learn", "The name of a type", *files):
            for name in (name for name in _KNOWN if name.startswith("sklearn.")):
                module, _, short = name.rpartition(".")
                found = getattr(importlib.import_module(module), short)
                assert f"{found.__module__}.{found.__qualname__}" == name

    def test_arrays_of_trees_and_neighbours(self) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.neighbors import KDTree
        from sklearn.tree import DecisionTreeRegressor

        X = np.random.default_rng(0).normal(size=(60, 2))
        with relied_on("scikit-learn", "What trees are made of", "src/plr/persistence/compiled.py"):
            operator.attrgetter("children_left", "children_right", "feature", "value", "n_features")(
                DecisionTreeRegressor(max_depth=2).fit(X, X[:, 0]).tree_
            )
            tree = HistGradientBoostingRegressor(max_iter=1).fit(X, X[:, 0])._predictors[0][0]
            operator.attrgetter("raw_left_cat_bitsets", "binned_left_cat_bitsets")(tree)
            fields = {"is_leaf", "left", "right", "feature_idx", "is_categorical", "bitset_idx"}
            assert fields <= set(tree.nodes.dtype.names)
            nodes = np.asarray(KDTree(X).get_arrays()[2])
            assert {"idx_start", "idx_end", "is_leaf"} <= set(nodes.dtype.names)

    def test_diagrams_are_made_of_blocks(self) -> None:
        from sklearn.pipeline import Pipeline

        with relied_on("scikit-learn", "_sk_visual_block_", "src/plr/regressor.py"):
            block = type(Pipeline([("part", "passthrough")])._sk_visual_block_())
            parts = ["first", "second"]
            made = block("parallel", parts, names=["one", "two"], name_details=["1", "2"])
            assert (made.kind, made.estimators, made.names) == ("parallel", parts, ["one", "two"])
