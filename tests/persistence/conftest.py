from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def nothing_explodes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "exploded").exists()
