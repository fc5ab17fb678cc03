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
    """One that was written down: its nominal time, its key's digest, when that was, and who asked for it.

    Times are aware. ``by`` is empty for a time of the schedule.
    """

    due: datetime
    digest: UUID
    ran: datetime
    by: str = ""


def encode(newest: Iterable[Past], before: str | None) -> str:
    """The text for the cursor: ``newest``, the latest last, and what it has had before."""
    found = [[each.due.isoformat(), each.digest.hex, each.ran.isoformat(), each.by] for each in newest]
    return json.dumps([*reversed(found), *json.loads(before or "[]")][:KEPT], separators=(",", ":"))


def decode(text: str | None) -> list[Past]:
    """The latest first."""
    rows, moment = json.loads(text or "[]"), datetime.fromisoformat
    return [Past(moment(due), UUID(digest), moment(ran), by) for due, digest, ran, by in rows]
