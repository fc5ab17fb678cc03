"""What is true of every worker's death, whatever the mode of its calls."""

from __future__ import annotations

from datetime import datetime

#: From a child's death to the next claim: Celery looks at its children every five seconds at the latest.
NEXT_CLAIM_WITHIN = 6.0


def stamp(moment: datetime | None) -> float:
    """Seconds of a time that the row has to have."""
    assert moment is not None
    return moment.timestamp()
