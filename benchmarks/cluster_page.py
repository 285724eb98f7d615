"""The page and the picture of what a cluster costs and gains, from what the model found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from plr.paper.figures import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "write_page"]

Found = dict[str, Any]

_COLORS, _MARKERS = ("#0b6bb5", "#c8501e", "#2d8a4e"), ("o", "s", "^")
_DASHES: tuple[Any, ...] = ((0, (1, 1.2)), (0, (4, 1.5)), "solid")
_GREY = "#9a9a9a"


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(0.00042), duration(95), duration(7200), duration(500_000)
    ('420 µs', '1.6 min', '2.0 h', '5.8 days')
    """
    units = ((86_400.0 * 2, 86_400.0, " days"), (3600.0, 3600.0, " h"), (90.0, 60.0, " min"), (1.0, 1.0, " s"))
    for least, unit, name in units:
        if seconds >= least:
            return f"{seconds / unit:.1f}{name}"
    if seconds >= 1e-3:
        return f"{1e3 * seconds:.1f} ms"
    return f"{1e6 * seconds:.0f} µs" if seconds >= 1e-5 else f"{1e6 * seconds:.2f} µs"


def draw(found: Found) -> Figure:
    """Draw the model against what was measured, the speed-up, and the time for a billion rows."""
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 3.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _draw_steps(left, found)
        _draw_speed(middle, found)
        _draw_billion(right, found)
        figure.legend(handles=_legend(found), fontsize=8, handlelength=3, loc="outside right center")
    return figure


def _legend(found: Found) -> list[Any]:
    """Return what colours and dashes stand for, in all panels."""
    from matplotlib.lines import Line2D

    networks = [
        Line2D([], [], color=color, marker=marker, markersize=4, linestyle="none", label=_title(name))
        for name, color, marker in zip(found["networks"], _COLORS, _MARKERS, strict=False)
    ]
    batches = sorted({line["batch"] for line in found["billion"]})
    dashes = [
        Line2D([], [], color="#161616", linestyle=dash, label=f"batch {batch:,}")
        for batch, dash in zip(batches, _DASHES, strict=False)
    ]
    return [*networks, *dashes]


def _draw_steps(axes: Axes, found: Found) -> None:
    lines = [line for lines in found["compared"].values() for line in lines]
    for name, color, marker in zip(found["networks"], _COLORS, _MARKERS, strict=False):
        own = [line for line in lines if line["network"] == name]
        axes.plot(
            [line["measured_s"] for line in own],
            [line["predicted_s"] for line in own],
            linestyle="none",
            color=color,
            marker=marker,
            markersize=4,
        )
    ends = [min(line["measured_s"] for line in lines), max(line["measured_s"] for line in lines)]
    axes.plot(ends, ends, color=_GREY, linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="measured seconds a step", ylabel="predicted seconds a step")
    axes.set_title("Steps, as the model has them", loc="left")


def _draw_speed(axes: Axes, found: Found) -> None:
    for one, color, marker in zip(found["networks"].values(), _COLORS, _MARKERS, strict=False):
        for links, dash in zip(one["speed_up"].values(), _DASHES, strict=False):
            curve = links[found["usual_link"]]
            counts = [int(count) for count in curve]
            axes.plot(counts, list(curve.values()), color=color, marker=marker, markersize=3, linestyle=dash)
    counts = [1, 128]
    axes.plot(counts, counts, color=_GREY, linewidth=0.8)
    _workers_axis(axes)
    axes.set(yscale="log", ylabel="steps a second over one process")
    axes.set_title(f"Speed-up of training, {found['usual_link']}", loc="left")


def _draw_billion(axes: Axes, found: Found) -> None:
    for name, color, marker in zip(found["networks"], _COLORS, _MARKERS, strict=False):
        for batch, dash in zip(sorted({line["batch"] for line in found["billion"]}), _DASHES, strict=False):
            own = [line for line in found["billion"] if (line["network"], line["batch"]) == (name, batch)]
            hours = [line["seconds"] / 3600 for line in own]
            axes.plot(
                [line["workers"] for line in own], hours, color=color, marker=marker, markersize=3, linestyle=dash
            )
    _workers_axis(axes)
    axes.set(yscale="log", ylabel="hours, from the folder to the model")
    axes.set_title(f"{found['rows'] / 1e9:g} billion rows, {found['epochs']} epochs", loc="left")


def _workers_axis(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 8, 32, 128], ["1", "2", "8", "32", "128"])
    axes.minorticks_off()
    axes.set_xlabel("workers")


def write_page(found: Found, told: Found) -> str:
    """Return the page."""
    first = found["measured"][found["reference"]]
    assumed, reading = found["assumed"], found["reading"]
    parts = [
        "# What a cluster costs and gains",
        f"By `{told['command']}` at revision {told['revision']}, seed {found['seed']}. Costs of steps and sums were "
        f"measured by `{first['command']}` on {first['machine']['cpu']}, {first['machine']['cores']} cores: a worker "
        "is one core of it. The formulas stand in `benchmarks/cluster_model.py`.",
        _assumptions(assumed, reading, found),
        "## A step of one process",
        "By plr's own kernel, and by a torch module of the same shape; one core.",
        _alone(found),
        "## Is the model right?",
        *(_comparison(found, machine) for machine in found["compared"]),
        _simulation(found),
        _on_ray(found),
        "## Communication in a step",
        "Each worker sends and receives the gradient, 8 bytes a parameter, about twice; bytes that each sends, and how "
        "long the sum takes:",
        _communication(found),
        f"## Batches at which communication is hidden (at most {100 * assumed['hidden_share']:g} % of a step)",
        "Rows of all workers together. Whether batches so large still learn as much from a row is another question, "
        "which the model does not answer.",
        _hidden(found),
        "## Speed-up",
        f"Steps a second over those of one process, {found['usual_link']}; reading, checkpoints and start-up do not "
        "count:",
        _speed(found),
        f"## One billion rows, {found['epochs']} epochs",
        f"From the folder to the model, {found['usual_link']}; in brackets what takes most of it.",
        _billion(found),
        "![Predicted and measured steps, speed-up, and hours for a billion rows](cluster.png)",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _assumptions(assumed: Found, reading: Found, found: Found) -> str:
    links = "; ".join(
        f"{name}: {1e6 * one['latency_s']:.0f} µs, {one['bytes_per_s'] / 1e9:.2f} GB/s"
        for name, one in found["links"].items()
    )
    prepare = found["preparation_s_per_row"]
    before = "not counted" if prepare is None else f"{1e6 * prepare:.1f} µs of one worker's time a row"
    lines = [
        f"- A message of gloo's, latency and bandwidth: {links}. The first is measured; networks add what is usual to "
        f"its latency, and cannot be faster than it or than {100 * assumed['share_of_line_rate']:g} % of their line "
        "rate.",
        f"- A row has {reading['bytes_per_row']:.0f} bytes in the shuffled copy and takes "
        f"{1e9 * reading['seconds_per_row']:.0f} ns to decode (measured). Storage gives "
        f"{assumed['storage_bytes_per_second'] / 1e9:g} GB/s to all workers together (assumed). Reading "
        "goes on while a step is computed.",
        f"- Before training, rows are looked through and copied: {before} (measured), {assumed['raw_bytes_per_row']:g} "
        "bytes a row read twice.",
        f"- A checkpoint every {assumed['seconds_between_checkpoints']:g} s or chunk, whichever is longer, and "
        f"{assumed['seconds_to_hand_a_checkpoint_over']:g} s to hand it over (assumed). A worker dies once in "
        f"{assumed['seconds_between_deaths_of_a_worker'] / 86_400:g} days (assumed); starting again takes "
        f"{assumed['restart_s']:.0f} s ({'measured with Ray' if found['ray'] else 'assumed'}).",
        "- All workers are alike, and the sum is a ring's: latency grows with their number.",
    ]
    return "\n".join(lines)


def _alone(found: Found) -> str:
    modules = {(one["network"], one["batch"]): one["step_s"] for one in found["modules"]}
    rows = []
    for cell in found["alone"]:
        module = modules.get((cell["network"], cell["batch"]))
        shown = "" if module is None else duration(module)
        a_row = duration(cell["step_s"] / cell["batch"])
        rows.append([_title(cell["network"]), f"{cell['batch']:,}", duration(cell["step_s"]), a_row, shown])
    return table(["network", "batch", "plr, a step", "a row", "torch module, a step"], rows)


def _comparison(found: Found, machine: str) -> str:
    one, off = found["measured"][machine], found["errors"][machine]
    rows = (
        [
            _title(line["network"]),
            str(line["workers"]),
            f"{line['batch']:,}",
            duration(line["alone_s"]),
            f"{duration(line['measured_s'])} ({_of_sums(line, 'measured')})",
            f"{duration(line['predicted_s'])} ({_of_sums(line, 'predicted')})",
            f"{line['ratio']:.2f}",
            f"{line['speed_up']:.2f}",
        ]
        for line in found["compared"][machine]
    )
    head = [
        "network",
        "workers",
        "batch",
        "one process",
        "measured (of it the sum)",
        "predicted",
        "predicted/measured",
        "speed-up",
    ]
    return (
        f"Steps of processes that train together ({one['machine']['cpu']}, {one['machine']['cores']} cores, "
        f"`{one['command']}`). Nothing of them was used for the predictions, which come from processes that work apart "
        f"and from sums alone. The prediction is off by {100 * off['median']:.0f} % in the middle of {off['steps']} "
        f"steps, and by {100 * off['most']:.0f} % at most.{_ring(found['rings'][machine])}\n\n" + table(head, rows)
    )


def _of_sums(line: Found, what: str) -> str:
    return duration(line[f"{what}_parts"]["sum"])


def _ring(off: dict[str, float]) -> str:
    """Say how well sums over more processes follow from those over two."""
    said = ", ".join(f"{count} by {100 * (ratio - 1):+.0f} %" for count, ratio in off.items())
    return f" Sums over more processes, as a ring would do them from those over two, are off: {said}." if said else ""


def _simulation(found: Found) -> str:
    worst = max(
        abs(line[f"simulated_{what}"] / line[what] - 1)
        for line in found["simulated"]
        for what in ("step_s", "training_s")
    )
    return (
        f"A simulation that draws each worker's time in each step, and every death, agrees with the formulas within "
        f"{100 * worst:.1f} % ({len(found['simulated'])} settings, 8 and 128 workers)."
    )


def _on_ray(found: Found) -> str:
    ray = found["ray"]
    if ray is None:
        return ""
    one, several = ray["fits"]["one process"], ray["fits"]["ray"]
    return (
        f"The same fit of a folder of {ray['rows']:,} rows ({one['epochs']:.0f} epochs, default network, batch 256) "
        f"took {one['seconds']:.0f} s by one process and {several['seconds']:.0f} s by {ray['workers']} Ray workers on "
        f"the same machine, of which {several['until_first_step_s']:.0f} s passed until the first step; a step took "
        f"{duration(one['step_s'])} and {duration(several['step_s'])}. The largest difference of a parameter is "
        f"{ray['largest_difference_of_parameters']:.2g}, of the test error "
        f"{ray['relative_difference_of_error']:.2g} (relative; at most 0.001 wanted)."
    )


def _communication(found: Found) -> str:
    counts = list(next(iter(next(iter(found["networks"].values()))["communication"].values())))
    rows = (
        [
            _title(name),
            f"{one['parameters']:,}",
            link,
            *(f"{size(cells[count]['sent_bytes'])}, {duration(cells[count]['seconds'])}" for count in counts),
        ]
        for name, one in found["networks"].items()
        for link, cells in one["communication"].items()
    )
    return table(["network", "parameters", "link", *map(_workers, counts)], rows, 3)


def _hidden(found: Found) -> str:
    counts = list(next(iter(next(iter(found["networks"].values()))["hidden_batch"].values())))
    rows = (
        [_title(name), link, *(rounded(cells[count]) for count in counts)]
        for name, one in found["networks"].items()
        for link, cells in one["hidden_batch"].items()
    )
    return table(["network", "link", *map(_workers, counts)], rows, 2)


def _speed(found: Found) -> str:
    link = found["usual_link"]
    first = next(iter(next(iter(found["networks"].values()))["speed_up"].values()))[link]
    rows = (
        [_title(name), f"{int(batch):,}", *(f"{speed:.2f}" for speed in links[link].values())]
        for name, one in found["networks"].items()
        for batch, links in one["speed_up"].items()
    )
    return table(["network", "batch", *map(_workers, first)], rows, 1)


def _billion(found: Found) -> str:
    counts = sorted({line["workers"] for line in found["billion"]})
    cells = {(line["network"], line["batch"], line["workers"]): line for line in found["billion"]}
    rows = (
        [
            _title(name),
            f"{batch:,}",
            *(
                f"{duration(cells[name, batch, count]['seconds'])} ({cells[name, batch, count]['most']})"
                for count in counts
            ),
        ]
        for name in found["networks"]
        for batch in sorted({line["batch"] for line in found["billion"]})
    )
    return table(["network", "batch", *map(_workers, counts)], rows, 1)


def _title(network: str) -> str:
    return network.replace("x", "×")


def _workers(count: int | str) -> str:
    return "1 worker" if int(count) == 1 else f"{count} workers"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a table; the first columns are text, the others numbers."""
    rule = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *rows])


def rounded(number: float) -> str:
    """Return a number of rows, two digits of which count.

    >>> rounded(0), rounded(123_456)
    ('any', '120,000')
    """
    if number < 1:
        return "any"
    digits = max(0, len(str(int(number))) - 2)
    return f"{round(number / 10**digits) * 10**digits:,}"


def size(count: float) -> str:
    """Return a number of bytes, in decimal units as links have them."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
