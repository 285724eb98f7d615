"""Three rows of candidates that most tests look at."""

import pytest

from plr.candidates import CandidateSets
from support.three_rows import LISTS


@pytest.fixture(name="S")
def three_rows():
    return CandidateSets.from_lists(LISTS)
