"""What a user waits for besides fitting: imports, help, making candidate sets, predictions, files, the report.

    python benchmarks/bench_user.py --out results/speed

Each part is compared, in turns within one process, with the plain thing to do instead: the underlying model's own
predict, a few lines of NumPy, Arrow's own reader. First the results are checked to be the same. Imports are timed in
processes of their own. Writes user.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet
import torch
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.candidates import as_candidate_sets
from plr.columns.candidates import read_candidates
from plr.learners import MLP, Boosting
from plr.paper import Store, expand, get_preset
from plr.paper.execution import Fit, dump
from plr.paper.report import write_report
from plr.paper.selection import EPOCH_RULES
from plr.sources.files import read_file
from plr.tables import write_table
from record import quick_ratio, seconds, write_record

SEED, COLUMNS, TRAINED = 0, 20, 5_000
WANTED = {
    "import_over_scikit_learn_s": 0.2,
    "help_over_python_s": 0.4,
    "prediction_ratio": 2.0,
    "identify_slope": 1.1,
    "construction_ratio": 3.0,
    "files_ratio": 3.0,
    "report_s": 15.0,
}

Found = dict[str, Any]
Pair = tuple[Callable[[], object], Callable[[], object]]


def same(name: str, ours: Any, plain: Any, tolerance: float = 0.0) -> None:
    """Stop unless both are equal, or as close as rounding allows."""
    if not np.allclose(ours, plain, rtol=tolerance, atol=tolerance):
        raise SystemExit(f"{name}: ours and the plain result differ; no timing without agreement.")


def measure_imports(turns: int) -> Found:
    commands = {
        "python": ["-c", "pass"],
        "scikit_learn": ["-c", "import sklearn.base"],
        "plr": ["-c", "import plr"],
        "regressor": ["-c", "from plr import PartialLabelRegressor"],
        "help": ["-m", "plr", "--help"],
    }

    def start(arguments: list[str]) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    def clock() -> float:
        # What the process itself takes: on a machine with nothing else to do, as long as one waits for it.
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(turns + 1):
        for name, arguments in commands.items():
            times[name].append(seconds(lambda arguments=arguments: start(arguments), clock))
    # The first turn reads everything from the disk.
    found: Found = {f"{name}_s": statistics.median(list_[1:]) for name, list_ in times.items()}
    found["import_over_scikit_learn_s"] = found["plr_s"] - found["scikit_learn_s"]
    found["regressor_over_scikit_learn_s"] = found["regressor_s"] - found["scikit_learn_s"]
    found["help_over_python_s"] = found["help_s"] - found["python_s"]
    return found


def plain_network(model: Any) -> torch.nn.Sequential:
    """Return the trained network of an MLP as a torch module."""
    sizes, flat = [int(size) for size in model.network.layout.sizes], torch.from_numpy(model.network.parameters)
    layers: list[torch.nn.Module] = []
    at = 0
    for n_in, n_out in pairwise(sizes):
        layer = torch.nn.Linear(n_in, n_out)
        layer.weight.data = flat[at : at + n_in * n_out].reshape(n_out, n_in)
        layer.bias.data = flat[at + n_in * n_out : at + n_in * n_out + n_out]
        layers += [layer, torch.nn.ReLU()]
        at += n_in * n_out + n_out
    return torch.nn.Sequential(*layers[:-1])


def measure_prediction(rows: int, turns: int) -> Found:
    random = np.random.default_rng(SEED)
    X = random.normal(size=(rows, COLUMNS))
    y = X[:TRAINED, 0] + np.sin(X[:TRAINED, 1])
    S = make_candidates(y, 4, random_state=SEED)

    def fitted(learner: Any) -> PartialLabelRegressor:
        return PartialLabelRegressor(learner, random_state=SEED).fit(X[:TRAINED], S)

    found: Found = {}

    def compare(name: str, model: PartialLabelRegressor, plain: Callable[[], Any], tolerance: float = 0.0) -> None:
        same(name, model.predict(X[:1000]), np.asarray(plain())[:1000], tolerance)
        found[name] = quick_ratio(lambda: model.predict(X), plain, turns)

    linear = fitted("linear")
    bare = LinearRegression().fit(X[:TRAINED], y)
    bare.coef_, bare.intercept_ = linear.model_.coefficients, linear.model_.intercept
    compare("linear, scikit-learn's", linear, lambda: bare.predict(X), 1e-12)
    for learner in (Ridge(), DecisionTreeRegressor(max_depth=8)):
        model = fitted(learner)
        inner = model.model_.regressor
        compare(f"refit, {type(learner).__name__}'s own", model, lambda inner=inner: inner.predict(X))
    trees = fitted(Boosting(trees=50))
    booster, first, target = trees.model_.booster, trees.model_.initial_score, trees.model_.target
    compare("boosting, LightGBM's own", trees, lambda: target.undo(first + booster.predict(X)), 1e-12)

    torch.set_num_threads(1)
    with threadpool_limits(1):
        for hidden in ((20, 30, 10), (64, 64)):
            model = fitted(MLP(hidden=hidden, epochs=2))
            network, scaling, target = plain_network(model.model_), model.model_.features, model.model_.target
            # What PyTorch is given is scaled and in float32 already.
            ready = torch.from_numpy(scaling.apply(X)).float()

            def forward(network: Any = network, ready: Any = ready, target: Any = target) -> Any:
                with torch.no_grad():
                    return target.undo(network(ready)[:, 0].numpy())

            compare(f"mlp {'-'.join(map(str, hidden))}, PyTorch's forward in one thread", model, forward, 1e-4)
    return found


def measure_identify(turns: int) -> Found:
    sizes = (10_000, 100_000, 1_000_000)
    random = np.random.default_rng(SEED)
    X = random.normal(size=(sizes[-1], COLUMNS))
    S = make_candidates(X[:, 0], 4, set_size="fixed", random_state=SEED)
    model = PartialLabelRegressor("linear", random_state=SEED).fit(X[:TRAINED], S[:TRAINED])
    same("identify", model.identify(X[:50], S[:50]).index, model.identify(X[:1000], S[:1000]).index[:50])
    parts = [(X[:rows], S[:rows]) for rows in sizes]
    times = [
        min(seconds(lambda part=part: model.identify(*part), time.process_time) for _ in range(turns)) for part in parts
    ]
    slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    return {"rows": sizes, "seconds": times, "identify_slope": slope}


def constructions(rows: int) -> dict[str, Pair]:
    """Return, for ways to make candidate sets, also of others, ours and one of the same values and sizes in NumPy."""
    random = np.random.default_rng(SEED)
    S = make_candidates(random.normal(size=rows), 4, random_state=SEED)
    lists, padded, arrow = S.to_lists(), S.to_padded(), S.to_arrow()
    table = pa.table({f"c{place}": padded[:, place] for place in range(padded.shape[1])})
    ids = random.permutation(rows)
    lines = random.permutation(S.values.size)
    # Within a row, candidates come in the order of the lines.
    long = {"row": ids[S.row_index][lines], "value": S.values[lines]}
    texts = pc.binary_join(arrow.cast(pa.list_(pa.string())), "|")

    def from_mask(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        present = ~np.isnan(array)
        return checked(array[present], present.sum(axis=1))

    def checked(values: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert np.isfinite(values).all()
        assert sizes.min() > 0
        return values, np.concatenate([[0], np.cumsum(sizes)])

    def plain_lists() -> object:
        return checked(np.fromiter(chain.from_iterable(lists), float), np.fromiter(map(len, lists), np.int64))

    def plain_long() -> object:
        sorter = np.argsort(ids)
        codes = sorter[np.searchsorted(ids, long["row"], sorter=sorter)]
        return checked(long["value"][np.argsort(codes, kind="stable")], np.bincount(codes, minlength=rows))

    def plain_texts() -> object:
        parts = pc.split_pattern(texts, "|")
        sizes = np.asarray(pc.list_value_length(parts)).astype(np.int64)
        return checked(np.asarray(parts.flatten().cast(pa.float64())), sizes)

    order = random.permutation(rows)

    def plain_rows() -> object:
        sizes = S.sizes[order]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return S.values[np.arange(offsets[-1]) + np.repeat(S.offsets[:-1][order] - offsets[:-1], sizes)], offsets

    twice = CandidateSets(np.repeat(S.values, 2), 2 * S.offsets)

    def plain_unique() -> object:
        row, value = twice.row_index, twice.values
        sorter = np.lexsort((value, row))
        new = (np.diff(row[sorter]) != 0) | (np.diff(value[sorter]) != 0)
        kept = np.sort(sorter[np.concatenate([[True], new])])
        return value[kept], np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=rows))])

    return {
        "rows in another order": (lambda: S[order], plain_rows),
        "duplicates merged": (twice.unique, plain_unique),
        "lists": (lambda: CandidateSets.from_lists(lists), plain_lists),
        "NaN-padded array": (lambda: CandidateSets.from_padded(padded), lambda: from_mask(padded)),
        "columns of an Arrow table": (
            lambda: CandidateSets.from_columns(table, table.column_names),
            lambda: from_mask(np.stack([np.asarray(column) for column in table.columns], axis=1)),
        ),
        "long table": (lambda: CandidateSets.from_long(long, "row", "value", rows=ids), plain_long),
        "texts": (lambda: as_candidate_sets(texts), plain_texts),
        "Arrow lists": (
            lambda: CandidateSets.from_arrow(arrow),
            lambda: checked(arrow.flatten().to_numpy(), np.diff(arrow.offsets.to_numpy())),
        ),
    }


def measure_construction(rows: int, turns: int) -> Found:
    found: Found = {}
    for name, (ours, plain) in constructions(rows).items():
        sets: Any = ours()
        values, offsets = plain()  # type: ignore[misc]
        same(name, sets.values, values)
        same(name, sets.offsets, offsets)
        found[name] = quick_ratio(ours, plain, turns)
    return found


def measure_files(rows: int, turns: int) -> Found:
    """Compare reading a table with its candidates, and writing it, with what Arrow does, or Python where it cannot."""
    random = np.random.default_rng(SEED)
    S = make_candidates(random.normal(size=rows), 4, random_state=SEED)
    features = {f"x{place}": random.normal(size=rows) for place in range(5)}
    table = pa.table(features | {"y": S.to_arrow()})
    flat = pa.table(features | {"y": pc.binary_join(S.to_arrow().cast(pa.list_(pa.string())), "|")})
    readers = {
        "csv": pyarrow.csv.read_csv,
        "parquet": pyarrow.parquet.read_table,
        "feather": pyarrow.feather.read_table,
        "jsonl": pyarrow.json.read_json,
    }
    writers = {
        "csv": lambda path: pyarrow.csv.write_csv(flat, path),
        "parquet": lambda path: pyarrow.parquet.write_table(table, path),
        "feather": lambda path: pyarrow.feather.write_feather(table, path),
        "jsonl": lambda path: path.write_text("\n".join(map(json.dumps, table.to_pylist()))),
    }
    found: Found = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, reader in readers.items():
            path, other = Path(folder) / f"ours.{kind}", Path(folder) / f"plain.{kind}"
            write_table(table, path)

            def read(path: Path = path) -> CandidateSets:
                return read_candidates(read_file(path).table, ["y"])

            same(kind, read().values, S.values)
            found[f"read {kind}"] = quick_ratio(read, lambda path=path, reader=reader: reader(path), turns)
            found[f"write {kind}"] = quick_ratio(
                lambda path=path: write_table(table, path),
                lambda other=other, writer=writers[kind]: writer(other),
                turns,
            )
    return found


def measure_report() -> Found:
    """Time the report of the paper's grid with three trials, its results made up."""
    protocol = dataclasses.replace(get_preset("paper"), trials=3)
    random = np.random.default_rng(SEED)
    cells = expand(protocol)
    with tempfile.TemporaryDirectory() as folder:
        with Store.create(folder, protocol) as store:
            store.begin("made up")
            for cell in cells:
                key = cell.key(protocol)
                store.claim(key)
                errors = random.uniform(10, 100, size=(len(cell.settings(protocol)), len(EPOCH_RULES)))
                fits = [
                    Fit(dump(setting), rule, 7, *[float(error)] * 4, None)
                    for setting, line in zip(cell.settings(protocol), errors, strict=True)
                    for rule, error in zip(EPOCH_RULES, line, strict=True)
                ]
                store.finish((key, fits, 1.0))
        took = seconds(lambda: write_report(folder, Path(folder) / "report"))
    return {"cells": len(cells), "report_s": took}


def beyond(found: Found) -> list[str]:
    """Return what takes longer than it may."""
    slow = [
        f"{name} ({part[name]:.2f})"
        for part in (found["imports"], found["identify"], found["report"])
        for name in WANTED
        if name in part and part[name] > WANTED[name]
    ]
    for part in ("prediction", "construction", "files"):
        slow += [
            f"{name} ({one['ratio']:.2f} times)"
            for name, one in found[part].items()
            if one.get("ratio", 0.0) > WANTED[f"{part}_ratio"]
        ]
    return slow


def show(part: str, found: Found) -> None:
    for name, one in found.items():
        if isinstance(one, dict):
            text = ", ".join(f"{key.removesuffix('_s')} {value:.3f}" for key, value in one.items())
        else:
            text = f"{one:.3f}" if isinstance(one, float) else str(one)
        print(f"{part}: {name}: {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of predictions")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder to write user.json into")
    arguments = parser.parse_args()
    turns = arguments.turns
    fewer = max(1000, arguments.rows // 5)
    parts: dict[str, Callable[[], Found]] = {
        "imports": lambda: measure_imports(turns + 2),
        "prediction": lambda: measure_prediction(arguments.rows, turns),
        "identify": lambda: measure_identify(turns),
        "construction": lambda: measure_construction(fewer, turns),
        "files": lambda: measure_files(fewer, min(3, turns)),
        "report": measure_report,
    }
    found: Found = {}
    for part, measure in parts.items():
        found[part] = measure()
        show(part, found[part])
    if arguments.out is not None:
        settings = {"seed": SEED, "rows": arguments.rows, "columns": COLUMNS, "rows_constructed": fewer}
        write_record(
            arguments.out, "user", settings | {"wanted": WANTED} | found, packages=("lightgbm", "torch", "typer")
        )
    slow = beyond(found)
    if slow:
        raise SystemExit(f"Longer than it may take: {', '.join(slow)}.")


if __name__ == "__main__":
    main()
