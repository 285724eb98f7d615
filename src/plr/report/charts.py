"""Small SVG charts as lists of shapes: axes, dots, lines and bars, coloured by the page's style alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from plr.report.numbers import shown

__all__ = ["SHARE_TICKS", "Chart", "Drawing", "shown", "text_width", "ticks"]

Tick = tuple[float, str]

_WIDTH = 480
# The width of a digit of a chart's text on a phone, where texts are largest, and of what is not as wide.
_DIGIT, _WIDER = 10.2, {"%": 1.5, ",": 0.5, ".": 0.5, " ": 0.5}


def text_width(words: str) -> float:
    """Return how much room a text takes in a chart, at most."""
    return _DIGIT * sum(_WIDER.get(character, 1.0) for character in words)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two others.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough = span / (most - 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(place * step, digits) + 0.0 for place in range(first, last + 1)]


SHARE_TICKS: list[Tick] = [(place / 5, f"{place / 5:.0%}") for place in range(6)]
"""The ticks of an axis of shares, in percent."""


class Drawing:
    """Shapes in a frame.

    Parameters
    ----------
    label : str
        What the drawing shows, for screen readers.
    width, height : int
        The frame, in units of its own; the style decides how large it is drawn.
    kind : str
        Class of the SVG element.
    """

    def __init__(self, label: str, width: int, height: int, kind: str) -> None:
        self.label, self.width, self.height, self.kind = label, width, height, kind
        self.shapes: list[dict[str, Any]] = []

    def add(self, tag: str, title: str = "", text: str = "", **attributes: object) -> None:
        """Add a shape with a tooltip and a text; in names of attributes ``_`` is ``-``, at their end nothing."""
        named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        self.shapes.append({"tag": tag, "attributes": named, "title": title, "text": text})


class Chart(Drawing):
    """A drawing with two axes.

    Parameters
    ----------
    label : str
        What the chart shows, for screen readers.
    x, y : (float, float)
        Ends of the axes.
    x_label, y_label : str
    height : int
        In units of which the chart is 480 wide.
    x_ticks, y_ticks : sequence of (float, str), optional
        Instead of round numbers.
    """

    def __init__(
        self,
        label: str,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        x_label: str,
        y_label: str = "",
        height: int = 300,
        x_ticks: Sequence[Tick] | None = None,
        y_ticks: Sequence[Tick] | None = None,
    ) -> None:
        super().__init__(label, _WIDTH, height, "chart")
        # An axis that is a point is opened around it.
        self.x, self.y = (
            ends if ends[1] > ends[0] else (ends[0] - (abs(ends[0]) or 1.0) / 2, ends[1] + (abs(ends[1]) or 1.0) / 2)
            for ends in (x, y)
        )
        self._top, self._bottom = 32 if y_label else 12, height - 52
        y_ticks = y_ticks or [(value, shown(value)) for value in ticks(*self.y)]
        self._left = math.ceil(max(text_width(words) for _, words in y_ticks)) + 12
        self._right = self.width - 24
        x_ticks = x_ticks or _fitting_ticks(*self.x, self._right - self._left)
        # Room for the half of the last label that is beyond its tick.
        self._right -= math.ceil(max(0.0, text_width(x_ticks[-1][1]) / 2 - 22))
        for value, words in y_ticks:
            _, up = self.place(self.x[0], value)
            self.add("path", d=f"M{self._left} {up:g}H{self._right}", class_="grid")
            self._write(words, self._left - 7, up + 5, "end")
        for value, words in x_ticks:
            across, _ = self.place(value, self.y[0])
            self.add("path", d=f"M{across:g} {self._bottom}v4", class_="axis")
            self._write(words, across, self._bottom + 22, "middle")
        self.add("path", d=f"M{self._left} {self._bottom}H{self._right}", class_="axis")
        half = min(text_width(x_label) / 2, self.width / 2)
        middle = min(max((self._left + self._right) / 2, half), self.width - half)
        self._write(x_label, middle, height - 8, "middle", "label")
        if y_label:
            self._write(y_label, 4, 16, "start", "label")

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is in the chart; points beyond the axes lie on them."""
        wide, high = self._right - self._left, self._bottom - self._top
        return (
            round(self._left + _share(x, self.x) * wide, 1),
            round(self._top + (1 - _share(y, self.y)) * high, 1),
        )

    def dots(self, points: Iterable[tuple[float, float]], class_: str) -> None:
        """Draw many dots as one shape, without tooltips."""
        self.add("path", d="".join("M{:g} {:g}h0".format(*self.place(x, y)) for x, y in points), class_=class_)

    def dot(self, x: float, y: float, radius: float, class_: str, title: str) -> None:
        """Draw one dot with a tooltip."""
        cx, cy = self.place(x, y)
        self.add("circle", title, cx=cx, cy=cy, r=radius, class_=class_)

    def line(self, points: Iterable[tuple[float, float]], class_: str, end: str = "") -> None:
        """Draw a line through points; with ``end="Z"``, the area they enclose."""
        path = "L".join("{:g} {:g}".format(*self.place(x, y)) for x, y in points)
        self.add("path", d=f"M{path}{end}", class_=class_)

    def bar(self, corners: tuple[float, float, float, float], class_: str, title: str) -> None:
        """Draw a rectangle from left, bottom to right, top."""
        (x0, y0), (x1, y1) = self.place(*corners[:2]), self.place(*corners[2:])
        self.add("rect", title, x=x0, y=y1, width=max(x1 - x0, 0), height=max(y0 - y1, 0), class_=class_)

    def text_beside(self, x: float, y: float, words: str) -> None:
        """Write below a point and to its right; where there is no room, to its left and above it."""
        px, py = self.place(x, y)
        if px + 6 + text_width(words) <= self.width:
            self._write(words, px + 6, py + 20, "start")
        else:
            self._write(words, px - 8, py - 6, "end")

    def _write(self, words: str, x: float, y: float, anchor: str, class_: str | None = None) -> None:
        self.add("text", text=words, x=f"{x:g}", y=f"{y:g}", text_anchor=anchor, class_=class_)


def _fitting_ticks(low: float, high: float, room: float) -> list[Tick]:
    """Return ticks whose labels do not touch each other."""
    for most in (6, 5, 4, 3, 2):
        found = [(value, shown(value)) for value in ticks(low, high, most)]
        widest = max(text_width(words) for _, words in found) + 12
        if len(found) < 2 or (found[1][0] / 2 - found[0][0] / 2) / (high / 2 - low / 2) * room >= widest:
            break
    return found


def _share(value: float, ends: tuple[float, float]) -> float:
    # Halves, since the span of very large numbers is beyond what a float can hold.
    span = ends[1] / 2 - ends[0] / 2
    return min(max((value / 2 - ends[0] / 2) / span, 0.0), 1.0)
