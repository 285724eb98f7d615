"""CSV text: its encoding, what separates its columns, and which line is wrong where one is."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from plr.errors import DataError

__all__ = ["as_utf8", "parse_csv", "parse_texts"]

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATORS = (";", "\t")
# Types are told from a whole block, so as much as possible is one.
_LARGEST_BLOCK = 2**30
# Codes look like integers, but would not come back as they were: 00123, or more digits than 64 bits hold.
_MAY_BE_CODES = re.compile(rb"(?:^|[,;\t\"])\s*[+-]?0\d|\d{19}", re.MULTILINE)
_CONVERSION = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error")


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


def parse_csv(data: bytes, path: Path, check_names: Callable[[list[str]], None]) -> pa.Table:
    """Return the table that a CSV text holds.

    Parameters
    ----------
    data : bytes
        UTF-8.
    path : Path
        For messages.
    check_names : callable
        Raises where the names of the columns will not do; asked before anything is read.
    """
    if not data.strip():
        raise DataError(f"{path} is empty.")
    if b"\n" not in data.strip() and b"\r" not in data.strip():
        raise DataError(f"{path} has no rows: it is one line long, and the first line names the columns.")
    header = _header(data)
    separator = _separator(header)
    if '"' not in header:
        check_names(header.split(separator))
    decimal = "," if separator == ";" and _has_decimal_commas(data, path) else "."
    texts: dict[str, pa.DataType] = {}
    while True:
        try:
            table = _parse(data, separator, decimal, texts)
            return _with_codes(table, data, separator) if _MAY_BE_CODES.search(data) else table
        except pa.ArrowInvalid as error:
            # Beyond the first block a column may turn out to hold texts after all.
            found = _CONVERSION.search(str(error))
            names = _names(data, separator) if found else []
            name = names[int(found.group(1))] if found and int(found.group(1)) < len(names) else None
            if name is None or name in texts:
                raise DataError(f"{path} cannot be read: {_problem(data, separator, str(error))}.") from error
            texts[name] = pa.string()


def parse_texts(data: bytes, table: pa.Table) -> pa.Table:
    """Return the cells of a CSV text as they are written, whatever they stand for.

    Parameters
    ----------
    data : bytes
        UTF-8.
    table : pyarrow.Table
        What `parse_csv` made of the same text. Where decimal commas were understood, points are returned.
    """
    separator = _separator(_header(data))
    texts = _parse_texts(data, separator, table.column_names)
    if separator == ";":
        for place, field in enumerate(table.schema):
            if pa.types.is_floating(field.type):
                texts = texts.set_column(place, field.name, pc.replace_substring(texts[field.name], ",", "."))
    return texts


def _parse_texts(data: bytes, separator: str, names: list[str], *, nulls: bool = False) -> pa.Table:
    return pyarrow.csv.read_csv(
        pa.BufferReader(data),
        read_options=_one_block(data),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=b'"' in data),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=names,
            strings_can_be_null=nulls,
        ),
    )


def _with_codes(table: pa.Table, data: bytes, separator: str) -> pa.Table:
    """Return a table whose columns of codes are texts again."""
    numbers = [field.name for field in table.schema if pa.types.is_integer(field.type) or _is_long(table[field.name])]
    texts = _parse_texts(data, separator, numbers, nulls=True) if numbers else table
    for name in numbers:
        cells = texts[name].drop_null()
        if pa.types.is_integer(table[name].type):
            codes = pc.any(pc.match_substring_regex(cells, r"^\s*[+-]?0\d"))
        else:
            codes = pc.all(pc.match_substring_regex(cells, r"^\s*[+-]?\d+\s*$"))
        if codes.as_py():
            table = table.set_column(table.column_names.index(name), name, texts[name])
    return table


def _is_long(column: pa.ChunkedArray) -> bool:
    """Return whether a column may hold whole numbers that only a float64 can take, of many digits."""
    if column.type != pa.float64():
        return False
    largest = pc.max(pc.abs(column)).as_py()
    return largest is not None and largest >= 2.0**63


def _one_block(data: bytes) -> pyarrow.csv.ReadOptions:
    return pyarrow.csv.ReadOptions(block_size=min(max(len(data) + 1, 2**20), _LARGEST_BLOCK))


def _header(data: bytes) -> str:
    return data.lstrip(b"\r\n").split(b"\n", 1)[0].decode().rstrip("\r")


def _parse(data: bytes, separator: str, decimal: str, texts: dict[str, pa.DataType]) -> pa.Table:
    return pyarrow.csv.read_csv(
        pa.BufferReader(data),
        read_options=_one_block(data),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=b'"' in data),
        convert_options=pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, decimal_point=decimal, column_types=texts or None
        ),
    )


def _separator(header: str) -> str:
    outside = re.sub(r'"[^"]*"', "", header)
    if "," in outside:
        return ","
    return max(_SEPARATORS, key=outside.count) if any(sign in outside for sign in _SEPARATORS) else ","


def _has_decimal_commas(data: bytes, path: Path) -> bool:
    """Whether numbers in a file separated by semicolons have decimal commas; an error where some have points."""
    number = rb"(?:^|;)\s*[+-]?\d+%b\d+\s*(?=;|\r?$)"
    comma = re.search(number % rb",", data, re.MULTILINE)
    point = re.search(number % rb"\.", data, re.MULTILINE)
    if comma and point:
        raise DataError(
            f"{path} has numbers with decimal commas ({_shown(comma)}) and with decimal points ({_shown(point)}); save "
            "it with points throughout."
        )
    return comma is not None


def _shown(match: re.Match[bytes]) -> str:
    return match.group().strip(b"; \r\n").decode()


def _names(data: bytes, separator: str) -> list[str]:
    options = pyarrow.csv.ParseOptions(delimiter=separator)
    header = data.lstrip(b"\r\n").split(b"\n", 1)[0] + b"\n"
    return pyarrow.csv.read_csv(pa.BufferReader(header), parse_options=options).column_names


def _problem(data: bytes, separator: str, message: str) -> str:
    """Say what is wrong with the first row that has too few or too many cells."""
    wrong: list[tuple[int, int, int, str]] = []

    def note(row: pyarrow.csv.InvalidRow) -> str:
        wrong.append((row.number or 0, row.actual_columns, row.expected_columns, row.text))
        return "skip"

    # Only what the handler is told counts here.
    with contextlib.suppress(pa.ArrowInvalid):
        pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=separator, newlines_in_values=b'"' in data, invalid_row_handler=note
            ),
        )
    if not wrong:
        return message.splitlines()[0].rstrip(".")
    number, has, needs, text = wrong[0]
    # Arrow counts rows that are there; blank lines are not.
    filled = [place for place, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    line = filled[number - 1] if 0 < number <= len(filled) and b'"' not in data else number
    shown = " ".join(text.split())
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    more = f", and {len(wrong) - 1} more such" if len(wrong) > 1 else ""
    quotes = "; a quotation mark may be left open" if text.count('"') % 2 else ""
    cells = f"{has} cell{'' if has == 1 else 's'}"
    return f"line {line} has {cells} where the first line names {needs} columns: {shown}{more}{quotes}"
