"""How notes and progress reach whoever asked for something: not at all from Python, in words from the shell."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from plr.errors import PlrWarning
from plr.progress import Progress, begin

__all__ = ["PYTHON", "FrontEnd", "listed", "warn"]


class FrontEnd:
    """A front end that says nothing, and names parameters as Python does."""

    def note(self, text: str) -> None:
        """Tell the user what was done."""

    @contextmanager
    def working(self, what: str, verbose: int = 0) -> Iterator[Progress]:  # noqa: ARG002
        """Show how far something is, if asked for; give its progress, also a callback for ``(done, in all, loss)``."""
        with begin(verbose) as progress:
            yield progress

    def option(self, name: str, value: object = None) -> str:
        """Return a parameter, and a value for it, as the user would write it.

        >>> PYTHON.option("truth", "y"), PYTHON.option("truth")
        ("truth='y'", 'truth')
        """
        return name if value is None else f"{name}={value!r}"


PYTHON = FrontEnd()
"""The front end of those who call functions."""


def warn(text: str) -> None:
    """Warn of what may be a mistake; the command line shows warnings as notes."""
    warnings.warn(text, PlrWarning, stacklevel=3)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return some names in words, of many the first ones.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
