"""Small pictures as SVG: axes, dots, lines and bars, coloured by the page's style alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from plr.report.html import Markup, element, join

__all__ = ["Chart", "shown", "ticks"]

_SHORT_MINUS = "−"


def shown(value: float) -> str:
    """Return a number with four digits that count, as people write it.

    >>> [shown(value) for value in (0.0, 12.3456, -1234567.0, 0.000012345, 5e20)]
    ['0', '12.35', '−1,234,567', '1.234e-05', '5e+20']
    """
    size = abs(value)
    if size != 0 and (size < 1e-4 or size >= 1e12):
        text = f"{value:.4g}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.4g}"
    return text.replace("-", _SHORT_MINUS, 1) if value < 0 else text


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


class Chart:
    """A picture with two axes.

    Parameters
    ----------
    label : str
        What the picture shows, for those who do not see it.
    x, y : (float, float)
        Where the axes begin and end.
    x_label, y_label : str
    height : int
        In units of which the picture is 480 wide.
    x_ticks, y_ticks : sequence of (float, str), optional
        Instead of round numbers.
    left : int
        Room for the numbers of the vertical axis.
    """

    width = 480

    def __init__(
        self,
        label: str,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        x_label: str,
        y_label: str = "",
        height: int = 300,
        x_ticks: Sequence[tuple[float, str]] | None = None,
        y_ticks: Sequence[tuple[float, str]] | None = None,
        left: int = 62,
    ) -> None:
        self.label, self.x, self.y, self.height = label, _opened(x), _opened(y), height
        self._left, self._right, self._top, self._bottom = left, 24, 26 if y_label else 10, 46
        self._parts: list[Markup] = []
        self._axes(x_label, y_label, x_ticks, y_ticks)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is in the picture; points beyond the axes lie on them."""
        across, up = _share(x, self.x), _share(y, self.y)
        wide = self.width - self._left - self._right
        high = self.height - self._top - self._bottom
        return round(self._left + across * wide, 1), round(self._top + (1 - up) * high, 1)

    def dots(self, points: Iterable[tuple[float, float]], class_: str) -> None:
        """Draw many dots as one shape, without titles."""
        path = "".join("M{:g} {:g}h0".format(*self.place(x, y)) for x, y in points)
        self._parts.append(element("path", d=path, class_=class_))

    def dot(self, x: float, y: float, radius: float, class_: str, title: str) -> None:
        """Draw one dot that says what it is."""
        cx, cy = self.place(x, y)
        self._parts.append(element("circle", element("title", title), cx=cx, cy=cy, r=radius, class_=class_))

    def line(self, points: Sequence[tuple[float, float]], class_: str) -> None:
        """Draw a line through points."""
        found = [self.place(x, y) for x, y in points]
        self._parts.append(element("path", d="M" + "L".join(f"{x:g} {y:g}" for x, y in found), class_=class_))

    def area(self, points: Sequence[tuple[float, float]], class_: str) -> None:
        """Fill the shape between points."""
        found = [self.place(x, y) for x, y in points]
        self._parts.append(element("path", d="M" + "L".join(f"{x:g} {y:g}" for x, y in found) + "Z", class_=class_))

    def bar(self, corners: tuple[float, float, float, float], class_: str, title: str) -> None:
        """Draw a rectangle from left, bottom to right, top."""
        (x0, y0), (x1, y1) = self.place(*corners[:2]), self.place(*corners[2:])
        self._parts.append(
            element(
                "rect",
                element("title", title),
                x=x0,
                y=y1,
                width=max(x1 - x0, 0),
                height=max(y0 - y1, 0),
                class_=class_,
            )
        )

    def text(self, x: float, y: float, words: str, *, class_: str = "", anchor: str = "start", lift: float = 0) -> None:
        """Write at a point, ``lift`` units higher."""
        px, py = self.place(x, y)
        self._parts.append(element("text", words, x=px, y=py - lift, class_=class_ or None, text_anchor=anchor))

    def svg(self) -> Markup:
        """Return the picture."""
        return element(
            "svg",
            join(self._parts),
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
            aria_label=self.label,
            class_="chart",
        )

    def _axes(
        self,
        x_label: str,
        y_label: str,
        x_ticks: Sequence[tuple[float, str]] | None,
        y_ticks: Sequence[tuple[float, str]] | None,
    ) -> None:
        bottom, right = self.height - self._bottom, self.width - self._right
        for value, words in y_ticks if y_ticks is not None else _labelled(ticks(*self.y)):
            _, up = self.place(self.x[0], value)
            self._parts.append(element("path", d=f"M{self._left} {up:g}H{right}", class_="grid"))
            self._write(words, self._left - 7, up + 4, "end")
        for value, words in x_ticks if x_ticks is not None else _labelled(ticks(*self.x)):
            across, _ = self.place(value, self.y[0])
            self._parts.append(element("path", d=f"M{across:g} {bottom}v4", class_="axis"))
            self._write(words, across, bottom + 18, "middle")
        self._parts.append(element("path", d=f"M{self._left} {bottom}H{right}", class_="axis"))
        self._write(x_label, (self._left + right) / 2, self.height - 6, "middle", "label")
        if y_label:
            self._write(y_label, 4, 14, "start", "label")

    def _write(self, words: str, x: float, y: float, anchor: str, class_: str | None = None) -> None:
        self._parts.append(element("text", words, x=f"{x:g}", y=f"{y:g}", text_anchor=anchor, class_=class_))


def histogram_ticks(most: float) -> list[tuple[float, str]]:
    """Return ticks of an axis of counts."""
    return [(value, shown(value)) for value in ticks(0.0, max(most, 1.0), 5) if value == int(value)]


def share_ticks(step: float = 0.2) -> list[tuple[float, str]]:
    """Return ticks of an axis of shares, in percent."""
    return [(place * step, f"{place * step:.0%}") for place in range(round(1 / step) + 1)]


def _labelled(values: list[float], write: Callable[[float], str] = shown) -> list[tuple[float, str]]:
    return [(value, write(value)) for value in values]


def _opened(ends: tuple[float, float]) -> tuple[float, float]:
    """Return an axis that is not a point."""
    low, high = ends
    if high > low:
        return low, high
    return low - (abs(low) or 1.0) * 0.5, high + (abs(high) or 1.0) * 0.5


def _share(value: float, ends: tuple[float, float]) -> float:
    # Halves, since the span of very large numbers is beyond what a float can hold.
    span = ends[1] / 2 - ends[0] / 2
    return min(max((value / 2 - ends[0] / 2) / span, 0.0), 1.0)
