"""The verbs on folders of Parquet files: the same answers as for one table, in bounded memory, and resumable."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from plr import CandidateSets, load_model, make_candidates, save_model
from plr.cli import main
from plr.columns.candidates import read_candidates
from plr.generation import MECHANISMS, resolve_options
from plr.persistence import read_manifest
from plr.sources.folder import Folder
from plr.sources.recipe import read_recipe
from plr.streaming import generate_candidates
from support.tables import read_table

ROWS = 3_000
# Files begin and end anywhere, one has no rows, and one is in a folder of its own.
FILES = {"a.parquet": (0, 1_100), "b.parquet": (1_100, 1_101), "c.parquet": (0, 0), "sub/d.parquet": (1_101, ROWS)}


def table_of(rows, seed=0):
    random = np.random.default_rng(seed)
    x, z = random.normal(size=(2, rows))
    colour = random.choice(["red", "blue"], rows)
    y = np.round(2 * x - z + (colour == "red") + 0.05 * random.normal(size=rows), 3)
    sets = make_candidates(y, 3, random_state=seed).to_arrow()
    return pa.table({"x": x, "z": z, "colour": colour, "y": sets, "true": y})


def write_folder(folder, table, files=FILES, **options):
    for name, (first, last) in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(first, last - first), folder / name, **options)


def read_folder(folder):
    return pa.concat_tables(batch.table for batch in Folder.open(folder).batches())


def files_below(path):
    return sorted(found.relative_to(path).as_posix() for found in path.rglob("*") if found.is_file())


def plr(*arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["plr", *map(str, arguments)])
        with pytest.raises(SystemExit):
            main()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a model, one table of all rows, and the same in several files."""
    path = tmp_path_factory.mktemp("folders")
    table = table_of(ROWS)
    # Rows without a candidate, at the end of one file and at the beginning of another.
    lists = table["y"].to_pylist()
    lists[1_099] = lists[1_101] = []
    table = table.set_column(3, "y", pa.array(lists, pa.list_(pa.float64())))
    pq.write_table(table, path / "all.parquet")
    write_folder(path / "in", table, row_group_size=500)
    pq.write_table(table_of(400, seed=1), path / "train.parquet")
    common = ("--target", "y", "--truth", "true", "--learner", "linear")
    plr("fit", path / "train.parquet", *common, "-o", path / "m.plr")
    return path


@pytest.fixture
def folder(made, tmp_path):
    for name in ("m.plr", "all.parquet"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    (tmp_path / "in").symlink_to(made / "in")
    return tmp_path


def same(one, other):
    assert one.column_names == other.column_names
    for name in one.column_names:
        if pa.types.is_floating(one[name].type):
            left, right = one[name].to_numpy(), other[name].to_numpy()
            np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)
        else:
            assert one[name].to_pylist() == other[name].to_pylist()


@pytest.mark.parametrize("verb", ["predict", "identify"])
@pytest.mark.parametrize("out", ["out", "out.parquet", "out.feather", "out.csv", "out.jsonl"])
def test_folder_gets_the_answers_of_one_table(run, folder, verb, out):
    options = ("--interval", 0.9) if verb == "predict" else ()
    told, _ = run(verb, "m.plr", "in", "-o", out, *options)
    assert told.startswith(f"Wrote {out}: 3,000 {'predictions' if verb == 'predict' else 'rows'} of 4 files.")
    kind = "parquet" if out == "out" else out.partition(".")[2]
    run(verb, "m.plr", "all.parquet", "-o", f"one.{kind}", *options)
    result = read_folder(folder / out) if out == "out" else read_table(folder / out)
    same(result, read_table(folder / f"one.{kind}"))
    if out == "out":
        assert files_below(folder / out) == sorted(FILES)
    else:
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("verb", ["predict", "identify"])
def test_without_an_output_rows_go_to_stdout_as_csv(run, folder, verb, monkeypatch):
    folded, _ = run(verb, "m.plr", "in")
    one, _ = run(verb, "m.plr", "all.parquet")
    assert folded == one
    folded, one = (json.loads(run(verb, "m.plr", data, "--json")[0]) for data in ("in", "all.parquet"))
    assert {name: folded[name] for name in one} == one
    monkeypatch.setattr("plr.tables.output._MOST_COLLECTED", ROWS - 1)
    _, err = run(verb, "m.plr", "in", "--json", code=2)
    assert "too many for one JSON object; name an output with --out" in err


def test_what_is_told_to_programs(run, folder):
    done = json.loads(run("identify", "m.plr", "in", "-o", "out", "--json")[0])
    one = json.loads(run("identify", "m.plr", "all.parquet", "-o", "one.parquet", "--json")[0])
    assert done["doubt"] == one["doubt"]
    assert (done["rows"], done["files"], done["files_skipped"]) == (ROWS, 4, 0)
    assert done["peak_memory"] > 0
    again = json.loads(run("identify", "m.plr", "in", "-o", "out", "--json")[0])
    assert (again["files_skipped"], again["doubt"]) == (4, one["doubt"])


def test_most_doubtful_rows_of_all_files(run, folder):
    run("identify", "m.plr", "in", "--doubtful", 40, "-o", "out.parquet")
    run("identify", "m.plr", "all.parquet", "--doubtful", 40, "-o", "one.parquet")
    same(read_table(folder / "out.parquet"), read_table(folder / "one.parquet"))
    done = json.loads(run("identify", "m.plr", "in", "--doubtful", 3, "--json")[0])
    assert done["row"] == read_table(folder / "one.parquet")["row"].to_pylist()[:3]
    _, err = run("identify", "m.plr", "in", "--doubtful", 3, "-o", "out", code=2)
    assert "--doubtful writes one table; name a file with --out" in err


def test_doubtful_rows_are_kept_whatever_the_batches(run, folder, monkeypatch):
    monkeypatch.setattr("plr.sources.folder.BATCH_ROWS", 50)
    run("identify", "m.plr", "in", "--doubtful", 40, "-o", "out.parquet")
    run("identify", "m.plr", "all.parquet", "--doubtful", 40, "-o", "one.parquet")
    same(read_table(folder / "out.parquet"), read_table(folder / "one.parquet"))


def test_evaluation_is_that_of_one_table(run, folder, monkeypatch):
    folded = json.loads(run("evaluate", "m.plr", "in", "--json")[0])
    one = json.loads(run("evaluate", "m.plr", "all.parquet", "--json")[0])
    for part in (folded, folded["interval"], folded["identification"]):
        other = next(entry for entry in (one, one["interval"], one["identification"]) if entry.keys() == part.keys())
        for name, value in part.items():
            if not isinstance(value, (dict, list, str)):
                assert value == pytest.approx(other[name], rel=1e-9)
    monkeypatch.setattr("plr.metrics.MOST_KEPT", 1_000)
    sampled = json.loads(run("evaluate", "m.plr", "in", "--json")[0])
    assert sampled["medians_from_rows"] == 1_000
    assert sampled["mse"] == folded["mse"]
    assert sampled["median_absolute_error"] == pytest.approx(folded["median_absolute_error"], rel=0.2)
    assert "medians from a sample of 1,000 of these rows" in run("evaluate", "m.plr", "in")[0]


def test_check_looks_at_a_sample(run, folder, monkeypatch):
    _, err = run("check", "in", "--target", "y", "--truth", "true", code=2)
    assert "the first in data row 1099 of a.parquet, counted from 0; fill them in" in err
    monkeypatch.setattr("plr.tables.fit_table._LOOKED_AT", 1_000)
    out, err = run("check", "in", "--target", "y", "--truth", "true", "--drop-empty")
    assert "Looked at a sample: 1,000 of 3,000 rows" in err
    assert "Fine: a model can learn from this data." in out


def test_page_of_a_model_is_about_one_table(run, folder):
    _, err = run("report", "m.plr", "--data", "in", "-o", "page.html", code=2)
    assert "in is a folder, and the page of a model is about one table; give one file" in err


def test_large_file_is_read_in_batches(run, folder, monkeypatch):
    monkeypatch.setattr("plr.sources.folder.available_memory", lambda: 1_000)
    told, _ = run("predict", "m.plr", "all.parquet", "-o", "out")
    assert told.startswith("Wrote out: 3,000 predictions.")
    assert files_below(folder / "out") == ["all.parquet"]


class TestNotes:
    def test_they_come_once_with_totals(self, run, folder, monkeypatch):
        monkeypatch.setattr("plr.sources.folder.BATCH_ROWS", 64)
        table = read_table(folder / "all.parquet").drop_columns(["true"])
        x = pc.if_else(pc.less(table["x"], 1.0), table["x"].cast(pa.string()), "n.a.")
        colour = pc.if_else(pc.equal(table["colour"], "red"), "green", table["colour"])
        table = table.set_column(0, "x", x).set_column(2, "colour", colour).append_column("note", [["-"] * ROWS])
        write_folder(folder / "other", table)
        _, err = run("predict", "m.plr", "other", "-o", "out")
        gone, green = pc.sum(pc.equal(x, "n.a.")).as_py(), pc.sum(pc.equal(colour, "green")).as_py()
        assert err.splitlines()[:3] == [
            "Not used, since the model was trained without: note.",
            f"Note: Column 'x': {gone:,} cells such as 'n.a.' are no number and count as missing.",
            f"Note: Column 'colour': {green:,} cells such as 'green' were not in training and count as missing.",
        ]

    def test_batches_of_bad_cells_are_no_mistake_where_others_are_good(self, run, folder):
        table = read_table(folder / "all.parquet").slice(0, 30)
        texts = pa.array(["1,250", *["2"] * 28, "n.a."])
        write_folder(folder / "t", table.set_column(0, "x", texts), {"a.parquet": (0, 29), "b.parquet": (29, 30)})
        _, err = run("predict", "m.plr", "t", "-o", "out.parquet")
        assert "1 cell such as 'n.a.' is no number and counts as missing." in err
        run("predict", "m.plr", "all.parquet", "-o", "one.parquet")
        texts = pa.array(["n.a."] * 30)
        write_folder(folder / "bad", table.set_column(0, "x", texts), {"a.parquet": (0, 30)})
        _, err = run("predict", "m.plr", "bad", "-o", "out2", code=2)
        assert "bad: column 'x' held numbers in training and holds texts such as 'n.a.' now; write it as in" in err
        assert not (folder / "out2").exists()

    def test_rows_without_a_candidate_are_counted(self, run, folder):
        _, err = run("identify", "m.plr", "in", "-o", "out")
        assert "2 of 3,000 rows have no candidate and get no answer." in err
        assert read_folder(folder / "out")["value"].null_count == 2

    def test_folder_of_training_is_recognised(self, run, folder):
        table = read_manifest(folder / "m.plr")["extra"]["table"]
        seen = {"table": {**table, "fingerprint": Folder.open(folder / "in").fingerprint()}}
        save_model(load_model(folder / "m.plr").regressor, folder / "seen.plr", extra=seen)
        _, err = run("identify", "seen.plr", "in", "-o", "out")
        assert "trained on this very folder and has seen these candidates" in err
        assert json.loads(run("evaluate", "seen.plr", "in", "--json")[0])["seen_in_training"]
        assert "very folder" not in run("identify", "m.plr", "in", "-o", "other")[1]


class TestErrors:
    def test_candidates_that_cannot_be_used_are_named_with_file_and_row(self, run, folder):
        table = read_table(folder / "all.parquet")
        lists = table["y"].to_pylist()
        lists[1_500] = [1.0, float("inf")]
        write_folder(folder / "bad", table.set_column(3, "y", pa.array(lists)))
        _, err = run("identify", "m.plr", "bad", "-o", "out.parquet", code=2)
        assert "plr: bad, data row 399 of sub/d.parquet, counted from 0: a candidate is infinite; leave it out" in err
        assert "row 0" not in err
        assert not (folder / "out.parquet").exists()

    def test_features_that_cannot_be_used_are_named_with_file_and_row(self, run, folder, monkeypatch):
        monkeypatch.setattr("plr.tables.row_reader._LOOKED_AT", 10)
        table = read_table(folder / "all.parquet")
        x = table["x"].to_numpy().copy()
        x[2_999] = np.inf
        write_folder(folder / "bad", table.set_column(0, "x", [x]))
        for verb in ("predict", "identify", "evaluate"):
            out = () if verb == "evaluate" else ("-o", f"{verb}.csv")
            _, err = run(verb, "m.plr", "bad", *out, code=2)
            assert "column 'x' is infinite in data row 1898 of sub/d.parquet, counted from 0" in err

    def test_missing_column_and_no_candidates_are_told_before_anything_is_written(self, run, folder):
        table = read_table(folder / "all.parquet")
        write_folder(folder / "less", table.drop_columns(["z"]))
        _, err = run("predict", "m.plr", "less", "-o", "out", code=2)
        assert "less lacks the column 'z' that the model was trained on" in err
        write_folder(folder / "no", table.drop_columns(["y"]))
        _, err = run("identify", "m.plr", "no", "-o", "out", code=2)
        assert "no lacks 'y', which held the candidates in training; name it with --target" in err
        assert not (folder / "out").exists()

    def test_damaged_file_leaves_what_was_finished_before_it(self, run, folder, monkeypatch):
        monkeypatch.setattr("plr.tables.row_reader._LOOKED_AT", 1)
        write_folder(folder / "bad", read_table(folder / "all.parquet"), use_dictionary=False)
        path = folder / "bad" / "sub" / "d.parquet"
        whole = path.read_bytes()
        path.write_bytes(whole[:4] + bytes(40) + whole[44:])
        _, err = run("predict", "m.plr", "bad", "-o", "out", code=2)
        assert "d.parquet is damaged" in err
        _, err = run("predict", "m.plr", "bad", "-o", "out.parquet", code=2)
        assert not [name for name in files_below(folder) if name.startswith(("out/sub", "out.")) or ".part" in name]
        assert files_below(folder / "out") == ["a.parquet", "b.parquet", "c.parquet"]
        path.write_bytes(whole)
        told, _ = run("predict", "m.plr", "bad", "-o", "out")
        assert "of 4 files, 3 of which were there already" in told

    def test_outputs_that_will_not_do(self, run, folder):
        _, err = run("predict", "m.plr", "in", "-o", "in/out", code=2)
        assert "is in the folder that is read" in err
        _, err = run("predict", "m.plr", "in", "-o", "out.xlsx", code=2)
        assert "Cannot write .xlsx files" in err
        run("predict", "m.plr", "in", "-o", "out")
        _, err = run("predict", "m.plr", "in", "-o", "out", "--interval", 0.9, code=2)
        assert "was made with other options; name another folder" in err
        _, err = run("predict", "m.plr", "out", "-o", "other", code=2)
        assert "out has a column 'prediction' already" in err


KILLED = """
    import os, signal, sys
    from plr.streaming.formats import TableFile
    from plr.cli import command
    finish, done = TableFile.finish, []
    def kill(self, notes=None):
        if len(done) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(self)
        finish(self, notes)
    TableFile.finish = kill
    sys.argv = ["plr", *{arguments!r}]
    command()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("identify", "m.plr", "in"), id="identify"),
        pytest.param(
            ("generate", "in", "--target", "true", "--mechanism", "gaussian"), id="generate", marks=pytest.mark.slow
        ),
    ],
)
def test_killed_run_goes_on_where_it_was(run, folder, arguments):
    code = textwrap.dedent(KILLED.format(arguments=(*arguments, "-o", "out")))
    left = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=False, timeout=600)
    assert left.returncode == -signal.SIGKILL, left.stderr
    before = {name: os.stat(folder / "out" / name).st_ino for name in ("a.parquet", "b.parquet")}
    assert sum(name.endswith(".part") for name in files_below(folder / "out")) == 1
    told, _ = run(*arguments, "-o", "out")
    assert "of 4 files, 2 of which were there already" in told
    assert files_below(folder / "out") == sorted(FILES)
    assert {name: os.stat(folder / "out" / name).st_ino for name in before} == before
    run(*arguments, "-o", "anew")
    same(read_folder(folder / "out"), read_folder(folder / "anew"))


def test_folders_names_are_features_and_not_repeated(run, folder):
    table = table_of(600, seed=2).drop_columns(["colour"])
    for colour, first in (("red", 0), ("blue", 300)):
        write_folder(folder / "hive" / f"colour={colour}", table.slice(first, 300), {"part.parquet": (0, 300)})
    run("predict", "m.plr", "hive", "-o", "out")
    stored = pq.ParquetFile(folder / "out" / "colour=red" / "part.parquet").schema_arrow.names
    assert stored == ["x", "z", "y", "true", "prediction"]
    flat = table.add_column(2, "colour", [["red"] * 300 + ["blue"] * 300])
    pq.write_table(pa.concat_tables([flat.slice(300), flat.slice(0, 300)]), folder / "flat.parquet")
    run("predict", "m.plr", "flat.parquet", "-o", "one.parquet")
    one = read_table(folder / "one.parquet")
    same(read_folder(folder / "out").select(one.column_names), one)


class TestGenerate:
    @pytest.fixture(autouse=True)
    def labelled(self, folder):
        table = read_table(folder / "all.parquet").drop_columns(["y"])
        pq.write_table(table, folder / "labels.parquet")
        write_folder(folder / "labels", table)

    @pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "biased"])
    def test_small_folder_has_the_candidates_of_one_table(self, run, folder, mechanism):
        options = ("--target", "true", "--mechanism", mechanism, "--truth-column", "t", "--seed", 3, "--missing", 0.1)
        run("generate", "labels", *options, "-o", "out")
        run("generate", "labels.parquet", *options, "-o", "one.parquet")
        same(read_folder(folder / "out"), read_table(folder / "one.parquet"))

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_candidates_are_those_of_blocks_whatever_the_files(self, run, folder, monkeypatch, mechanism):
        monkeypatch.setattr(generate_candidates, "BLOCK_ROWS", 700)
        monkeypatch.setattr(generate_candidates, "SAMPLE_ROWS", 500)
        options = ("--target", "true", "--mechanism", mechanism, "--truth-column", "t", "--seed", 3)
        told, _ = run("generate", "labels", *options, "-o", "out")
        monkeypatch.setattr("plr.sources.folder.BATCH_ROWS", 90)
        write_folder(
            folder / "other", read_table(folder / "labels.parquet"), {"a.parquet": (0, 13), "b.pq": (13, ROWS)}
        )
        run("generate", "other", *options, "-o", "again.parquet")
        result = read_folder(folder / "out")
        same(result, read_table(folder / "again.parquet"))
        recipe = read_recipe(result.schema)
        assert (recipe["block_rows"], recipe["seed"], recipe["truth_column"]) == (700, 3, "t")
        assert recipe == read_recipe(read_table(folder / "out" / "b.parquet").schema)
        y = result["t"].to_numpy()
        sets = read_candidates(result, ["true"])
        if mechanism == "biased":
            assert "Taken from a sample of 500 rows: deviation and centre." in told
            assert (recipe["sample_rows"], recipe["from_sample"]) == (500, ["deviation", "centre"])
            return
        settled = resolve_options(mechanism, y)
        settled["deviation"] = recipe["options"].get("deviation")
        settled = {name: value for name, value in settled.items() if value is not None}
        counted = {"false_labels": 4} if MECHANISMS[mechanism].counted else {}
        for block in range(0, ROWS, 700):
            seed = np.random.SeedSequence(3, spawn_key=(block // 700,) if block else ())
            expected = make_candidates(
                y[block : block + 700], mechanism=mechanism, random_state=seed, **counted, **settled
            )
            assert sets[np.arange(block, min(block + 700, ROWS))] == expected

    def test_very_many_labels_are_drawn_from_a_sample(self, run, folder, monkeypatch):
        monkeypatch.setattr(generate_candidates, "BLOCK_ROWS", 700)
        monkeypatch.setattr(generate_candidates, "MOST_LABELS", 1_000)
        told, _ = run("generate", "labels", "--target", "true", "--mechanism", "marginal", "-o", "out.parquet")
        assert "Taken from a sample of 998 rows: pool." in told
        sets = read_candidates(read_table(folder / "out.parquet"), ["true"])
        assert len(sets.values) > 2 * ROWS

    def test_labels_that_are_missing_are_named_with_file_and_row(self, run, folder):
        table = read_table(folder / "labels.parquet")
        y = table["true"].to_pylist()
        y[1_100] = None
        write_folder(folder / "bad", table.set_column(table.column_names.index("true"), "true", pa.array(y)))
        _, err = run("generate", "bad", "--target", "true", "-o", "out", code=2)
        assert "the target 'true' is empty or not finite in data row 0 of b.parquet, counted from 0" in err
        assert not (folder / "out").exists()

    def test_folder_that_changed_is_not_gone_on_with(self, run, folder):
        run("generate", "labels", "--target", "true", "-o", "out")
        (folder / "labels" / "sub" / "d.parquet").unlink()
        _, err = run("generate", "labels", "--target", "true", "-o", "out", code=2)
        assert "name another folder" in err
        _, err = run("generate", "labels", "--target", "true", "--truth-column", "x", "-o", "o", code=2)
        assert "labels has a column of that name" in err


BOUNDED = """
    import sys
    from plr import load_model
    from plr.memory import peak_memory
    model = load_model("m.plr")
    model.write_predictions("small", "out.parquet")
    before = peak_memory()
    done = model.write_predictions("large", "out.parquet")
    print(done.rows, peak_memory() - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(run, folder):
    if not os.path.exists("/proc/self/status"):
        pytest.skip("this system does not tell how much memory is used")
    columns, rows = 30, 65_536
    names = [f"x{number}" for number in range(columns)]
    X = np.tile(np.random.default_rng(0).normal(size=(rows // 64, columns)), (64, 1))
    table = pa.table(dict(zip(names, X.T, strict=True)))
    labels = CandidateSets.from_labels(X[:500].sum(axis=1)).to_arrow()
    pq.write_table(table.slice(0, 500).append_column("y", [labels]), folder / "t.parquet")
    run("fit", "t.parquet", "--target", "y", "--learner", "linear", "--no-intervals", "--no-page", "-o", "m.plr")
    options = {"use_dictionary": False, "row_group_size": rows}
    write_folder(folder / "small", table, {"a.parquet": (0, 2_000)})
    (folder / "large").mkdir()
    pq.write_table(table, folder / "large" / "0.parquet", **options)
    for number in range(1, 20):
        os.link(folder / "large" / "0.parquet", folder / "large" / f"{number}.parquet")
    assert Folder.open(folder / "large").uncompressed > 300_000_000
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BOUNDED)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    ).stdout
    predicted, grown = map(int, told.split()[-2:])
    assert predicted == 20 * rows
    assert grown < 150e6
