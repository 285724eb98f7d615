"""Files of the user's own, as tables."""
