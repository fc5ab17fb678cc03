"""Tasks that go on beside something else: claims with their completions, and deletions of old keys."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from django.db import connections

from benchmarks.reserve.pruned import timed
from benchmarks.rows.verbs import claim, complete
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.states import State

#: Claims between two prunes, and rows that each of these deletes.
EVERY, PRUNED = 20, 20


def task(store: LedgerStore) -> None:
    """Claim a key and complete it."""
    complete(claim(store))


@contextmanager
def tasks_beside() -> Iterator[list[float]]:
    """Let tasks run on another connection meanwhile; what each took, in seconds."""
    seconds: list[float] = []
    ended = threading.Event()

    def work() -> None:
        store = get_store()
        try:
            while not ended.is_set():
                seconds.append(timed(partial(task, store)))
                if len(seconds) % EVERY == 0:
                    store.prune(State.SUCCEEDED, bite=PRUNED)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield seconds
    finally:
        ended.set()
        thread.join()
