"""What does the bicycle cost? Prices learned from adverts that contain five numbers, one of them the price.

    python examples/text.py

The adverts are made here, from a small grammar. Kind, age, condition and details decide the price, said in different
words, half of the details denied ("no rust", "brakes do not work"); prices scatter by ten per cent around that. What is
left of each advert is its words and its five numbers: the price, a telephone number, a frame number and so on, and no
longer which was which. So the candidates are the price and four numbers spread evenly over the same orders of
magnitude. Prices are learned as logarithms: an error of 0.1 is one of about ten per cent.

Shows: texts as X, with a scikit-learn pipeline as the learner (bag of words and ridge regression), and with a small
transformer of torch that reads the same texts through a collate function. A bag of words cannot tell what a "not"
belongs to; the transformer can. About two minutes on two cores.

With --mechanism marginal the false numbers are other adverts' prices. That fails with either model: false values then
pile up where prices do, and the weightings take them to be spread evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn

from plr import PartialLabelRegressor, make_candidates
from plr.learners import Module
from support import Row, judge, options, print_results

# Ways to say it, and what it makes of the price: euros for the kind, a factor for everything else.
KINDS = {
    ("city bike", "commuter bike", "everyday bicycle"): 300,
    ("road bike", "racing bike", "racer"): 700,
    ("mountain bike", "trail bike", "mtb"): 600,
    ("electric bike", "e-bike", "pedelec"): 1400,
    ("kids bike", "children's bicycle"): 120,
}
AGES = {"two": 0.8, "three": 0.7, "four": 0.63, "five": 0.56, "six": 0.5, "eight": 0.42, "ten": 0.35}
CONDITIONS = {
    ("like new", "barely used", "not used much"): 1.2,
    ("in good shape", "well kept", "not bad"): 1.0,
    ("in bad shape", "not in good shape", "not well kept", "used a lot"): 0.6,
}
# What may be true of it and what that makes of the price, and the same denied.
DETAILS = {
    ("with lights", "lights work"): (1.1, ("without lights", "lights do not work"), 0.9),
    ("with rust", "some rust"): (0.65, ("without rust", "no rust"), 1.1),
    ("brakes work", "good brakes"): (1.1, ("brakes do not work", "no good brakes"), 0.65),
    ("carbon frame", "frame of carbon"): (1.8, ("no carbon frame", "frame not of carbon"), 1.0),
    ("scratches", "with scratches"): (0.8, ("no scratches", "without scratches"), 1.1),
}
ENDINGS = ("pick up only", "call me", "no swaps", "price not final", "thanks")


def adverts(count: int, random: np.random.Generator) -> tuple[list[str], NDArray[np.float64]]:
    """Write adverts; return them with their prices."""

    def one_of(choices: Sequence[Any]) -> Any:
        return choices[random.integers(len(choices))]

    texts, prices = [], np.empty(count)
    for row in range(count):
        kind, age, condition = one_of(list(KINDS)), one_of(list(AGES)), one_of(list(CONDITIONS))
        price = KINDS[kind] * AGES[age] * CONDITIONS[condition]
        parts = [one_of(kind), one_of(condition), f"{age} years old"]
        for said, (factor, denied, factor_denied) in DETAILS.items():
            if random.random() < 0.6:
                is_so = random.random() < 0.5
                price *= factor if is_so else factor_denied
                parts.append(one_of(said if is_so else denied))
        texts.append(", ".join([*parts, one_of(ENDINGS)]))
        prices[row] = np.round(price * np.exp(random.normal(0, 0.1)))
    return texts, prices


class Tokens:
    """Makes a batch of numbers of a list of texts, one for each word or comma: 0 is padding, 1 a word never seen."""

    def __init__(self, texts: list[str]) -> None:
        self.split = CountVectorizer(token_pattern=r"[^\s,]+|,").build_analyzer()
        words = sorted({word for text in texts for word in self.split(text)})
        self.numbers = {word: number for number, word in enumerate(words, start=2)}

    def __call__(self, texts: list[str]) -> Tensor:
        """Return one row of numbers per text, as long as the longest."""
        rows = [torch.tensor([self.numbers.get(word, 1) for word in self.split(text)]) for text in texts]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True)


class Transformer(nn.Module):
    """Reads numbers of words and gives one number per text."""

    def __init__(self, vocabulary: int, width: int = 32, layers: int = 2, longest: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=0)
        turns = torch.arange(longest)[:, None] * 100.0 ** -torch.linspace(0, 1, width // 2)
        self.register_buffer("places", torch.cat([turns.sin(), turns.cos()], dim=1))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Add up what each word in its place means."""
        is_word = tokens != 0
        given = self.words(tokens) + self.places[: tokens.shape[1]]
        read = self.layers(given, src_key_padding_mask=~is_word)
        return self.head((read * is_word[..., None]).sum(1) / 10)


def main() -> None:
    given = options(
        __doc__,
        mechanism={"default": "uniform", "choices": ["uniform", "marginal"], "help": "where false numbers come from"},
    )
    random = np.random.default_rng(given.seed)
    texts, prices = adverts(400 if given.small else 3000, random)
    texts_test, prices_test = adverts(200 if given.small else 1000, random)
    truth, truth_test = np.log(prices), np.log(prices_test)
    how = {"false_labels": 4, "set_size": "fixed", "mechanism": given.mechanism}
    S = make_candidates(truth, **how, random_state=given.seed)
    S_test = make_candidates(truth_test, **how, random_state=given.seed + 1)

    tokens = Tokens(texts)
    learners = {
        "bag of words": make_pipeline(CountVectorizer(), Ridge()),
        "transformer": Module(
            lambda: Transformer(len(tokens.numbers) + 2, layers=1 if given.small else 2),
            learning_rate=1e-2,
            scheduler="cosine",
            epochs=10 if given.small else 20,
            batch_size=64 if given.small else 128,
            clip=1.0,
            device="cpu",
            loader={"collate_fn": tokens},
        ),
    }

    def scored(name: str, trained_on: str, target: object, weighting: str = "posterior") -> Row:
        model = PartialLabelRegressor(learners[name], weighting, random_state=given.seed).fit(texts, target)
        found = model.identify(texts_test, S_test)
        return judge(trained_on, truth_test, model.predict(texts_test), found.value)

    print(f"The first advert: {texts[0]}\nThe numbers in it: {', '.join(f'{value:.0f}' for value in np.exp(S[0]))}\n")
    for name in learners:
        print_results(
            f"Prices of bicycles by {name}: {len(S):,} adverts with 5 numbers each; {len(S_test):,} test adverts",
            "logarithm",
            0.2,
            [
                scored(name, "true labels", truth),
                scored(name, "candidates, posterior", S),
                scored(name, "candidates, average (naive)", S, "average"),
            ],
        )
        print()


if __name__ == "__main__":
    main()
