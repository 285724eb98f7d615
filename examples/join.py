"""What do the tools of a shop cost elsewhere? Two catalogues joined by their titles, several matches for each tool.

    python examples/join.py

Both catalogues are made here. Each shop writes titles in its own way, and only the other one has prices. Each tool is
joined with the most similar titles of the other catalogue. Wrong matches are similar tools, so their prices are similar
too: a wrong match agrees with a model of the prices as well as the right one does. What tells them apart is how similar
the titles are, and how far that is to be believed is learned from a few rows that a person looks up.

Shows: `CandidateSets.from_long` for a table of pairs with a score and records, `match_score` for a score that counts
before any row is checked, `review` for the rows most worth looking up, `known` for what was found, `prior_` for what
was learned from it, and `one_to_one`, since no two tools are the same record of the other shop. Prices are learned as
logarithms: an error of 0.1 is one of about ten per cent. About fifteen seconds on two cores.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from plr import CandidateSets, PartialLabelRegressor
from support import Row, judge, options, print_results

KINDS = {"drill": 4.4, "circular saw": 4.9, "sander": 4.2, "angle grinder": 4.5, "router": 5.0}
BRANDS = {"Ahlm": 0.0, "Bero": 0.25, "Corva": 0.5, "Dorn": -0.2}
VOLTS = (12, 18, 36)
MATCHES = 6


def make_catalogues(count: int, random: np.random.Generator) -> tuple[pd.DataFrame, list[str], pd.DataFrame]:
    """Make tools, their titles in one shop, and the other shop's titles and logarithms of prices."""
    tools = pd.DataFrame(
        {
            "kind": random.choice(list(KINDS), count),
            "brand": random.choice(list(BRANDS), count),
            "volts": random.choice(VOLTS, count),
            "kilograms": random.gamma(8, 0.3, count).round(1),
        }
    )
    price = tools["kind"].map(KINDS) + tools["brand"].map(BRANDS) + tools["volts"] / 40 + tools["kilograms"] / 4
    price += random.normal(0, 0.15, count)
    codes = random.integers(100, 1000, count)
    ours, theirs = [], []
    for tool, code in zip(tools.itertuples(), codes, strict=True):
        ours.append(f"{tool.brand} {tool.kind} {code}, {tool.volts} V")
        digits = list(str(code))
        if random.random() < 0.4:  # a slip of the pen
            digits[random.integers(3)] = str(random.integers(10))
        extra = random.choice(["new", "pro", "set", "box"], 2)
        words = [f"{tool.volts}V", "".join(digits), tool.kind, tool.brand, *extra]
        theirs.append(" ".join(words[place] for place in random.permutation(len(words))))
    records = [f"B{row:04d}" for row in range(count)]
    return tools, ours, pd.DataFrame({"record": records, "title": theirs, "log_price": price.round(4)})


def join(ours: list[str], other: pd.DataFrame) -> pd.DataFrame:
    """Return one line for each tool and each of the titles that are most similar to its own."""
    texts = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit([*ours, *other["title"]])
    similarity = (texts.transform(ours) @ texts.transform(other["title"]).T).toarray()
    nearest = np.argsort(-similarity, axis=1)[:, :MATCHES]
    tool = np.repeat(np.arange(len(ours)), MATCHES)
    pairs = pd.DataFrame({"tool": tool, "score": similarity[tool, nearest.ravel()]})
    return pairs.join(other.iloc[nearest.ravel()].reset_index(drop=True))


def main() -> None:
    given = options(__doc__, checked={"type": int, "default": 40, "help": "rows to look up (default: 40)"})
    random = np.random.default_rng(given.seed)
    for_training, count = (300, 500) if given.small else (700, 1000)
    tools, ours, other = make_catalogues(count, random)
    truth = other["log_price"].to_numpy()
    pairs = join(ours, other)
    print(f"{pairs.head(3).to_string(index=False)}\n")
    S = CandidateSets.from_long(pairs, row="tool", value="log_price", features=["score"], record="record")
    train, test = slice(0, for_training), slice(for_training, count)

    def fit(target: object, **settings: object) -> PartialLabelRegressor:
        known = settings.pop("known", None)
        score = "score" if isinstance(target, CandidateSets) else None
        model = PartialLabelRegressor(match_score=score, effort="low", random_state=given.seed, **settings)
        return model.fit(tools[train], target, known=known)

    def scored(trained_on: str, model: PartialLabelRegressor) -> Row:
        found = model.identify(tools[test], S[test]).value
        return judge(trained_on, truth[test], model.predict(tools[test]), found)

    def best_matches(rows: slice) -> NDArray[np.float64]:
        nearest = pairs.loc[pairs.groupby("tool")["score"].idxmax(), "log_price"]
        return nearest.to_numpy()[rows]

    first = fit(S[train])
    review = first.review(given.checked, random_state=given.seed)
    # A person would now look up these rows. A record that is none of a row's candidates says that none is right.
    known = pd.DataFrame(index=range(for_training), columns=["record", "probability"])
    known.loc[review.row, "record"] = other["record"].to_numpy()[review.row]
    known.loc[review.row, "probability"] = review.probability
    checked, one_to_one = fit(S[train], known=known), fit(S[train], known=known, one_to_one=True)
    naive = fit(best_matches(train))
    print_results(
        f"Prices of {for_training} tools with {MATCHES} matches each, {len(review)} looked up; {count - for_training} "
        "test tools",
        "log price",
        1 / MATCHES,
        [
            scored("true labels", fit(truth[train])),
            scored("candidates, no row looked up", first),
            scored(f"candidates, {len(review)} rows looked up", checked),
            scored("candidates, the same, one to one", one_to_one),
            judge("the best match", truth[test], naive.predict(tools[test]), best_matches(test)),
            scored("average of the candidates (naive)", fit(S[train].mean())),
        ],
    )
    print(f"\nWhat makes a match believable, {one_to_one.prior_}")


if __name__ == "__main__":
    main()
