"""Stores that several tests read."""

import pytest
from made_stores import SMALL, fill, published_error


@pytest.fixture(scope="session")
def small_store(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("store"), SMALL, published_error)
