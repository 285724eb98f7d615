"""Candidate sets: a target with several possible values per row, one of which is the true label.

`sets` has the class, `coercion` makes an object of it from whatever is passed as a target, `layout` has the ragged
arrays that it is made of and their checks. Three modules read: `arrays` lists and arrays of numbers, `arrow` list
columns and texts, `tables` several columns of a table.
"""

from plr.candidates.coercion import as_candidate_sets
from plr.candidates.sets import CandidateSets

__all__ = ["CandidateSets", "as_candidate_sets"]
