import time

import numpy as np
import pytest

from plr.candidates import CandidateSets, as_candidate_sets


def seconds(function):
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    print(f"{best:.3f} s")
    return best


class TestSpeed:
    @pytest.fixture(scope="class")
    @classmethod
    def million(cls):
        rng = np.random.default_rng(0)
        padded = rng.normal(size=(1_000_000, 5))
        padded[rng.random(padded.shape) < 0.3] = np.nan
        padded[:, 2] = 0.0
        return padded

    def test_from_padded(self, million):
        assert seconds(lambda: CandidateSets.from_padded(np.nan_to_num(million))) < 0.5
        assert seconds(lambda: CandidateSets.from_padded(million)) < 0.5

    def test_indexing(self, million):
        S = CandidateSets.from_padded(million)
        rows = np.random.default_rng(1).permutation(len(S))
        assert seconds(lambda: S[rows]) < 1.5
        assert seconds(lambda: S[rows > 500_000]) < 1.5
        assert seconds(S.mean) < 1.0
        assert seconds(S.to_padded) < 1.0

    def test_from_lists(self, million):
        lists = CandidateSets.from_padded(million[:200_000]).to_lists()
        assert seconds(lambda: CandidateSets.from_lists(lists)) < 1.0
        assert seconds(lambda: as_candidate_sets(lists)) < 1.0
        arrays = [np.array(row) for row in lists]
        assert seconds(lambda: CandidateSets.from_lists(arrays)) < 1.5

    def test_from_long_and_unique(self, million):
        S = CandidateSets.from_padded(million[:200_000])
        table = {"row": S.row_index, "value": S.values}
        assert seconds(lambda: CandidateSets.from_long(table, "row", "value", rows=range(len(S)))) < 2.0
        assert seconds(S.unique) < 2.0
