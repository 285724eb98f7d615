"""What checked rows buy: held-out log loss of the truth against their number, chosen by the review and at random.

    python benchmarks/real/review_curve.py [--data FOLDER] [--draws 30] [--out results/real] [--picture]

Made-up tables of several kinds, and those of FOLDER (NAME.rows.csv and NAME.pairs.csv) where it is given. Rows are
checked ten at a time; after each ten, what makes candidates believable is learned again, and rows that never take part
are asked. The area under the curve from 10 to 100 checked rows is compared, as it is and above what is left when all
rows are checked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from plr import CandidateSets
from plr.candidates.known import read_known
from plr.preprocessing.features import learn_encoding
from plr.priors.dependence import Dependence
from plr.priors.learned import RowFeatures, learn_belief
from plr.priors.logit import Alternatives
from plr.priors.smoothing import KernelSmoother
from plr.review import choose_rows

STEP, MOST = 10, 100
CHOICES = ("review", "random")
MADE_UP_ROWS = 300


@dataclass
class Table:
    """Rows, their candidates, and which of these are true; a row whose truth is missing has none."""

    X: Any
    S: CandidateSets
    true: Any

    def take(self, rows: Any) -> Table:
        """Return some of the rows."""
        true = CandidateSets(self.true.astype(float), self.S.offsets)[rows].values > 0
        return Table(self.X[rows], self.S[rows], true)


def make_table(kind: str, rows: int, rng: np.random.Generator) -> Table:
    """Make a table of one kind: false candidates lie near the truth, and features of candidates tell most of them."""
    X = rng.normal(size=(rows, 6))
    truth = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + 0.5 * rng.normal(size=rows)
    sizes = rng.integers(3, 8, size=rows)
    offsets = np.append(0, np.cumsum(sizes))
    row, count = np.repeat(np.arange(rows), sizes), int(offsets[-1])
    features: dict[str, Any] = {}
    away, worth = rng.normal(size=count), np.zeros(count)
    if "sources" in kind:
        # Some sources are rare, none is twice in a row, and which of them are good is nowhere said.
        rare = np.log([0.34, 0.28, 0.18, 0.08, 0.05, 0.03, 0.02, 0.02])
        order = np.argsort(-rare - rng.gumbel(size=(rows, len(rare))), axis=1)
        source = order[np.arange(len(rare)) < sizes[:, None]]
        worth += 5.0 * rng.permutation(len(rare))[source]
        features["source"] = np.array([f"shop {place}" for place in source])
    if "scores" in kind:
        # In most rows all matches are about as good.
        spread = np.where(rng.random(rows) < 0.3, 0.3, 0.05)[row]
        features["score"] = rng.beta(2, 2, size=rows)[row] + spread * rng.normal(size=count)
        worth += rng.uniform(40.0, 80.0) * features["score"]
    if kind == "near and far":
        away *= np.where(rng.random(count) < 0.5, 3.0, 0.5)
        features["age"] = rng.exponential(size=count)
        worth -= 10.0 * features["age"]
    if kind == "leaning":
        away = np.where(rng.random(count) < 0.97, 1.0, -1.0) * np.abs(away)
    # The likeliest of each row, with noise that makes it a draw from the softmax of what candidates are worth.
    noisy = worth + rng.gumbel(size=count)
    true = noisy == Alternatives(offsets).max(noisy)[row]
    values = np.where(true, truth[row], truth[row] + away)
    return Table(X, CandidateSets(values, offsets, features=features), true)


KINDS = ("sources", "scores", "scores and sources", "near and far", "leaning")


def read_table(folder: Path, name: str) -> Table:
    """Read a table of the folder: log prices, and 40 components of the titles' TF-IDF as features."""
    import pandas as pd
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    rows, pairs = pd.read_csv(folder / f"{name}.rows.csv"), pd.read_csv(folder / f"{name}.pairs.csv")
    titles = rows.title.fillna("")
    X = TruncatedSVD(40, random_state=0).fit_transform(TfidfVectorizer().fit_transform(titles))
    X = np.column_stack([X, titles.str.len().to_numpy(float)])
    place = {key: at for at, key in enumerate(rows.row)}
    pairs = pairs.assign(place=pairs.row.map(place)).sort_values("place", kind="stable")
    offsets = np.searchsorted(pairs.place, np.arange(len(rows) + 1))
    S = CandidateSets(np.log(pairs.price), offsets, features={"score": pairs.score.to_numpy()}, record=pairs.record)
    return Table(X, S, pairs.is_match.to_numpy().astype(bool))


def curve(table: Table, choice: str, seed: int, new: Table) -> list[float]:
    """Return the held-out log loss with 10, 20, … checked rows, and with all."""
    rng = np.random.default_rng([seed, CHOICES.index(choice)])
    S, rows = table.S, len(table.S)
    features = RowFeatures(None, learn_encoding(table.X, (), None))
    encoded = features.encoding.apply(table.X)
    folds = np.array_split(np.random.default_rng(seed).permutation(rows), 5)
    smoother = KernelSmoother(encoded, folds)
    has = np.logical_or.reduceat(table.true, S.offsets[:-1])
    label = np.full(rows, np.nan)
    label[S.row_index[table.true]] = S.values[table.true]
    losses, looked_at = [], np.zeros(rows, dtype=bool)

    def believe() -> Any:
        answers = np.where(looked_at & ~has, "none of these", "")
        answered = pa.table({"value": np.where(looked_at, label, np.nan), "answer": answers})
        known = read_known(answered, S) if looked_at.any() else None
        belief = learn_belief(S, features, smoother, Dependence(0.5, 0.2), known)
        return belief, known, smoother.fit(belief.labels), smoother.out_of_fold(belief.labels)

    belief, known, function, prediction = believe()
    for _ in range(STEP, MOST + 1, STEP):
        if choice == "random":
            chosen = rng.choice(np.flatnonzero(~looked_at & (S.sizes > 1)), STEP, replace=False)
        else:
            matrix, coefficients, precision = belief.prior.design(S, prediction, table.X)
            nobody = np.zeros(rows, dtype=bool)
            found = nobody if known is None else known.found(S)
            open_rows = ~looked_at & (S.sizes > 1)
            chosen = choose_rows(
                STEP, S, belief.probabilities, open_rows, matrix, coefficients, precision, found, encoded, rng
            )[0]
        looked_at[chosen] = True
        belief, known, function, prediction = believe()
        losses.append(_held_out(belief, function, features, new))
    looked_at[:] = True
    belief, known, function, _ = believe()
    return [*losses, _held_out(belief, function, features, new)]


def _held_out(belief: Any, function: Any, features: RowFeatures, new: Table) -> float:
    there = np.logical_or.reduceat(new.true, new.S.offsets[:-1])
    probabilities, _ = belief.prior.probabilities(new.S, function.predict(features.encode(new.X)), new.X)
    sets = Alternatives(new.S.offsets)
    right = sets.sum(probabilities * new.true) / sets.sum(probabilities)
    return float(-np.log(np.maximum(right[there], 1e-9)).mean())


def measure(name: str, draws: int, draw: Callable[[int], tuple[Table, Table]]) -> dict[str, Any]:
    """Return the curves of one kind of table, and how the areas under them compare."""
    curves: dict[str, Any] = {choice: [] for choice in CHOICES}
    for seed in range(draws):
        table, new = draw(seed)
        for choice in CHOICES:
            curves[choice].append(curve(table, choice, seed, new))
    review, random = (np.trapezoid(np.array(curves[choice])[:, :-1], axis=1) / 9 for choice in CHOICES)
    floor = np.array([found[-1] for found in curves["random"]])
    result = {
        "review": review.mean(),
        "random": random.mean(),
        "all_checked": floor.mean(),
        "ratio": review.mean() / random.mean(),
        "ratio_above_all_checked": (review - floor).mean() / (random - floor).mean(),
        "standard_error": (review - random).std() / np.sqrt(draws) / random.mean(),
    }
    print(name, ", ".join(f"{key} {value:.4f}" for key, value in result.items()), flush=True)
    return {"name": name, **result, "curves": curves}


def draw_picture(results: list[dict[str, Any]], path: Path) -> None:
    """Draw the mean curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(results), 3.4), layout="constrained")
    axes = figure.subplots(1, len(results), squeeze=False)[0]
    checked = np.arange(STEP, MOST + 1, STEP)
    for axis, result in zip(axes, results, strict=True):
        for choice, colour in zip(CHOICES, ("#0072b2", "#c4520a"), strict=True):
            every = np.array(result["curves"][choice])[:, :-1]
            middle, error = every.mean(axis=0), every.std(axis=0) / np.sqrt(len(every))
            axis.plot(checked, middle, color=colour, label=f"chosen by {choice}" if choice == "review" else "random")
            axis.fill_between(checked, middle - error, middle + error, color=colour, alpha=0.2, linewidth=0)
        floor = np.mean([found[-1] for found in result["curves"]["random"]])
        axis.axhline(floor, color="#8d8a84", linestyle="--", label="all rows checked")
        axis.set(title=result["name"], xlabel="checked rows", ylabel="held-out log loss")
    axes[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with NAME.rows.csv and NAME.pairs.csv")
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--out", type=Path, default=Path("results/real"))
    parser.add_argument("--picture", action="store_true")
    asked = parser.parse_args()

    def made_up(kind: str) -> Callable[[int], tuple[Table, Table]]:
        def draw(seed: int) -> tuple[Table, Table]:
            whole = make_table(kind, 2 * MADE_UP_ROWS, np.random.default_rng([seed, KINDS.index(kind)]))
            return whole.take(np.arange(MADE_UP_ROWS)), whole.take(np.arange(MADE_UP_ROWS, 2 * MADE_UP_ROWS))

        return draw

    def real(name: str) -> Callable[[int], tuple[Table, Table]]:
        whole = read_table(asked.data, name)

        def draw(seed: int) -> tuple[Table, Table]:
            order = np.random.default_rng(seed).permutation(len(whole.S))
            held_out = len(order) // 5
            return whole.take(order[held_out:]), whole.take(order[:held_out])

        return draw

    threadpool_limits(1)
    results = [measure(kind, asked.draws, made_up(kind)) for kind in asked.kinds]
    if asked.data is not None:
        names = sorted(path.name.removesuffix(".rows.csv") for path in asked.data.glob("*.rows.csv"))
        results += [measure(name, asked.draws, real(name)) for name in names]
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "review_curve.json").write_text(json.dumps(results, indent=1) + "\n")
    if asked.picture:
        draw_picture(results, asked.out / "review_curve.svg")


if __name__ == "__main__":
    main()
