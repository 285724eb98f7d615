"""Where results are kept: a folder with one SQLite file, safe to be killed and to be shared by runners."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plr.errors import StoreError
from plr.paper.database import FILE_NAME, connect, create_tables, explained, leave_one_file, transaction
from plr.paper.execution import Fit
from plr.paper.grid import expand
from plr.paper.machine import Owner, describe_machine, is_dead, package_versions, revision, this_process
from plr.paper.protocol import Protocol, differences

__all__ = ["STALE_AFTER", "Store"]

STALE_AFTER = 60.0
"""Seconds without a heartbeat after which a claim counts as abandoned."""

_ROWS = """
SELECT c.dataset, c.model, c.method, c.false_labels, c.set_size, c.mechanism, c.fraction, c.trial,
       f.setting, f.rule, f.epoch, f.val_loss, f.val_evidence, f.val_truth, f.test_mse, f.problem
FROM fits f JOIN cells c ON c.key = f.cell WHERE c.state = 'done'
ORDER BY c.dataset, c.model, c.method, c.false_labels, c.fraction, c.trial, f.setting, f.rule
"""


class Store:
    """The results of one protocol.

    Made by `create`, for runners, or `open`, for readers. A cell is claimed, then finished or failed. A finished cell
    is written in one transaction and never changes. One store object may be used from many threads.

    Attributes
    ----------
    path : Path
        The SQLite file.
    protocol : Protocol
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, protocol: Protocol) -> None:
        self.path = path
        self.protocol = protocol
        self._connection = connection
        self._lock = threading.RLock()
        self._run: int | None = None
        self._owner = this_process()

    @classmethod
    def create(cls, folder: str | os.PathLike[str], protocol: Protocol) -> Store:
        """Open the store in a folder to go on with a protocol, or make it.

        Raises
        ------
        StoreError
            Where the folder cannot be used, or holds results of other settings; the message lists what differs.
        """
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise StoreError(f"{place} is a file, or lies below one; results need a folder.") from error
        except OSError as error:
            raise StoreError(f"The folder {place} cannot be made: {error.strerror}.") from error
        path = place / FILE_NAME
        connection = connect(path, writing=True)
        try:
            with explained(path), transaction(connection):
                if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    create_tables(connection)
                    _fill(connection, protocol)
                digest, settings = connection.execute("SELECT digest, settings FROM protocol").fetchone()
            if digest != protocol.digest:
                found = differences(json.loads(settings), protocol.settings())
                raise StoreError(
                    f"{place} holds results of other settings ({'; '.join(found)}). "
                    f"Use the same settings, or another folder."
                )
        except BaseException:
            connection.close()
            raise
        return cls(path, connection, protocol)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Store:
        """Open a store to read it; takes the folder or the file in it, even while a runner is at work on it."""
        file = Path(path)
        if file.is_dir():
            file = file / FILE_NAME
        if not file.is_file():
            what = f"has no {FILE_NAME}" if Path(path).is_dir() else "does not exist"
            raise StoreError(f"{path} {what}; name a folder that plr benchmark wrote its results to.")
        connection = connect(file, writing=False)
        try:
            with explained(file):
                text = connection.execute("SELECT protocol FROM protocol").fetchone()[0]
            return cls(file, connection, Protocol.from_json(text))
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close the file; what this runner had claimed is free again."""
        with self._lock:
            if self._run is not None:
                # Nothing is lost where this fails: claims of a process that has ended are void.
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("DELETE FROM claims WHERE run = ?", (self._run,))
            leave_one_file(self._connection)
            self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, command: str | None = None, device: str = "cpu") -> None:
        """Record that a run begins, with what it is run with and on."""
        values = (
            datetime.now(UTC).isoformat(timespec="seconds"),
            json.dumps(package_versions()),
            json.dumps(describe_machine()),
            command,
            revision(),
            device,
        )
        with self._lock, explained(self.path), transaction(self._connection):
            cursor = self._connection.execute(
                "INSERT INTO runs (created, versions, machine, command, revision, device) VALUES (?, ?, ?, ?, ?, ?)",
                values,
            )
            self._run = cursor.lastrowid

    def claim(self, *keys: str) -> list[str]:
        """Claim those of some cells that are neither done nor claimed by a running process; return them."""
        with self._lock, explained(self.path):
            # A look first: most refusals need no lock on the file.
            free = [key for key in keys if self._is_free(key)]
            if not free:
                return []
            with transaction(self._connection):
                free = [key for key in free if self._is_free(key)]
                self._connection.executemany(
                    "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)",
                    [(key, self._run, *self._owner, time.time()) for key in free],
                )
                self._connection.executemany(
                    "UPDATE cells SET attempts = attempts + 1 WHERE key = ?", [(key,) for key in free]
                )
            return free

    def beat(self) -> None:
        """Renew the heartbeat of this runner's claims."""
        with self._lock, explained(self.path):
            self._connection.execute("UPDATE claims SET heartbeat = ? WHERE run = ?", (time.time(), self._run))

    def finish(self, *results: tuple[str, Iterable[Fit], float]) -> int:
        """Write some cells' fits and seconds, all or nothing; return how many were still this runner's to write."""
        finished = 0
        with self._lock, explained(self.path), transaction(self._connection):
            for key, fits, seconds in results:
                if not self._give_up(key):
                    continue
                rows = [(key, *dataclasses.astuple(fit)) for fit in fits]
                self._connection.executemany(f"INSERT INTO fits VALUES ({', '.join('?' * 9)})", rows)
                self._connection.execute(
                    "UPDATE cells SET state = 'done', run = ?, seconds = ?, error = NULL WHERE key = ?",
                    (self._run, seconds, key),
                )
                finished += 1
        return finished

    def fail(self, key: str, error: str) -> None:
        """Record that a cell could not be done; the next run tries it again."""
        with self._lock, explained(self.path), transaction(self._connection):
            if self._give_up(key):
                self._connection.execute(
                    "UPDATE cells SET state = 'failed', run = ?, error = ? WHERE key = ?", (self._run, error, key)
                )

    def release(self, *keys: str) -> None:
        """Give claimed cells back undone."""
        with self._lock, explained(self.path), transaction(self._connection):
            self._connection.executemany(
                "DELETE FROM claims WHERE cell = ? AND run = ?", [(key, self._run) for key in keys]
            )

    def is_done(self, key: str) -> bool:
        """Return whether a cell is finished."""
        return bool(self._select("SELECT key FROM cells WHERE key = ? AND state = 'done'", key))

    def states(self) -> dict[str, str]:
        """Return the state of each cell by its key: waiting, done or failed."""
        return {cell["key"]: cell["state"] for cell in self._select("SELECT key, state FROM cells")}

    def cells(self) -> list[dict[str, Any]]:
        """Return every cell: coordinates, state, seconds, error, attempts and the run that did it."""
        return self._select("SELECT * FROM cells ORDER BY dataset, model, method, false_labels, fraction, trial")

    def failures(self) -> list[dict[str, Any]]:
        """Return the cells that could not be done."""
        return [cell for cell in self.cells() if cell["state"] == "failed"]

    def runs(self) -> list[dict[str, Any]]:
        """Return what each run was made with and on: versions, machine, command, git revision, when."""
        runs = self._select("SELECT * FROM runs ORDER BY id")
        return [{**run, "versions": json.loads(run["versions"]), "machine": json.loads(run["machine"])} for run in runs]

    def rows(self) -> list[dict[str, Any]]:
        """Return the fits of all finished cells with their coordinates, in an order that does not depend on the work.

        ``setting`` is JSON text, the same text for equal settings; ``rule`` is one of
        `plr.paper.selection.EPOCH_RULES`.
        """
        return self._select(_ROWS)

    def _select(self, query: str, *values: str) -> list[dict[str, Any]]:
        with self._lock, explained(self.path):
            cursor = self._connection.execute(query, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def _is_free(self, key: str) -> bool:
        cell = self._connection.execute(
            "SELECT place, pid, started, heartbeat FROM cells LEFT JOIN claims ON cell = key"
            " WHERE key = ? AND state != 'done'",
            (key,),
        ).fetchone()
        if cell is None:
            return False
        *owner, heartbeat = cell
        return heartbeat is None or time.time() - heartbeat > STALE_AFTER or is_dead(Owner(*owner))

    def _give_up(self, key: str) -> bool:
        gone = self._connection.execute("DELETE FROM claims WHERE cell = ? AND run = ?", (key, self._run))
        return gone.rowcount == 1


def _fill(connection: sqlite3.Connection, protocol: Protocol) -> None:
    connection.execute(
        "INSERT INTO protocol VALUES (?, ?, ?)",
        (protocol.digest, json.dumps(protocol.settings()), protocol.to_json()),
    )
    connection.executemany(
        "INSERT INTO cells (key, set_size, mechanism, dataset, model, method, false_labels, fraction, trial)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (cell.key(protocol), protocol.set_size, protocol.mechanism, *dataclasses.astuple(cell))
            for cell in expand(protocol)
        ],
    )
