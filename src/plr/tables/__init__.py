"""Models of tables: `TableModel`, and what it does with the rows of a source."""

from plr.front_end import FrontEnd
from plr.sources.folder import open_source
from plr.tables.comparison import compare_table
from plr.tables.model import TableModel, restore
from plr.tables.output import write_table

__all__ = ["FrontEnd", "TableModel", "compare_table", "open_source", "restore", "write_table"]
