"""The states of a key, the reasons beside them, and the transitions that are allowed."""

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


class Category(IntEnum):
    """What kind of failure a key ended with. The numbers are stored, so they never change."""

    FATAL = 1
    RETRYABLE = 2
    MANUAL_REVIEW = 3


LIVE = frozenset({State.PENDING, State.RUNNING, State.RETRY})
FINISHED = frozenset({State.SUCCEEDED, State.FAILED, State.REVIEW, State.CANCELLED})

#: From each state, where one statement may move the key. Claims of finished keys by another call
#: go back to RUNNING (or PENDING when reserved); redrive goes back to PENDING.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.RUNNING, State.SUCCEEDED, State.RETRY, State.FAILED, State.CANCELLED}),
    State.RUNNING: frozenset(
        {State.RUNNING, State.RETRY, State.SUCCEEDED, State.FAILED, State.REVIEW, State.CANCELLED}
    ),
    State.RETRY: frozenset({State.RUNNING, State.SUCCEEDED, State.RETRY, State.FAILED, State.CANCELLED}),
    State.SUCCEEDED: frozenset({State.RUNNING, State.PENDING, State.SUCCEEDED}),
    State.FAILED: frozenset({State.RUNNING, State.PENDING, State.SUCCEEDED}),
    State.REVIEW: frozenset({State.PENDING, State.SUCCEEDED, State.FAILED}),
    State.CANCELLED: frozenset({State.RUNNING, State.PENDING, State.SUCCEEDED}),
}
