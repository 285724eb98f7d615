"""How candidate sets come about: hide true labels among false ones, in the ways people meet them.

>>> from plr.generation import MECHANISMS
>>> list(MECHANISMS)
['uniform', 'gaussian', 'marginal', 'units', 'digits', 'folding', 'biased']
"""

from __future__ import annotations

from plr.generation.making import MECHANISMS, SET_SIZES, make_candidates, recipe, resolve_options

__all__ = ["MECHANISMS", "SET_SIZES", "make_candidates", "recipe", "resolve_options"]
