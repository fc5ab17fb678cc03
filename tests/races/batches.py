"""Chunks of a batch that end in the same instant, each on a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

from django.db import connections

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger import batches
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.batch_bench import BatchBench
from tests.races.staging import RETENTION, WINDOW, Stage
from tests.support.waiting import PATIENCE

#: Chunks that end at once, and how often it is tried.
CHUNKS, ROUNDS = 20, 5

Meet = Callable[[], object]


def complete(store: LedgerStore, claim: Claim) -> bool:
    return store.complete(claim, result=None, reason=Reason.DONE, retention=RETENTION, window=WINDOW)


def end_and_follow(store: LedgerStore, claim: Claim, meet: Meet) -> list[Call]:
    """All chunks end in one instant."""
    meet()
    assert complete(store, claim)
    return batches.follow(store, [claim.digest])


def end_and_meet(store: LedgerStore, claim: Claim, meet: Meet) -> list[Call]:
    """All have ended before the first is followed, so that each sees the batch at its end."""
    assert complete(store, claim)
    meet()
    return batches.follow(store, [claim.digest])


def follow_and_meet(store: LedgerStore, claim: Claim, meet: Meet) -> list[Call]:
    """All are followed before the first batch is looked at."""
    assert complete(store, claim)
    found = store.follow_chunks([claim.digest])
    meet()
    return [call for batch in found for call in batches.settle(store, batch)]


class BatchStage(Stage, BatchBench):
    """The words of the promises about batches, with callbacks that can be reserved."""

    def with_callback(self, chunks: int) -> tuple[UUID, list[Call], Call]:
        call = Call(Identity(uuid4(), None, "end", None), "shop.done", str(uuid4()), "{}")
        return *self.sealed(chunks, callback=batches.prepared(call), on_attention=None), call

    def callbacks(self, call: Call) -> list[int]:
        """The states of the rows that this callback has."""
        rows = IdempotencyKey.objects.using(self.alias).filter(task_id=call.task_id)
        return [*rows.values_list("state", flat=True)]

    def all_end(self, work: Callable[[LedgerStore, Claim, Meet], list[Call]]) -> None:
        """Of all that end at once exactly one reserves the callback, and publishes it."""
        batch, calls, callback = self.with_callback(CHUNKS)
        claims = [self.started(call) for call in calls]
        alias, together = self.alias, threading.Barrier(CHUNKS)

        def end(claim: Claim) -> list[Call]:
            try:
                store = get_store(alias)
                store.connection.ensure_connection()
                return work(store, claim, lambda: together.wait(PATIENCE))
            finally:
                connections[alias].close()

        with ThreadPoolExecutor(CHUNKS) as threads:
            published = [call for found in threads.map(end, claims) for call in found]
        assert published == [callback]
        assert self.callbacks(callback) == [State.PENDING]
        assert self.store().needs_settling(batch) is False
