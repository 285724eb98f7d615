"""The page of a benchmark, from stored rows alone."""
