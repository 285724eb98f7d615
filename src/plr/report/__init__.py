"""The page of a model: one HTML file that needs no network."""

from __future__ import annotations

from plr.report.model_page import training_rows, write_model_page

__all__ = ["training_rows", "write_model_page"]
