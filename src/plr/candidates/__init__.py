"""Candidate sets: a target with several possible values per row, one of which is the true label.

`container` holds the class, and `coercion` makes an object of it from whatever a user passes as a target. `readers`
(flat arrays, lists, padded arrays, labels), `tables` (several columns), `arrow` (list columns) and `long` (one line per
candidate) read, `floats` converts the numbers in them, `checks` says what is allowed, `operations` computes, `writers`
writes, and `flat` is the ragged layout that all of them share.
"""

from plr.candidates.coercion import as_candidate_sets
from plr.candidates.container import CandidateSets

__all__ = ["CandidateSets", "as_candidate_sets"]
