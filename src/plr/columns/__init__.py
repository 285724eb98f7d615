"""Tables of the user's own as features: what each column is, decided once and applied again to new tables."""

from plr.columns.features import Column, Features, learn_features

__all__ = ["Column", "Features", "learn_features"]
