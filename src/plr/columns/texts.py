"""Numbers and dates that were stored as texts."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["date_format", "is_text", "likeliest_date_format", "number_form", "texts_to_dates", "texts_to_numbers"]

# A column counts as numbers where so many of its cells are: the others are words for "missing".
_MOSTLY = 0.9
_PLAIN = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_THOUSANDS = r"^\s*[+-]?\d{1,3}(,\d{3})+(\.\d*)?\s*$"
_DECIMAL_COMMA = r"^\s*[+-]?\d+,\d+\s*$"
# A comma before exactly three digits may separate thousands.
_NO_THOUSANDS = r"^\s*[+-]?(0\d*|\d{4,}),\d+\s*$|,(\d{1,2}|\d{4,})\s*$"
_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y")
_BEGINNING = r"^\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|^\d{1,2} [A-Za-z]{3,9} \d{4}"
# Parts of a second, and the zone: dates are taken by the clock on the wall.
_AFTER_CLOCK = r"(:\d{2})([.,]\d+)?\s?(Z|[+-]\d{2}:?\d{2})?$"
_CODE = r"^\s*[+-]?0\d+\s*$"
_CLOCKS = ("", " %H:%M:%S", " %H:%M", "T%H:%M:%S", "T%H:%M")
_FORMATS = [day + clock for clock in _CLOCKS for day in _DATES]


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds texts.

    >>> is_text(pa.string()), is_text(pa.float64())
    (True, False)
    """
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def number_form(column: pa.ChunkedArray) -> str | None:
    """Say how texts are written as numbers: ``"plain"``, ``"thousands"``, ``"decimal comma"``, or None if they are not.

    >>> number_form(pa.chunked_array([["1,234", "5"]])), number_form(pa.chunked_array([["1,5", "2"]]))
    ('thousands', 'decimal comma')
    >>> number_form(pa.chunked_array([["red", "1"]])) is None
    True

    Codes such as 00123 are none.
    """
    there = column.drop_null()
    if len(there) == 0 or pc.any(pc.match_substring_regex(there, _CODE)).as_py():
        return None
    plain, thousands, comma = (_share(there, pattern) for pattern in (_PLAIN, _THOUSANDS, _DECIMAL_COMMA))
    if plain + comma >= _MOSTLY and comma > 0 and _share(there, _NO_THOUSANDS) > 0:
        return "decimal comma"
    if plain + thousands >= _MOSTLY and thousands > 0:
        return "thousands"
    return "plain" if plain >= _MOSTLY else None


def texts_to_numbers(column: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    """Return texts as numbers, null where one is none.

    >>> texts_to_numbers(pa.chunked_array([["1,234.5", "n.a.", None]]), "thousands").to_pylist()
    [1234.5, None, None]
    """
    cells = pc.utf8_trim_whitespace(column)
    fits = pc.match_substring_regex(cells, _PLAIN)
    if form == "thousands":
        fits = pc.or_(fits, pc.match_substring_regex(cells, _THOUSANDS))
        cells = pc.replace_substring(cells, ",", "")
    elif form == "decimal comma":
        fits = pc.or_(fits, pc.match_substring_regex(cells, _DECIMAL_COMMA))
        cells = pc.replace_substring(cells, ",", ".")
    # Arrow's own reader of numbers knows neither a plus sign nor a point at the end.
    cells = pc.replace_substring_regex(pc.replace_substring_regex(cells, r"^\+", ""), r"\.$", "")
    return pc.if_else(fits, cells, pa.scalar(None, cells.type)).cast(pa.float64())


def date_format(column: pa.ChunkedArray) -> list[str]:
    """Return the formats that all texts of a column could be dates in: none, one, or two that contradict each other.

    >>> date_format(pa.chunked_array([["31.12.2024", "01.02.2024"]]))
    ['%d.%m.%Y']
    >>> date_format(pa.chunked_array([["03/04/2024", "01/02/2024"]]))
    ['%m/%d/%Y', '%d/%m/%Y']
    >>> date_format(pa.chunked_array([["soon"]]))
    []
    """
    there = column.drop_null()
    if len(there) == 0 or not pc.all(pc.match_substring_regex(there, _BEGINNING)).as_py():
        return []
    return [form for form in _FORMATS if texts_to_dates(there, form).null_count == 0]


def likeliest_date_format(column: pa.ChunkedArray) -> str:
    """Return the format that most texts of a column are dates in.

    >>> likeliest_date_format(pa.chunked_array([["2024-12-31", "soon"]]))
    '%Y-%m-%d'
    """
    return min(_FORMATS, key=lambda form: texts_to_dates(column, form).null_count)


def texts_to_dates(column: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    """Return texts as timestamps, null where one does not fit the format."""
    column = pc.replace_substring_regex(column, _AFTER_CLOCK, r"\1") if "%H" in form else column
    parsed = pc.strptime(column, format=form, unit="s", error_is_null=True)
    # A year of two digits would be one of the first century.
    early = pc.less(parsed, pa.scalar(datetime.datetime(1000, 1, 1), pa.timestamp("s")))
    return pc.if_else(pc.fill_null(early, False), pa.scalar(None, parsed.type), parsed)


def _share(cells: pa.ChunkedArray, pattern: str) -> float:
    return float(pc.mean(pc.match_substring_regex(cells, pattern).cast(pa.float64())).as_py())
