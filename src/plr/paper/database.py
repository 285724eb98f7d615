"""The SQLite file under a store: its tables, how it is opened, and what its errors mean in words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from plr.errors import StoreError

__all__ = ["FILE_NAME", "FORMAT", "connect", "create_tables", "explained", "leave_one_file", "transaction"]

FILE_NAME = "results.sqlite"

FORMAT = 1
"""Version of the tables below, in the file's ``user_version``."""

# Marks the file as ours, in SQLite's header.
_APPLICATION = int.from_bytes(b"plrb", "big")

_TABLES = """
CREATE TABLE protocol (
    digest TEXT NOT NULL,
    settings TEXT NOT NULL,
    protocol TEXT NOT NULL
);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    created TEXT NOT NULL,
    versions TEXT NOT NULL,
    machine TEXT NOT NULL,
    command TEXT,
    revision TEXT,
    device TEXT NOT NULL
);
CREATE TABLE cells (
    key TEXT PRIMARY KEY,
    dataset TEXT NOT NULL,
    model TEXT NOT NULL,
    method TEXT NOT NULL,
    false_labels INTEGER,
    set_size TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    fraction REAL NOT NULL,
    trial INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'failed')),
    attempts INTEGER NOT NULL DEFAULT 0,
    run INTEGER REFERENCES runs (id),
    seconds REAL,
    error TEXT
);
CREATE TABLE claims (
    cell TEXT PRIMARY KEY REFERENCES cells (key),
    run INTEGER NOT NULL REFERENCES runs (id),
    place TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    heartbeat REAL NOT NULL
);
CREATE TABLE fits (
    cell TEXT NOT NULL REFERENCES cells (key),
    setting TEXT NOT NULL,
    rule TEXT NOT NULL,
    epoch INTEGER,
    val_loss REAL,
    val_evidence REAL,
    val_truth REAL,
    test_mse REAL,
    problem TEXT,
    PRIMARY KEY (cell, setting, rule)
) WITHOUT ROWID;
CREATE TRIGGER done_is_done BEFORE UPDATE ON cells WHEN OLD.state = 'done'
BEGIN SELECT RAISE(ABORT, 'a finished cell never changes'); END;
"""

_READ_ONLY = " cannot be written to; check the permissions of the file and its folder."
_UNUSABLE = " is not a usable benchmark store ({error}); name another, or move it away."

# What SQLite's errors mean, by a part of their text.
_MEANINGS = {
    "disk is full": ": the disk is full; free some space and run the same command again, finished cells are kept.",
    "readonly": _READ_ONLY,
    "read-only": _READ_ONLY,
    "not a database": _UNUSABLE,
    "malformed": _UNUSABLE,
    "unable to open": " cannot be opened; check that the folder can be written to.",
    "locked": " is locked by another program for over a minute.",
}


def connect(path: Path, *, writing: bool) -> sqlite3.Connection:
    """Open the file and check that it is a store that this version of plr can read; may be empty when ``writing``."""
    with explained(path):
        connection = _open(path, writing)
        try:
            application, version = (
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application != _APPLICATION and (tables or not writing):
                other = "is a database of some other program, not a plr benchmark store"
                raise StoreError(f"{path} {other if tables else 'holds nothing yet'}.")
            if version > FORMAT:
                raise StoreError(f"{path} has format {version}, this plr knows up to {FORMAT}; use a newer plr.")
        except BaseException:
            connection.close()
            raise
        return connection


def create_tables(connection: sqlite3.Connection, tables: str = _TABLES) -> None:
    """Make the tables of a store, or others, inside a transaction that the caller opened."""
    for statement in tables.replace("; END", "\0 END").split(";\n"):
        if statement.strip():
            connection.execute(statement.replace("\0", ";"))
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all or nothing, with no other writer in between."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into one line that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        found = (meaning for part, meaning in _MEANINGS.items() if part in str(error))
        raise StoreError(f"{path}{next(found, ': {error}').format(error=error)}") from error


def leave_one_file(connection: sqlite3.Connection) -> None:
    """Take the log, and the file beside it, back into the database, unless another program has it open."""
    # While it keeps a log, everybody who reads leaves these files behind.
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")


def _open(path: Path, writing: bool) -> sqlite3.Connection:
    if writing:
        connection = _connection(path, "mode=rwc")
        connection.execute("PRAGMA journal_mode = WAL")
        # A finished cell is on the disk before the next begins: neither a crash nor a power cut takes it back.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection
    connection = _connection(path, "mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # A file that keeps a log needs a second file beside it, which a read-only folder does not let SQLite make.
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise
        connection.close()
        connection = _connection(path, "immutable=1")
    return connection


def _connection(path: Path, options: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{options}"
    return sqlite3.connect(address, isolation_level=None, check_same_thread=False, timeout=60.0, uri=True)
