"""The tables: same network, out of the box, members, oracle, mechanisms, held-back, selection, ablation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import isfinite, log

from benchmarks.identification.cases import PLANS, Case, Plan
from benchmarks.identification.data import FINAL
from benchmarks.identification.methods import SETTINGS
from benchmarks.identification.results import (
    Results,
    cells_of,
    compare,
    geometric_mean,
    mean_std,
    standard_error,
)
from benchmarks.identification.sheets import Bar, Section, Sheet, number, plus_minus, ratio_text

from plr.paper.published import published_cells
from plr.paper.tables import LEVEL, TEST_IN_WORDS

__all__ = ["TABLES"]

_PLACE = ("dataset", "mechanism", "false_labels", "set_size")
_HOW = {"upto": "up to |S̄| false labels (`upto`)", "fixed": "exactly |S̄| false labels (`fixed`)"}
_POINTS = 5.0
_MSE = "Mean test MSE ± standard deviation over trials."

# What the default consists of, where its errors are, and in words.
_PARTS = (
    ("default", "default", "the default"),
    ("gaussian-process", "gaussian-process", "a Gaussian process alone"),
    ("default-no-start", "default-no-start", "without the density start"),
    ("trees-density", "trees-density", "trees from the density start, no Gaussian process"),
    ("default-supervised", "default-supervised", "true labels"),
    ("posterior+start", "posterior+start", "the paper's network with the sampled start"),
    ("posterior", "posterior", "the paper's network without a start"),
)


def same_network(results: Results, plan: Plan) -> Sheet:
    """Compare weightings with one network, budget, scaling, ensemble size and number of settings."""
    limits = {"upto": 0.88, "fixed": 0.45}
    methods = ("supervised", "progressive", "posterior+start")
    sheet = Sheet(
        "The same network",
        [
            f"{_MSE} The paper's network, all ReLU, scaled labels, mean of equally many networks; each method chose "
            f"among {len(SETTINGS['posterior'])} settings by held-out candidate likelihood. *Ratio* is "
            "`posterior+start` over `progressive`, with its standard error over trials.",
            f"*p* is that of a paired t-test over trials, *corrected* that of a {TEST_IN_WORDS}. Worse are counted by "
            "the former, which finds more.",
        ],
        (*_PLACE, *_columns(methods), "ratio", "ratio_error", "p_value", "corrected_p_value"),
        [],
    )
    for set_size in plan.set_sizes:
        shown, pairs = [], []
        for cell in _cells(plan, set_size):
            errors = {name: results.errors(name, cell, plan.trials) for name in methods}
            pair = compare(errors["posterior+start"], errors["progressive"])
            pairs.append(pair)
            p = pair.p_value, pair.corrected_p_value
            sheet.rows.append([*_place(cell), *_numbers(errors.values()), pair.ratio, pair.ratio_error, *p])
            shown.append(
                [*_named(cell), *_written(errors.values()), ratio_text(pair.ratio, pair.ratio_error), *map(number, p)]
            )
        complete = _is_whole(results, plan, "same-network") and all(pair.trials == plan.trials for pair in pairs)
        worse = sum(pair.worse for pair in pairs)
        corrected = sum((pair.corrected_p_value or 1.0) < LEVEL and pair.difference > 0 for pair in pairs)
        sheet.bars.extend(
            [
                Bar(
                    f"`{set_size}`, geometric mean of MSE(`posterior+start`)/MSE(`progressive`)",
                    geometric_mean(pair.ratio for pair in pairs),
                    limits[set_size],
                    complete=complete,
                ),
                Bar(
                    f"`{set_size}`, cells significantly worse (by the corrected test: {corrected})",
                    worse,
                    0,
                    complete=complete,
                ),
            ]
        )
        header = ("data set", "|S̄|", *methods, "ratio", "p", "corrected")
        sheet.sections.append(Section(_HOW[set_size], header, shown))
    return sheet


def out_of_the_box(results: Results, plan: Plan) -> Sheet:
    """Compare the default with the published figures and with its own supervised fit."""
    methods = ("default", "default-supervised")
    sheet = Sheet(
        "Out of the box",
        [
            f"{_MSE} `PartialLabelRegressor()` without an argument, on candidate sets (`default`) and on true labels "
            "(`default-supervised`). Published are the MLP figures of the paper's Table 2, which are for `upto`.",
        ],
        (*_PLACE, *_columns(methods), "published_pident", "published_supervised", "over_supervised"),
        [],
    )
    for set_size in plan.set_sizes:
        shown, places = [], list(_cells(plan, set_size))
        over_supervised, against_published, below_supervised = [], [], 0
        for cell in places:
            errors = {name: results.errors(name, cell, plan.trials) for name in methods}
            ours, error = mean_std(errors["default"])[0], standard_error(errors["default"])
            pident, supervised = (
                published_cells()[cell.dataset, "mlp", size, name].mse
                for size, name in ((cell.false_labels or 0, "PIDent"), (0, "Supervised"))
            )
            pair = compare(errors["default"], errors["default-supervised"])
            over_supervised.append(pair)
            against_published.append((ours < pident, ours - pident <= error))
            below_supervised += ours < supervised
            published = (pident, supervised) if set_size == "upto" else (None, None)
            sheet.rows.append([*_place(cell), *_numbers(errors.values()), *published, pair.ratio])
            printed = [number(mse) for mse in published if mse is not None]
            ratio = ratio_text(pair.ratio, pair.ratio_error)
            shown.append([*_named(cell), *_written(errors.values()), *printed, ratio])
        complete = _is_whole(results, plan, "out-of-the-box")
        complete &= all(pair.trials == plan.trials for pair in over_supervised)
        over = geometric_mean(pair.ratio for pair in over_supervised)
        if set_size == "upto":
            sheet.notes.append(f"`upto`: geometric mean over supervised {ratio_text(over)}.")
        else:
            words = "`fixed`, geometric mean of MSE(`default`)/MSE(`default-supervised`)"
            sheet.bars.append(Bar(words, over, 1.55, complete=complete))
        if set_size == "upto":
            below = sum(is_below for is_below, _ in against_published)
            near = sum(is_near and not is_below for is_below, is_near in against_published)
            beyond = len(places) - below - near
            sheet.bars.extend(
                [
                    _count("`upto`, cells below the published PIDent", below, 26, places, complete),
                    Bar("`upto`, cells above it by more than one standard error", beyond, 0, complete=complete),
                    _count("`upto`, cells below the published supervised", below_supervised, 20, places, complete),
                ]
            )
        papers = ("PIDent (published)", "supervised (published)") if set_size == "upto" else ()
        header = ("data set", "|S̄|", *methods, *papers, "over supervised")
        sheet.sections.append(Section(_HOW[set_size], header, shown))
    return sheet


def members(results: Results, plan: Plan) -> Sheet:
    """Compare the default with what it is made of, each fitted alone."""
    alone = ("density", "gaussian-process", "trees-density", "network-density")
    methods = ("default-supervised", "default", *alone)
    sheet = Sheet(
        "The default and its members",
        [
            f"{_MSE} The density of labels, a Gaussian process, boosted trees and a network, each fitted alone, the "
            "last two from the density's weights. *Over the best* is the default's mean error over that of the best "
            "of the four, picked by test error; *over supervised* is its error over the default's on true labels.",
            f"No setting was chosen by looking at results on {', '.join(FINAL)}; those on the other tables but the "
            "trials shown of the seven were in sight while the committee was made.",
        ],
        (*_PLACE, *_columns(methods), "over_best", "over_supervised"),
        [],
    )
    over_best, over_supervised, shown = [], {}, []
    for cell in cells_of(plan):
        errors = {name: results.errors(name, cell, plan.trials) for name in methods}
        # On trials that both have.
        over_best.append(max(compare(errors["default"], errors[name]).ratio for name in alone))
        pair = compare(errors["default"], errors["default-supervised"])
        over_supervised[cell.dataset, cell.false_labels] = pair.ratio
        sheet.rows.append([*_place(cell), *_numbers(errors.values()), over_best[-1], pair.ratio])
        ratios = (ratio_text(over_best[-1]), ratio_text(pair.ratio, pair.ratio_error))
        shown.append([*_named(cell), *_written(errors.values()), *ratios])
    complete = _is_whole(results, plan, "members") and all(map(isfinite, over_best))
    final = [over_supervised[name, 16] for name in FINAL if (name, 16) in over_supervised]
    yacht = over_supervised.get(("yacht", 4), float("nan"))
    sheet.bars.extend(
        [
            Bar("over the best member alone, worst cell", max(over_best), 1.10, complete=complete),
            Bar("over the best member alone, geometric mean", geometric_mean(over_best), 1.02, complete=complete),
            Bar("final tables at 16 over supervised, geometric mean", geometric_mean(final), 2.0, complete=complete),
            Bar("final tables at 16 over supervised, worst", max(final, default=0.0), 6.0, complete=complete),
            Bar("Yacht at 4 over supervised", yacht, 5.0, complete=complete),
        ]
    )
    header = ("data set", "|S̄|", *methods, "over the best", "over supervised")
    sheet.sections.append(Section(_HOW["fixed"], header, shown))
    return sheet


def oracle(results: Results, plan: Plan) -> Sheet:
    """Measure how much of the way from `progressive` to the oracle the default goes."""
    limits = {"upto": 0.75, "fixed": 0.55}
    methods = ("default-progressive", "default", "oracle")
    kinds = ("accuracy", "accuracy_of_several")
    sheet = Sheet(
        "How far to the oracle",
        [
            f"{_MSE} The oracle weighs candidates by a model fitted to the true labels of other rows, and fits the "
            "same learner to these weights: a bound, not reachable. *Gap closed* is log(progressive/default) over "
            "log(progressive/oracle), which says little in a cell where the two are close; that of a protocol is of "
            "the sums over its cells.",
            "Accuracy is the share of training rows, in per cent, whose most probable candidate, out of fold, is the "
            "true one: of all rows, and of rows with several candidates.",
        ],
        (*_PLACE, *_columns(methods), "gap_closed", *(f"{name} {kind}" for kind in kinds for name in methods)),
        [],
    )
    for set_size in plan.set_sizes:
        shown, gained, possible, complete = [], 0.0, 0.0, _is_whole(results, plan, "oracle")
        behind: dict[str, list[float]] = {kind: [] for kind in kinds}
        for cell in _cells(plan, set_size):
            errors = {name: results.errors(name, cell, plan.trials) for name in methods}
            ours = -log(ratio) if isfinite(ratio := _ratio(errors, "default", methods[0])) else float("nan")
            best = -log(ratio) if isfinite(ratio := _ratio(errors, "oracle", methods[0])) else float("nan")
            whole = all(len(found) == plan.trials for found in errors.values())
            complete &= whole
            if isfinite(ours) and isfinite(best):
                gained, possible = gained + ours, possible + best
            rates = {
                kind: [100 * mean_std(results.values(kind, name, cell, plan.trials))[0] for name in methods]
                for kind in kinds
            }
            for kind in kinds:
                behind[kind].append(rates[kind][2] - rates[kind][1])
            share = ours / best if best else float("nan")
            sheet.rows.append([*_place(cell), *_numbers(errors.values()), share, *rates[kinds[0]], *rates[kinds[1]]])
            shown.append(
                [
                    *_named(cell),
                    *_written(errors.values()),
                    ratio_text(share),
                    *(" / ".join(number(rate) for rate in rates[kind]) for kind in kinds),
                ]
            )
        share = gained / possible if possible else float("nan")
        words = f"`{set_size}`, Σ log(progressive/default) / Σ log(progressive/oracle)"
        sheet.bars.append(Bar(words, share, limits[set_size], at_least=True, complete=complete))
        for kind, of in zip(kinds, ("all rows", "rows with several candidates"), strict=True):
            points = [point for point in behind[kind] if isfinite(point)]
            mean = sum(points) / len(points) if points else float("nan")
            beyond = sum(point > _POINTS for point in points)
            words = f"`{set_size}`, points of accuracy behind the oracle, mean over cells, {of}"
            shown_as = f"{mean:.1f}, above {_POINTS:g} in {beyond} of {len(points)} cells"
            if set_size == "upto":
                sheet.bars.append(Bar(words, mean, _POINTS, complete=complete, shown=shown_as))
            else:
                sheet.notes.append(f"{words}: {shown_as}; no bar is set.")
        header = ("data set", "|S̄|", *methods, "gap closed")
        rates_of = "accuracy: progressive / default / oracle"
        sheet.sections.append(Section(_HOW[set_size], (*header, rates_of, "with several candidates"), shown))
    return sheet


def mechanisms(results: Results, plan: Plan) -> Sheet:
    """Compare the default with `progressive` where false labels come about in other ways."""
    methods = ("default", "default-progressive")
    sheet = Sheet(
        "Other mechanisms",
        [
            f"{_MSE} At most {plan.rows} training rows. *Ratio* is `default` over `default-progressive`; `missing` is "
            "the mechanism `uniform` with the truth missing from every tenth row.",
        ],
        (*_PLACE, *_columns(methods), "ratio", "ratio_error"),
        [],
    )
    for mechanism in plan.mechanisms:
        ratios, shown, complete = [], [], _is_whole(results, plan, "mechanisms")
        for cell in cells_of(replace(plan, mechanisms=(mechanism,))):
            errors = {name: results.errors(name, cell, plan.trials) for name in methods}
            pair = compare(*errors.values())
            complete &= pair.trials == plan.trials
            ratios.append(pair.ratio)
            sheet.rows.append([*_place(cell), *_numbers(errors.values()), pair.ratio, pair.ratio_error])
            shown.append([*_named(cell), *_written(errors.values()), ratio_text(pair.ratio, pair.ratio_error)])
        worst = max((ratio for ratio in ratios if isfinite(ratio)), default=float("nan"))
        sheet.bars.append(
            Bar(f"`{mechanism}`, geometric mean of the ratio", geometric_mean(ratios), 1.0, complete=complete)
        )
        sheet.bars.append(Bar(f"`{mechanism}`, largest ratio", worst, 1.1, complete=complete))
        sheet.sections.append(Section(f"`{mechanism}`", ("data set", "|S̄|", *methods, "ratio"), shown))
    return sheet


def held_back(results: Results, plan: Plan) -> Sheet:
    """Look at tables that nothing was tuned on."""
    methods = ("default-supervised", "oracle", "default", "default-progressive")
    sheet = Sheet(
        "Tables held back",
        [
            f"{_MSE} No setting or default was chosen by looking at these tables. At most 5,000 rows of each, split as "
            "the others. *Over supervised* and *over progressive* are ratios of the default's mean error.",
        ],
        (*_PLACE, *_columns(methods), "over_supervised", "over_progressive"),
        [],
    )
    for set_size in plan.set_sizes:
        shown, firsts, seconds = [], [], []
        for cell in _cells(plan, set_size):
            errors = {name: results.errors(name, cell, plan.trials) for name in methods}
            first = compare(errors["default"], errors["default-supervised"])
            second = compare(errors["default"], errors["default-progressive"])
            firsts.append(first.ratio)
            seconds.append(second.ratio)
            sheet.rows.append([*_place(cell), *_numbers(errors.values()), first.ratio, second.ratio])
            ratios = (ratio_text(pair.ratio, pair.ratio_error) for pair in (first, second))
            shown.append([*_named(cell), *_written(errors.values()), *ratios])
        sheet.notes.append(
            f"`{set_size}`: geometric mean over supervised {ratio_text(geometric_mean(firsts))}, over progressive "
            f"{ratio_text(geometric_mean(seconds))}."
        )
        header = ("data set", "|S̄|", *methods, "over supervised", "over progressive")
        sheet.sections.append(Section(_HOW[set_size], header, shown))
    return sheet


def selection(results: Results, plan: Plan) -> Sheet:
    """Measure what choosing without labels loses against choosing by true labels of the same held-out rows."""
    sheet = Sheet(
        "Choosing without labels",
        [
            "Test MSE with the setting chosen by held-out candidate likelihood, over test MSE with the setting that "
            "true labels of the same held-out rows would have chosen: geometric mean over sizes and trials; and, in "
            "per cent, how often both chose the same. 1.00 loses nothing.",
        ],
        ("dataset", "set_size", "method", "choices", "loss", "same_choice"),
        [],
    )
    for set_size in plan.set_sizes:
        shown = []
        every: dict[str, list[float]] = {name: [] for name in plan.methods}
        for dataset in plan.datasets:
            row = [dataset]
            for name in plan.methods:
                losses, same = [], []
                for cell in _cells(replace(plan, datasets=(dataset,)), set_size):
                    for line in results.lines(name, cell, plan.trials).values():
                        if (choice := line.get("selection")) is not None:
                            losses.append(line["test_mse"] / choice["test_mse_by_truth"])
                            same.append(choice["chosen"] == choice["chosen_by_truth"])
                every[name] += losses
                share = 100 * sum(same) / len(same) if same else float("nan")
                loss = geometric_mean(losses)
                sheet.rows.append([dataset, set_size, name, len(losses), loss, share])
                row.append(f"{loss:.3f} ({share:.0f} %)" if losses else "–")
            shown.append(row)
        shown.append(["all", *(f"{geometric_mean(losses):.3f}" if losses else "–" for losses in every.values())])
        sheet.sections.append(Section(_HOW[set_size], ("data set", *plan.methods), shown))
    return sheet


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
            errors = results.errors(method, cell, plan.trials)
            ratios[name].append(compare(errors, whole).ratio)
            shown[name].append(plus_minus(*mean_std(errors)))
            sheet.rows.append([cell.dataset, cell.false_labels, cell.set_size, name, *mean_std(errors), len(errors)])
    header = ("part", *(f"{cell.dataset} {cell.set_size} {cell.false_labels}" for cell in places), "over the default")
    rows = [[*shown[name], f"{geometric_mean(ratios[name]):.2f}"] for name, *_ in _PARTS]
    sheet.sections.append(Section("Test MSE", header, rows))
    return sheet


TABLES: dict[str, Callable[[Results, Plan], Sheet]] = {
    "same-network": same_network,
    "out-of-the-box": out_of_the_box,
    "members": members,
    "oracle": oracle,
    "mechanisms": mechanisms,
    "held-back": held_back,
    "selection": selection,
    "ablation": ablation,
}
"""What makes each table, by the name of its plan."""


def _cells(plan: Plan, set_size: str) -> Iterable[Case]:
    return cells_of(replace(plan, set_sizes=(set_size,)))


def _place(cell: Case) -> list[object]:
    return [cell.dataset, cell.mechanism, cell.false_labels, cell.set_size]


def _named(cell: Case) -> list[str]:
    return [cell.dataset, "–" if cell.false_labels is None else str(cell.false_labels)]


def _columns(methods: Sequence[str]) -> list[str]:
    return [f"{name}{part}" for name in methods for part in ("", " std", " trials")]


def _numbers(errors: Iterable[dict[int, float]]) -> list[object]:
    return [value for found in errors for value in (*mean_std(found), len(found))]


def _written(errors: Iterable[dict[int, float]]) -> list[str]:
    return [plus_minus(*mean_std(found)) for found in errors]


def _ratio(errors: dict[str, dict[int, float]], first: str, second: str) -> float:
    return compare(errors[first], errors[second]).ratio


def _is_whole(results: Results, plan: Plan, name: str) -> bool:
    """Return whether a table has all that its bars are about: they hold for no part of it."""
    whole = PLANS[name]
    return plan == replace(whole, methods=plan.methods) and not results.quick


def _count(words: str, count: int, wanted: int, places: Sequence[object], complete: bool) -> Bar:
    return Bar(words, count, wanted, at_least=True, complete=complete, shown=f"{count} of {len(places)}")
