"""Stores the last occurrences of a periodic task in its cursor, for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ..messages.unreadable import Unreadable, parsed

#: How many occurrences are kept.
KEPT = 10


@dataclass(frozen=True, slots=True)
class Past:
    """An occurrence: its nominal time, its key's digest, when beat wrote it, and who ran it by hand.

    Times are aware. ``by`` is empty for an occurrence of the schedule.
    """

    due: datetime
    digest: UUID
    ran: datetime
    by: str = ""


def encode(newest: Iterable[Past], before: str | None) -> str:
    """The text for the cursor: ``newest`` (the latest last), then the occurrences of the text ``before``."""
    found = [[each.due.isoformat(), each.digest.hex, each.ran.isoformat(), each.by] for each in newest]
    return json.dumps([*reversed(found), *_rows(before)][:KEPT], separators=(",", ":"))


def decode(text: str | None) -> list[Past]:
    """The occurrences of a text, the latest first, without unreadable ones."""
    return [past for row in _rows(text) if (past := _past(row)) is not None]


def _rows(text: str | None) -> list[Any]:
    try:
        found = parsed(text or "[]")
    except Unreadable:
        return []
    return [row for row in found if _past(row) is not None] if isinstance(found, list) else []


def _past(row: Any) -> Past | None:
    try:
        due, digest, ran, by = row
        past = Past(datetime.fromisoformat(due), UUID(digest), datetime.fromisoformat(ran), by)
    except (ValueError, TypeError, AttributeError):
        return None
    is_ours = past.due.tzinfo and past.ran.tzinfo and isinstance(by, str)
    return past if is_ours else None
