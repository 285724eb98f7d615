"""Numbers out of free texts: TF-IDF of their character n-grams, then the main directions of these (LSA).

Pieces of three and four characters within words need no list of words, know inflected and misspelled ones, and suit
names as well as prose (Cerda and Varoquaux, 2022).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["Prose", "learn_prose"]

Floats = NDArray[np.float64]

_MOST_PIECES, _MOST_DIRECTIONS = 5_000, 30
# With fewer rows for each number, the numbers say more about the rows than about texts.
_ROWS_PER_DIRECTION = 20
_SETTINGS = {"analyzer": "char_wb", "ngram_range": (3, 4), "sublinear_tf": True, "strip_accents": "unicode"}
# What a file holds, so that a model gives the same numbers once it is loaded.
_STORED = np.dtype("<f4")


@dataclass(frozen=True, eq=False)
class Prose:
    """How the texts of a column become numbers.

    Attributes
    ----------
    pieces : tuple of str
        The character n-grams that count, all different.
    frequency : ndarray of shape (pieces,)
        Inverse document frequency of each piece.
    directions : ndarray of shape (features, pieces)
        What each feature adds up.
    """

    pieces: tuple[str, ...]
    frequency: NDArray[np.float32]
    directions: NDArray[np.float32]

    def __post_init__(self) -> None:
        rows, wide = len(self.directions), len(set(self.pieces))
        shapes = self.frequency.shape == (wide,) and self.directions.shape == (rows, wide)
        numbers = np.isfinite(self.frequency).all() and np.isfinite(self.directions).all()
        if wide != len(self.pieces) or not (wide and rows and shapes and numbers):
            raise ValueError("the pieces of a text column and their numbers do not agree")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prose) and self.to_dict() == other.to_dict()

    @cached_property
    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(**_SETTINGS, vocabulary=list(self.pieces))
        vectorizer.idf_ = self.frequency.astype(np.float64)
        return vectorizer

    def apply(self, cells: pa.ChunkedArray) -> Floats:
        """Return one row of numbers for each text, NaN where it is missing."""
        found = np.full((len(cells), len(self.directions)), np.nan)
        there = np.flatnonzero(cells.is_valid())
        if there.size:
            texts = cells.take(pa.array(there)).to_pylist()
            found[there] = self._vectorizer.transform(texts) @ self.directions.T.astype(np.float64)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain texts that `from_dict` reads."""
        numbers = {"frequency": self.frequency, "directions": self.directions}
        written = {name: base64.b64encode(array.astype(_STORED).tobytes()).decode() for name, array in numbers.items()}
        return {"pieces": list(self.pieces), **written}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Prose:
        """Read what `to_dict` wrote; it may come from anywhere."""
        pieces = tuple(map(str, written["pieces"]))
        frequency, directions = (
            np.frombuffer(base64.b64decode(written[name], validate=True), _STORED).astype(np.float32)
            for name in ("frequency", "directions")
        )
        return cls(pieces, frequency, directions.reshape(-1, max(len(pieces), 1)))


def learn_prose(cells: pa.ChunkedArray) -> Prose:
    """Learn from the texts of the training rows which numbers tell them apart.

    Raises
    ------
    ValueError
        Where no piece stands in two texts.

    Examples
    --------
    >>> prose = learn_prose(pa.chunked_array([["red house", "blue house", "blue boat", None] * 10]))
    >>> prose.apply(pa.chunked_array([["a red boat", None]])).round(1)
    array([[0.4],
           [nan]])
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = pc.drop_null(cells).to_pylist()
    vectorizer = TfidfVectorizer(**_SETTINGS, max_features=_MOST_PIECES, min_df=2)
    weights = vectorizer.fit_transform(texts)
    pieces = vectorizer.get_feature_names_out()
    directions = min(_MOST_DIRECTIONS, max(len(texts) // _ROWS_PER_DIRECTION, 1), max(len(pieces) - 1, 1))
    found = TruncatedSVD(directions, random_state=0).fit(weights).components_
    return Prose(tuple(map(str, pieces)), vectorizer.idf_.astype(np.float32), found.astype(np.float32))
