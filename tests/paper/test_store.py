"""What a store promises: all or nothing, one runner per cell, and one clear line when it cannot be used."""

import os
import sqlite3
import time
from dataclasses import replace

import pytest

from plr.errors import StoreError
from plr.paper import Store, expand
from plr.paper.database import connect
from plr.paper.execution import Fit
from plr.paper.machine import Owner, is_dead, package_versions, this_process
from plr.paper.store import STALE_AFTER

FIT = Fit('{"learning_rate": 0.01}', "last", 4, 1.0, 2.0, 3.0, 4.0)


@pytest.fixture
def key(tiny):
    return expand(tiny)[0].key(tiny)


@pytest.fixture
def store(tiny, tmp_path):
    with Store.create(tmp_path / "out", tiny) as store:
        store.begin("command")
        yield store


@pytest.fixture
def other(tiny, store):
    with Store.create(store.path.parent, tiny) as other:
        other.begin()
        yield other


def execute(store, statement, *values):
    connection = sqlite3.connect(store.path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_new_store_has_every_cell_waiting(store, tiny):
    assert set(store.states().values()) == {"waiting"}
    assert len(store.states()) == len(expand(tiny))
    assert store.rows() == []


def test_finished_cell_can_be_read_with_its_place(store, key):
    assert store.claim(key)
    assert store.finish((key, [FIT], 1.5))
    with Store.open(store.path.parent) as reader:
        assert reader.protocol == store.protocol
        (row,) = reader.rows()
    place = {"dataset": "auto-mpg", "model": "mlp", "method": "Supervised", "false_labels": 0, "trial": 0}
    assert {name: row[name] for name in place} == place
    assert (row["rule"], row["epoch"], row["val_truth"], row["test_mse"]) == ("last", 4, 3.0, 4.0)
    assert store.is_done(key)
    assert not store.claim(key)


def test_finished_cell_never_changes(store, key):
    store.claim(key)
    store.finish((key, [FIT], 1.5))
    with pytest.raises(sqlite3.IntegrityError, match="never changes"):
        execute(store, "UPDATE cells SET state = 'failed' WHERE key = ?", key)


def test_result_is_written_whole_or_not_at_all(store, key):
    store.claim(key)
    with pytest.raises(StoreError):
        store.finish((key, [FIT, FIT], 1.5))
    assert store.rows() == []
    assert store.states()[key] == "waiting"
    assert store.finish((key, [FIT], 1.5))


def test_runs_record_what_they_were_made_with(store, tmp_path):
    (run,) = store.runs()
    assert run["versions"] == package_versions()
    assert run["command"] == "command"
    assert run["machine"]["cores"] == os.cpu_count()
    assert {"python", "numpy", "numba", "plr"} <= set(run["versions"])
    assert os.uname().nodename not in str(run["machine"])
    assert str(tmp_path) not in str(run)


class TestClaims:
    def test_living_runner_keeps_its_cell(self, store, other, key):
        assert store.claim(key)
        assert not other.claim(key)
        store.release(key)
        assert other.claim(key)

    def test_claim_carries_its_heartbeat(self, store, key):
        before = time.time()
        store.claim(key)
        (beat,) = sqlite3.connect(store.path).execute("SELECT heartbeat FROM claims").fetchone()
        assert before <= beat <= time.time()

    def test_silent_runner_loses_its_cell(self, store, other, key):
        store.claim(key)
        execute(store, "UPDATE claims SET heartbeat = ?", time.time() - STALE_AFTER - 1)
        assert other.claim(key)
        assert not store.finish((key, [FIT], 1.0))
        assert other.finish((key, [FIT], 1.0))
        assert len(store.rows()) == 1

    def test_beat_keeps_a_claim(self, store, other, key):
        store.claim(key)
        execute(store, "UPDATE claims SET heartbeat = ?", time.time() - STALE_AFTER - 1)
        store.beat()
        assert not other.claim(key)

    def test_dead_process_loses_its_cell_at_once(self, store, other, key):
        if not this_process().place:
            pytest.skip("this system does not say which processes live")
        store.claim(key)
        execute(store, "UPDATE claims SET started = '1'")
        assert other.claim(key)

    def test_closed_store_leaves_nothing_claimed(self, tiny, store, other, key):
        other.claim(key)
        other.close()
        assert store.claim(key)

    def test_process_elsewhere_is_not_declared_dead(self):
        assert not is_dead(this_process())
        assert not is_dead(Owner("another machine", 1, "1"))
        assert not is_dead(Owner("", 1, ""))


def test_failure_is_recorded_and_can_be_claimed_again(store, key):
    store.claim(key)
    store.fail(key, "ValueError: no")
    assert [cell["error"] for cell in store.failures()] == ["ValueError: no"]
    assert store.rows() == []
    assert store.claim(key)
    store.finish((key, [FIT], 1.0))
    assert store.failures() == []


class TestRefusals:
    def test_other_settings_are_listed(self, store, tiny):
        with pytest.raises(StoreError) as caught:
            Store.create(store.path.parent, replace(tiny, trials=3, sizes=(2,)))
        text = str(caught.value)
        assert "trials: 2 there, 3 asked for" in text
        assert "sizes: 2,4 there, 2 asked for" in text
        assert "epochs" not in text

    def test_same_settings_in_another_order_go_on(self, store, tiny):
        Store.create(store.path.parent, replace(tiny, sizes=(4, 2))).close()

    def test_newer_format(self, store, tiny):
        folder = store.path.parent
        execute(store, "PRAGMA user_version = 99")
        for use in (lambda: Store.create(folder, tiny), lambda: Store.open(folder)):
            with pytest.raises(StoreError, match="newer plr"):
                use()

    def test_file_in_place_of_a_folder(self, tmp_path, tiny):
        (tmp_path / "file").write_text("")
        for place in ("file", "file/below"):
            with pytest.raises(StoreError, match="file"):
                Store.create(tmp_path / place, tiny)

    def test_folder_that_cannot_be_made(self, tiny):
        with pytest.raises(StoreError, match="cannot be made"):
            Store.create("/proc/nothing/here", tiny)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_folder_that_cannot_be_written_to(self, tmp_path, tiny):
        tmp_path.chmod(0o555)
        try:
            with pytest.raises(StoreError, match="written to"):
                Store.create(tmp_path, tiny)
        finally:
            tmp_path.chmod(0o755)

    @pytest.mark.parametrize("content", [b"no database, just text" * 100, b"SQLite format 3\0" + b"\x07" * 5000])
    def test_corrupt_file(self, tmp_path, tiny, content):
        (tmp_path / "results.sqlite").write_bytes(content)
        for use in (lambda: Store.create(tmp_path, tiny), lambda: Store.open(tmp_path)):
            with pytest.raises(StoreError, match="database") as caught:
                use()
            assert "\n" not in str(caught.value)

    def test_database_of_another_program(self, tmp_path, tiny):
        connection = sqlite3.connect(tmp_path / "results.sqlite")
        connection.execute("CREATE TABLE mine (a)")
        connection.close()
        for use in (lambda: Store.create(tmp_path, tiny), lambda: Store.open(tmp_path)):
            with pytest.raises(StoreError, match="other program"):
                use()

    def test_nothing_to_read(self, tmp_path):
        with pytest.raises(StoreError, match=r"has no results\.sqlite"):
            Store.open(tmp_path)
        (tmp_path / "results.sqlite").touch()
        with pytest.raises(StoreError, match="nothing yet"):
            Store.open(tmp_path)

    def test_unreadable_protocol_leaves_nothing_open(self, store, monkeypatch):
        opened = []

        def spy(*arguments, **options):
            opened.append(connect(*arguments, **options))
            return opened[-1]

        monkeypatch.setattr("plr.paper.store.connect", spy)
        execute(store, "UPDATE protocol SET protocol = 'no JSON'")
        with pytest.raises(ValueError, match="Expecting value"):
            Store.open(store.path)
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            opened[0].execute("SELECT 1")

    def test_full_disk(self, store, key):
        store.claim(key)
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        fits = [replace(FIT, setting="x" * 1000 + str(i)) for i in range(500)]
        with pytest.raises(StoreError, match="disk is full") as caught:
            store.finish((key, fits, 1.0))
        assert "\n" not in str(caught.value)
        store._connection.execute(f"PRAGMA max_page_count = {100 * pages}")
        assert store.rows() == []
        assert store.finish((key, [FIT], 1.0))


def test_store_killed_while_it_was_made_is_made_anew(tmp_path, tiny):
    (tmp_path / "results.sqlite").touch()
    Store.create(tmp_path, tiny).close()


def test_store_can_be_read_where_nothing_can_be_written(tmp_path, tiny):
    Store.create(tmp_path / "out", tiny).close()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.sqlite"]
    (tmp_path / "out").chmod(0o555)
    try:
        with Store.open(tmp_path / "out") as store:
            assert store.protocol == tiny
    finally:
        (tmp_path / "out").chmod(0o755)
