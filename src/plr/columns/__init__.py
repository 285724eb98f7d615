"""Tables of the user's own as features: what each column is, decided once and applied again to new tables."""
