"""What makes a candidate believable before the model is asked: given, or learned from checked rows.

`columns` makes numbers of what is known of each candidate, `logit` learns from checked rows how much each counts,
`dependence` finds out whether false candidates depend on the features, `smoothing` has the functions of the features
that this needs, `one_to_one` the probabilities where no record is the truth of two rows; `learned` puts them together.
"""

from plr.priors.learned import LearnedPrior

__all__ = ["LearnedPrior"]
