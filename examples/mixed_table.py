"""What is the rent of a flat? A table of mixed types, where a join on the address finds several rents per flat.

    python examples/mixed_table.py

One file describes flats: numbers, categories, yes and no, and gaps. Another lists rents, but only by building. Joined,
each flat has the rents of all flats in its building as candidates (one to four); which one is its own, nobody wrote
down. Both files are made here. False rents are not random: they are true of a flat next door.

Shows three ways to fit a table with categories and gaps:

- preprocessing in front, in a Pipeline whose last step is the regressor;
- preprocessing inside, in a Pipeline that is the regressor's learner (a random forest);
- no preprocessing: the boosting learner takes the frame as it is.

And `CandidateSets.from_long` for the joined table, `groups` that keep the flats of a building in one fold, and
`identify` for the training flats. Test flats are in other buildings. About a minute on two cores.

The network does nearly as well as with true rents. The trees do so for most flats, but fall behind on the dearest, as
the last line of the output shows: the weightings take false values to be spread evenly, while the rents next door are
common ones, and with few dear flats to learn from, trees take them for true.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from plr import CandidateSets, Identification, PartialLabelRegressor
from support import Row, judge, options, print_results

# Euros per square metre.
DISTRICTS = {"Altstadt": 19.0, "Hafen": 16.5, "Nordend": 14.0, "Westpark": 12.5, "Am Ring": 11.0, "Siedlung": 9.5}
HEATING = {"district": 1.0, "gas": 0.97, "heat pump": 1.06, "oil": 0.92}


def make_flats(buildings: int, random: np.random.Generator) -> tuple[pd.DataFrame, pd.Series]:
    """Make flats with gaps in their description, and their rents."""
    homes = pd.DataFrame(
        {
            "district": random.choice(list(DISTRICTS), size=buildings),
            "heating": random.choice(list(HEATING), size=buildings),
            "built": random.integers(1890, 2024, size=buildings),
            "lift": random.random(buildings) < 0.4,
        },
        index=pd.RangeIndex(buildings, name="building"),
    )
    flats = homes.loc[np.repeat(homes.index, random.integers(1, 5, size=buildings))].reset_index()
    count = len(flats)
    flats["area"] = np.round(random.gamma(6, 12, size=count) + 18)
    flats["rooms"] = np.clip(np.round(flats["area"] / 28 + random.normal(0, 0.5, size=count)), 1, 7)
    flats["floor"] = random.integers(0, 6, size=count)
    flats["kitchen"] = random.choice(["none", "simple", "fitted"], p=[0.3, 0.4, 0.3], size=count)
    rent = (
        (60 + flats["area"] * flats["district"].map(DISTRICTS).to_numpy())
        * flats["heating"].map(HEATING)
        * (1 + 0.15 * np.abs((flats["built"] - 1955) / 65) ** 2)
        * flats["kitchen"].map({"none": 0.95, "simple": 1.0, "fitted": 1.1})
        * np.where(flats["lift"], 1 + 0.02 * flats["floor"], 1 - 0.02 * flats["floor"])
        * np.exp(random.normal(0, 0.05, size=count))
    ).round()
    for column, share in {"rooms": 0.2, "built": 0.15, "heating": 0.1, "kitchen": 0.1}.items():
        flats[column] = flats[column].where(random.random(count) >= share)
    return flats, rent.rename("rent")


def candidates_of(flats: pd.DataFrame, rent: pd.Series, random: np.random.Generator) -> CandidateSets:
    """Join flats with a list of rents that names the building alone."""
    rents = pd.DataFrame({"building": flats["building"], "rent": rent}).sample(frac=1.0, random_state=random)
    joined = flats[["building"]].reset_index(names="flat").merge(rents, on="building")
    return CandidateSets.from_long(joined, row="flat", value="rent", rows=flats.index)


def preprocessing() -> Any:
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        sparse_threshold=0,
    )


def fitted(model: Any, X: pd.DataFrame, target: object, building: pd.Series) -> Any:
    # A pipeline wants to be told for which of its steps the groups are.
    name = "partiallabelregressor__groups" if isinstance(model, Pipeline) else "groups"
    return model.fit(X, target, **{name: building})


def identified(model: Any, X: pd.DataFrame, S: CandidateSets) -> Identification:
    # Identifying is what the last step of a pipeline can do, with features as they come out of the steps before.
    return model[-1].identify(model[:-1].transform(X), S) if isinstance(model, Pipeline) else model.identify(X, S)


def main() -> None:
    given = options(__doc__)
    random = np.random.default_rng(given.seed)
    flats, rent = make_flats(200 if given.small else 700, random)
    flats_test, rent_test = make_flats(60 if given.small else 300, random)
    S, S_test = candidates_of(flats, rent, random), candidates_of(flats_test, rent_test, random)
    X, X_test = flats.drop(columns="building"), flats_test.drop(columns="building")
    forest = RandomForestRegressor(n_estimators=10 if given.small else 50, min_samples_leaf=2)

    def in_front(weighting: str) -> Pipeline:
        return make_pipeline(preprocessing(), PartialLabelRegressor("mlp", weighting, random_state=given.seed))

    def inside(weighting: str) -> PartialLabelRegressor:
        learner = make_pipeline(preprocessing(), forest)
        return PartialLabelRegressor(learner, weighting, cv=3 if given.small else 5, random_state=given.seed)

    def none(weighting: str) -> PartialLabelRegressor:
        return PartialLabelRegressor("boosting", weighting, random_state=given.seed)

    def scored(trained_on: str, model: Any) -> Row:
        return judge(trained_on, rent_test, model.predict(X_test), identified(model, X_test, S_test).value)

    print(f"{X.head(3).to_string(index=False)}\n")
    ways = {
        "a network, preprocessing in front": in_front,
        "a random forest, preprocessing inside": inside,
        "boosting, no preprocessing": none,
    }
    for name, way in ways.items():
        model = fitted(way("posterior"), X, S, flats["building"])
        print_results(
            f"Rents by {name}: {len(S):,} flats with 1 to 4 candidates each; {len(S_test):,} test flats",
            "euros",
            float(np.mean(1 / S_test.sizes)),
            [
                scored("true labels", fitted(way("posterior"), X, rent, flats["building"])),
                scored("candidates, posterior", model),
                scored("candidates, average (naive)", fitted(way("average"), X, S, flats["building"])),
            ],
        )
        print()
    look(model, flats, S, rent)
    miss, dear = model.predict(X_test) - rent_test, rent_test >= rent_test.quantile(0.8)
    print(f"Mean miss of boosting: {miss[dear].mean():+.0f} euros in the dearest fifth of the test flats,")
    print(f"{miss[~dear].mean():+.0f} in the others")


def look(model: PartialLabelRegressor, flats: pd.DataFrame, S: CandidateSets, rent: pd.Series) -> None:
    """Print some training flats with what was identified."""
    found = model.identify()
    shown = flats[["district", "area", "kitchen"]].assign(
        candidates=[" ".join(f"{value:.0f}" for value in values) for values in S.to_lists()],
        identified=found.value,
        probability=found.probability.round(2),
        truth=rent,
    )
    print(f"The first flats, identified by models that have not seen their building:\n{shown.head(6).to_string()}\n")
    right, open_ones = found.value == rent, S.sizes > 1
    sure = open_ones & (found.probability > 0.9)
    print(f"Identified: {right[open_ones].mean():.1%} of the {open_ones.sum():,} flats with more than one candidate,")
    print(f"and {right[sure].mean():.1%} of the {sure.sum():,} whose probability is above 0.9")


if __name__ == "__main__":
    main()
