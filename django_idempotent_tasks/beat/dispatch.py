"""Sends what is due of an entry: cursor, keys and run count in one transaction, messages after it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F

from ..conf import settings
from ..message import Message
from ..models import BeatCursor, IdempotencyKey
from ..outcomes import Call
from ..relay import relay
from ..states import LIVE
from ..stores import LedgerStore
from .entry import CursorEntry
from .grid import Missed, missed
from .occurrence import occurrence

logger = logging.getLogger("django_idempotent_tasks")


@dataclass(frozen=True, slots=True)
class Sending:
    """An occurrence that this beat has written down."""

    digest: UUID
    token: int
    message: Message


class Overtaken(Exception):
    """The cursor has moved on since it was read."""


def dispatch(entry: CursorEntry, *, now: datetime, store: LedgerStore) -> int:
    """Send what is due of ``entry`` by ``now``; how many messages. Raises what the database raises.

    Of two beats that both believe they lead one moves the cursor, and the other sends nothing. A message
    that the broker does not take now is sent by the sweeper.
    """
    due = missed(entry.grid, entry.last_due_at, now, entry.misfire)
    if due.cursor == entry.last_due_at:
        return 0
    try:
        with store.together():
            sendings = _written(entry, due, now=now, store=store)
    except Overtaken:
        _read_again(entry, store)
        return 0
    entry.last_due_at = due.cursor
    if due.dropped:
        logger.warning(
            "%s: %d missed occurrence(s) were passed over (%s)", entry.name, due.dropped, entry.misfire
        )
    for sending in sendings:
        _send(entry, sending, store)
    return len(sendings)


def _written(entry: CursorEntry, due: Missed, *, now: datetime, store: LedgerStore) -> list[Sending]:
    send = [moment for moment in due.send if not entry.is_over(moment)]
    if send and entry.skips_overlap and _is_running(entry, store):
        logger.info("%s: passed over, its last occurrence is not finished", entry.name)
        send = []
    calls = [occurrence(entry, moment, now=now, limit=settings().max_payload) for moment in send]
    _move(entry, due, calls, now=now, store=store)
    sendings = [
        sending for call, message in calls if (sending := _reserved(call, message, store)) is not None
    ]
    if send:
        _count(entry, len(send), now=now, store=store)
    return sendings


def _move(
    entry: CursorEntry, due: Missed, calls: list[tuple[Call, Message]], *, now: datetime, store: LedgerStore
) -> None:
    """Compare and set: the row is locked by it until the transaction ends."""
    changes: dict[str, Any] = {"last_due_at": due.cursor, "updated_at": now}
    if calls:
        changes["last_digest"] = calls[-1][0].identity.digest
    seen = BeatCursor.objects.using(store.connection.alias).filter(
        periodic_task_id=entry.model.pk, last_due_at=entry.last_due_at, schedule=entry.fingerprint()
    )
    if entry.last_due_at is None:
        seen = BeatCursor.objects.using(store.connection.alias).filter(
            periodic_task_id=entry.model.pk, last_due_at__isnull=True, schedule=entry.fingerprint()
        )
    if not seen.update(**changes):
        raise Overtaken


def _reserved(call: Call, message: Message, store: LedgerStore) -> Sending | None:
    """None where the key exists: an occurrence that was sent before the cursor was set back."""
    token = store.reserve_new(call, wait=settings().republish_after, sends=0)
    return None if token is None else Sending(call.identity.digest, token, message)


def _count(entry: CursorEntry, runs: int, *, now: datetime, store: LedgerStore) -> None:
    """For people, and for entries that run once; never the whole row, which somebody may be editing."""
    changes: dict[str, Any] = {"last_run_at": now, "total_run_count": F("total_run_count") + runs}
    if entry.model.one_off:
        changes["enabled"] = entry.model.enabled = False
    type(entry.model)._default_manager.using(store.connection.alias).filter(pk=entry.model.pk).update(
        **changes
    )


def _is_running(entry: CursorEntry, store: LedgerStore) -> bool:
    alias = store.connection.alias
    last = BeatCursor.objects.using(alias).filter(periodic_task_id=entry.model.pk).values("last_digest")
    return IdempotencyKey.objects.using(alias).filter(digest__in=last, state__in=LIVE).exists()


def _read_again(entry: CursorEntry, store: LedgerStore) -> None:
    cursor = BeatCursor.objects.using(store.connection.alias).filter(periodic_task_id=entry.model.pk).first()
    if cursor is not None:
        entry.last_due_at = cursor.last_due_at


def _send(entry: CursorEntry, sending: Sending, store: LedgerStore) -> None:
    if not relay.send(entry.app, sending.message):
        store.send_failed(sending.digest, token=sending.token)
    elif sending.message.is_sent_only:
        store.sent(sending.digest, token=sending.token, retention=settings().retention)
