"""What pages quote about folders larger than memory and about clusters, read from ``results/scale``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

__all__ = ["SCALE_QUOTES"]

RESULTS = Path(__file__).resolve().parents[2] / "results" / "scale"


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _or_not_yet(quote: Callable[..., str]) -> Callable[..., str]:
    """Let a page say so where something has not been measured yet."""

    @wraps(quote)
    def quoted(*arguments: Any) -> str:
        try:
            return quote(*arguments)
        except FileNotFoundError as error:
            return f"*(not measured yet: {Path(str(error.filename)).name})*"

    return quoted


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    rule = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *rows])


def _duration(seconds: float) -> str:
    for least, unit, name in ((2 * 86_400, 86_400, "days"), (3600, 3600, "h"), (90, 60, "min"), (1, 1, "s")):
        if seconds >= least:
            return f"{seconds / unit:.1f} {name}"
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.0f} µs"


def _network(name: str) -> str:
    return name.replace("x", "×")


def _workers(counts: Iterable[str]) -> list[str]:
    return ["1 worker" if int(count) == 1 else f"{count} workers" for count in counts]


def folder_scale() -> str:
    """Return what each verb took for a folder larger than memory should need to be, and how good the model is."""
    found = _read("folder")
    rows = (
        [
            f"`plr {name}`" if name != "fit in memory" else "`plr fit`, a sample in memory",
            f"{one['rows']:,}",
            _duration(one["seconds"]),
            f"{one['rows_per_second']:,.0f}",
            f"{one['peak_bytes'] / 2**30:.2f}",
            f"{one['over_imports_bytes'] / 2**30:.2f}",
        ]
        for name, one in found["steps"].items()
    )
    head = ["verb", "rows", "time", "rows a second", "peak memory, GiB", "over its imports, GiB"]
    error, right = found["quality"]["squared_error"], found["identification"]
    of_each = (f"{error[name]['mean']:.4f} ± {error[name]['standard_error']:.4f}" for name in ("streamed", "memory"))
    return (
        f"A folder of {folder_size()} before compression ({_machine(found)}; `results/scale/folder.md`):\n\n"
        f"{_table(head, rows)}\n\n"
        f"The squared error on new rows, of labels with a noise of variance 1, is {' and in memory '.join(of_each)}. "
        f"`identify` finds the true candidate in {100 * right['accuracy_with_several']:.1f} % of the rows that have "
        f"several, and says itself {100 * right['mean_probability']:.1f} %."
    )


def folder_size() -> str:
    """Return how large that folder is."""
    folder = _read("folder")["folder"]
    return f"{folder['rows']:,} rows and {folder['columns']} features, {folder['labelled_bytes'] / 2**30:.1f} GiB"


def folder_fit(what: str) -> str:
    """Return how long its fit took, or how much memory over that of the imports."""
    fit = _read("folder")["steps"]["fit"]
    return _duration(fit["seconds"]) if what == "time" else f"{fit['over_imports_bytes'] / 2**30:.2f} GiB"


def _machine(found: Any) -> str:
    return f"{found['machine']['cpu'].replace('(R)', '')}, {found['machine']['cores']} cores"


def cluster_machine() -> str:
    """Return on what steps and sums were measured."""
    model = _read("cluster_model")
    return _machine(model["measured"][model["reference"]])


def cluster_communication() -> str:
    """Return the bytes that each worker sends in a step, and how long a sum takes."""
    model = _read("cluster_model")
    rows = []
    for name, one in model["networks"].items():
        cells = one["communication"][model["usual_link"]]
        sent = (f"{cell['sent_bytes'] / 1e3:,.0f} kB, {_duration(cell['seconds'])}" for cell in cells.values())
        rows.append([_network(name), f"{one['parameters']:,}", *sent])
    return _table(["network", "parameters", *_workers(cells)], rows)


def cluster_hidden() -> str:
    """Return the batches at which communication is hidden, by network and number of workers."""
    model = _read("cluster_model")
    rows = []
    for name, one in model["networks"].items():
        cells = one["hidden_batch"][model["usual_link"]]
        rows.append([_network(name), *(_rounded(batch) for batch in cells.values())])
    return _table(["network", *_workers(cells)], rows)


def cluster_link() -> str:
    """Return the network that tables are for."""
    return str(_read("cluster_model")["usual_link"])


def cluster_speed_up() -> str:
    """Return steps a second over those of one process."""
    model = _read("cluster_model")
    rows = []
    for name, one in model["networks"].items():
        for batch, links in one["speed_up"].items():
            cells = links[model["usual_link"]]
            rows.append([_network(name), f"{int(batch):,}", *(f"{speed:.2f}" for speed in cells.values())])
    return _table(["network", "batch", *_workers(cells)], rows)


def cluster_billion() -> str:
    """Return how long a billion rows take, and what takes most of it."""
    model = _read("cluster_model")
    found: dict[tuple[str, int], dict[str, str]] = {}
    for line in model["billion"]:
        cell = f"{_duration(line['seconds'])}<br>({line['most']})"
        found.setdefault((line["network"], line["batch"]), {})[str(line["workers"])] = cell
    rows = ([_network(name), f"{batch:,}", *cells.values()] for (name, batch), cells in found.items())
    return _table(["network", "batch", *_workers(next(iter(found.values())))], rows)


def cluster_check() -> str:
    """Return how far the model's steps are from those that were measured."""
    said = []
    model = _read("cluster_model")
    for machine, off in model["errors"].items():
        cores, most = model["measured"][machine]["machine"]["cores"], max(model["measured"][machine]["processes"])
        said.append(
            f"up to {most} processes on {cores} cores: off by {100 * off['median']:.0f} % in the median of "
            f"{off['steps']} settings, {100 * off['most']:.0f} % at most"
        )
    return "; ".join(said)


def cluster_on_ray(what: str) -> str:
    """Return a figure of the same fit by one process and by Ray workers."""
    ray = _read("cluster")["ray"]
    one, several = ray["fits"]["one process"], ray["fits"]["ray"]
    figures = {
        "rows": f"{ray['rows']:,}",
        "one": _duration(one["seconds"]),
        "ray": _duration(several["seconds"]),
        "start": _duration(several["until_first_step_s"]),
        "difference": f"{ray['relative_difference_of_error']:.2g}",
    }
    return figures[what]


def _rounded(rows: float) -> str:
    digits = max(0, len(str(int(rows))) - 2)
    return "any" if rows < 1 else f"{round(rows / 10**digits) * 10**digits:,}"


SCALE_QUOTES: dict[str, Callable[..., str]] = {
    quote.__name__: _or_not_yet(quote)
    for quote in (
        cluster_billion,
        cluster_check,
        cluster_communication,
        cluster_hidden,
        cluster_link,
        cluster_machine,
        cluster_on_ray,
        cluster_speed_up,
        folder_fit,
        folder_scale,
        folder_size,
    )
}
"""What may stand in double braces on a page."""
