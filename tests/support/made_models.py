"""A small model and its page, with names from a data set that means no good."""

import numpy as np
import pyarrow as pa

from plr import CandidateSets, PartialLabelRegressor
from plr.persistence import read_manifest, save_model
from plr.report import training_rows
from plr.report.importance import measure_importance
from plr.report.model_page import ModelContent, read_review, read_training_rows

HOSTILE = "<script>fetch('http://example.org/')</script>"
ESCAPE = "</script><img src=x onerror=alert(1)>"


def make_problem(rows=120, seed=0):
    """Return features, sets of one to three candidates and true labels; the sets' order is random."""
    random = np.random.default_rng(seed)
    x = random.uniform(0, 10, (rows, 2))
    y = np.round(3 * x[:, 0] - x[:, 1], 3)
    sets = []
    for row in range(rows):
        false = np.round(random.uniform(-10, 30, row % 3), 3)
        sets.append(random.permutation([y[row], *false]).tolist())
    return pa.table({"size": x[:, 0], HOSTILE: x[:, 1]}), CandidateSets.from_lists(sets), y


def make_content(path, rows=120, with_truth=False, with_review=False):
    """Return what the page of a model shows, after the model has been in a file."""
    X, S, y = make_problem(rows)
    model = PartialLabelRegressor("linear", random_state=0).fit(X, S)
    model.identify()
    model.calibrate()
    importance = measure_importance(model.predict, X, {name: (name,) for name in X.column_names})
    names = [f"house{row:03d} {ESCAPE}" for row in range(rows)]
    page = training_rows(
        model,
        X,
        S,
        truth=y if with_truth else None,
        columns={HOSTILE: names, "size": X["size"].to_pylist()},
        naming=1,
        importance=importance,
    )
    columns = [{"name": HOSTILE, "kind": "number", "note": ESCAPE}]
    table = {
        "target": [HOSTILE],
        "source": ESCAPE,
        "rows": rows,
        "features": {"columns": columns},
        "options": {"seed": 0},
    }
    save_model(model, path, extra={"page": page, "table": table})
    manifest = read_manifest(path)
    review = read_review(manifest) if with_review else None
    return ModelContent(HOSTILE, model, manifest, *_split(manifest), review=review)


def _split(manifest):
    rows, importance = read_training_rows(manifest)
    return rows, False, ESCAPE, importance
