"""The states of a key, the reasons beside them, and the categories of failures."""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """Where a key stands. The numbers are stored, so they never change."""

    PENDING = 1
    RUNNING = 2
    RETRY = 3
    REVIEW = 4
    FAILED = 5
    CANCELLED = 6
    SUCCEEDED = 7


class Reason(IntEnum):
    """Why a key is in its state. The numbers are stored, so they never change."""

    NONE = 0
    DONE = 1
    RETRY_ASKED = 2
    IGNORED = 3
    CANCELLED = 4
    RETRIES_USED_UP = 5
    PERMANENT = 6
    POISON = 7
    IN_DOUBT = 8
    OWNER_DIED = 9
    RESULT_NOT_STORED = 10
    SENT = 11
    REPLACED = 12
    RELEASED = 13
    EXPECTED = 14


class Category(IntEnum):
    """What kind of failure a key ended with. The numbers are stored, so they never change."""

    FATAL = 1
    RETRYABLE = 2
    MANUAL_REVIEW = 3
    EXPECTED = 4


LIVE = frozenset({State.PENDING, State.RUNNING, State.RETRY})
FINISHED = frozenset({State.SUCCEEDED, State.FAILED, State.REVIEW, State.CANCELLED})
#: Rows that the sweeper deletes once they are past their time. REVIEW waits for a person and is never pruned.
PRUNED = (State.SUCCEEDED, State.CANCELLED, State.FAILED)
#: How the signature of an expected end begins. No other does, and all others sort before it: a range of the
#: index of dead letters leaves the expected ends out, however many there are.
EXPECTED_FROM = "x"
