"""The experiments: protocol → grid → runner → store → tables.

>>> from dataclasses import replace
>>> from tempfile import TemporaryDirectory
>>> from plr.paper import Store, get_preset, run_benchmark, tabulate
>>> protocol = replace(get_preset("quick"), datasets=("auto-mpg",), methods=("IDent",), sizes=(4,), trials=2, epochs=3)
>>> with TemporaryDirectory() as folder:
...     finished = run_benchmark(protocol, folder).finished
...     with Store.open(folder) as store:
...         table = tabulate(store.rows(), "last")
>>> finished, len(table), table[0]["trials"]
(2, 1, 2)
"""

from __future__ import annotations

from plr.paper.grid import Cell, count_fits, expand
from plr.paper.methods import METHODS, MODELS, Method, get_method
from plr.paper.protocol import PRESETS, DataFile, Protocol, get_preset
from plr.paper.runner import RunProgress, RunSummary, run_benchmark
from plr.paper.selection import EPOCH_RULES, SELECTIONS, choose, summarise, tabulate
from plr.paper.store import Store

__all__ = [
    "EPOCH_RULES",
    "METHODS",
    "MODELS",
    "PRESETS",
    "SELECTIONS",
    "Cell",
    "DataFile",
    "Method",
    "Protocol",
    "RunProgress",
    "RunSummary",
    "Store",
    "choose",
    "count_fits",
    "expand",
    "get_method",
    "get_preset",
    "run_benchmark",
    "summarise",
    "tabulate",
]
