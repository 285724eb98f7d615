"""What a column is, and how its cells are read once that is decided."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.columns.dates import date_parts, has_clock, is_date, seconds, to_timestamp
from plr.columns.texts import date_format, is_text, likeliest_date_format, number_form, texts_to_dates, texts_to_numbers
from plr.errors import DataError

__all__ = [
    "KINDS",
    "Column",
    "Mended",
    "plain",
    "settled",
    "to_category",
    "to_dates",
    "to_numbers",
    "to_seconds",
    "to_truth",
    "what_is",
]

Floats = NDArray[np.float64]

KINDS = ("number", "boolean", "category", "date", "clock", "left out")
"""What a column can be."""

# Texts are an identifier or prose, and no categories, where there are so many and so large a share are different.
_MANY_TEXTS, _DIFFERENT = 20, 0.5
_ROW_NUMBERS = re.compile(r"(|unnamed: ?\d+|index|row|row[_ ]?(id|number|nr|no)|__index_level_\d+__)", re.IGNORECASE)
_IDENTIFIERS = re.compile(r"(.*[_ .-])?(id|nr|no|key)|.*[a-z](Id|ID)")
_YES, _NO = {"true", "yes", "y", "t", "1"}, {"false", "no", "n", "f", "0"}


@dataclass(frozen=True)
class Column:
    """One column of a table, and what becomes of it.

    Attributes
    ----------
    name : str
    kind : {"number", "boolean", "category", "date", "clock", "left out"}
    features : tuple of str
        The features made of it; none where it is left out.
    form : str
        How texts are written: a form of numbers, or the format of dates; empty where they are no texts.
    note : str
        What was done, in words; empty where there is nothing to say.
    """

    name: str
    kind: str
    features: tuple[str, ...]
    form: str = ""
    note: str = ""


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
    if is_date(kind):
        return _dates(name, to_timestamp(cells), "")
    if has_clock(kind):
        return Column(name, "clock", (name,), note=_gaps("in seconds", cells))
    if is_text(kind):
        return _text(name, cells)
    if types.is_integer(kind) and _ROW_NUMBERS.fullmatch(name.strip()) and _counts_rows(cells):
        return _left_out(name, "numbers the rows")
    if types.is_integer(kind) and _identifies(name, cells):
        return _left_out(name, "has a different number in every row and is named as an identifier")
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Column(name, "number", (name,), note=_gaps("", cells))
    return _left_out(name, f"has the type {kind}, which is neither number, text nor date")


def settled(column: Column, cells: Any) -> Column:
    """Return a column that says how its texts are written, told from some of its cells where training did not tell.

    >>> settled(Column("size", "number", ("size",)), pa.chunked_array([["1,250", "980"]])).form
    'thousands'
    """
    cells = plain(cells)
    if column.form or not is_text(cells.type):
        return column
    if column.kind == "number":
        return replace(column, form=number_form(cells) or "plain")
    return replace(column, form=likeliest_date_format(cells)) if column.kind == "date" else column


def to_numbers(cells: Any, column: Column, notes: list[Mended], *, some: bool = False) -> Floats:
    """Read cells of a column that held numbers in training; unless they are but some, one at least must be a number."""
    if is_text(cells.type):
        form = column.form or number_form(cells) or "plain"
        cells, wrong, first = texts_to_numbers(cells, form)
        if wrong and cells.null_count == len(cells) and not some:
            raise DataError(f"Column {column.name!r} held numbers in training and holds texts such as {first!r} now.")
        if wrong:
            notes.append(Mended(column.name, "number", wrong, first))
    elif is_date(cells.type) or pa.types.is_nested(cells.type):
        raise DataError(f"Column {column.name!r} held numbers in training and has the type {cells.type} now.")
    return _floats(cells)


def to_truth(cells: Any, column: Column, notes: list[Mended], *, some: bool = False) -> Floats:
    """Read cells of a column that held true and false in training."""
    if not is_text(cells.type):
        return to_numbers(cells, column, notes, some=some)
    folded = [None if cell is None else cell.strip().lower() for cell in cells.to_pylist()]
    known: dict[str | None, float] = {None: np.nan}
    known.update(dict.fromkeys(_YES, 1.0) | dict.fromkeys(_NO, 0.0))
    wrong = [cell for cell in folded if cell not in known]
    if wrong:
        raise DataError(f"Column {column.name!r} held true and false in training and holds {wrong[0]!r} now.")
    return np.array([known[cell] for cell in folded], dtype=np.float64)


def to_seconds(cells: Any, column: Column, notes: list[Mended], *, some: bool = False) -> Floats:
    """Read cells of a column that held times of day or lengths of time in training."""
    if pa.types.is_null(cells.type):
        return to_numbers(cells, column, notes, some=some)
    if not has_clock(cells.type):
        raise DataError(f"Column {column.name!r} held times in training and has the type {cells.type} now.")
    return seconds(cells)


def to_category(cells: Any, column: Column, _: list[Mended], *, some: bool = False) -> Any:  # noqa: ARG001
    """Read cells of a column that held categories in training: anything has a text."""
    if pa.types.is_nested(cells.type):
        raise DataError(f"Column {column.name!r} held texts in training and has the type {cells.type} now.")
    return pc.utf8_trim_whitespace(cells.cast(pa.string()))


def to_dates(cells: Any, column: Column, notes: list[Mended], *, some: bool = False) -> Any:
    """Read cells of a column that held dates in training; unless they are but some, one at least must be a date."""
    if is_text(cells.type):
        given = cells
        cells = texts_to_dates(cells, column.form or likeliest_date_format(cells))
        wrong = given.filter(pc.and_(given.is_valid(), pc.is_null(cells)))
        if len(wrong) and len(wrong) == len(given) - given.null_count and not some:
            raise DataError(
                f"Column {column.name!r} held dates in training and holds texts such as {wrong[0].as_py()!r} now."
            )
        if len(wrong):
            notes.append(Mended(column.name, "date", len(wrong), str(wrong[0].as_py())))
    elif pa.types.is_null(cells.type):
        cells = pa.nulls(len(cells), pa.timestamp("s"))
    elif not is_date(cells.type):
        raise DataError(f"Column {column.name!r} held dates in training and has the type {cells.type} now.")
    return to_timestamp(cells)


def _text(name: str, cells: Any) -> Column:
    form = number_form(cells)
    if form == "plain" and _identifies(name, cells):
        return _left_out(name, "has a different number in every row and is named as an identifier")
    if form is not None:
        _, wrong, first = texts_to_numbers(cells, form)
        said = {"plain": "", "thousands": "commas separate thousands", "decimal comma": "commas are decimal points"}
        others = f"{wrong} cell{'s' if wrong > 1 else ''} such as {first!r} count as missing" if wrong else ""
        notes = [part for part in ("texts read as numbers", said[form], others) if part]
        return Column(name, "number", (name,), form, "; ".join(notes) + _with_gaps(cells))
    forms = date_format(cells)
    if len(forms) == 1:
        return _dates(name, to_timestamp(texts_to_dates(cells, forms[0])), forms[0])
    if len(forms) > 1:
        return _left_out(
            name, f"has dates such as {cells.drop_null()[0].as_py()!r}, day or month first; write 2024-12-31"
        )
    there = pc.utf8_trim_whitespace(cells.drop_null())
    distinct = pc.count_distinct(there).as_py()
    if distinct >= _MANY_TEXTS and distinct > _DIFFERENT * len(there):
        return _left_out(name, f"has {distinct:,} different texts in {len(there):,} rows: names, prose or identifiers")
    return Column(
        name, "category", (name,), note=_gaps(f"{distinct:,} categor{'y' if distinct == 1 else 'ies'}", cells)
    )


def _dates(name: str, times: Any, form: str) -> Column:
    parts = date_parts(times)
    note = f"as {', '.join(parts)}" + (f"; written as {form}" if form else "") + _with_gaps(times)
    return Column(name, "date", tuple(f"{name}: {part}" for part in parts), form, note)


def _left_out(name: str, reason: str) -> Column:
    return Column(name, "left out", (), note=reason)


def _counts_rows(cells: Any) -> bool:
    numbers = _floats(cells)
    return bool(len(numbers) > 1 and (np.diff(numbers) == 1).all())


def _identifies(name: str, cells: Any) -> bool:
    there = cells.drop_null()
    if is_text(there.type) and not pc.all(pc.match_substring_regex(there, r"^\s*\d+\s*$")).as_py():
        return False
    named = _IDENTIFIERS.fullmatch(name.strip()) or _IDENTIFIERS.fullmatch(name.strip().lower())
    return bool(named) and len(there) >= _MANY_TEXTS and pc.count_distinct(there).as_py() == len(there)


def _floats(cells: Any) -> Floats:
    return np.array(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _gaps(note: str, cells: Any) -> str:
    return (note + _with_gaps(cells)).lstrip("; ")


def _with_gaps(cells: Any) -> str:
    return f"; {cells.null_count:,} missing" if cells.null_count else ""


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
