"""Models of tables: `TableModel`, and what it does with the rows of a source."""

from plr.sources.folder import open_source
from plr.tables.front_end import FrontEnd
from plr.tables.model import TableModel, restore
from plr.tables.writing import write_table

__all__ = ["FrontEnd", "TableModel", "open_source", "restore", "write_table"]
