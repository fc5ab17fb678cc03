"""What a process knows of the pauses that are in force: read again every two seconds, and by no claim.

A worker's parent reads the table and tells its children by one byte of shared memory whether there is any
pause; only then does a child read which, with its own connection. A process without such a parent, which
sends calls, reads by itself.
"""

from __future__ import annotations

import logging
import mmap
import random
import time
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import Error as DatabaseError

from .paused import Paused
from .stores import LedgerStore

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds for which a process relies on what it has read.
FRESH = 2.0
#: Rows whose due time is a pause's ``held_at`` wait for it; no pause lasts longer than LONGEST.
LONGEST = timedelta(days=7)
HELD_FOR = LONGEST + timedelta(days=1)
#: Microseconds: two pauses that begin at the same moment hold their rows until times of their own.
APART = 3600 * 1_000_000


@dataclass(slots=True)
class _Known:
    """The pauses as this process has read them."""

    pauses: list[Paused] = field(default_factory=list)
    read_at: float = -FRESH
    #: Shared by a worker's processes: whether any pause is in force. None: this process has no such parent.
    flag: mmap.mmap | None = None


_known = _Known()


def held_for() -> timedelta:
    """From the beginning of a pause to the due time of its rows, by which they are known as its own."""
    return HELD_FOR + timedelta(microseconds=random.randrange(APART))


def share() -> None:
    """Have this process, a worker's parent, tell those that it forks; before the first fork."""
    if _known.flag is None:
        _known.flag = mmap.mmap(-1, 1)


def read(store: LedgerStore) -> None:
    """Read the pauses now, and tell the children. Raises what the database raises."""
    _known.pauses = store.active_pauses()
    _known.read_at = time.monotonic()
    if _known.flag is not None:
        _known.flag[0] = int(bool(_known.pauses))


def forget() -> None:
    """Read the pauses again at the next look."""
    _known.read_at = time.monotonic() - FRESH


def pause_of(store: LedgerStore, task: str, scope: str | None) -> Paused | None:
    """The pause that is for calls of this task and scope, as far as this process knows.

    Reads nothing inside a transaction, and nothing where the parent knows of no pause. Never raises.
    """
    if _known.flag is not None and not _known.flag[0]:
        return None
    _refresh(store)
    return next((each for each in _known.pauses if each.holds(task, scope)), None)


def told_of(store: LedgerStore, task: str, scope: str | None) -> Paused | None:
    """The same in a worker, where a delivery reads nothing unless the parent has told of a pause."""
    return None if _known.flag is None else pause_of(store, task, scope)


def _refresh(store: LedgerStore) -> None:
    if time.monotonic() - _known.read_at < FRESH or store.connection.in_atomic_block:
        return
    _known.read_at = time.monotonic()
    try:
        _known.pauses = store.active_pauses()
    except DatabaseError as error:
        logger.warning("The pauses could not be read (%r): this process keeps those that it knows", error)
