"""Which weighting, and with which parameters? A grid search that never sees a true label.

    python examples/grid_search.py

One of the paper's data sets, each true label among four false ones. scikit-learn's GridSearchCV tries weightings, their
parameters and one of the network's, and scores them by how likely held-out candidate sets are under the model, for
which no true label is needed. There are two such scores:

- `PartialLabelRegressor.score`, which takes noise and density of false labels from the model's own weighting, and the
  noise to be at least as wide as it was on training rows;
- `plr.metrics.candidate_likelihood_scorer`, for which all models have the same noise, as wide as held-out rows show.

Shows: a grid over the parts of a model, and how good a choice without labels is. Because the labels are known here
after all, a third score looks at them, only to be reported. Half a minute on two cores. Needs the extra `datasets`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, train_test_split

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.learners import MLP
from plr.metrics import candidate_likelihood_scorer
from plr.paper.datasets import REGISTRY, load
from plr.weighting import Average, Identify, Posterior, Progressive
from support import judge, options, print_results

DECAY = {"learner__weight_decay": [0.01, 1.0]}
GRID = [
    {"weighting": [Average()], **DECAY},
    {"weighting": [Identify()], **DECAY},
    {"weighting": [Progressive()], "weighting__beta2": [0.1, 1.0, 10.0], **DECAY},
    {"weighting": [Posterior()], "weighting__noise": ["student", "gaussian", "laplace"], **DECAY},
]
SMALL_GRID = [
    {"weighting": [Average()]},
    {"weighting": [Progressive()], "weighting__beta2": [0.1, 10.0]},
    {"weighting": [Posterior()]},
]


def described(setting: dict[str, object]) -> str:
    """Say in a few words what a setting is: the weighting, then the parameters."""
    name = type(setting["weighting"]).__name__.lower()
    others = [f"{key.rpartition('__')[2]}={value}" for key, value in setting.items() if "__" in key]
    return " ".join([name, *sorted(others)])


def main() -> None:
    given = options(
        __doc__,
        dataset={"default": "concrete", "choices": sorted(REGISTRY), "help": "one of the paper's (default: concrete)"},
        false_labels={"type": int, "default": 4, "help": "in each row, beside the true one (default: 4)"},
    )
    data = load(given.dataset)
    rows = np.random.default_rng(given.seed).permutation(len(data))[: 400 if given.small else None]
    # A frame remembers which rows it holds: the one way for a score to look up labels that nothing else is told.
    X, truth = pd.DataFrame(data.X[rows], columns=data.feature_names), data.target[rows]
    S = make_candidates(truth, given.false_labels, set_size="fixed", random_state=given.seed)
    train, test = train_test_split(np.arange(len(X)), test_size=0.25, random_state=given.seed)

    def closeness(model: PartialLabelRegressor, X: pd.DataFrame, _: CandidateSets) -> float:
        return -root_mean_squared_error(truth[X.index], model.predict(X))

    learner = MLP(epochs=300)
    search = GridSearchCV(
        PartialLabelRegressor(learner, random_state=given.seed),
        SMALL_GRID if given.small else GRID,
        scoring={"score": PartialLabelRegressor.score, "likelihood": candidate_likelihood_scorer, "truth": closeness},
        refit="likelihood",
        cv=KFold(3 if given.small else 5, shuffle=True, random_state=given.seed),
    ).fit(X.iloc[train], S[train])

    table = pd.DataFrame(search.cv_results_).sort_values("mean_test_likelihood", ascending=False)
    print(f"{len(table)} settings, best first by the likelihood of held-out candidates; the error takes true labels\n")
    print(f"  {'setting':<45}{'likelihood':>12}{'score':>9}{'error':>9}")
    for line in table.itertuples():
        figures = f"{line.mean_test_likelihood:>12.3f}{line.mean_test_score:>9.3f}{-line.mean_test_truth:>9.3f}"
        print(f"  {described(line.params):<45}{figures}")
    agreement = [spearmanr(table[f"mean_test_{name}"], table["mean_test_truth"])[0] for name in ("likelihood", "score")]
    print(f"\nRank correlation with the labels' order: likelihood {agreement[0]:.2f}, score {agreement[1]:.2f}\n")

    def fitted(chosen_by: str, target: object) -> PartialLabelRegressor:
        model = PartialLabelRegressor(learner, random_state=given.seed)
        setting = table.loc[table[f"mean_test_{chosen_by}"].idxmax(), "params"]
        return model.set_params(**setting).fit(X.iloc[train], target)

    naive = PartialLabelRegressor(learner, "average", random_state=given.seed)
    models = {
        "true labels": fitted("likelihood", truth[train]),
        "candidates, chosen by likelihood": search.best_estimator_,
        "candidates, chosen by score": fitted("score", S[train]),
        "candidates, chosen by true labels": fitted("truth", S[train]),
        "candidates, average (naive)": naive.fit(X.iloc[train], S[train]),
    }
    print_results(
        f"{data.name}: {len(train):,} rows with {1 + given.false_labels} candidates each; {len(test):,} test rows",
        "label units",
        1 / (1 + given.false_labels),
        [
            judge(name, truth[test], model.predict(X.iloc[test]), model.identify(X.iloc[test], S[test]).value)
            for name, model in models.items()
        ],
    )


if __name__ == "__main__":
    main()
