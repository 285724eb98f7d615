"""Compiling: one folder for the cache, one thread at a time, and nothing of the user's changed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numba

from plr import _jit


def test_threads_agree_on_the_folder_and_leave_the_setting_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        for _ in range(20):
            with _jit._own_cache() as flags:
                assert flags["cache"]
                seen = numba.config.CACHE_DIR
        return seen

    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(work, range(4)))
    assert len(folders) == 1
    assert folders.pop() == _jit._cache_folder(str(tmp_path))
    assert str(tmp_path) == numba.config.CACHE_DIR


def test_the_cache_is_never_where_others_may_write(tmp_path, monkeypatch):
    _jit._cache_folder.cache_clear()
    try:
        monkeypatch.setattr(_jit, "__file__", str(tmp_path / "missing" / "plr" / "_jit.py"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        (tmp_path / "missing").touch()
        assert _jit._cache_folder("").startswith(str(tmp_path / "cache"))
        _jit._cache_folder.cache_clear()
        (tmp_path / "blocked").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "blocked" / "cache"))
        assert _jit._cache_folder("") == ""
    finally:
        _jit._cache_folder.cache_clear()


def test_kernels_are_compiled_anew_when_a_weighting_changes(tmp_path, monkeypatch):
    source = tmp_path / "plr" / "weighting" / "toy.py"
    source.parent.mkdir(parents=True)
    monkeypatch.setattr(_jit, "__file__", str(tmp_path / "plr" / "_jit.py"))
    folders = set()
    try:
        for text in ("one", "two"):
            source.write_text(text)
            _jit._cache_folder.cache_clear()
            folders.add(_jit._cache_folder(str(tmp_path)))
    finally:
        _jit._cache_folder.cache_clear()
    assert len(folders) == 2
