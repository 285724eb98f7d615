"""Three rows of candidates that most tests look at."""

import pytest
from three_rows import LISTS

from plr.candidates import CandidateSets


@pytest.fixture(name="S")
def three_rows():
    return CandidateSets.from_lists(LISTS)
