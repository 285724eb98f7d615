"""What makes a candidate believable before the model is asked: given, or learned from checked rows.

`columns` makes numbers of what is known of each candidate, `logit` learns from checked rows how much each counts,
`dependence` finds out whether false candidates depend on the features, `smoothing` has the functions of the features
that this needs, `one_to_one` the probabilities where no record is the truth of two rows; `learned` puts them together.
`utilities` is the contract of models that take the place of the logit, `boosted` the one that grows trees.
"""

from plr.priors.boosted import BoostedLogit
from plr.priors.learned import LearnedPrior
from plr.priors.utilities import CandidateTable, FittedUtility, UtilityModel

__all__ = [
    "PRIORS",
    "BoostedLogit",
    "CandidateTable",
    "FittedUtility",
    "LearnedPrior",
    "UtilityModel",
]

PRIORS = {"boosted_logit": BoostedLogit}
"""Models of utilities that go by a name, in model files and at the command line."""
