"""The rows worth checking on the page of a model, for its template and its script."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from plr.candidates.known import CANNOT_TELL, NONE_OF_THESE
from plr.report.row_table import FIRST_COLUMNS
from plr.review_queue import ReviewQueue

__all__ = ["review_data"]


def review_data(queue: ReviewQueue | None) -> dict[str, Any] | None:
    """Return the rows as plain values; None where there are none.

    ``key`` tells this choice of rows from others, so that answers which a browser keeps are not mixed up.
    """
    if queue is None or not len(queue):
        return None
    found = queue.to_dict()
    return {
        **found,
        "key": hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16],
        "none": NONE_OF_THESE,
        "unsure": CANNOT_TELL,
        "first_columns": FIRST_COLUMNS,
    }
