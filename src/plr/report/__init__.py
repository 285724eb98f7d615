"""What a benchmark found, to be read: tables, figures and one page that needs no network."""

from __future__ import annotations

from plr.report.writing import write_report

__all__ = ["write_report"]
