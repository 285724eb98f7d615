"""Files that are complete or not there."""

import errno
import os

import pytest

from plr.atomic_file import atomic_file, is_unfinished, remove_unfinished, write_files
from plr.errors import DataError, ModelFileError, StoreError


def write(path, content, error=None, **options):
    """Write a file, or fail half-way."""
    with atomic_file(path, **options) as file:
        file.write(content)
        if error is not None:
            raise error


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write(path, b"half", KeyboardInterrupt())
    assert path.read_text() == "old"
    with atomic_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
        assert sum(map(is_unfinished, tmp_path.iterdir())) == 1
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_others_may_read_it_as_they_may_read_any_file(tmp_path):
    (tmp_path / "plain").touch()
    write(tmp_path / "atomic", b"")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_errors_say_what_cannot_be_written_and_why(tmp_path):
    path = tmp_path / "a.txt"
    with pytest.raises(DataError, match=r"^\S+none/a.txt cannot be written: No such file or directory\.$"):
        write(tmp_path / "none" / "a.txt", b"")
    with pytest.raises(ModelFileError, match=r"^The model \S+ cannot be written: No space left on device\.$"):
        write(path, b"half", OSError(errno.ENOSPC, "full"), what="The model", failure=ModelFileError)
    with pytest.raises(DataError, match=r"cannot be written: no such type\.$"):
        write(path, b"half", LookupError("no such type."), also=(LookupError,))
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="Is a directory"):
        write(tmp_path / "folder", b"")
    assert os.listdir(tmp_path) == ["folder"]


def test_of_several_files_all_are_written_or_none(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        write_files(tmp_path, {"a/b": b"1", "c": b"2"})
    assert os.listdir(tmp_path) == ["b"]
    assert [path.name for path in write_files(tmp_path / "new", {"a": b"1", "c": b"2"})] == ["a", "c"]


def test_what_is_still_being_written_is_not_removed(tmp_path):
    pytest.importorskip("fcntl")
    left = tmp_path / ".b.0123456789ab.part"
    left.write_bytes(b"half")
    with atomic_file(tmp_path / "a"):
        assert remove_unfinished(tmp_path.iterdir()) is not None
    assert os.listdir(tmp_path) == ["a"]
