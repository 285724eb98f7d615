"""What a column is, and how its cells are read once that is decided."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.columns.prose import Prose, learn_prose
from plr.columns.texts import date_format, is_text, likeliest_date_format, number_form, texts_to_dates, texts_to_numbers
from plr.preprocessing.features import MANY_DIFFERENT, names_identifiers, too_many_texts

__all__ = [
    "KINDS",
    "MANY_TEXTS",
    "PARTS",
    "Column",
    "Mended",
    "free_text",
    "part_of",
    "plain",
    "read_cells",
    "settled",
    "what_is",
]

Floats = NDArray[np.float64]

KINDS = {
    "number": "numbers",
    "boolean": "true and false",
    "category": "texts",
    "text": "texts",
    "date": "dates",
    "clock": "times",
    "left out": "nothing",
}
"""What a column can be, and what it then holds."""

MANY_TEXTS = "names, prose or identifiers"
"""What the note of a column of texts that was left out ends with."""

_ROW_NUMBERS = re.compile(r"(|unnamed: ?\d+|index|row|row[_ ]?(id|number|nr|no)|__index_level_\d+__)", re.IGNORECASE)
_YES, _NO = pa.array(["true", "yes", "y", "t", "1"]), pa.array(["false", "no", "n", "f", "0"])


@dataclass(frozen=True)
class Column:
    """One column of a table, and what becomes of it.

    Attributes
    ----------
    name : str
    kind : {"number", "boolean", "category", "text", "date", "clock", "left out"}
    features : tuple of str
        The features made of it; none where it is left out.
    form : str
        How texts are written: a form of numbers, or the format of dates; empty where they are no texts.
    note : str
        What was done, in words; empty where there is nothing to say.
    prose : Prose or None
        How free texts become numbers; None where the column has another kind.
    """

    name: str
    kind: str
    features: tuple[str, ...]
    form: str = ""
    note: str = ""
    prose: Prose | None = None


class Mended(str):
    """A sentence about cells of one column that count as missing.

    Attributes
    ----------
    column : str
    kind : {"number", "date", "category"}
        What they are not.
    cells : int
        How many there are.
    first : str
        The first of them.

    Examples
    --------
    >>> print(Mended("size", "number", 1, "?").joined(Mended("size", "number", 1500, "n.a.")))
    Column 'size': 1,501 cells such as '?' are no number and count as missing.
    """

    column: str
    kind: str
    cells: int
    first: str

    def __new__(cls, column: str, kind: str, cells: int, first: str) -> Mended:
        """Make the sentence."""
        sentence = _SENTENCES[kind][cells > 1].format(column=column, cells=cells, first=first)
        made = super().__new__(cls, sentence)
        made.column, made.kind, made.cells, made.first = column, kind, cells, first
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.column, self.kind, self.cells, self.first

    def joined(self, other: Mended) -> Mended:
        """Return one sentence about the cells of both, which are of the same column."""
        return Mended(self.column, self.kind, self.cells + other.cells, self.first)


_SENTENCES = {
    "number": (
        "Column {column!r}: 1 cell such as {first!r} is no number and counts as missing.",
        "Column {column!r}: {cells:,} cells such as {first!r} are no number and count as missing.",
    ),
    "date": (
        "Column {column!r}: 1 cell, {first!r}, is no such date and counts as missing.",
        "Column {column!r}: {cells:,} cells such as {first!r} count as missing.",
    ),
    "category": (
        "Column {column!r}: 1 cell, {first!r}, was not in training and counts as missing.",
        "Column {column!r}: {cells:,} cells such as {first!r} were not in training and count as missing.",
    ),
}


def plain(cells: Any) -> Any:
    """Return a column with dictionaries spelled out."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    return cells.cast(pa.string()) if is_text(cells.type) and not pa.types.is_string(cells.type) else cells


def what_is(name: str, cells: Any) -> Column:
    """Decide what a column is from its training cells."""
    cells = plain(cells)
    kind = cells.type
    types = pa.types
    if cells.null_count == len(cells):
        return _left_out(name, "is empty")
    if types.is_nested(kind):
        return _left_out(name, "holds lists or nested objects, not single values")
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return _left_out(name, "holds raw bytes")
    if cells.null_count == 0 and len(cells) > 1 and pc.count_distinct(cells).as_py() == 1:
        return _left_out(name, f"is {_shown(cells[0].as_py())} in every row")
    if types.is_boolean(kind):
        return Column(name, "boolean", (name,), note=_gaps("true is 1 and false 0", cells))
    if _is_date(kind):
        return _dates(name, _to_timestamp(cells), "")
    if _has_clock(kind):
        return Column(name, "clock", (name,), note=_gaps("in seconds", cells))
    if is_text(kind):
        return _text(name, cells)
    row_number = types.is_integer(kind) and len(cells) > 1 and _ROW_NUMBERS.fullmatch(name.strip())
    if row_number and (np.diff(_floats(cells)) == 1).all():
        return _left_out(name, "numbers the rows")
    if types.is_integer(kind) and _identifies(name, cells):
        return _left_out(name, "has a different number in every row and is named as an identifier")
    if _is_number(kind):
        return Column(name, "number", (name,), note=_gaps("", cells))
    return _left_out(name, f"has the type {kind}, which is neither number, text nor date")


def free_text(name: str, cells: Any) -> Column:
    """Return a column of free texts, and the numbers that are made of it.

    Raises
    ------
    ValueError
        Where it has no texts to learn from; the message says what it has.
    """
    cells = plain(cells)
    if not is_text(cells.type):
        raise ValueError(f"has the type {cells.type}, not texts")
    try:
        prose = learn_prose(cells)
    except ValueError:
        raise ValueError("has no piece of text that stands in two rows") from None
    count = len(prose.directions)
    note = f"as {count} number{'s' if count > 1 else ''} by TF-IDF of its pieces and SVD" + _with_gaps(cells)
    return Column(name, "text", tuple(f"{name}: text {number + 1}" for number in range(count)), note=note, prose=prose)


def settled(column: Column, cells: Any) -> Column:
    """Return a column that says how its texts are written, inferred from its cells where training did not record it.

    >>> settled(Column("size", "number", ("size",)), pa.chunked_array([["1,250", "980"]])).form
    'thousands'
    """
    cells = plain(cells)
    if column.form or not is_text(cells.type):
        return column
    if column.kind == "number":
        return replace(column, form=number_form(cells) or "plain")
    return replace(column, form=likeliest_date_format(cells)) if column.kind == "date" else column


def read_cells(column: Column, cells: Any, *, some: bool = False) -> tuple[dict[str, Any], Mended | None]:
    """Read new cells of a column as what it held in training.

    Parameters
    ----------
    column : Column
    cells : pyarrow.ChunkedArray
    some : bool, default=False
        Whether there are more than these, so that not one of them need be right.

    Returns
    -------
    features : dict of str to array
        Numbers, NaN where missing, or texts, null where missing.
    mended : Mended or None
        The cells that count as missing.

    Raises
    ------
    ValueError
        Where they are something else; the message says what.
    """
    cells, mended, kind = plain(cells), None, column.kind
    if kind == "category":
        if pa.types.is_nested(cells.type):
            raise ValueError(f"has the type {cells.type}")
        return {column.features[0]: pc.utf8_trim_whitespace(cells.cast(pa.string()))}, None
    if column.prose is not None:
        if pa.types.is_nested(cells.type) or pa.types.is_binary(cells.type):
            raise ValueError(f"has the type {cells.type}")
        return dict(zip(column.features, column.prose.apply(cells.cast(pa.string())).T, strict=True)), None
    if is_text(cells.type) and kind != "clock":
        given = cells
        if kind == "number":
            cells = texts_to_numbers(cells, column.form or number_form(cells) or "plain")
        elif kind == "date":
            cells = texts_to_dates(cells, column.form or likeliest_date_format(cells))
        else:
            cells = _texts_to_booleans(cells)
        wrong = given.filter(pc.and_(given.is_valid(), pc.is_null(cells)))
        if len(wrong):
            first = wrong[0].as_py()
            if kind == "boolean" or (cells.null_count == len(cells) and not some):
                raise ValueError(f"holds texts such as {first!r}")
            mended = Mended(column.name, kind, len(wrong), first)
    elif not _can_be(kind, cells.type):
        raise ValueError(f"has the type {cells.type}")
    if kind == "date":
        times = _to_timestamp(cells)
        return {feature: PARTS[part_of(feature)](times) for feature in column.features}, mended
    return {column.features[0]: _seconds(cells) if _has_clock(cells.type) else _floats(cells)}, mended


def part_of(feature: str) -> str:
    """Return which part of a date a feature is."""
    return feature.rpartition(": ")[2].rstrip("_")


def _can_be(kind: str, given: pa.DataType) -> bool:
    if pa.types.is_null(given):
        return True
    if kind == "date":
        return _is_date(given)
    if kind == "clock":
        return _has_clock(given)
    return _is_number(given) or pa.types.is_boolean(given)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _has_clock(kind: pa.DataType) -> bool:
    return bool(pa.types.is_time(kind) or pa.types.is_duration(kind))


def _texts_to_booleans(cells: Any) -> Any:
    folded = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    yes = pc.is_in(folded, _YES)
    return pc.if_else(pc.or_(yes, pc.is_in(folded, _NO)), yes, pa.scalar(None, pa.bool_()))


def _seconds(cells: Any) -> Floats:
    """Return times of day or lengths of time in seconds."""
    whole = cells.cast(pa.int32() if pa.types.is_time32(cells.type) else pa.int64())
    return _floats(whole) / {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[cells.type.unit]


def _text(name: str, cells: Any) -> Column:
    form = number_form(cells)
    if form == "plain" and _identifies(name, cells):
        return _left_out(name, "has a different number in every row and is named as an identifier")
    if form is not None:
        wrong = cells.filter(pc.and_(cells.is_valid(), pc.is_null(texts_to_numbers(cells, form))))
        said = {"plain": "", "thousands": "commas separate thousands", "decimal comma": "commas are decimal points"}
        notes = [part for part in ("texts read as numbers", said[form]) if part]
        if len(wrong):
            notes.append(
                f"{len(wrong)} cell{'s' if len(wrong) > 1 else ''} such as {wrong[0].as_py()!r} count as missing"
            )
        return Column(name, "number", (name,), form, "; ".join(notes) + _with_gaps(cells))
    forms = date_format(cells)
    if len(forms) == 1:
        return _dates(name, _to_timestamp(texts_to_dates(cells, forms[0])), forms[0])
    if len(forms) > 1:
        return _left_out(
            name, f"has dates such as {cells.drop_null()[0].as_py()!r}, day or month first; write 2024-12-31"
        )
    there = pc.utf8_trim_whitespace(cells.drop_null())
    distinct = pc.count_distinct(there).as_py()
    if too_many_texts(distinct, len(there)):
        return _left_out(name, f"has {distinct:,} different texts in {len(there):,} rows: {MANY_TEXTS}")
    return Column(
        name, "category", (name,), note=_gaps(f"{distinct:,} categor{'y' if distinct == 1 else 'ies'}", cells)
    )


def _dates(name: str, times: Any, form: str) -> Column:
    parts = _date_parts(times)
    note = f"as {', '.join(parts)}" + (f"; written as {form}" if form else "") + _with_gaps(times)
    return Column(name, "date", tuple(f"{name}: {part}" for part in parts), form, note)


def _left_out(name: str, reason: str) -> Column:
    return Column(name, "left out", (), note=reason)


def _identifies(name: str, cells: Any) -> bool:
    there = cells.drop_null()
    if is_text(there.type) and not pc.all(pc.match_substring_regex(there, r"^\s*\d+\s*$")).as_py():
        return False
    return names_identifiers(name) and MANY_DIFFERENT <= len(there) == pc.count_distinct(there).as_py()


def _gaps(note: str, cells: Any) -> str:
    return (note + _with_gaps(cells)).lstrip("; ")


def _with_gaps(cells: Any) -> str:
    return f"; {cells.null_count:,} missing" if cells.null_count else ""


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _floats(cells: pa.ChunkedArray) -> Floats:
    return np.array(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _to_timestamp(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates as timestamps in microseconds; those of a time zone by the clock on the wall there."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column)
    return column.cast(pa.timestamp("us"), safe=False)


def _days(times: pa.ChunkedArray) -> Floats:
    return _floats(times.cast(pa.int64())) / 1e6 / 86_400.0


def _hour(times: pa.ChunkedArray) -> Floats:
    return np.mod(_days(times), 1.0) * 24.0


PARTS: dict[str, Callable[[pa.ChunkedArray], Floats]] = {
    "days": _days,
    "day of year": lambda times: _floats(pc.day_of_year(times)),
    "weekday": lambda times: _floats(pc.day_of_week(times)),
    "hour": _hour,
}
"""What becomes of a date: days since 1970, the day of the year, the weekday (Monday is 0) and the hour."""


def _date_parts(times: pa.ChunkedArray) -> list[str]:
    """Return the parts that say something: those that are not the same in all rows, and the days in any case.

    The day of the year says nothing that the days do not, unless the dates span more than one year.
    """
    days = _days(times)
    span = float(np.nanmax(days) - np.nanmin(days)) if np.isfinite(days).any() else 0.0
    named = ["days"]
    if span > 366:
        named.append("day of year")
    if span > 7 and np.unique(PARTS["weekday"](times)).size > 1:
        named.append("weekday")
    hours = _hour(times)
    if span > 1 and np.unique(hours[np.isfinite(hours)]).size > 1:
        named.append("hour")
    return named
