"""``plr compare``: the table, the page, and mistakes."""

import json

import numpy as np
import pytest

from support.tables import read_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    lines = ["size,kind,price,checked"]
    for row in range(90):
        size = random.uniform()
        truth = 3 * size + (row % 3) + random.normal(0, 0.1)
        candidates = random.permutation([truth, *random.uniform(0, 5, 2)])
        known = f"{truth:.3f}" if row % 4 == 0 else ""
        lines.append(f"{size:.4f},{'abc'[row % 3]},{'|'.join(f'{one:.3f}' for one in candidates)},{known}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder


COMPARE = ("compare", "t.csv", "--target", "price", "--learners", "linear,boosting", "--folds", "3")


def test_table_page_and_json(run, folder):
    out, err = run(*COMPARE, "--known", "checked", "-o", "c.html")
    assert out.splitlines()[0].split() == (
        [
            "likelihood",
            "behind",
            "the",
            "first",
            "error",
            "on",
            "checked",
            "rows",
            "R²",
            "right",
            "choices",
            "a",
            "fit",
            "takes",
        ]
    )
    assert out.splitlines()[1].startswith("linear ")
    assert "90 rows, 23 of them checked, each predicted by models that have not seen it" in out
    assert out.endswith("Wrote c.html.\n")
    assert "'kind': category, 3 categories." in err
    page = (folder / "c.html").read_text()
    assert page.count("<svg") == 2
    assert "Learners compared on t.csv" in page
    assert "http" not in page.partition("<body>")[2]
    found = json.loads(run(*COMPARE, "--known", "checked", "--json", "-o", "c.csv")[0])
    assert [one["learner"] for one in found["models"]] == ["linear", "boosting"]
    table = read_table("c.csv")
    assert table["likelihood"].to_pylist() == pytest.approx([one["likelihood"] for one in found["models"]])


def test_some_rows_and_weightings(run):
    out, err = run(*COMPARE, "--ignore", "checked", "--rows", "60", "--weightings", "auto,average")
    assert "Compared on 60 of 90 rows, drawn at random." in err
    assert {"linear, average", "boosting, average"} <= {line.split("  ")[0] for line in out.splitlines()}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--learners", "linaer"), "did you mean 'linear'"),
        (("--learners", ","), "--learners names nothing"),
        (("--folds", "1"), "--folds must be at least 2"),
        (("-o", "c.pdf"), "Cannot tell the format of c.pdf"),
        (("-o", "t.csv"), "t.csv is given as DATA and as --out"),
        (("--known", "nothing"), "--known nothing: t.csv has no such column"),
    ],
)
def test_mistakes_end_in_one_line(run, more, message):
    _, err = run(*COMPARE, *more, code=2)
    assert message in err.splitlines()[-1]
