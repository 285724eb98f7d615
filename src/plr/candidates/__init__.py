"""Candidate sets: a target with several possible values per row, one of which is the true label.

`sets` has the class and makes an object of it from whatever is passed as a target; `arrays` has the ragged arrays that
it is made of, their checks, and what reads lists and arrays of numbers; `arrow` reads list columns and texts, `tables`
several columns of a table. `features` has what is known of single candidates beside their value, `known` the rows whose
true label somebody looked up, `matching` which candidates that label is.
"""

from plr.candidates.sets import CandidateSets, as_candidate_sets

__all__ = ["CandidateSets", "as_candidate_sets"]
