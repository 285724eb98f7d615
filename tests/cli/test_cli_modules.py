"""Torch modules on the command line: code that the user names, never code that a file names."""

import json

import numpy as np
import pyarrow as pa
import pytest

from plr import load_model, make_candidates, save_model
from plr.cli.modules import read_module, short_name
from plr.errors import DependencyError, ParameterError
from plr.persistence import read_manifest
from plr.sources.recipe import with_recipe
from plr.tables import write_table
from support.tables import read_table

NETS = """
import neighbour
import torch
from torch import nn

print("imported")
WIDTH = 3
ready = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
wide, double, frozen = nn.Linear(7, 1), nn.Linear(2, 2), nn.Linear(2, 1).requires_grad_(False)


def make_net(features):
    return nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 1))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(2, 1)

    def forward(self, x):
        assert x.dtype == torch.float32
        return self.line(x)


def needy(one, two):
    pass


def broken(features):
    return missing
"""
FAST = ("--option", "epochs=20", "--option", "learning_rate=0.02", "--option", "device=cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nets")
    random = np.random.default_rng(0)
    x, z = random.uniform(0, 10, 120), random.uniform(-1, 1, 120)
    y = 2 * x + 3 * z
    sets = make_candidates(y, 2, random_state=0).to_arrow()
    table = pa.table({"x": x, "z": z, "y": sets, "truth": y})
    made = with_recipe(table.schema, {"truth_column": "truth"}).metadata
    write_table(table.replace_schema_metadata(made), folder / "t.parquet")
    odd = {"kind": random.choice(["a", "b"], 120).tolist(), "hole": [None, *z[1:].tolist()]}
    write_table(pa.table({"x": x, **odd, "y": sets}), folder / "odd.parquet")
    (folder / "code").mkdir()
    (folder / "code" / "nets.py").write_text(NETS)
    (folder / "code" / "neighbour.py").write_text("")
    (folder / "fails.py").write_text("import os\n\nraise RuntimeError('not\\ntoday')\n")
    (folder / "typo.py").write_text("x = 1\ndef f(:\n")
    (folder / "inpackage.py").write_text("from torch import nn\nnet = nn.Linear(2, 1)\n")
    return folder


def fit(run, module, out, *more, data="t.parquet", code=0):
    given = () if module is None else ("--module", module)
    return run(
        "fit",
        data,
        "--target",
        "y",
        "-o",
        out,
        "--learner",
        "module",
        *given,
        *FAST,
        "--no-intervals",
        *more,
        code=code,
    )


def test_a_module_is_fitted_and_asked(run, tmp_path):
    model, named = tmp_path / "m.plr", "code/nets.py:make_net"
    out, err = fit(run, named, model, "--identified", tmp_path / "i.csv")
    assert out.startswith(f"Wrote {model}: a model of 120 rows, 2 features")
    assert "imported" in err
    assert "imported" not in out
    assert read_table(tmp_path / "i.csv").num_rows == 120
    asked = ("--module", named)
    found = json.loads(run("evaluate", model, "t.parquet", *asked, "--json")[0])
    assert found["r2"] > 0.9
    done = json.loads(run("predict", model, "t.parquet", *asked, "--json")[0])
    again = load_model(model, module=read_module(named))
    table = read_table("t.parquet").select(["x", "z"])
    np.testing.assert_array_equal(done["prediction"], again.predict(table))
    assert run("identify", model, "t.parquet", *asked, "--doubtful", "1")[0].count("\n") == 2
    run("report", model, "-o", tmp_path / "page.html", *asked)
    page = (tmp_path / "page.html").read_text()
    assert "--option epochs=20 --option learning_rate=0.02 --option device=cpu --module nets.py:make_net" in page
    # Features are scaled unless told otherwise, and what the file remembers of the code is a name to print.
    assert again.regressor.learner_.scale_features
    options = read_manifest(model)["extra"]["table"]["options"]
    assert options["module"] == "nets.py:make_net"
    assert options["option"] == {"epochs": 20, "learning_rate": 0.02, "device": "cpu"}


def test_the_same_seed_gives_the_same_file(run, tmp_path):
    for name in ("a.plr", "b.plr"):
        fit(run, "code/nets.py:Net", tmp_path / name, "--no-page")
    assert (tmp_path / "a.plr").read_bytes() == (tmp_path / "b.plr").read_bytes()


def test_modules_factories_classes_and_packages(run, tmp_path):
    for named in ("code/nets.py:ready", "code/nets.py:Net", "inpackage:net"):
        fit(run, named, tmp_path / "m.plr", "--no-page")
        run("predict", tmp_path / "m.plr", "t.parquet", "--module", named)


def test_a_model_file_never_says_what_code_to_run(run, tmp_path, folder):
    (folder / "exploding.py").write_text("from pathlib import Path\nPath('exploded').mkdir()\n")
    fit(run, "code/nets.py:make_net", tmp_path / "m.plr", "--no-page")
    model = load_model(tmp_path / "m.plr", module=read_module("code/nets.py:make_net"))
    table = read_manifest(tmp_path / "m.plr")["extra"]["table"]
    table["options"]["module"] = "exploding.py:boom"
    save_model(model.regressor, tmp_path / "bad.plr", extra={"table": table})
    for verb in (("predict",), ("identify",), ("evaluate",)):
        _, err = run(*verb, tmp_path / "bad.plr", "t.parquet", code=2)
        assert "not its code; say where that is, as in training: --module exploding.py:boom" in err
    save_model(model.regressor, tmp_path / "bare.plr")
    _, err = run("predict", tmp_path / "bare.plr", "t.parquet", code=2)
    assert "holds the weights of a torch module, Sequential: 33 numbers" in err
    assert not (folder / "exploded").exists()


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("code/nets.py", "write FILE.py:NAME or package.module:NAME"),
        ("code/nets.py:", "write FILE.py:NAME"),
        ("code/nest.py:make_net", "there is no file code/nest.py"),
        ("no.package:net", "there is no package or module 'no', installed or in this folder"),
        ("code/nets.py:make_nte", "Unknown name in nets.py 'make_nte'; did you mean 'make_net'?"),
        ("code/nets.py:WIDTH", "is an int; name a torch module"),
        ("code/nets.py:needy", "needs 2 arguments"),
        ("code/nets.py:broken", "cannot be used on rows of 2 features: NameError: name 'missing' is not defined."),
        ("code/nets.py:wide", "mat1 and mat2 shapes cannot be multiplied (2x2 and 7x1). The module was given a tensor"),
        ("code/nets.py:double", "The module returned shape (2, 2) for 2 rows"),
        ("code/nets.py:frozen", "all its parameters frozen"),
        ("json:dumps", "The factory dumps returned a str"),
        ("fails.py:net", "fails.py, line 3 cannot be imported: RuntimeError: not today."),
        ("typo.py:net", "typo.py, line 2 cannot be imported: SyntaxError"),
        (None, "--learner module trains a torch module of yours; say where it is"),
    ],
)
def test_mistakes_are_told_in_one_line(run, tmp_path, module, message):
    _, err = fit(run, module, tmp_path / "m.plr", code=2)
    last = err.rstrip("\n").splitlines()[-1]
    assert last.startswith("plr: ")
    assert message in last
    assert "Traceback" not in err
    assert not (tmp_path / "m.plr").exists()


def test_modules_where_there_is_none_to_use(run, tmp_path):
    given = ("fit", "t.parquet", "--target", "y", "-o", tmp_path / "m.plr")
    _, err = run(*given, "--learner", "linear", "--module", "code/nets.py:make_net", code=2)
    assert "--module is for --learner module, and the learner is linear" in err
    assert "imported" not in err
    run(*given, "--learner", "linear", "--no-intervals")
    _, err = run("predict", tmp_path / "m.plr", "t.parquet", "--module", "inpackage:net", code=2)
    assert "holds a Linear and no torch module" in err
    fit(run, "code/nets.py:make_net", tmp_path / "net.plr")
    _, err = run("predict", tmp_path / "net.plr", "t.parquet", "--module", "inpackage:net", code=2)
    assert "weights of another module than the Linear given" in err


def test_categories_and_gaps_are_named_before_anything_is_trained(run, tmp_path):
    _, err = fit(run, "code/nets.py:make_net", tmp_path / "m.plr", data="odd.parquet", code=2)
    assert "takes numbers alone, but 'kind' has categories and 'hole' has gaps" in err
    assert "with --ignore kind,hole, or use --learner mlp." in err
    fit(run, "code/nets.py:make_net", tmp_path / "m.plr", "--ignore", "kind,hole", data="odd.parquet")
    (tmp_path / "new.csv").write_text("x,n\n1,1\n,2\n,3\n")
    _, err = run("predict", tmp_path / "m.plr", tmp_path / "new.csv", "--module", "code/nets.py:make_net", code=2)
    assert "column 'x' has no number in data row 1 counted from 0 (line 3 of the file) and 1 more" in err


def test_without_torch_the_command_says_what_to_install(monkeypatch):
    import sys

    for name in [name for name in sys.modules if name == "plr.torch" or name.startswith("plr.torch.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DependencyError, match=r"pip install \"plr\[torch\]\""):
        read_module("code/nets.py:make_net")


def test_names_are_kept_without_folders():
    assert short_name("/home/me/nets.py:make") == "nets.py:make"
    with pytest.raises(ParameterError, match="write FILE"):
        read_module(":make")
