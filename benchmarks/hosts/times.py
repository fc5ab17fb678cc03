"""The times by which a vanished host is missed, in seconds."""

from __future__ import annotations

import os

#: Of a leased claim; and after which the broker delivers a message again, where a host is cut off.
LEASE, VISIBLE = 8, 20


def set_visible() -> dict[str, str]:
    """The variable for workers to whom the broker delivers again after so short a time."""
    return {"HOSTS_VISIBLE": str(VISIBLE)}


def visible() -> int:
    """After how many seconds the broker delivers again in this process; an hour is kombu's own."""
    return int(os.environ.get("HOSTS_VISIBLE", "3600"))
