"""Carries out redrive operations, each of which redrives many dead letters, one bite at a time."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import Error as DatabaseError
from django.db.models import Q

from ..ledger.moments import database_now, exact, shifted
from ..ledger.stores import LedgerStore
from ..ledger.stores.connection import read_on
from ..ledger.values import RedriveBite
from ..models import IdempotencyKey, OperationState, RedriveOperation
from ..operations import dead_letters
from ..operations.selection import Selection
from .bite import Bite

logger = logging.getLogger("django_idempotent_tasks")

#: Keys that one bite redrives.
BITE = 200
#: How many seconds' worth of its rate an operation may redrive at once after a pause.
CATCH_UP = 10
#: The smallest difference of two times; databases keep them to that or to less.
TICK = timedelta(microseconds=1)

_OPERATION = (
    "id",
    "created_at",
    "created_by",
    "selection",
    "rate",
    "redriven",
    "skipped",
    "last_signature",
    "last_at",
    "last_digest",
)
_ROW = ("digest", "token", "task", "task_id", "signature", "finished_at")
#: Octets of messages that are in memory at a time, unless a single one is larger.
BUDGET = 8 * 1024 * 1024
_budget = Bite(BUDGET)


class Redriven(NamedTuple):
    """How many keys a bite looked at, and whether the next bite may follow at once."""

    looked: int
    goes_on: bool = False


def carry_on(store: LedgerStore) -> int:
    """Do one bite of every running operation, and return how many keys were looked at."""
    return sum(each.looked for each in carry_out(store))


def carry_out(store: LedgerStore) -> list[Redriven]:
    """Do one bite of every running operation, on the store's own connection."""
    running = RedriveOperation.objects.filter(state=OperationState.RUNNING).order_by("id")
    return [_guarded_bite(store, operation) for operation in read_on(store, running, _OPERATION)]


def _guarded_bite(store: LedgerStore, operation: RedriveOperation) -> Redriven:
    """Do one bite; where it fails, the other operations and the sweep itself go on."""
    try:
        return _bite(store, operation)
    except DatabaseError as error:
        if _budget.halve(error):
            return Redriven(0, goes_on=True)
        logger.warning("Redrive operation %d waits for the next sweep: %r", operation.pk, error)
    except Exception:
        logger.exception("Redrive operation %d cannot be carried out; it is stopped", operation.pk)
        store.stop_redrive(operation.pk, by="sweeper")
    return Redriven(0)


def _bite(store: LedgerStore, operation: RedriveOperation) -> Redriven:
    most = _allowance(operation, now=database_now(store))
    if most <= 0:
        return Redriven(0)
    found = _next(store, operation, Selection.decode(operation.selection), most)
    rows = _with_messages(store, found)
    is_last = len(rows) == len(found) < most
    try:
        with store.together():
            # Locks the operation: else another sweeper's bite would skip the keys that this one locks.
            _advance(store, operation, RedriveBite(_seen(operation), 0, 0, None, None, None, is_last=False))
            done = [row for row in rows if _redrive(store, row)]
            _advance(store, operation, _progress(operation, rows, done, is_last=is_last))
    except _Overtaken:
        return Redriven(0)
    _pace.spent(operation.pk, len(rows))
    for row in done:
        dead_letters.announce_redriven(row, by=operation.created_by, using=None)
    return Redriven(len(rows), goes_on=not is_last and operation.rate is None)


class _Overtaken(Exception):
    """Another sweeper has carried the operation on meanwhile, or a person has stopped it."""


def _advance(store: LedgerStore, operation: RedriveOperation, bite: RedriveBite) -> None:
    if not store.advance_redrive(operation.pk, bite):
        raise _Overtaken


def _allowance(operation: RedriveOperation, *, now: datetime) -> int:
    if operation.rate is None:
        return BITE
    due = int(operation.rate * (exact(now) - exact(operation.created_at)).total_seconds())
    return min(due - _seen(operation), _pace.allowed(operation.pk, operation.rate, now=exact(now)), BITE)


class _Pace:
    """How many keys each operation may look at now, by its rate and the time since this process last did."""

    def __init__(self) -> None:
        self._left: dict[int, tuple[datetime, float]] = {}

    def allowed(self, operation: int, rate: int, *, now: datetime) -> int:
        """One second's worth at the first look, then the rate times the seconds since the last look."""
        looked, left = self._left.get(operation, (now, float(rate)))
        gained = rate * max((now - looked).total_seconds(), 0.0)
        left = min(left + gained, float(rate * CATCH_UP))
        self._left[operation] = (now, left)
        return int(left)

    def spent(self, operation: int, keys: int) -> None:
        """Subtract the keys that a bite has looked at."""
        if operation in self._left:
            looked, left = self._left[operation]
            self._left[operation] = (looked, left - keys)


_pace = _Pace()


def _seen(operation: RedriveOperation) -> int:
    return operation.redriven + operation.skipped


def _next(
    store: LedgerStore, operation: RedriveOperation, selection: Selection, most: int
) -> list[IdempotencyKey]:
    """The dead letters after those of the last bite, among those that had ended when the operation began."""
    # Compares by a range, never by equality: SQLite stores milliseconds, as text, and Django asks for more.
    ended_by = shifted(operation.created_at, TICK)
    found = selection.query(store.connection.alias).filter(finished_at__lt=ended_by)
    if operation.last_signature is not None and operation.last_at is not None:
        same = Q(signature=operation.last_signature)
        before, after = (shifted(operation.last_at, tick) for tick in (-TICK, TICK))
        later = Q(finished_at__gte=after)
        beside = Q(finished_at__gt=before, finished_at__lt=after, digest__gt=operation.last_digest)
        found = found.filter(
            Q(signature__gt=operation.last_signature) | (same & (later | beside)),
            signature__gte=operation.last_signature,
        )
    return list(read_on(store, found[:most], _ROW))


def _with_messages(store: LedgerStore, found: list[IdempotencyKey]) -> list[IdempotencyKey]:
    """The first of these rows, with their messages: as many as the budget allows, and at least one."""
    sizes = store.sizes([row.digest for row in found])
    rows: list[IdempotencyKey] = []
    total = 0
    for row in found:
        total += sizes.get(row.digest, 0)
        if rows and total > _budget.size:
            break
        rows.append(row)
    texts = store.messages({row.digest: row.token for row in rows})
    for row in rows:
        row.message = texts.get(row.digest)
    return rows


def _redrive(store: LedgerStore, row: IdempotencyKey) -> bool:
    text = dead_letters.redrive_message(row)
    return text is not None and store.redrive(row.digest, token=row.token, message=text, waits=False)


def _progress(
    operation: RedriveOperation, rows: list[IdempotencyKey], done: list[IdempotencyKey], *, is_last: bool
) -> RedriveBite:
    last = rows[-1] if rows else IdempotencyKey()
    return RedriveBite(
        seen=_seen(operation),
        redriven=len(done),
        skipped=len(rows) - len(done),
        last_signature=last.signature,
        last_at=last.finished_at,
        last_digest=last.digest,
        is_last=is_last,
    )
