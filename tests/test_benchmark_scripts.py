"""The scripts under ``benchmarks/`` can be imported: what they take of plr is still there."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_script_imports():
    names = [f"benchmarks.{path.stem}" for path in sorted((ROOT / "benchmarks").glob("*.py"))]
    assert len(names) > 15
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)"
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.path.insert(0, {str(ROOT / 'benchmarks')!r})\n"
    done = subprocess.run([sys.executable, "-c", path + code, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
