"""The paper's Theorems 1 to 4, checked where their conditions hold: a noise-free truth that the model class contains.

Theorems 1 and 3 say that identification and progressive identification have the supervised model as their only optimum
if no false label always accompanies the truth (ambiguity degree below 1); Theorems 2 and 4 that their estimation error
falls in the order of 1/√n. Three experiments: a linear truth, solved; a network as the truth, trained; and a linear
truth with one false label per row, which in a share γ of the rows, the ambiguity degree, is a fixed function of x.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.contracts import Fitted, Learner, Task
from plr.errors import ConvergenceWarning
from plr.generation import make_candidates
from plr.learners import MLP, Linear
from plr.losses import Squared
from plr.paper.figures import drawing, look_of
from plr.weighting import Average, Identify, Progressive, Weighting
from plr.weighting.rule import Rule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FULL", "SMALL", "Curve", "TheorySettings", "check_theory", "draw_theory", "fit_slope", "run_theory"]

Floats = NDArray[np.float64]
Truth = Callable[[Floats], Floats]

_FEATURES = {"linear": 5, "network": 3, "ambiguity": 5}
_UNITS = 8
_FALSE_LABELS = 4
_TEST_ROWS = 4000
# Below these shares of the label variance an error is what arithmetic, or the optimiser, leaves: nothing more can fall.
_LINEAR_FLOOR, _NETWORK_FLOOR = 1e-12, 1e-4
_BATCH = 128

_WEIGHTINGS: dict[str, Weighting] = {
    "Supervised": Average(),
    "AVGL-MSE": Average(),
    "IDent": Identify(),
    "PIDent": Progressive(beta1=0.5, beta2=10.0),
}

# Exact up to rounding: drawn on this line, or the picture would be mostly empty.
_LEAST = 1e-12
_TITLES = {"linear": "Linear truth", "network": "Network as the truth", "ambiguity": "Ambiguity degree γ"}
_DASHES: tuple[Any, ...] = ((0, (1, 1.5)), (0, (4, 1.5)), "solid")


@dataclass(frozen=True)
class TheorySettings:
    """How large the experiments are.

    Attributes
    ----------
    linear_sizes, network_sizes : tuple of int
        Numbers of training rows.
    linear_trials, network_trials : int
    steps : int
        Training steps of a network, whatever the number of rows.
    ambiguities : tuple of float
        Ambiguity degrees γ of the third experiment.
    seed : int
    """

    linear_sizes: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    network_sizes: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
    linear_trials: int = 40
    network_trials: int = 6
    steps: int = 8000
    ambiguities: tuple[float, ...] = (0.9, 0.99, 1.0)
    seed: int = 0


FULL = TheorySettings()

SMALL = TheorySettings(
    linear_sizes=(32, 128, 512),
    network_sizes=(64, 2048),
    linear_trials=8,
    network_trials=2,
    steps=4000,
    ambiguities=(0.9, 1.0),
)


@dataclass(frozen=True)
class Curve:
    """Excess risk against the number of rows.

    Attributes
    ----------
    experiment : {"linear", "network", "ambiguity"}
    method : str
    ambiguity : float
        Ambiguity degree; 0 for false labels drawn from a density.
    sizes : tuple of int
    excess, standard_error : tuple of float
        Mean over trials of the squared distance to the truth on fresh rows, as a share of the truth's variance.
    slope, slope_error : float or None
        Of log excess against log n, up to where it reaches the floor, and its standard error; None with one point.
    limit : float or None
        What the excess of AVGL-MSE tends to: with s false labels around their mean m its optimum is (f + s·m)/(s + 1).
    at_truth, at_shifted : tuple of float
        Share of trials that end at the truth f, and at f + c, its twin; only where c exists.
    """

    experiment: str
    method: str
    ambiguity: float
    sizes: tuple[int, ...]
    excess: tuple[float, ...]
    standard_error: tuple[float, ...]
    slope: float | None
    slope_error: float | None
    limit: float | None = None
    at_truth: tuple[float, ...] = ()
    at_shifted: tuple[float, ...] = ()


def run_theory(settings: TheorySettings = FULL, progress: Callable[[str], object] = lambda _: None) -> list[Curve]:
    """Run the three experiments.

    Parameters
    ----------
    settings : TheorySettings
    progress : callable
        Called with a description of each step that is done.
    """
    curves = []
    for experiment in ("linear", "network"):
        for method in _WEIGHTINGS:
            curves.append(_run(experiment, method, settings))
            progress(f"{experiment} truth, {method}")
    for ambiguity in settings.ambiguities:
        for method in ("IDent", "PIDent"):
            curves.append(_run("ambiguity", method, settings, ambiguity))
            progress(f"ambiguity degree {ambiguity:g}, {method}")
    return curves


def check_theory(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """State what the theorems predict, and whether the curves bear it out."""
    checks: dict[str, bool] = {}
    for experiment, floor in (("linear", _LINEAR_FLOOR), ("network", _NETWORK_FLOOR)):
        found = {curve.method: curve for curve in curves if curve.experiment == experiment}
        for method in ("IDent", "PIDent"):
            curve, reached = found[method], max(floor, 2.0 * found["Supervised"].excess[-1])
            falls = curve.slope is not None and curve.slope <= -0.5
            checks[f"{experiment}: the excess risk of {method} falls with slope −1/2 or steeper"] = falls
            checks[f"{experiment}: {method} reaches the supervised model"] = curve.excess[-1] <= reached
        average = found["AVGL-MSE"]
        levels = average.limit is not None and abs(average.excess[-1] / average.limit - 1.0) < 0.2
        checks[f"{experiment}: the excess risk of AVGL-MSE levels off at its bias"] = levels
    for curve in (curve for curve in curves if curve.experiment == "ambiguity"):
        what = f"ambiguity degree {curve.ambiguity:g}: {curve.method}"
        if curve.ambiguity < 1:
            checks[f"{what} reaches the truth"] = curve.excess[-1] <= _LINEAR_FLOOR
        else:
            fails = curve.excess[-1] > 0.1 and curve.at_shifted[-1] > 0
            checks[f"{what} fails, as it must: it ends at f + c as well as at f"] = fails
    return [{"statement": statement, "holds": holds} for statement, holds in checks.items()]


def fit_slope(sizes: Sequence[int], excess: Sequence[float], floor: float = 0.0) -> tuple[float | None, float | None]:
    """Fit log excess = intercept + slope · log n, up to the first point at the floor, which is raised to it.

    Raising to the floor can only make the slope flatter.

    Returns
    -------
    slope, standard error : float or None
        The error is None with two points, both with fewer.

    Examples
    --------
    >>> slope, error = fit_slope([10, 100, 1000], [1.0, 0.1, 0.01])
    >>> round(slope, 6), error < 1e-6
    (-1.0, True)
    """
    below = [place for place, value in enumerate(excess) if value <= floor]
    last = below[0] + 1 if below else len(excess)
    if last < 2:
        return None, None
    x, y = np.log(sizes[:last]), np.log(np.maximum(excess[:last], floor))
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    if last == 2:
        return slope, None
    residual = y - y.mean() - slope * centred
    return slope, float(np.sqrt(residual @ residual / (last - 2) / (centred @ centred)))


def _run(experiment: str, method: str, settings: TheorySettings, ambiguity: float = 0.0) -> Curve:
    network, ambiguous = experiment == "network", experiment == "ambiguity"
    sizes = settings.network_sizes if network else settings.linear_sizes
    trials = settings.network_trials if network else settings.linear_trials
    floor = _NETWORK_FLOOR if network else _LINEAR_FLOOR
    errors = np.empty((len(sizes), trials))
    shifted = np.empty_like(errors)
    limits = np.empty(trials)
    for trial in range(trials):
        truth = _draw_truth(experiment, [settings.seed, trial])
        for place, rows in enumerate(sizes):
            seeds = [settings.seed, trial, rows, *([round(1000 * ambiguity)] if ambiguous else [])]
            random = np.random.default_rng(seeds)
            X, test = (random.normal(size=(number, _FEATURES[experiment])) for number in (rows, _TEST_ROWS))
            y, target = truth(X), truth(test)
            if ambiguous:
                model = _best_start(X, _accompanied(X, y, ambiguity, random), method, random)
            else:
                sets = CandidateSets(y, np.arange(len(y) + 1))
                if method != "Supervised":
                    seed = int(random.integers(2**31))
                    sets = make_candidates(y, _FALSE_LABELS, set_size="fixed", random_state=seed)
                model = _fit(_network(rows, settings.steps) if network else Linear(), X, sets, method, seed=trial)
            predicted, variance = model.predict(test), np.var(target)
            errors[place, trial] = np.mean((predicted - target) ** 2) / variance
            other = target + _companion(test)
            shifted[place, trial] = np.mean((predicted - other) ** 2) / np.var(other)
        # The candidates' false labels average to the middle of the span, of the largest sample here.
        bias = (0.5 * (y.min() + y.max()) - target) * _FALSE_LABELS / (_FALSE_LABELS + 1)
        limits[trial] = np.mean(bias**2) / variance
    excess = errors.mean(axis=1)
    deviation = errors.std(axis=1, ddof=1) / np.sqrt(trials) if trials > 1 else np.zeros(len(sizes))
    slope, slope_error = fit_slope(sizes, excess.tolist(), floor)
    return Curve(
        experiment=experiment,
        method=method,
        ambiguity=ambiguity,
        sizes=sizes,
        excess=tuple(excess.tolist()),
        standard_error=tuple(deviation.tolist()),
        slope=slope,
        slope_error=slope_error,
        limit=float(limits.mean()) if method == "AVGL-MSE" else None,
        at_truth=tuple((errors <= floor).mean(axis=1).tolist()) if ambiguous else (),
        at_shifted=tuple((shifted <= floor).mean(axis=1).tolist()) if ambiguous else (),
    )


def _draw_truth(experiment: str, seed: list[int]) -> Truth:
    random = np.random.default_rng(seed)
    features = _FEATURES[experiment]
    if experiment != "network":
        direction = random.normal(size=features)
        direction /= np.linalg.norm(direction)
        return lambda X: X @ direction + 1.0
    inner, bias, outer = random.normal(size=(features, _UNITS)), random.normal(size=_UNITS), random.normal(size=_UNITS)
    return lambda X: np.tanh(X @ inner + bias) @ outer


def _network(rows: int, steps: int) -> MLP:
    # Twice the units of the truth, so that it contains it and gradient steps find it; no decay, which would forbid it.
    return MLP(
        hidden=(2 * _UNITS,),
        activation="tanh",
        epochs=max(10, steps // -(-rows // _BATCH)),
        batch_size=_BATCH,
        optimizer="adam",
        learning_rate=0.01,
        schedule="cosine",
        weight_decay=0.0,
        dtype="float64",
    )


def _companion(X: Floats) -> Floats:
    """Return c(x), a linear function, so that f + c is a model like any other."""
    return 2.0 + 0.5 * X[:, 0]


def _accompanied(X: Floats, y: Floats, ambiguity: float, random: np.random.Generator) -> CandidateSets:
    """Return sets of two: the truth, and either y + c(x), with probability γ, or a label from anywhere."""
    elsewhere = random.uniform(y.min(), y.max() + 2.0, len(y))
    false = np.where(random.random(len(y)) < ambiguity, y + _companion(X), elsewhere)
    pairs = random.permuted(np.column_stack([y, false]), axis=1)
    return CandidateSets(pairs.ravel(), np.arange(0, 2 * len(y) + 1, 2))


def _best_start(X: Floats, S: CandidateSets, method: str, random: np.random.Generator) -> Fitted:
    """Fit from three starts, all mean, lowest and highest candidates, and keep the least training loss.

    The theorems are about the optimum, and one start may miss it. Ties are broken by lot: nothing in the data could.
    """
    pairs = np.asarray(S.values).reshape(-1, 2)
    highest = (pairs == pairs.max(axis=1, keepdims=True)).astype(float)
    starts = (None, (1.0 - highest).ravel(), highest.ravel())
    models = [_fit(Linear(), X, S, method, start=start) for start in starts]
    losses = np.array([model.report.loss[-1] for model in models])
    least = np.flatnonzero(losses <= losses.min() + 1e-12)
    return models[int(random.choice(least))]


def _fit(
    learner: Learner, X: Floats, S: CandidateSets, method: str, *, start: Floats | None = None, seed: int = 0
) -> Fitted:
    with warnings.catch_warnings():
        # Few rows with many candidates may leave the weights going in circles; the error then says so too.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learner.fit(Task(X, S, Rule(_WEIGHTINGS[method], Squared()), start=start, seed=seed))


def draw_theory(curves: Sequence[Curve]) -> Figure:
    """Draw the three experiments side by side, both axes logarithmic."""
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10.5, 4.4), layout="constrained")
        panels = figure.subplots(1, 3)
        for axes, experiment in zip(panels, _TITLES, strict=True):
            found = [curve for curve in curves if curve.experiment == experiment]
            _draw_panel(axes, found)
            axes.set_title(_TITLES[experiment], loc="left")
            axes.set_xlabel("training rows n")
            if experiment != "network":
                place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 4), "textcoords": "offset points"}
                axes.annotate("exact up to rounding", (0.98, _LEAST), ha="right", va="bottom", fontsize=6.5, **place)
        panels[0].set_ylabel("excess risk / variance of the truth")
    return figure


def _draw_panel(axes: Axes, curves: list[Curve]) -> None:
    degrees = sorted({curve.ambiguity for curve in curves})
    for curve in curves:
        look = look_of(curve.method)
        is_ambiguous = curve.experiment == "ambiguity"
        axes.plot(
            curve.sizes,
            [max(value, _LEAST) for value in curve.excess],
            color=look.color,
            marker=look.marker or "x",
            linestyle=_DASHES[degrees.index(curve.ambiguity) % 3] if is_ambiguous else look.dash,
            # Methods that do equally well would hide each other.
            markersize=6.5 if curve.method == "IDent" else 3.8,
            markerfacecolor="none" if curve.method == "IDent" else None,
            label=_label(curve),
        )
        if curve.limit is not None:
            axes.axhline(curve.limit, color=look.color, linewidth=0.6)
    # The slope −1/2 that the theorems promise, from the first point of IDent.
    start = next(curve for curve in curves if curve.method == "IDent")
    first, last, height = start.sizes[0], start.sizes[-1], max(start.excess[0], _LEAST)
    end = height * (first / last) ** 0.5
    axes.plot([first, last], [height, end], color="#9a9a9a", linewidth=0.8)
    axes.annotate("$n^{-1/2}$", (last, end), ha="right", va="top", fontsize=6.5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(curves[0].sizes[::2], [str(size) for size in curves[0].sizes[::2]])
    # Below the panel: above it, every corner has a curve in it.
    axes.legend(fontsize=7, handlelength=3, loc="upper left", bbox_to_anchor=(0, -0.19), borderaxespad=0)


def _label(curve: Curve) -> str:
    if curve.experiment == "ambiguity":
        return f"{curve.method}, γ = {curve.ambiguity:g}"
    if curve.slope is None:
        return curve.method
    error = "" if curve.slope_error is None else f" ± {curve.slope_error:.2f}"
    return f"{curve.method}, slope {f'{curve.slope:.2f}'.replace('-', '−')}{error}"
