"""JSON Lines: what is written is what Python's own writer would write, and reads back with the same types."""

import io
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.json
import pytest

from plr.streaming import formats
from plr.streaming.formats import json_lines

NAN, INF = math.nan, math.inf

COLUMNS = {
    "floats": pa.array([0.1, -1e300, 1e-7, 123456789.123, None]),
    "whole floats": pa.array([1.0, 2.0, -0.0, 1e16, 5.0]),
    "not finite": pa.array([0.5, NAN, INF, -INF, 2.5]),
    "singles": pa.array([0.1, 0.2, 0.3, 0.4, 0.5], pa.float32()),
    "integers": pa.array([1, -(2**62), None, 4, 5]),
    "flags": pa.array([True, False, None, True, True]),
    "texts": pa.array(['say "so"', "back\\slash", "new\nline", "käse", None]),
    "lists": pa.array([[1.5, 2.5], [], None, [3.0, NAN], [4.25]]),
    "lists of integers": pa.array([[1], [2, 3], [], None, [4]]),
    "whole lists": pa.array([[1.0], [2.0, 3.0], [], None, [4.0]]),
    "large lists": pa.array([[1.5], [2.0, 3.0], [], None, [4.0]], pa.large_list(pa.float64())),
    "nested": pa.array([{"a": 1.5}, {"a": NAN}, None, {"a": 2.0}, {"a": 3.0}]),
    "nothing": pa.nulls(5),
}


def finite(value):
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    if isinstance(value, dict):
        return {name: finite(entry) for name, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def written(table):
    return b"".join(json_lines(table))


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("rows", [2, 50_000], ids=["cut", "whole"])
def test_every_line_is_the_row(name, rows, monkeypatch):
    monkeypatch.setattr(formats, "_ROWS_OF_TEXT", rows)
    table = pa.table({'the "first"': range(5), name: COLUMNS[name]})
    lines = written(table.slice(1)).decode().splitlines()
    found = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    wanted = [{key: finite(value) for key, value in row.items()} for row in table.slice(1).to_pylist()]
    if name == "singles":
        assert [np.float32(row[name]) for row in found] == [row[name] for row in wanted]
    else:
        assert found == wanted


@pytest.mark.parametrize("name", ["floats", "whole floats", "integers", "texts", "lists of integers", "whole lists"])
def test_types_read_back(name):
    table = pa.table({name: COLUMNS[name]})
    assert pyarrow.json.read_json(io.BytesIO(written(table))).schema.types == table.schema.types


def test_no_rows_are_no_lines():
    assert written(pa.table({"x": pa.array([], pa.float64())})) == b""
