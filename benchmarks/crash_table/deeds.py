"""The bodies of the tasks, the same under every guard: they say when they begin and when they end."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any

from benchmarks.crash_table.journal import Journal

#: How long a victim waits to be killed.
VICTIM_SECONDS = 60.0
#: What real results begin with.
DONE = "done "


class Deed(StrEnum):
    """What a body does between its start and its end."""

    WORK = "work"
    RETRY = "retry"
    FAIL = "fail"
    FALL = "fall"


class Trouble(Exception):
    """What a body raises that is told to fail."""


def act(task: Any, key: str, deed: str, seconds: float) -> str:
    """Do it; the result names the key, so that a caller sees whether it is the real one."""
    journal = Journal.here()
    journal.write("start", key)
    is_first = journal.count("start", key) == 1
    match Deed(deed):
        case Deed.WORK:
            time.sleep(seconds)
        case Deed.RETRY if task.request.retries == 0:
            raise task.retry(countdown=1)
        case Deed.FAIL if is_first:
            raise Trouble(key)
        case Deed.FALL if is_first:
            time.sleep(VICTIM_SECONDS)
    journal.write("end", key)
    return f"{DONE}{key}"


def gather(results: list[Any], key: str) -> list[Any]:
    """The callback of a chord: return what the members returned."""
    Journal.here().write("gathered", key)
    return results
