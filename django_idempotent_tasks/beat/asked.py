"""Runs a periodic task now, at a person's wish, unless an occurrence of it waits or runs."""

from __future__ import annotations

import logging
import time
from datetime import datetime
from typing import Any

from celery import Celery
from django.db import DatabaseError, transaction
from django_celery_beat.models import PeriodicTask

from ..exceptions import ConfigurationError
from ..identity.text import harmless
from ..ledger.moments import database_now, exact
from ..ledger.stores import LedgerStore
from ..models import BeatCursor, IdempotencyKey
from ..states import LIVE
from .clock import aware, stored
from .cursors import held_alone
from .dispatch import hand_over, ran
from .each import is_of_a_row
from .entry import CursorEntry
from .occurrence import Occurrence, occurrence
from .readable import problem_of
from .recent import Past, decode, encode
from .stamps import BrokenTransaction, send, stamped

logger = logging.getLogger("django_idempotent_tasks")


def unfinished(cursor: BeatCursor, *, alias: str) -> IdempotencyKey | None:
    """The oldest occurrence of the entry that waits or runs, among those that the cursor keeps."""
    digests = [each.digest for each in decode(cursor.recent)]
    keys = IdempotencyKey.objects.using(alias).filter(digest__in=digests, state__in=LIVE)
    return keys.defer("message", "result").order_by("created_at").first()


def run_now(
    model: PeriodicTask, *, by: str, app: Celery, store: LedgerStore, reason: str = ""
) -> IdempotencyKey | None:
    """Reserve an occurrence at the database's time; its message is sent after the commit.

    Returns the key of an occurrence that waits or runs, and then reserves nothing; else None. The schedule
    does not move, and a disabled entry stays disabled. Raises ConfigurationError for an entry that cannot
    be sent.
    """
    entry = _entry(model, app)
    with store.together():
        # Of two people the second waits here, and then sees the occurrence of the first.
        cursor = held_alone(model.pk, store)
        now = database_now(store)
        busy = unfinished(cursor, alias=store.connection.alias)
        if busy is None:
            _reserve(entry, cursor, now, by, store)
            why = harmless(reason or "no reason given")
            logger.warning("%s ran the periodic task %s now: %s", harmless(by), harmless(model.name), why)
    return busy


def _entry(model: PeriodicTask, app: Celery) -> CursorEntry:
    try:
        return CursorEntry(model, app=app)
    except Exception as error:
        if not is_of_a_row(error):
            raise
        raise ConfigurationError(problem_of(error, model.crontab_id)) from error


def _reserve(entry: CursorEntry, cursor: BeatCursor, now: datetime, by: str, store: LedgerStore) -> None:
    moment = exact(now)
    end = entry.expires_at(moment)
    if end is not None and end <= moment:
        msg = f"{entry.name} expired at {end:%Y-%m-%d %H:%M} UTC: a worker would drop it. Edit its expiry."
        raise ConfigurationError(msg)
    sent = _stamped(entry, moment, store)
    token = store.reserve_new(sent.call, wait=sent.wait, sends=0)
    if token is None:
        msg = f"{entry.name} ran at this very moment: look at its last runs."
        raise ConfigurationError(msg)
    digest = sent.call.identity.digest
    _keep(cursor, Past(moment, digest, aware(stored(moment)), by), store)
    ran([entry.model.pk], 1, moment, store)
    began = time.monotonic()

    def publish() -> None:
        hand_over([(entry, sent, token)], began, store)

    transaction.on_commit(publish, using=store.connection.alias)


def _stamped(entry: CursorEntry, moment: datetime, store: LedgerStore) -> Occurrence:
    try:
        return stamped(entry, occurrence(entry, moment, now=moment, is_asked=True), send, store)
    except (ConfigurationError, DatabaseError):
        raise
    except BrokenTransaction as error:
        msg = f"{entry.name} cannot be sent: code that runs when it is sent broke the transaction ({error})."
        raise ConfigurationError(msg) from error
    except Exception as error:
        msg = f"{entry.name} cannot be sent: its task's apply_async raises {error!r}."
        raise ConfigurationError(msg) from error


def _keep(cursor: BeatCursor, past: Past, store: LedgerStore) -> None:
    cursors: Any = BeatCursor.objects.using(store.connection.alias).filter(pk=cursor.pk)
    recent = encode([past], cursor.recent)
    cursors.update(last_digest=past.digest, recent=recent, ran_at=stored(past.ran))
