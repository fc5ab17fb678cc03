"""Turns the ledger's rows into frozen values."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from ...messages.turns import read as read_turn
from ...states import Reason, State
from ..values import Due, Entry, Grant, TaskTotals, Times

Row = tuple[Any, ...]
Parameters = dict[str, Any]


def seen_as(entry: Entry) -> Parameters:
    """What a compare-and-set compares."""
    return {"seen": entry.token, "seen_state": int(entry.state)}


def is_token(token: int) -> bool:
    """Whether a key can have it; drivers raise errors of their own for what no column holds."""
    return 0 <= token < 2**31


def to_token(row: Row | None) -> int | None:
    """What a reservation's RETURNING says."""
    return None if row is None else int(row[0])


def to_uuid(value: object) -> UUID | None:
    """A UUID as any driver gives it."""
    return None if value is None else UUID(str(value))


def to_digest(value: object) -> UUID:
    """A digest as any driver gives it; most give one that needs no copy."""
    return value if type(value) is UUID else UUID(str(value))


def to_grant(row: Row | None) -> Grant | None:
    """What a claim's RETURNING grants."""
    if row is None:
        return None
    token, generation, attempts, crashes, reason = row
    return Grant(token, generation, attempts, crashes, Reason(reason))


def to_entry(row: Row) -> Entry:
    """A key's row, in the order of READ."""
    state, reason, token, generation, attempts, crashes, task, scope = row[:8]
    task_id, runner, owner, fingerprint, result = row[8:13]
    is_open, opens_in, was_answered, no_message, is_discarded, in_external, answered_for, lasts = row[13:21]
    head, lease = row[21:23]
    is_doubted = state == State.RUNNING and bool(in_external)
    return Entry(
        state=State(state),
        reason=Reason(reason),
        token=token,
        generation=generation,
        attempts=attempts,
        crashes=crashes,
        task=task,
        scope=scope,
        task_id=task_id,
        runner_task_id=runner,
        owner=owner,
        fingerprint=to_uuid(fingerprint),
        result=result,
        is_open=None if is_open is None else bool(is_open) and not is_doubted,
        opens_in=None if opens_in is None else float(opens_in),
        was_answered=bool(was_answered),
        no_message=bool(no_message),
        is_discarded=bool(is_discarded),
        in_external=bool(in_external),
        answered_for=None if answered_for is None else float(answered_for),
        answers=lasts is not None and lasts > 0,
        note_lasts=0.0 if lasts is None else float(lasts),
        turn=read_turn(head),
        lease=lease,
    )


def due(row: Row) -> Due:
    """One swept row; it is to be published when a claim is allowed now and there is something to send."""
    digest, token, state, crashes, task, size, is_open, sends = row
    sendable = state in {State.PENDING, State.RETRY} and size is not None
    publish = sendable and (is_open is None or bool(is_open))
    return Due(UUID(str(digest)), token, State(state), crashes, task, size, publish, sends)


def to_totals(row: Row) -> TaskTotals:
    """One task's row of a count, in the order of the columns of an hourly count."""
    task, created, succeeded, failed, duplicates, crashes, would_refuse = row[:7]
    return TaskTotals(
        task=task,
        created=int(created),
        succeeded=int(succeeded),
        failed=int(failed),
        duplicates=int(duplicates),
        crashes=int(crashes),
        run=times(*row[7:11]),
        wait=times(*row[11:15]),
        last_failure_at=row[15],
        would_refuse=int(would_refuse),
    )


def times(count: Any, seconds: Any, longest: Any, buckets: str | None) -> Times:
    """The four columns of runs or waits; no buckets where an older version has counted."""
    return Times(int(count), float(seconds), float(longest), tuple(json.loads(buckets)) if buckets else ())
