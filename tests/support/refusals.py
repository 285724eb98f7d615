"""What an error must be: its type, and either what its fields say or how its message reads."""

from contextlib import contextmanager

import pytest


@contextmanager
def refused(error, expected):
    """Expect an error whose fields are as in ``expected``, or whose message matches it where it is a text."""
    words = expected if isinstance(expected, str) else None
    with pytest.raises(error, match=words) as caught:
        yield caught
    fields = {} if words is not None else expected
    assert {name: getattr(caught.value, name) for name in fields} == fields, caught.value
