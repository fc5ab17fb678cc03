"""The last occurrences of a periodic task, as its cursor keeps them for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

#: How many are kept.
KEPT = 10


@dataclass(frozen=True, slots=True)
class Past:
    """One that was written down: its nominal time (aware), its key's digest, and who asked for it.

    ``by`` is empty for a time of the schedule.
    """

    due: datetime
    digest: UUID
    by: str = ""


def encode(newest: Iterable[Past], before: str | None) -> str:
    """The text for the cursor: ``newest``, the latest last, and what it has had before."""
    found = [[each.due.isoformat(), each.digest.hex, *filter(None, [each.by])] for each in newest]
    return json.dumps([*reversed(found), *json.loads(before or "[]")][:KEPT], separators=(",", ":"))


def decode(text: str | None) -> list[Past]:
    """The latest first."""
    return [
        Past(datetime.fromisoformat(due), UUID(digest), *by) for due, digest, *by in json.loads(text or "[]")
    ]
