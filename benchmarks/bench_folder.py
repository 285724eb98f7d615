"""A folder larger than memory should need to be: what plr's verbs take for it, and how good the model is.

    python benchmarks/bench_folder.py --out results/scale

Makes a folder of labelled Parquet files (6 GiB before compression) and runs the installed command on it as a user
would: ``generate``, ``fit --learner mlp``, ``predict`` and ``identify``, each as a process of its own, and beside them
a fit in memory of a sample. Memory is the most that was resident at once, against that of a process which imports what
the verb imports and stops. Kernels have been compiled before. Writes folder.json and folder.md, and ends with 1 where a
mark is missed.

The data is kept under --work, and so is what has been measured until all of it is: started again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from folder_data import (
    NOISE,
    TARGET,
    TRUTH,
    identified_rightly,
    make_folder,
    make_sample,
    make_test,
    squared_errors,
    uncompressed_bytes,
)
from plr.memory import readable
from plr.paper.machine import revision
from record import circumstances, write_record
from watched import imported_memory, plr_command, run_watched

SEED, FALSE_LABELS, TEST_ROWS, TINY_ROWS = 0, 4, 50_000, 20_000
# 26 million rows of 31 numbers are 6.0 GiB.
ROWS, COLUMNS, PIECE_ROWS, SAMPLE_ROWS = 26_000_000, 30, 1_000_000, 1_000_000
WANTED = {"folder_bytes": 6 << 30, "over_imports_bytes": 3 << 29, "error_ratio": 1.01}
STREAMED = ("generate", "fit", "predict", "identify")

Found = dict[str, Any]


def commands() -> dict[str, list[str]]:
    """Return what is typed, step by step, in the folder of the data."""
    model = ["--target", TARGET, "--truth", TRUTH, "--learner", "mlp", "--seed", str(SEED)]
    generate = ["--target", TARGET, "--false-labels", str(FALSE_LABELS), "--set-size", "upto"]
    return {
        "generate": [
            "generate",
            "labelled",
            *generate,
            "--truth-column",
            TRUTH,
            "--seed",
            str(SEED),
            "-o",
            "candidates",
        ],
        "fit": ["fit", "candidates", *model, "--stream", "-o", "streamed.plr"],
        "fit in memory": ["fit", "sample.parquet", *model, "--no-stream", "--no-intervals", "-o", "memory.plr"],
        "predict": ["predict", "streamed.plr", "candidates", "-o", "predicted"],
        "identify": ["identify", "streamed.plr", "candidates", "-o", "identified"],
    }


class Steps:
    """Steps that are measured once, whatever happens in between."""

    def __init__(self, path: Path, settings: Found) -> None:
        self._path, self._settings = path, {**settings, "revision": revision()}
        self.found: dict[str, Found] = {}
        if path.exists():
            kept = json.loads(path.read_text())
            if kept["settings"] == self._settings:
                self.found = kept["found"]
                print(f"Goes on after {', '.join(self.found)}.", flush=True)

    def measure(self, name: str, run: Callable[[], Found]) -> Found:
        """Return what a step gave, now or before it was interrupted."""
        if name not in self.found:
            self.found[name] = run()
            self._path.write_text(json.dumps({"settings": self._settings, "found": self.found}))
        return self.found[name]

    def over(self) -> None:
        """Forget: the next time everything is measured anew."""
        self._path.unlink(missing_ok=True)


def remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def measure_imports(work: Path, columns: int) -> dict[str, int]:
    """Return for each step the memory of its imports alone."""
    tiny = work / "tiny"
    remove(tiny)
    make_folder(tiny / "labelled", TINY_ROWS, columns, TINY_ROWS, SEED)
    found = {}
    for name, typed in commands().items():
        if name == "fit in memory":
            make_sample(tiny / "candidates", tiny / "sample.parquet", TINY_ROWS, SEED)
        found[name] = imported_memory(typed, tiny)
    remove(tiny)
    return found


def measure_step(work: Path, name: str, imports: int, rows: int) -> Found:
    """Run one verb on everything, anew."""
    typed = commands()[name]
    out = work / typed[typed.index("-o") + 1]
    remove(out, out.with_name(f"{out.name}.unfinished"))
    done = run_watched([plr_command(), *typed, "--json"], work)
    if done.answer["rows"] != rows:
        raise SystemExit(f"{name} had {done.answer['rows']} rows in place of {rows}.")
    kept = {
        key: done.answer[key] for key in ("candidates", "disk", "rows_held_out", "noise_scale") if key in done.answer
    }
    found: Found = {
        "command": shlex.join(["plr", *typed]),
        "rows": rows,
        "seconds": done.seconds,
        "cpu_seconds": done.cpu_seconds,
        "rows_per_second": rows / done.seconds,
        "processes": done.processes,
        "peak_bytes": done.peak,
        "imports_bytes": imports,
        "over_imports_bytes": done.peak - imports,
        "answer": kept,
    }
    print(
        f"{name}: {done.seconds:.1f} s, {found['rows_per_second']:,.0f} rows/s, peak {readable(done.peak)}, "
        f"{readable(found['over_imports_bytes'])} over imports",
        flush=True,
    )
    return found


def measure_quality(work: Path) -> Found:
    """Compare both models on rows that none has seen."""
    exact, noisy = {}, {}
    for name in ("streamed", "memory"):
        out = work / f"test-{name}.parquet"
        run_watched([plr_command(), "predict", f"{name}.plr", "test.parquet", "-o", out.name, "--json"], work)
        exact[name], noisy[name] = squared_errors(out)
        remove(out)

    def summary(errors: dict[str, Any]) -> Found:
        difference = errors["streamed"] - errors["memory"]
        told = {**errors, "streamed less memory": difference}
        return {
            name: {"mean": float(np.mean(one)), "standard_error": standard_error(one)} for name, one in told.items()
        }

    labels = summary(noisy)
    return {
        "rows": TEST_ROWS,
        "squared_error": labels,
        "squared_error_without_noise": summary(exact),
        "error_ratio": labels["streamed"]["mean"] / labels["memory"]["mean"],
    }


def standard_error(numbers: Any) -> float:
    return float(np.std(numbers, ddof=1) / np.sqrt(len(numbers)))


def missed(found: Found, small: bool) -> list[str]:
    """Return the marks that were not met; a small folder is not judged by its size."""
    lines = []
    if not small and found["folder"]["labelled_bytes"] < WANTED["folder_bytes"]:
        lines.append(f"the folder has {readable(found['folder']['labelled_bytes'])}")
    lines += [
        f"{name} took {readable(found['steps'][name]['over_imports_bytes'])} over its imports"
        for name in STREAMED
        if found["steps"][name]["over_imports_bytes"] > WANTED["over_imports_bytes"]
    ]
    if found["quality"]["error_ratio"] > WANTED["error_ratio"]:
        lines.append(f"the streamed model's error is {found['quality']['error_ratio']:.3f} times that in memory")
    return lines


def page(found: Found, told: Found) -> str:
    """Return what was found as a page."""
    folder, quality, accuracy, fit = (found[part] for part in ("folder", "quality", "identification", "steps"))
    steps = [
        f"| `{name}` | {one['rows']:,} | {one['seconds']:,.0f} | {one['cpu_seconds']:,.0f} "
        f"| {one['rows_per_second']:,.0f} | "
        + " | ".join(gib(one[f"{what}_bytes"]) for what in ("peak", "imports", "over_imports"))
        + " |"
        for name, one in found["steps"].items()
    ]
    titles = {
        "streamed": f"whole folder, in batches ({fit['fit']['rows']:,} rows)",
        "memory": f"sample, in memory ({fit['fit in memory']['rows']:,} rows)",
        "streamed less memory": "the first less the second, row by row",
    }
    errors = [
        "| " + title + " | " + " | ".join(plus_minus(quality[kind][name]) for kind in _KINDS) + " |"
        for name, title in titles.items()
    ]
    right, claimed, chance, of_all, doubt = (
        f"{100 * accuracy[name]:.2f}"
        for name in ("accuracy_with_several", "mean_probability", "chance", "accuracy", "standard_error")
    )
    lines = [
        "# A folder larger than memory",
        "",
        f"Measured by `{told['command']}` at revision {told['revision']}, seed {SEED}, on {told['machine']['cpu']},",
        f"{told['machine']['cores']} cores. Marks: a folder of at least 6 GiB before compression, every verb at most",
        "1.5 GiB of resident memory above that after its imports, an error at most 1 % above that in memory:",
        f"**{'; '.join(found['missed']) or 'all met'}**{found['note']}.",
        "",
        f"{folder['rows']:,} rows of {folder['columns']} uniform features in {folder['files']} files of one row group",
        f"each: {readable(folder['labelled_bytes'])} before compression with labels,",
        f"{readable(folder['candidate_bytes'])} with candidates (up to {FALSE_LABELS} false ones a row). Labels are",
        f"Friedman's function of five features plus noise of standard deviation {NOISE:g}. What was typed:",
        "",
        *(f"    {one['command']}" for one in found["steps"].values()),
        "",
        "| verb | rows | seconds | CPU seconds | rows/s | peak, GiB | after imports, GiB | difference, GiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *steps,
        "",
        f"The most memory that a verb had on the folder: **{readable(found['peak_bytes'])}**, and",
        f"**{readable(found['most_over_imports_bytes'])}** over its imports. For the time of training, the shuffled",
        f"copy takes {readable(fit['fit']['answer']['disk'])} on the disk.",
        "",
        f"Mean squared error on {TEST_ROWS:,} new rows ± standard error:",
        "",
        f"| fitted to | against labels (noise {NOISE**2:g}) | against the function itself |",
        "|---|---:|---:|",
        *errors,
        "",
        f"`identify` finds the true candidate in {right} ± {doubt} % of the {accuracy['rows_with_several']:,} rows",
        f"that have several (it says itself: {claimed} %; chance: {chance} %), and in {of_all} % of all rows.",
        "",
    ]
    return "\n".join(lines)


_KINDS = ("squared_error", "squared_error_without_noise")


def gib(size: int) -> str:
    return f"{size / 2**30:.2f}"


def plus_minus(one: Found) -> str:
    return f"{one['mean']:.5f} ± {one['standard_error']:.5f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("--work", type=Path, default=Path("runs/folder"), help="folder for the data")
    parser.add_argument("--out", type=Path, help="folder to write folder.json and folder.md into")
    arguments = parser.parse_args()
    rows, columns, work = arguments.rows, arguments.columns, arguments.work
    if columns < 5:
        parser.error("the function has five features; --columns must be 5 or more.")
    there = make_folder(work / "labelled", rows, columns, PIECE_ROWS, SEED)
    make_test(work / "test.parquet", TEST_ROWS, columns, SEED)
    size, files = uncompressed_bytes(work / "labelled"), len(list((work / "labelled").glob("*.parquet")))
    print(
        f"labelled: {rows:,} rows, {readable(size)} before compression, {there} of {files} files were there", flush=True
    )
    steps = Steps(work / "steps.json", {"rows": rows, "columns": columns, "seed": SEED})
    imports = steps.measure("imports", lambda: measure_imports(work, columns))
    sampled = min(SAMPLE_ROWS, rows)

    def step(name: str, count: int = rows) -> None:
        steps.measure(name, lambda: measure_step(work, name, imports[name], count))

    step("generate")
    if not (work / "sample.parquet").exists() or "fit in memory" not in steps.found:
        make_sample(work / "candidates", work / "sample.parquet", sampled, SEED)
    step("fit")
    step("fit in memory", sampled)
    step("predict")
    remove(work / "predicted")
    step("identify")
    accuracy = steps.measure("identification", lambda: identified_rightly(work / "identified"))
    remove(work / "identified")
    quality = steps.measure("quality", lambda: measure_quality(work))
    measured = {name: steps.found[name] for name in commands()}
    found: Found = {
        "seed": SEED,
        "wanted": WANTED,
        "folder": {
            "rows": rows,
            "columns": columns,
            "files": files,
            "labelled_bytes": size,
            "candidate_bytes": uncompressed_bytes(work / "candidates"),
        },
        "steps": measured,
        "peak_bytes": max(measured[name]["peak_bytes"] for name in STREAMED),
        "most_over_imports_bytes": max(measured[name]["over_imports_bytes"] for name in STREAMED),
        "quality": quality,
        "identification": accuracy,
    }
    small = rows < ROWS
    found["missed"] = missed(found, small)
    found["note"] = " (a trial run, whose size is not judged)" if small else ""
    if arguments.out is not None:
        write_record(arguments.out, "folder", found, files={"folder.md": page(found, circumstances()).encode()})
    steps.over()
    print(
        f"error, streamed over in memory: {quality['error_ratio']:.4f}; true candidates found where there are several: "
        f"{100 * accuracy['accuracy_with_several']:.2f} %"
    )
    print(f"Peak memory: {readable(found['peak_bytes'])}, {readable(found['most_over_imports_bytes'])} over imports.")
    if found["missed"]:
        raise SystemExit(f"Missed: {'; '.join(found['missed'])}.")


if __name__ == "__main__":
    main()
