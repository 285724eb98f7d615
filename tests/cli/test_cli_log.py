"""``--log`` learns on the logarithms of candidates; what it cannot do is told in one line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FIT = ("--target", "y", "--learner", "linear", "--no-intervals", "-o", "m.plr", "--log")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    x = random.uniform(size=60)
    truth = np.exp(4 * x + 0.05 * random.normal(size=60))
    sets = [[true, wrong] for true, wrong in zip(truth, random.uniform(1, 60, 60), strict=True)]

    def write(name, sets):
        lines = [
            f"{one:.4f},{'|'.join(f'{value:.3f}' for value in values)}" for one, values in zip(x, sets, strict=True)
        ]
        (folder / name).write_text("\n".join(["x,y", *lines]) + "\n")

    write("t.csv", sets)
    write("debts.csv", [*sets[:3], [-1.5, 2.0], *sets[4:]])
    (folder / "parts").mkdir()
    pq.write_table(pa.table({"x": x, "y": sets}), folder / "parts" / "a.parquet")
    return folder


def test_log_is_an_option(run, folder):
    run("fit", "t.csv", *FIT)
    lines = run("predict", "m.plr", "t.csv")[0].splitlines()[1:]
    x, predicted = np.array([[float(line.split(",")[place]) for place in (0, 2)] for line in lines]).T
    assert predicted.min() > 0
    np.testing.assert_allclose(np.log(predicted), 4 * x, atol=0.2)
    run("report", "m.plr", "-o", "m.html")
    page = (folder / "m.html").read_text()
    command = next(line for line in page.split("<") if "plr fit t.csv" in line)
    assert " --log " in command


def test_a_candidate_without_a_logarithm_is_named(run):
    told = run("fit", "debts.csv", *FIT, code=2)[1].splitlines()[-1]
    assert told.startswith("plr: The candidate -1.5 in row 3 has no logarithm, which --log needs; ")


def test_log_needs_all_rows_in_memory(run):
    told = run("fit", "parts", *FIT, "--stream", code=2)[1].splitlines()[-1]
    assert told.startswith("plr: --log needs all rows in memory; ")
