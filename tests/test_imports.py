"""What is paid for by importing plr, and by asking for help: nothing that is not used."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import plr

HEAVY = {
    "jinja2",
    "lightgbm",
    "matplotlib",
    "numba",
    "openpyxl",
    "pandas",
    "polars",
    "pyarrow",
    "ray",
    "rich",
    "torch",
    "typer",
    "xgboost",
}
PACKAGES = HEAVY | {"joblib", "numpy", "scipy", "sklearn"}

BARE = [
    "plr.paper",
    "plr.paper.execution",
    "plr.paper.grid",
    "plr.paper.methods",
    "plr.paper.problems",
    "plr.paper.protocol",
    "plr.paper.runner",
    "plr.paper.stacking",
    "plr.paper.store",
    "plr.candidates",
    "plr.paper.cluster",
    "plr.cluster.session",
    "plr.paper.datasets",
    "plr.generation",
    "plr.report",
    "plr.paper.stacked.fits",
    "plr.paper.stacked.training",
]


def run(code, *arguments):
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, timeout=600
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def loaded(code):
    """Return the packages that some code has loaded in the end."""
    told = run(f"{textwrap.dedent(code)}\nimport json, sys; print(json.dumps(sorted(sys.modules)))")
    return {name.partition(".")[0] for name in json.loads(told.splitlines()[-1])} & PACKAGES


def test_importing_plr_loads_nothing_else():
    assert loaded("import plr") == set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_what_comes_with_scikit_learn_alone():
    """Scikit-learn is loaded once, with pandas and rich where they are installed; each part of plr in a fork of it."""
    parts = [
        "from plr import CandidateSets",
        "from plr import make_candidates",
        "import plr.paper, plr.paper.datasets, plr.report",
        # Compiles nothing and loads no model before it fits.
        "from plr import PartialLabelRegressor; PartialLabelRegressor()",
    ]
    code = f"""
        import os, sys
        import sklearn.base, sklearn.model_selection, sklearn.pipeline
        before = set(sys.modules)
        assert not any(name.partition(".")[0] == "plr" for name in before)
        for part in {parts!r}:
            if (child := os.fork()) == 0:
                exec(part)
                more = {{name.partition(".")[0] for name in set(sys.modules) - before}} & {PACKAGES!r}
                print(part, "loads", sorted(more - {{name.partition(".")[0] for name in before}}), flush=True)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, part
    """
    assert run(code).splitlines() == [f"{part} loads []" for part in parts]


@pytest.mark.parametrize("arguments", [["--help"], ["benchmark", "--help"], ["--version"]])
def test_help_loads_only_what_prints_it(arguments):
    code = f"""
        import contextlib, io, sys
        from plr.cli import main
        sys.argv = ["plr", *{arguments!r}]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main()
    """
    assert loaded(code) <= {"rich", "typer"}


def test_experiments_import_where_there_is_only_numpy_scikit_learn_and_torch():
    run(
        f"""
        import importlib, sys

        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {sorted(HEAVY - {"torch"})!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

        sys.meta_path.insert(0, Absent())
        for name in {BARE!r}:
            importlib.import_module(name)
        """
    )


# Packages of others are loaded once, and each fork of that process stands for a fresh interpreter, in a fraction of the
# time. A module is imported after the packages it is in, so a fork that has a package stands for all that is in it.
# Forks of a process with the largest packages cost more; they are for the modules that ask for them.
ALONE = """
import contextlib, gc, importlib, os, sys

LARGEST = ("ray", "torch", "triton")
later, tell = map(os.fdopen, os.pipe(), "rw")

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LARGEST:
            raise SystemExit

def load(*names):
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert not any(name.partition(".")[0] == "plr" for name in sys.modules)

def import_alone(name, modules):
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
            for inner in modules:
                if inner.rpartition(".")[0] == name:
                    import_alone(inner, modules)
        except SystemExit:
            print(name, file=tell, flush=True)
        except BaseException as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(0)
    if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        print(f"{name}: ended with {status}", flush=True)

def import_each(modules):
    for name in modules:
        if name.rpartition(".")[0] not in modules:
            import_alone(name, modules)

gc.disable()
modules = sys.argv[1:]
load("lightgbm", "numba", "pandas", "pyarrow.parquet", "scipy.optimize", "scipy.stats", "typer")
load("sklearn.ensemble", "sklearn.model_selection", "sklearn.pipeline")
sys.meta_path.insert(0, Missing())
import_each(modules)
tell.close()
left = later.read().split()
del sys.meta_path[0]
load(*LARGEST)
tell = sys.stdout
import_each([name for name in modules if any(f"{name}.".startswith(f"{first}.") for first in left)])
print("all tried")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_every_module_imports_alone():
    root = Path(plr.__file__).parent
    names = [".".join(["plr", *path.relative_to(root).with_suffix("").parts]) for path in root.rglob("*.py")]
    modules = sorted(name.removesuffix(".__init__") for name in names)
    assert len(modules) > 200
    assert run(ALONE, *modules).splitlines() == ["all tried"]
