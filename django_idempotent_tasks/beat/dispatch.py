"""Sends due occurrences: cursors, keys and run counts in one transaction, the messages after it."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import Error as DatabaseError
from django.db.models import F
from django_celery_beat.models import PeriodicTask

from ..conf import settings
from ..ledger.stores import LedgerStore
from ..messages.relay import relay
from ..models import BeatCursor, IdempotencyKey
from ..states import LIVE
from .clock import aware, stored
from .cursors import held, move, read_again
from .entry import CursorEntry
from .misfire import Missed, missed
from .occurrence import UNSENT, Occurrence, occurrence
from .recent import Past, encode
from .stamps import Apply, BrokenTransaction, send, stamped

logger = logging.getLogger("django_idempotent_tasks")


@dataclass(slots=True)
class Work:
    """The due occurrences of one entry."""

    entry: CursorEntry
    due: Missed
    occurrences: list[Occurrence]
    is_over: bool = False
    #: The occurrences that this beat has reserved, each with the token of its key.
    written: list[tuple[Occurrence, int]] = field(default_factory=list)
    #: Whether another beat has moved the cursor meanwhile.
    overtaken: bool = False
    #: How many times are not sent: missed, too late, or because the last occurrence is not finished.
    passed_over: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """Whether the broker took a message."""

    digest: UUID
    token: int
    is_sent: bool


def due_work(entry: CursorEntry, *, now: datetime, store: LedgerStore) -> Work | None:
    """The work of ``entry`` due at ``now``; None without any. Raises what keeps beat from sending."""
    due = missed(entry.grid, entry.last_due_at, now, entry.misfire)
    if due.cursor == entry.last_due_at:
        return None
    send = [moment for moment in due.send if not entry.is_over(moment, now)]
    if send and entry.skips_overlap:
        if _is_running(entry, store):
            logger.info(
                "%s: beat passes this time over, because the last occurrence is not finished", entry.name
            )
            send = []
        send = send[:1]
    is_over = entry.ends is not None and now >= entry.ends
    passed_over = 0 if is_over else due.dropped + len(due.send) - len(send)
    if entry.model.one_off:
        send = send[:1]
    occurrences = [occurrence(entry, moment, now=now) for moment in send]
    return Work(entry, due, occurrences, is_over=is_over, passed_over=passed_over)


def dispatch(works: Sequence[Work], *, now: datetime, store: LedgerStore, apply: Apply = send) -> int:
    """Reserve and send the occurrences; returns how many. What the database raises has undone everything.

    Of two beats that both believe they lead, one moves the cursor of an entry, and the other sends nothing
    of this entry. The sweeper sends a message that the broker does not take now. A process signal waits
    until the end. ``apply``, the scheduler's ``apply_entry``, stamps each reserved occurrence once.
    """
    with _undisturbed():
        _write_down(works, now, store, apply)
        written = [(work.entry, *each) for work in works for each in work.written]
        hand_over(written, time.monotonic(), store)
        for work in works:
            _remember_end(work, store)
    return len(written)


def disable(entry: CursorEntry, store: LedgerStore) -> None:
    """Disable an entry that has nothing more to send."""
    _disable([entry], store)


def _write_down(works: Sequence[Work], now: datetime, store: LedgerStore, apply: Apply) -> None:
    """Write all in one transaction; once more without an entry's stamps if stamping broke the transaction."""
    plain: set[int] = set()
    while True:
        try:
            with store.together():
                _write(works, now, store, _Stamps(apply, store, plain))
                _count([work for work in works if work.written], now, store)
                _disable([work.entry for work in works if _is_done(work)], store)
        except BrokenTransaction as broken:
            logger.error(  # noqa: TRY400  Celery has logged the cause
                "%s: beat sends an occurrence without its stamps, which broke its row's transaction (%s)",
                broken.entry.name,
                broken,
            )
            plain.add(broken.entry.model.pk)
        else:
            return


@dataclass(frozen=True, slots=True)
class _Stamps:
    """How occurrences are stamped, and for which entries they are not."""

    apply: Apply
    store: LedgerStore
    plain: set[int]

    def on(self, entry: CursorEntry, each: Occurrence) -> Occurrence:
        """The occurrence with its stamps, put on once; without them where stamping fails."""
        if each.message.stamped or entry.model.pk in self.plain:
            return each
        try:
            return stamped(entry, each, self.apply, self.store)
        except (DatabaseError, BrokenTransaction):
            raise
        except Exception as error:  # noqa: BLE001  the project's own classes may raise anything
            logger.error("%s: beat sends an occurrence without its stamps (%s)", entry.name, error)  # noqa: TRY400
            return each


def _write(works: Sequence[Work], now: datetime, store: LedgerStore, stamps: _Stamps) -> None:
    """Lock the cursors first, until the transaction ends; then write each entry's occurrences."""
    cursors = held([work.entry for work in works], now=now, store=store)
    before = _written_before([work for work in works if work.entry.model.pk in cursors], store)
    for work in works:
        work.written = []
        cursor = cursors.get(work.entry.model.pk)
        work.overtaken = cursor is None
        if cursor is not None:
            work.occurrences = [
                each if each.call.identity.digest in before else stamps.on(work.entry, each)
                for each in work.occurrences
            ]
            _advance(work, cursor, now)
            _reserve(work, cursor, store)
            _remember(work, cursor, now)
    move(list(cursors.values()), store)


def _written_before(works: Sequence[Work], store: LedgerStore) -> set[UUID]:
    """Keys of occurrences that were sent before the cursor was set back: no check-in begins for them."""
    due = [each.call.identity.digest for work in works for each in work.occurrences]
    keys = IdempotencyKey.objects.using(store.connection.alias).filter(digest__in=due)
    return set(keys.values_list("digest", flat=True)) if due else set()


def _advance(work: Work, cursor: BeatCursor, now: datetime) -> None:
    following = work.entry.announced(work.due.cursor)
    cursor.last_due_at = work.due.cursor and stored(work.due.cursor)
    cursor.next_due_at = following and stored(following)
    if work.passed_over:
        cursor.passed_over += work.passed_over
        cursor.passed_over_at = stored(now)


def _remember(work: Work, cursor: BeatCursor, now: datetime) -> None:
    if work.written:
        cursor.ran_at = stored(now)
        ran_at = aware(cursor.ran_at)
        newest = [Past(each.due, each.call.identity.digest, ran_at) for each, _token in work.written]
        cursor.recent = encode(newest, cursor.recent)


def _reserve(work: Work, cursor: BeatCursor, store: LedgerStore) -> None:
    for each in work.occurrences:
        cursor.last_digest = each.call.identity.digest
        token = store.reserve_new(each.call, wait=each.wait, sends=0)
        if token is not None:  # else the occurrence was sent before the cursor was set back
            work.written.append((each, token))


def _is_done(work: Work) -> bool:
    ran = bool(work.occurrences) and work.entry.model.one_off
    return not work.overtaken and (work.is_over or ran)


def _count(works: list[Work], now: datetime, store: LedgerStore) -> None:
    """Count the runs for people, without saving the whole row, which somebody may be editing."""
    runs: dict[int, list[int]] = {}
    for work in works:
        runs.setdefault(len(work.written), []).append(work.entry.model.pk)
    for number, ids in runs.items():
        ran(ids, number, now, store)


def ran(ids: list[int], number: int, now: datetime, store: LedgerStore) -> None:
    """Count so many runs of each, in the transaction that also sets the cursor's ``ran_at``."""
    _tasks(ids, store).update(last_run_at=stored(now), total_run_count=F("total_run_count") + number)


def _disable(entries: list[CursorEntry], store: LedgerStore) -> None:
    """Disable entries and empty their cursors, so that an entry that is enabled again begins anew."""
    ids = [entry.model.pk for entry in entries]
    if ids:
        _tasks(ids, store).update(enabled=False)
        cursors = BeatCursor.objects.using(store.connection.alias).filter(pk__in=ids)
        cursors.update(schedule="", next_due_at=None)


def _tasks(ids: list[int], store: LedgerStore) -> Any:
    return PeriodicTask._default_manager.using(store.connection.alias).filter(pk__in=ids)


def _remember_end(work: Work, store: LedgerStore) -> None:
    entry = work.entry
    if work.overtaken:
        read_again(entry, store)
        return
    entry.last_due_at = work.due.cursor
    entry.model.enabled = not _is_done(work)
    if work.due.dropped:
        logger.warning(
            "%s: beat passed over %d missed occurrence(s) (misfire: %s)",
            entry.name,
            work.due.dropped,
            entry.misfire,
        )


def _is_running(entry: CursorEntry, store: LedgerStore) -> bool:
    alias = store.connection.alias
    last = BeatCursor.objects.using(alias).filter(pk=entry.model.pk).values("last_digest")
    return IdempotencyKey.objects.using(alias).filter(digest__in=last, state__in=LIVE).exists()


def hand_over(
    written: list[tuple[CursorEntry, Occurrence, int]], committed: float, store: LedgerStore
) -> None:
    """Send what was reserved at ``committed`` (monotonic), and write which messages the broker took."""
    _note(_send(written, committed), store)


def _send(written: list[tuple[CursorEntry, Occurrence, int]], committed: float) -> list[Ending]:
    """Hand the messages to the broker; returns what must be written about them."""
    endings = []
    for entry, each, token in written:
        is_sent_only = each.message.is_sent_only
        if is_sent_only and time.monotonic() - committed > UNSENT / 2:
            break  # this process slept: the sweeper may be sending the message already
        is_sent = relay.send(entry.app, each.message)
        if not is_sent or is_sent_only:
            endings.append(Ending(each.call.identity.digest, token, is_sent))
    return endings


def _note(endings: list[Ending], store: LedgerStore) -> None:
    """Write what became of messages. Where that fails, the sweeper sends the messages again."""
    if not endings:
        return
    try:
        with store.together():
            for token in {each.token for each in endings if each.is_sent}:
                digests = [each.digest for each in endings if each.is_sent and each.token == token]
                store.sent(digests, token=token, retention=kept())
            for each in endings:
                if not each.is_sent:
                    store.send_failed(each.digest, token=each.token)
    except DatabaseError as error:
        logger.warning("Beat could not write whether the broker took %d message(s) (%s)", len(endings), error)


def kept() -> int:
    """Seconds for which the key of a sent message is kept: a cursor that was set back meets this key."""
    return max(settings().retention, settings().redelivery_window)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold signals back: Celery's beat ends inside a signal handler, which must not run before sending."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
