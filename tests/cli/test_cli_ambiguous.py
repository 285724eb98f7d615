"""``plr`` on data that cannot tell which candidates are true: every verb says so, and nothing contradicts it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plr import CandidateSets
from plr.tables import write_table
from support.tables import read_table

CAUTION = "This data cannot tell you which candidates are true."
ROWS = 150


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of readings in °C or °F, nobody knows which, and the same table as a folder."""
    place = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    x = random.uniform(0, 1, (ROWS, 2))
    fahrenheit = np.round(1.8 * (10 + 20 * x[:, 0] + random.normal(0, 0.3, ROWS)) + 32, 1)
    pairs = random.permuted(np.column_stack([fahrenheit, np.round((fahrenheit - 32) / 1.8, 1)]), axis=1)
    sets = CandidateSets.from_padded(pairs)
    columns = {"a": x[:, 0], "b": x[:, 1], "y": sets.to_arrow(), "truth": fahrenheit}
    write_table(pa.table(columns), place / "t.parquet")
    (place / "rows").mkdir()
    for part in range(2):
        pq.write_table(pa.table(columns).slice(part * 75, 75), place / "rows" / f"{part}.parquet")
    return place


@pytest.fixture
def model(run, folder):
    if not (folder / "m.plr").exists():
        fit(run, "t.parquet", "-o", "m.plr", "--identified", "i.parquet")
    return "m.plr"


def fit(run, data, *more, learner="linear"):
    return run("fit", data, "--target", "y", "--truth", "truth", "--learner", learner, *more)


def test_fit_says_that_the_data_cannot_tell(run):
    out, err = fit(run, "t.parquet", "-o", "f.plr", "--no-intervals", "--identified", "f.parquet", learner="boosting")
    assert f"Caution: {CAUTION}" in out
    assert f"Of {ROWS} rows with several candidates, 0 are settled" in out
    assert CAUTION not in err
    np.testing.assert_allclose(read_table("f.parquet")["probability"].to_numpy(), 0.5, atol=1e-9)
    done = json.loads(fit(run, "t.parquet", "-o", "f.plr", "--no-intervals", "--json")[0])
    assert done["diagnosis"]["verdict"] == "cannot tell"
    assert done["caution"].startswith(CAUTION)
    assert "Label some rows" in done["diagnosis"]["advice"]


@pytest.mark.parametrize("data", ["t.parquet", "rows"])
@pytest.mark.parametrize("verb", ["identify", "predict"])
def test_answers_come_with_a_caution(run, model, tmp_path, verb, data):
    out, err = run(verb, model, data, "-o", tmp_path / "o.parquet")
    assert CAUTION in err
    assert "may be those of the other" in err
    if verb == "identify":
        assert f"Of {ROWS} with several candidates 0 are settled and {ROWS} in doubt" in out
    done = json.loads(run(verb, model, data, "-o", tmp_path / "again.parquet", "--json")[0])
    assert done["diagnosis"]["verdict"] == "cannot tell"


def test_evaluate_says_so_beside_the_truth(run, model):
    out, err = run("evaluate", model, "t.parquet")
    assert CAUTION in err
    assert "do not take the choices as labels" in out
    found = json.loads(run("evaluate", model, "t.parquet", "--json")[0])
    assert found["diagnosis"]["verdict"] == "cannot tell"
    assert found["identification"]["expected_with_several"] == pytest.approx(0.5)
    assert json.loads(run("evaluate", model, "rows", "--json")[0])["diagnosis"]["verdict"] == "cannot tell"


def test_the_page_begins_with_it_and_contradicts_nothing(run, model, tmp_path):
    done = json.loads(run("report", model, "-o", tmp_path / "p.html", "--json")[0])
    assert done["diagnosis"]["verdict"] == "cannot tell"
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert page.index(CAUTION) < page.index("Measured accuracy")
    assert "can be used as labels" not in page
    assert "Label some rows for certain" in page.partition("Next steps")[2]


def test_advice_looks_at_the_truth(run, folder, tmp_path):
    # Sure, and wrong: each row is judged by a model that knows nothing of the truth, and there are no twins.
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, 120)
    sets = CandidateSets.from_lists([[3 * a, b] for a, b in zip(x, random.uniform(0, 3000, 120), strict=True)])
    table = pa.table({"x": x, "y": sets.to_arrow(), "truth": sets.values.reshape(-1, 2)[:, 1]})
    write_table(table, tmp_path / "w.parquet")
    out, _ = fit(run, tmp_path / "w.parquet", "-o", tmp_path / "w.plr", "--identified", tmp_path / "i.parquet")
    assert " 0 likely, and 0 still in doubt" in out
    run("report", tmp_path / "w.plr", "-o", tmp_path / "w.html")
    page = (tmp_path / "w.html").read_text(encoding="utf-8")
    assert "can be used as labels" not in page
    assert "Do not use them as labels" in page
    assert "do not take the choices as labels" in run("evaluate", tmp_path / "w.plr", tmp_path / "w.parquet")[0]


def test_a_fit_in_batches_says_so(run, tmp_path):
    out, _ = fit(run, "rows", "-o", tmp_path / "s.plr", "--stream")
    assert f"Caution: {CAUTION}" in out
    done = json.loads(fit(run, "rows", "-o", tmp_path / "s.plr", "--stream", "--json")[0])
    assert done["diagnosis"]["verdict"] == "cannot tell"
    assert CAUTION in run("predict", tmp_path / "s.plr", "t.parquet", "-o", tmp_path / "p.csv")[1]


def test_rows_that_are_all_alike(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{row},100|200\n" for row in range(60)))
    out, _ = run("check", tmp_path / "t.csv", "--target", "y")
    assert out.startswith(CAUTION)
    assert "All rows have the same candidates" in out
    assert "Features say something" not in out


@pytest.mark.parametrize("verb", ["check", "fit"])
def test_a_column_that_gives_the_truth_away_is_pointed_out(run, tmp_path, verb):
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, 60)
    lines = [
        f"{a},{3 * a:.3f}|{b:.3f},{f'{3 * a:.3f}' if row >= 40 else ''},{3 * a:.3f}"
        for row, (a, b) in enumerate(zip(x, random.uniform(0, 30, 60), strict=True))
    ]
    (tmp_path / "t.csv").write_text("x,y,some,all\n" + "\n".join(lines) + "\n")
    more = ["-o", tmp_path / "m.plr", "--learner", "linear", "--no-intervals"] if verb == "fit" else []
    _, err = run(verb, tmp_path / "t.csv", "--target", "y", "--ignore", "all", *more)
    assert "The column 'some' equals one of the candidates" in err
    assert "--truth some" in err
    _, err = run(verb, tmp_path / "t.csv", "--target", "y", "--truth", "all", *more)
    assert "The column 'some' equals one of the candidates" in err
    assert "--ignore some" in err
    assert "'x' equals" not in err
