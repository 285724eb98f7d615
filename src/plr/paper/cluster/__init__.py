"""The grid of a benchmark on a Ray cluster."""
