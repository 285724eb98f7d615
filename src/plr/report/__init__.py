"""What was found, to be read: the results of a benchmark, and a model; pages that need no network."""

from __future__ import annotations

from plr.report.model_writing import training_rows, write_model_page

__all__ = ["training_rows", "write_model_page"]
