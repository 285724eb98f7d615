"""Try an installed plr where nothing else of the repository is: help, a fit and a prediction; the same in Python."""

from __future__ import annotations

import csv
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

import plr

with tempfile.TemporaryDirectory() as folder:
    table, model, predicted = (Path(folder) / name for name in ("flats.csv", "flats.plr", "predicted.csv"))
    sizes = np.random.default_rng(0).uniform(20, 140, size=120).round(1)
    # A price in euros or in cents; every third is known.
    texts = [f"{2 * size:g}" if row % 3 == 0 else f"{2 * size:g}|{200 * size:g}" for row, size in enumerate(sizes)]
    table.write_text("size,price\n" + "".join(f"{s:g},{t}\n" for s, t in zip(sizes, texts, strict=True)), "utf-8")

    def run(*arguments: str | Path) -> str:
        """Run the installed command in the empty folder."""
        command = Path(sysconfig.get_path("scripts")) / "plr"
        done = subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "fit" in run("--help")
    run("fit", table, "--target", "price", "-o", model, "--learner", "linear", "--seed", "0")
    run("predict", model, table, "-o", predicted)
    with predicted.open(newline="", encoding="utf-8") as lines:
        prices = np.array([float(line["prediction"]) for line in csv.DictReader(lines)])
    assert np.allclose(prices, 2 * sizes, atol=5), prices - 2 * sizes

    S = plr.CandidateSets.from_lists([[float(price) for price in text.split("|")] for text in texts])
    default = plr.PartialLabelRegressor(effort="low", random_state=0).fit(sizes[:, None], S)
    assert default.score(sizes[:, None], 2 * sizes) > 0.9
    assert np.allclose(default.identify().value, 2 * sizes, atol=1e-6)
    plr.save_model(default, Path(folder) / "default.plr")
    again = plr.load_model(Path(folder) / "default.plr")
    assert np.array_equal(again.predict(sizes[:, None]), default.predict(sizes[:, None]))

print(f"plr {plr.__version__} in {Path(plr.__file__).parent} on Python {sys.version.split()[0]}: fitted and predicted.")
