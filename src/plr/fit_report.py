"""What was found about the members of a model while it was fitted, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plr.candidates.html import as_html
from plr.progress import Member

__all__ = ["FitReport", "Member"]

_COLUMNS = ("stage", "member", "evidence", "share", "seconds")


@dataclass(frozen=True, repr=False)
class FitReport(Sequence[Member]):
    """The members of a model, in the order in which they were fitted; the last is the model.

    Prints as a table, and shows itself as one in notebooks. Evidence is the mean of log Σ prior · p / q over the
    training rows, each by what has not seen the row's candidates: 0 says no more than that any of them may be the true
    one. It compares members of one stage. Chains count rows with one candidate as 0, and the committee judges its
    members under Gaussian noise, but the model under that of the weighting. Members without a share were tried, and are
    no part of the model.

    Attributes
    ----------
    members : tuple of Member
        Each with its ``stage``, ``name``, ``evidence``, ``share`` and ``seconds``; None where that is not known.

    Examples
    --------
    >>> FitReport((Member("density start", "network, 12 bins", 1.234, 0.5, 0.21), Member("", "MLP", None, None, 3.0)))
    stage          member            evidence  share  seconds
    density start  network, 12 bins     1.234   50 %     0.21
                   MLP                                   3.00
    """

    members: tuple[Member, ...]

    def __getitem__(self, place: Any) -> Any:
        return self.members[place]

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        rows = [_COLUMNS, *map(_texts, self.members)]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                [text.ljust(width) for text, width in zip(row[:2], wide[:2], strict=True)]
                + [text.rjust(width) for text, width in zip(row[2:], wide[2:], strict=True)]
            ).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        rows = list(map(_texts, self.members))
        columns = {name: [row[place] for row in rows] for place, name in enumerate(_COLUMNS) if place}
        return as_html("What was fitted", [row[0] for row in rows], columns, len(rows))


def _texts(member: Member) -> tuple[str, ...]:
    share = "" if member.share is None else f"{100 * member.share:.0f} %" if member.share else "left out"
    return (
        member.stage,
        member.name,
        "" if member.evidence is None else f"{member.evidence:.3f}",
        share,
        "" if member.seconds is None else f"{member.seconds:.2f}",
    )
