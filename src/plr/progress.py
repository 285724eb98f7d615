"""How far some work is: named stages, each a share of the whole, on one bar with the time left.

A `Progress` is a piece of the whole. It is divided into pieces, those into others, and whoever works on a piece says
how much of it is done, from any thread. What pieces are expected to cost need not be right: the bar then moves
unevenly, but never back, and a piece that ends early is done.

The logger ``plr`` has the stages and what was found about the members of a model, at the level INFO, and at DEBUG what
was found in fits of folds.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TextIO, TypeVar

__all__ = ["SILENT", "Bar", "Display", "Member", "Progress", "begin", "describe_seconds", "timed"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_LOG = logging.getLogger("plr")

# Seconds between two looks at a display.
_PAUSE = 0.1
# Before so many seconds, and so much of the work, have passed, nothing is said of the time left.
_SECONDS_BEFORE_ESTIMATE, _SHARE_BEFORE_ESTIMATE = 1.0, 0.03
_BAR = 24


@dataclass(frozen=True)
class Member:
    """What was found about a part of a model.

    Attributes
    ----------
    stage, name : str
        When it was fitted, and what it is.
    evidence : float or None
        Mean of log Σ prior · p / q over the rows: how likely it makes the candidate sets of rows that it has not seen.
    share : float or None
        In what comes of the stage: 0 where it was left out.
    seconds : float or None
    """

    stage: str
    name: str
    evidence: float | None = None
    share: float | None = None
    seconds: float | None = None


class Display(Protocol):
    """What shows how far some work is."""

    def show(self, share: float, stage: str, left: float | None) -> None:
        """Show the share that is done, the stage, and the seconds that are left where they can be told."""

    def close(self, seconds: float | None) -> None:
        """End: after so many seconds, or None where the work was broken off."""


class Progress:
    """A piece of some work, at first the whole.

    Parameters
    ----------
    display : Display, optional
    stage : str, optional
        What it is called until a stage has begun.

    Attributes
    ----------
    seconds : float
        How long it took, once it is done.
    members : list of Member or None
        What was found, since `collect`.

    Examples
    --------
    >>> whole = Progress()
    >>> first, second = whole.split({"reading": 1, "fitting": 3})
    >>> with first:
    ...     first(1, 2)
    >>> with second:
    ...     second(1, 2)
    ...     print(whole.share)
    0.625
    """

    def __init__(self, display: Display | None = None, stage: str = "") -> None:
        self.share = self.seconds = 0.0
        self.stage, self.members = stage, None
        self._whole, self._above, self._weight, self._in_detail = _Whole(display), None, 1.0, False

    members: list[Member] | None
    _whole: _Whole
    _above: Progress | None

    def split(self, stages: Mapping[str, float]) -> list[Progress]:
        """Divide the piece into stages, each with what it is expected to cost in any unit."""
        total = sum(stages.values()) or 1.0
        return [self._piece(name, cost / total, self._in_detail) for name, cost in stages.items()]

    def parts(self, count: int) -> list[Progress]:
        """Divide the piece into equal parts, such as folds, whose own stages have no names on the bar."""
        return [self._piece("", 1.0 / count, True) for _ in range(count)]

    def _piece(self, name: str, weight: float, in_detail: bool) -> Progress:
        piece = object.__new__(type(self))
        piece.share = piece.seconds = 0.0
        piece.stage = self.stage if in_detail else name or self.stage
        piece.members = None if in_detail else self.members
        piece._whole, piece._above, piece._weight, piece._in_detail = self._whole, self, weight, in_detail
        return piece

    def __call__(self, done: float, total: float, loss: float | None = None) -> None:  # noqa: ARG002
        """Say that so much of the piece is done; what learners call as ``(done, total, loss)``."""
        self._reach(done / total if total > 0 else 1.0)

    def advance(self, share: float) -> None:
        """Say that one more share of the piece is done."""
        with self._whole.lock:
            self._add(share)

    def _reach(self, share: float) -> None:
        with self._whole.lock:
            self._add(share - self.share)

    def _add(self, share: float) -> None:
        piece: Progress | None = self
        while piece is not None:
            share = min(share, 1.0 - piece.share)
            if not share > 0.0:
                return
            # A loop over folds adds up to one but for rounding.
            piece.share = 1.0 if piece.share + share > 1.0 - 1e-9 else piece.share + share
            top, share, piece = piece, share * piece._weight, piece._above
        self._whole.moved(top.share)

    def collect(self) -> list[Member]:
        """Begin a list of what is found about members, in this piece and in those it is divided into later."""
        self.members = []
        return self.members

    def record(
        self, name: str, evidence: float | None = None, share: float | None = None, seconds: float | None = None
    ) -> None:
        """Keep what was found about a member, and tell the logger."""
        member = Member(self.stage, name, evidence, share, seconds)
        if self.members is not None:
            self.members.append(member)
        level = logging.DEBUG if self.members is None else logging.INFO
        if _LOG.isEnabledFor(level):
            found = [] if evidence is None else [f"evidence {evidence:.4g}"]
            found += [] if share is None else [f"share {100 * share:.0f} %" if share else "left out"]
            found += [] if seconds is None else [f"{seconds:.2f} s"]
            _LOG.log(level, "%s: %s", ", ".join(filter(None, [self.stage, name])), ", ".join(found))

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let what begins within the block by `begin` be this piece, in place of a whole of its own."""
        token = _given.set(self)
        try:
            yield
        finally:
            _given.reset(token)

    def start(self) -> None:
        """Show and log the stage, which the piece before it has ended."""
        self._began = time.monotonic()
        above = "" if self._above is None else self._above.stage
        if self.stage != above and not self._in_detail:
            with self._whole.lock:
                self._whole.enter(self.stage)

    def __enter__(self) -> Progress:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.monotonic() - self._began
        if kind is None:
            self._reach(1.0)
        if self._above is None:
            self._whole.close(None if kind is not None else self.seconds)

    def __reduce__(self) -> Any:
        # A copy, in another process perhaps, tells nobody.
        return _silent, ()


class _Whole:
    """What all pieces share: the display, and what it was shown last."""

    def __init__(self, display: Display | None) -> None:
        self.lock = threading.RLock()
        self._display, self._stage, self._share = display, "", 0.0
        self._began, self._shown = time.monotonic(), -_PAUSE

    def enter(self, stage: str) -> None:
        """Show and log another stage."""
        if stage != self._stage:
            self._stage = stage
            _LOG.info("%s", stage)
            self._show()

    def moved(self, share: float) -> None:
        """Show another share, unless the last was shown a moment ago."""
        self._share = share
        if self._display is not None and time.monotonic() - self._shown >= _PAUSE:
            self._show()

    def _show(self) -> None:
        if self._display is not None:
            self._shown = now = time.monotonic()
            elapsed, left = now - self._began, None
            if elapsed >= _SECONDS_BEFORE_ESTIMATE and _SHARE_BEFORE_ESTIMATE <= self._share < 1.0:
                left = elapsed * (1.0 - self._share) / self._share
            self._display.show(self._share, self._stage, left)

    def close(self, seconds: float | None) -> None:
        """End the display."""
        with self.lock:
            if self._display is not None:
                self._display.close(seconds)
                self._display = None


class _Silent(Progress):
    """Work that nobody watches."""

    def split(self, stages: Mapping[str, float]) -> list[Progress]:
        return [self] * len(stages)

    def parts(self, count: int) -> list[Progress]:
        return [self] * count

    def advance(self, share: float) -> None:
        pass

    _reach = advance

    def collect(self) -> list[Member]:
        return []

    def start(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


SILENT: Progress = _Silent()
"""Work that nobody watches, and of which nothing is kept."""


def _silent() -> Progress:
    return SILENT


_given: ContextVar[Progress | None] = ContextVar("plr_progress", default=None)


@contextmanager
def begin(verbose: int = 0) -> Iterator[Progress]:
    """Give the progress of some work: a piece of larger work (`Progress.used`), or a whole with a bar if asked for."""
    given = _given.get()
    progress = given or Progress(Bar() if verbose and sys.stderr is not None else None)
    # What is fitted within the work, by a regressor of the user's, is no part of the plan.
    token = _given.set(None)
    try:
        with progress:
            yield progress
    finally:
        _given.reset(token)


class Bar:
    """A bar on a terminal or in a notebook, and elsewhere a line for each stage.

    Parameters
    ----------
    stream : text file, default=sys.stderr
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        notebook = type(self._stream).__module__.startswith("ipykernel")
        self._redraws = notebook or self._stream.isatty()
        self._stages: set[str] = set()
        self._length = 0

    def show(self, share: float, stage: str, left: float | None) -> None:
        """Show the share that is done, the stage, and the seconds that are left where they can be told."""
        more = "" if left is None else f", about {describe_seconds(left)} left"
        if self._redraws:
            self._redraw(share, f"{stage}{more}")
        elif stage not in self._stages:
            self._stages.add(stage)
            self._write(f"plr: {int(100 * share)} %, {stage}{more}\n")

    def close(self, seconds: float | None) -> None:
        """End the line; say how long it took unless the work was broken off."""
        if seconds is not None:
            done = f"done in {describe_seconds(seconds)}"
            if self._redraws:
                self._redraw(1.0, done)
            else:
                self._write(f"plr: 100 %, {done}\n")
        if self._redraws:
            self._write("\n")

    def _redraw(self, share: float, text: str) -> None:
        full = int(_BAR * share)
        line = f"plr [{'#' * full}{'-' * (_BAR - full)}] {int(100 * share):3d} %  {text}"
        line = line[: shutil.get_terminal_size().columns - 1]
        self._write("\r" + line.ljust(self._length))
        self._length = len(line)

    def _write(self, text: str) -> None:
        # A stream that was closed is no reason to stop training.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def describe_seconds(seconds: float) -> str:
    """Return a duration in words.

    >>> describe_seconds(7.4), describe_seconds(130), describe_seconds(7500)
    ('7 s', '2 min 10 s', '2 h 05 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def timed(work: Callable[_P, _T]) -> Callable[_P, tuple[float, _T]]:
    """Return a function that does the same, and also returns how many seconds it took."""

    def run(*given: _P.args, **named: _P.kwargs) -> tuple[float, _T]:
        began = time.monotonic()
        found = work(*given, **named)
        return time.monotonic() - began, found

    return run
