"""``idem sweep``: the sweeper as a process of its own, or one sweep until nothing is due."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from celery import Celery

from ... import signals
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import SWEEPER, IdempotencyKey
from ...states import State
from ...sweeper.hours import count_hours
from ...sweeper.prune import Tidying
from ...sweeper.sweep import BITE, Sweep, Swept
from ...sweeper.thread import Sweeper
from ..cli.project import project_app
from ..cli.report import FINDINGS, FINE, Options, Report, Say

_STOPPING = (signal.SIGTERM, signal.SIGINT)


def sweep(store: LedgerStore, options: Options, say: Say) -> Report:
    """Sweep until a signal comes, as one of any number of which one leads; with ``--once`` to the end."""
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
    return Report({"outcome": "ended", "holder": sweeper.holder}, ["Ended; the lead is free."])


@contextmanager
def _ended_by_signal(sweeper: Sweeper) -> Iterator[None]:
    """A thread waits for the signal: a handler would run in the sweeping thread, amid its locks."""
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
    """Whoever leads meanwhile: two sweeps at a time take different rows."""
    freed = sent = waiting = 0
    sweep, goes_on = Sweep(app), True
    while goes_on:
        held = _over(store)
        with store.side_connection() as side:
            swept = sweep.go_on(side)
        goes_on = swept.goes_on
        freed += _freed(swept, held)
        sent += swept.sent
        waiting += len(swept.unsent)
    with store.side_connection() as side:
        count_hours(side)
    pruned = _tidied(store)
    lines = [
        f"Freed {freed} expired lease(s), sent {sent} message(s), deleted {pruned} row(s) past their time."
    ]
    if waiting:
        lines.append(f"{waiting} message(s) could not be sent: is the broker up? They wait in the ledger.")
    facts = {"freed": freed, "sent": sent, "pruned": pruned, "waiting": waiting}
    return Report(facts, lines, FINDINGS if waiting else FINE)


def _tidied(store: LedgerStore) -> int:
    """How many rows were deleted, until nothing was past its time."""
    tidying, pruned = Tidying(), 0
    while True:
        with store.side_connection() as side:
            bite = tidying.go_on(side)
        pruned += bite.deleted
        if not bite.goes_on:
            return pruned
        time.sleep(bite.pause)


def _over(store: LedgerStore) -> dict[UUID, int]:
    """The tokens of the leases that the next bite may free."""
    keys = IdempotencyKey.objects.using(store.connection.alias)
    due = keys.filter(state=State.RUNNING, due_at__lte=database_now(store)).order_by("due_at")
    return dict(due.values_list("digest", "token")[: 2 * BITE])


def _freed(swept: Swept, held: dict[UUID, int]) -> int:
    """A freed key has the next token; another row of the bite keeps its own."""
    return sum(held.get(row.digest) == row.token - 1 for row in swept.rows)
