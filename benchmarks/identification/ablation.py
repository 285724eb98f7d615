"""What each part of the default adds, measured by leaving it out."""

from __future__ import annotations

from benchmarks.identification.cases import Plan
from benchmarks.identification.results import Results, cells_of, compare, geometric_mean, mean_std
from benchmarks.identification.sheets import Section, Sheet, plus_minus

__all__ = ["ablation"]

_PARTS = (
    ("default", "default", "the default"),
    ("process", "default", "its Gaussian process alone"),
    ("trees", "default", "its trees alone"),
    ("default-no-start", "default-no-start", "without the density start"),
    ("trees-density", "trees-density", "trees from the density start, no Gaussian process"),
    ("default-supervised", "default-supervised", "true labels"),
    ("posterior+start", "posterior+start", "the paper's network with the sampled start"),
    ("posterior", "posterior", "the paper's network without a start"),
)


def ablation(results: Results, plan: Plan) -> Sheet:
    """Compare the default with itself less some part."""
    sheet = Sheet(
        "What each part adds",
        ["Mean test MSE ± standard deviation over trials; the ratio to the default is a geometric mean over cells."],
        ("dataset", "false_labels", "set_size", "part", "mse", "std", "trials"),
        [],
    )
    ratios: dict[str, list[float]] = {name: [] for name, *_ in _PARTS}
    shown: dict[str, list[str]] = {name: [words] for name, _, words in _PARTS}
    places = list(cells_of(plan))
    for cell in places:
        whole = results.errors("default", cell, plan.trials)
        for name, method, _ in _PARTS:
            lines = results.lines(method, cell, plan.trials)
            inside = name in ("process", "trees")
            errors = {t: line["details"][name] if inside else line["test_mse"] for t, line in lines.items()}
            ratios[name].append(compare(errors, whole).ratio)
            shown[name].append(plus_minus(*mean_std(errors)))
            sheet.rows.append([cell.dataset, cell.false_labels, cell.set_size, name, *mean_std(errors), len(errors)])
    header = ("part", *(f"{cell.dataset} {cell.set_size} {cell.false_labels}" for cell in places), "over the default")
    rows = [[*shown[name], f"{geometric_mean(ratios[name]):.2f}"] for name, *_ in _PARTS]
    sheet.sections.append(Section("Test MSE", header, rows))
    return sheet
