"""A labelled table turned into one of candidate sets."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plr.columns.dataset import dataset_of, encode
from plr.columns.targets import read_target
from plr.errors import CandidateError, DataError, ParameterError
from plr.front_end import PYTHON, FrontEnd
from plr.generation import MECHANISMS, make_candidates, recipe
from plr.sources.folder import Folder, open_source
from plr.sources.named import named_columns
from plr.sources.recipe import with_recipe
from plr.sources.source import File, Source
from plr.streaming.generate_candidates import plan_generation
from plr.streaming.outputs import Piece
from plr.tables.output import Done, TableOutput, what_is_read
from plr.tables.row_reader import place_in

__all__ = ["generate_table"]


def generate_table(
    data: Any,
    target: str,
    out: Path,
    settings: Mapping[str, Any],
    *,
    truth_column: str | None = None,
    row: str | None = None,
    front: FrontEnd = PYTHON,
) -> tuple[Done, dict[str, Any]]:
    """Hide the labels of a table among false ones, and write it; return what was done, and how.

    The candidate column takes the target's name and place. Parquet and Feather files carry in their metadata how the
    table was made, where `plr.sources.recipe.read_recipe` finds it.

    Parameters
    ----------
    data : path, frame or Source
    target : str
        The column of true labels.
    out : path
        A file, whose ending says the format; for a folder also a folder.
    settings : mapping
        Arguments of `plr.make_candidates`.
    truth_column : str, optional
        Keep the true labels under this name.
    row : str, optional
        Write one line per candidate, with row ids in this column: one of the table, or a new one of numbers from 1 on.
    front : FrontEnd
    """
    made: dict[str, Any] = dict(recipe(**settings))
    source = open_source(data)
    made |= {"source": source.path.name, "target": target, "truth_column": truth_column}
    if named_columns("target", target, source.schema.names, source) != [target]:
        raise ParameterError("{parameter} takes one column, that of the true labels.", parameter="target")
    if truth_column is not None and not truth_column.strip():
        raise ParameterError(
            "{parameter} needs a name, or leave it out; it was given an empty one.", parameter="truth_column"
        )
    if truth_column in source.schema.names:
        raise ParameterError(
            f"{{parameter}} {truth_column}: {source} has a column of that name; choose another.",
            parameter="truth_column",
        )
    if row is not None:
        _check_row(source, target, row, truth_column)
        made["row"] = row
    truth = [] if truth_column is None else [pa.field(truth_column, pa.float64())]
    options = {"recipe": made, "read": what_is_read(source, whole=True)}
    output = TableOutput(
        source, out, truth, {"verb": "generate", "model": None, "options": options}, written=False, front=front
    )
    if isinstance(source, Folder):
        if any(target in dict(file.keys) for file in source.files) and output.is_folder:
            raise ParameterError(
                f"{target!r} comes from the names of folders, which cannot hold candidates; name a file with "
                "{parameter}.",
                parameter="out",
            )
        given = {name: value for name, value in settings.items() if name != "random_state"}
        with front.working("Looking at the labels") as tell:
            generation = plan_generation(source, target, given, settings["random_state"], tell)
        described = generation.describe()
        made = {**made, **described, "options": {**made["options"], **described["options"]}}

        def pieces(files: Sequence[File]) -> Generator[Piece]:
            return generation.pieces(files, truth_column)

    else:

        def pieces(files: Sequence[File]) -> Generator[Piece]:
            for _, table in source.batches(None, files):
                try:
                    y = read_target(table, target, source, place_in(source, 0))
                except DataError as error:
                    raise CandidateError(str(error)) from None
                X = None
                if MECHANISMS[settings["mechanism"]].uses_features:
                    X = encode(dataset_of(table, target), np.arange(table.num_rows))
                sets = make_candidates(y, X=X, **settings)
                table = table.set_column(table.column_names.index(target), target, sets.to_arrow())
                table = table if truth_column is None else table.append_column(truth_column, [y])
                table = table if row is None else _one_line_per_candidate(table, target, row)
                yield Piece(table, {"candidates": len(sets.values)})

    schema = pa.schema([*source.schema, *truth], metadata=source.schema.metadata)
    kind = pa.list_(pa.float64()) if row is None else pa.float64()
    schema = schema.set(schema.get_field_index(target), pa.field(target, kind))
    if row is not None and row not in schema.names:
        schema = schema.insert(0, pa.field(row, pa.int64()))
    output.schema = with_recipe(schema, made)
    return replace(output.write("Hiding the labels", pieces), columns=[]), made


def _check_row(source: Source, target: str, row: str, truth_column: str | None) -> None:
    """Refuse a column of row ids that is something else as well, or does not tell rows apart."""
    if source.in_batches:
        raise ParameterError(
            "{parameter} writes one line per candidate, which is for single tables; leave it out, and a folder gets "
            "lists of candidates.",
            parameter="row",
        )
    if not row.strip() or row in (target, truth_column):
        raise ParameterError(
            f"{{parameter}} needs a name of its own for the column of row ids, not {row!r}.", parameter="row"
        )
    if row in source.schema.names:
        ids = next(source.batches([row])).table[row]
        if ids.null_count or len(ids.unique()) < len(ids):
            raise DataError(
                f"{source}: the column {row!r} is empty in a row, or the same in two, so that it is no row id; name "
                "another with {parameter}, or a new one.",
                parameter="row",
                column=row,
                source=source.path,
            )


def _one_line_per_candidate(table: pa.Table, target: str, row: str) -> pa.Table:
    if row not in table.column_names:
        table = table.add_column(0, row, pa.array(np.arange(1, table.num_rows + 1)))
    lists = table[target].combine_chunks()
    lines = table.take(pc.list_parent_indices(lists))
    return lines.set_column(lines.column_names.index(target), target, lists.flatten())
