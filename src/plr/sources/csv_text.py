"""CSV text: its encoding, what separates its columns, and which line is wrong where one is."""

from __future__ import annotations

import codecs
import contextlib
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from plr.errors import DataError
from plr.sources.source import check_names, in_arrow

__all__ = ["MISSING_WORDS", "as_utf8", "csv_names", "parse_csv", "typed_cells"]

MISSING_WORDS = pa.array(pyarrow.csv.ConvertOptions().null_values)
"""Texts such as NA that stand for an empty cell; the empty text is one of them."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LARGEST_BLOCK = 2**30
_TRUE = ("1", "True", "TRUE", "true")
_TRUTHS = (*_TRUE, "0", "False", "FALSE", "false")
_DATES = (pa.date32(), pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = r"^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?$"
_NUMBER = re.compile(r"[+-]?(\d|[.,]\d|inf|nan)", re.IGNORECASE)
_LEADING_ZERO = r"^\s*[+-]?0\d"
_WHOLE = r"^\s*[+-]?\d+\s*$"
_FIRST_ROWS = 100
# What Arrow says of a text that it cannot read, where there are blanks around it.
_BLANKS = re.compile(r"'([ \t].*|.*[ \t])' as")


def as_utf8(data: bytes, path: Path) -> bytes:
    """Return text as UTF-8 without its mark, or say which line is none."""
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding).encode()
            except UnicodeError as error:
                raise DataError(f"{path} begins as {encoding.upper()} text, but is cut short or damaged.") from error
    place = data.find(b"\0")
    if place >= 0:
        raise DataError(
            f"{path} has a NUL byte in line {_line(data, place)}: it is no text, or text in UTF-16 without its mark; "
            "save it as UTF-8."
        )
    try:
        # Checked here, because Arrow would make a column of bytes of it.
        data.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not in UTF-8: line {_line(data, error.start)} has the byte 0x{data[error.start]:02x}; save it "
            "as UTF-8 (in Excel: CSV UTF-8)."
        ) from error
    return data


def _line(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1


def parse_csv(data: bytes, path: Path, separator: str | None = None) -> tuple[pa.Table, pa.Table]:
    """Return the table that a CSV text holds, and its cells as they are written there.

    Parameters
    ----------
    data : bytes
        UTF-8.
    path : Path
        For messages.
    separator : str, optional
        What is between the columns; a comma, a semicolon or a tab, as the first line has it, unless given.

    Returns
    -------
    table, texts : pyarrow.Table
        Where decimal commas were understood, the texts have points.
    """
    if data.isspace() or not data:
        raise DataError(f"{path} is empty.")
    if not re.search(rb"\S\s*[\n\r]\s*\S", data):
        raise DataError(f"{path} has no rows: it is one line long, and the first line names the columns.")
    header = _header(data)
    separator = separator or _separator(header)
    if '"' not in header:
        # Before anything is read.
        check_names(header.split(separator), path)
    commas = separator == ";" and _has_decimal_commas(data, path)
    options = pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=b'"' in data)
    try:
        names = _names(header, options)
        texts = pyarrow.csv.read_csv(
            in_arrow(data),
            read_options=pyarrow.csv.ReadOptions(block_size=min(max(len(data) + 1, 2**20), _LARGEST_BLOCK)),
            parse_options=options,
            convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} cannot be read: {_problem(data, separator, str(error))}.") from error
    typed = [typed_cells(column, decimal_comma=commas) for column in texts.columns]
    for place, column in enumerate(typed):
        if commas and pa.types.is_floating(column.type):
            points = pc.replace_substring(texts.column(place), ",", ".")
            texts = texts.set_column(place, texts.field(place), points)
    return pa.table(typed, names=texts.column_names), texts


def csv_names(data: bytes, path: Path, separator: str | None = None) -> list[str]:
    """Return the names of the columns of a CSV text, of which the beginning is enough."""
    header = _header(as_utf8(data, path))
    return _names(header, pyarrow.csv.ParseOptions(delimiter=separator or _separator(header)))


def _names(header: str, options: pyarrow.csv.ParseOptions) -> list[str]:
    return list(pyarrow.csv.read_csv(in_arrow(f"{header}\n".encode()), parse_options=options).column_names)


def _separator(header: str) -> str:
    outside = re.sub(r'"[^"]*"', "", header)
    return "," if "," in outside else max(",;\t", key=outside.count)


def typed_cells(cells: pa.ChunkedArray, *, decimal_comma: bool = False) -> pa.ChunkedArray:
    """Return texts as the first of these that all of them are: integers, booleans, dates, times, numbers, or texts.

    Words for "missing", such as NA, become null. Codes that integers would not bring back as they were, such as 00123
    or whole numbers of more than 64 bits, stay texts.

    >>> [str(typed_cells(pa.chunked_array([cells])).type) for cells in (["1", "NA"], ["1", "2.5"], ["01", "2"])]
    ['int64', 'double', 'string']
    """
    missing = pc.is_in(cells, MISSING_WORDS)
    if pc.any(missing).as_py():
        cells = pc.if_else(missing, pa.scalar(None, pa.string()), cells)
    there = cells.drop_null()
    if not len(there):
        return pa.chunked_array([pa.nulls(len(cells))])
    # What the first cell is not, the column is not.
    first = there[0].as_py().strip(" \t")
    if _NUMBER.match(first) and (found := _cast(cells, pa.int64())) is not None:
        return cells if pc.any(pc.match_substring_regex(there, _LEADING_ZERO)).as_py() else found
    if first in _TRUTHS and pc.all(pc.is_in(there, pa.array(_TRUTHS))).as_py():
        return pc.if_else(cells.is_valid(), pc.is_in(cells, pa.array(_TRUE)), pa.scalar(None, pa.bool_()))
    if _DATE.match(first):
        for kind in _DATES:
            if (found := _cast(cells, kind)) is not None:
                return found
    if re.match(_TIME, first) and pc.all(pc.match_substring_regex(trimmed := _trimmed(cells), _TIME)).as_py():
        whole = pc.replace_substring_regex(trimmed, r"^(\d\d:\d\d)$", r"\1:00")
        return pc.strptime(whole, format="%H:%M:%S", unit="s").cast(pa.time32("s"))
    if _NUMBER.match(first) and (found := _floats(cells, decimal_comma)) is not None:
        largest = pc.max(pc.abs(found)).as_py()
        whole = largest is not None and largest >= 2.0**63 and pc.all(pc.match_substring_regex(there, _WHOLE)).as_py()
        return cells if whole else found
    return cells


def _floats(cells: pa.ChunkedArray, decimal_comma: bool) -> pa.ChunkedArray | None:
    if decimal_comma:
        if pc.any(pc.match_substring(cells, ".")).as_py():
            return None
        cells = pc.replace_substring(cells, ",", ".")
    found = _cast(cells, pa.float64())
    # A cast takes no plus sign.
    signs = r"^\s*\+([^+-])"
    if found is None and pc.any(pc.match_substring_regex(cells, signs)).as_py():
        return _cast(pc.replace_substring_regex(cells, signs, r"\1"), pa.float64())
    return found


def _cast(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    """Return texts as another type, with or without blanks around them; None where some are no such thing."""
    # A cast that fails is slow, and most fail in the first rows.
    return None if _cast_at_once(cells.slice(0, _FIRST_ROWS), kind) is None else _cast_at_once(cells, kind)


def _cast_at_once(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return cells.cast(kind)
    except pa.ArrowInvalid as error:
        return _cast_at_once(_trimmed(cells), kind) if _BLANKS.search(str(error)) else None


def _trimmed(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.ascii_trim(cells, " \t")


def _header(data: bytes) -> str:
    """Return the names of the columns as they are written; a quoted name may have several lines."""
    data = data.lstrip(b"\r\n")
    end = data.find(b"\n")
    while end >= 0 and data.count(b'"', 0, end) % 2:
        end = data.find(b"\n", end + 1)
    return data[: end if end >= 0 else len(data)].decode().rstrip("\r")


def _has_decimal_commas(data: bytes, path: Path) -> bool:
    """Whether numbers in a file separated by semicolons have decimal commas; an error where some have points."""
    number = rb"(?:^|;)\s*([+-]?\d+%b\d+)\s*(?=;|\r?$)"
    comma = re.search(number % rb",", data, re.MULTILINE)
    point = re.search(number % rb"\.", data, re.MULTILINE)
    if comma and point:
        raise DataError(
            f"{path} has numbers with decimal commas ({comma.group(1).decode()}) and with decimal points "
            f"({point.group(1).decode()}); save it with points throughout."
        )
    return comma is not None


def _problem(data: bytes, separator: str, message: str) -> str:
    """Say what is wrong with the first row that has too few or too many cells."""
    wrong: list[pyarrow.csv.InvalidRow] = []

    def note(row: pyarrow.csv.InvalidRow) -> str:
        wrong.append(row)
        return "skip"

    # Only what the handler receives counts here.
    with contextlib.suppress(pa.ArrowInvalid):
        pyarrow.csv.read_csv(
            in_arrow(data),
            read_options=pyarrow.csv.ReadOptions(use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=separator, newlines_in_values=b'"' in data, invalid_row_handler=note
            ),
        )
    if not wrong:
        return message.splitlines()[0].rstrip(".")
    needs, has, number, text = wrong[0]
    number = number or 0
    # Arrow counts rows that are there; blank lines are not.
    filled = [place for place, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    line = filled[number - 1] if 0 < number <= len(filled) and b'"' not in data else number
    shown = " ".join(text.split())
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    more = f", and {len(wrong) - 1} more such" if len(wrong) > 1 else ""
    quotes = "; a quotation mark may be left open" if text.count('"') % 2 else ""
    cells = f"{has} cell{'' if has == 1 else 's'}"
    return f"line {line} has {cells} where the first line names {needs} columns: {shown}{more}{quotes}"
