"""Tables from standard input, and the digits of what is written."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from plr import PartialLabelRegressor
from plr.errors import IdentifierWarning


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    lines = ["x,y,truth"]
    for _ in range(60):
        x = random.uniform()
        truth = 3 * x + random.normal(0, 0.05)
        lines.append(f"{x:.4f},{truth:.2f}|{random.uniform(0, 3):.2f},{truth:.5f}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_verbs_read_standard_input(run, folder, monkeypatch):
    def typed(*arguments):
        text = (folder / "t.csv").read_bytes()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
        return run(*arguments)

    fit = ("fit", "-", "--target", "y", "--truth", "truth", "--learner", "linear", "-o", "m.plr")
    assert "a model of 60 rows" in typed(*fit, "--identified", "i.csv")[0]
    assert typed("predict", "m.plr", "-")[0].count("\n") == 61
    assert "Fine" in typed("check", "-", "--target", "y", "--ignore", "truth")[0]
    # The candidates are printed with fewer decimals than the truths.
    assert "rows are not counted" not in typed("evaluate", "m.plr", "-")[0]
    shares = [line.split(",")[4] for line in (folder / "i.csv").read_text().splitlines()[1:]]
    assert max(map(len, shares)) <= 8
    assert "standard input: no column" not in typed("identify", "m.plr", "-", "-o", "o.tsv")[0]
    assert (folder / "o.tsv").read_text().startswith("x\ty\ttruth\tvalue\tprobability\tindex\n")


def test_frames_with_identifiers_are_warned_of():
    pd = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    x = random.uniform(size=60)
    S = np.column_stack([3 * x, random.uniform(0, 3, 60)])
    odd = pd.DataFrame({"x": x, "meter_id": np.arange(60) + 100, "street": [f"street {row}" for row in range(60)]})
    with pytest.warns(IdentifierWarning, match="'meter_id' has a different number in every row; 'street' has 60 diff"):
        PartialLabelRegressor("linear", random_state=0).fit(odd, S)
    kinds = pd.DataFrame({"x": x, "width": np.arange(60), "kind": ["a", "b", "c"] * 20})
    PartialLabelRegressor("linear", random_state=0).fit(kinds, S)
    # Whoever says that texts are categories means it.
    PartialLabelRegressor("linear", random_state=0).fit(pd.DataFrame({"c": odd["street"].astype("category")}), S)
