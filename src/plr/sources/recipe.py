"""How a table of candidates was made, as ``plr generate`` writes it down in the metadata of Parquet and Feather."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from plr.errors import DataError
from plr.sources.files import format_of

__all__ = ["carries_recipe", "read_recipe", "with_recipe"]

_RECIPE = b"plr"
_CARRIERS = ("parquet", "feather")


def read_recipe(schema: pa.Schema, source: object = "The table") -> dict[str, Any] | None:
    """Return what ``plr generate`` wrote down about how a table was made, or None; ``source`` is for messages.

    >>> read_recipe(pa.schema({"y": pa.float64()})) is None
    True
    """
    written = (schema.metadata or {}).get(_RECIPE)
    try:
        recipe = None if written is None else json.loads(written)
    except ValueError:
        recipe = ""
    if recipe is not None and not isinstance(recipe, dict):
        # Without it, a column of true labels would be taken for a feature.
        raise DataError(f"{source} is damaged: what it says about how its table was made cannot be read.")
    return recipe


def with_recipe(schema: pa.Schema, recipe: Mapping[str, Any]) -> pa.Schema:
    """Return a schema that says how its table was made, for `read_recipe`."""
    return schema.with_metadata({**(schema.metadata or {}), _RECIPE: json.dumps(recipe).encode()})


def carries_recipe(path: str | os.PathLike[str]) -> bool:
    """Whether the file's format has a place for the recipe.

    >>> carries_recipe("a.parquet"), carries_recipe("a.csv")
    (True, False)
    """
    return format_of(path) in _CARRIERS
