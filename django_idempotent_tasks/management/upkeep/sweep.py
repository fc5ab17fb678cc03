"""``idem sweep``: runs the sweeper as a process of its own, or sweeps once until nothing is due."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from uuid import UUID

from celery import Celery
from django.db.models import QuerySet

from ... import signals
from ...ledger import outage
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...ledger.stores.upkeep import LONGEST
from ...models import SWEEPER, IdempotencyKey, Leader
from ...states import State
from ...sweeper.batches import Following
from ...sweeper.hours import count_hours
from ...sweeper.prune import Tidying
from ...sweeper.sweep import BITE, Sweep, Swept
from ...sweeper.thread import Sweeper
from ..cli.project import project_app
from ..cli.report import FINDINGS, FINE, Options, Report, Say

_STOPPING = (signal.SIGTERM, signal.SIGINT)

#: Seconds between two checks whether a sweeper has come back after an outage.
PACE = 1.0

_SPARED = (
    "{spared} lease(s) are over and were left to their owners, which may come back after an outage of the"
    " ledger's database. If an owner does not, a worker's sweeper or a later sweep frees its key."
)


def sweep(store: LedgerStore, options: Options, say: Say) -> Report:
    """Sweep until a signal comes; any number may run, one leads. With ``--once`` until nothing is due."""
    app = project_app()
    return _once(store, app) if options["once"] else _until_stopped(store, app, say)


def _until_stopped(store: LedgerStore, app: Celery, say: Say) -> Report:
    sweeper = Sweeper(app, database=store.connection.alias)

    def announce(name: str, holder: str, **_kwargs: object) -> None:
        if name == SWEEPER and holder == sweeper.holder:
            say("Leads the sweeper.")

    say(f"Sweeps as {sweeper.holder} whenever it leads; SIGTERM or Ctrl-C ends it.")
    signals.leader_changed.connect(announce)
    try:
        with _ended_by_signal(sweeper):
            sweeper.run()
    finally:
        signals.leader_changed.disconnect(announce)
    return Report({"outcome": "ended", "holder": sweeper.holder}, ["Ended; another sweeper may lead now."])


@contextmanager
def _ended_by_signal(sweeper: Sweeper) -> Iterator[None]:
    """End the sweeper at a signal. A thread waits for it: a handler would run amid the sweeper's locks."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)  # also for threads that begin from now on

    def wait() -> None:
        signal.sigwait(_STOPPING)
        sweeper.end()

    threading.Thread(target=wait, name="idempotent-stop", daemon=True).start()
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _once(store: LedgerStore, app: Celery) -> Report:
    """Sweep once, whoever leads: two sweeps at a time take different rows."""
    calm, swept = _calm(store), Counter[str]()
    _follow_chunks(store, app)  # before: the callbacks of batches are sent as well
    _sweep(store, app, calm, swept)
    while _follow_chunks(store, app):
        _sweep(store, app, calm, swept)
    with store.side_connection() as side:
        count_hours(side)
    pruned = _tidied(store)
    freed, sent, waiting = (swept[name] for name in ("freed", "sent", "waiting"))
    lines = [
        f"Freed {freed} expired lease(s), sent {sent} message(s), deleted {pruned} row(s) past their time."
    ]
    spared = _over(store).filter(lease_seconds__gt=calm).count()
    if spared:
        lines.append(_SPARED.format(spared=spared))
    if waiting:
        lines.append(f"{waiting} message(s) could not be sent: is the broker up? They wait in the ledger.")
    facts = {"freed": freed, "sent": sent, "pruned": pruned, "waiting": waiting, "spared": spared}
    return Report(facts, lines, FINDINGS if waiting else FINE)


def _sweep(store: LedgerStore, app: Celery, calm: int, found: Counter[str]) -> None:
    """Free and send what is due now, a bite at a time, and count it."""
    sweep, goes_on = Sweep(app), True
    while goes_on:
        held = _tokens(_over(store).filter(lease_seconds__lte=calm))
        with store.side_connection() as side:
            swept = sweep.go_on(side, calm=lambda _store: calm)
        goes_on = swept.goes_on
        found.update(freed=_freed(swept, held), sent=swept.sent, waiting=len(swept.unsent))


def _follow_chunks(store: LedgerStore, app: Celery) -> int:
    """Let all chunks of batches be where their keys are; how many calls are due for it."""
    following, goes_on, reserved = Following(app), True, 0
    while goes_on:
        with store.side_connection() as side:
            followed = following.go_on(side)
        goes_on, reserved = followed.goes_on, reserved + followed.reserved
    return reserved


def _tidied(store: LedgerStore) -> int:
    """Delete rows that are past their retention until none is left; returns how many."""
    tidying, pruned = Tidying(), 0
    while True:
        with store.side_connection() as side:
            bite = tidying.go_on(side)
        pruned += bite.deleted
        if not bite.goes_on:
            return pruned
        time.sleep(bite.pause)


def _calm(store: LedgerStore) -> int:
    """For how many seconds the ledger has answered, by the notes of sweepers: longer leases are spared.

    Right after an outage no sweeper leads yet: where leases are over, this function waits for one. If none
    comes back, none runs, and nobody knows of an outage; the notes of copies that wait do not count then.
    This function writes no note itself, or a sweep from cron would never free a lease there.
    """
    end = monotonic() + outage.GAP
    while True:
        since, answers = _noted(store)
        if since is None or answers:
            return LONGEST if since is None else int(since)
        if not _over(store).exists():
            return 0  # the next sweep frees a lease that ends at this moment
        if monotonic() >= end:
            return LONGEST
        time.sleep(PACE)


def _noted(store: LedgerStore) -> tuple[float | None, bool]:
    """For how many seconds the ledger has answered by its notes, None without any; whether sweepers note now.

    In this order: a first note after an outage that came between would end the outage, and not its count.
    """
    held = Leader.objects.using(store.connection.alias).filter(expires_at__gt=database_now(store))
    answers = {outage.LEDGER, SWEEPER} <= set(held.values_list("name", flat=True))
    return store.led_for(outage.LEDGER), answers


def _over(store: LedgerStore) -> QuerySet[IdempotencyKey]:
    """The keys whose lease is over."""
    keys = IdempotencyKey.objects.using(store.connection.alias)
    return keys.filter(state=State.RUNNING, due_at__lte=database_now(store))


def _tokens(over: QuerySet[IdempotencyKey]) -> dict[UUID, int]:
    """The tokens of the keys that the next bite may free."""
    return dict(over.order_by("due_at").values_list("digest", "token")[: 2 * BITE])


def _freed(swept: Swept, held: dict[UUID, int]) -> int:
    """How many keys the bite has freed: a freed key has the next token, any other keeps its own."""
    return sum(held.get(row.digest) == row.token - 1 for row in swept.rows)
