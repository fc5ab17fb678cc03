"""Verbs of the ledger and of people, for tests of what their statements cost on PostgreSQL."""

from __future__ import annotations

from uuid import UUID

from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.bench import (
    REPUBLISH,
    RETENTION,
    WINDOW,
    Bench,
    a_failure,
    new_owner,
)
from tests.support.ledger.policies import POLICY
from tests.support.ledger.statements import Work

#: The table of keys.
KEY = IdempotencyKey._meta.db_table


class Ledgers(Bench):
    """A ledger on PostgreSQL."""

    def store(self) -> LedgerStore:
        return get_store("default")


def claim_through_the_ledger(call: Call, *, first: Step = Step.INSERT) -> Work:
    return lambda store: Ledger(store, POLICY).claim(call, owner=new_owner(), first=first)


def reserve_through_the_ledger(call: Call) -> Work:
    return lambda store: Ledger(store, POLICY).reserve(call, wait=REPUBLISH, sends=0)


def revoke(store: LedgerStore) -> int:
    """What a revoke of two calls does."""
    return store.cancel_waiting(["A", "B"], window=WINDOW)


def from_outside(digest: UUID) -> list[Work]:
    """The verbs of senders, revokes and prunes on a key of the call A."""
    return [
        revoke,
        lambda store: store.expire(digest, task_id="A", window=WINDOW),
        lambda store: store.prune(State.SUCCEEDED, bite=9),
        lambda store: store.prune_answered(bite=9),
        lambda store: store.prune_duplicates(keep=WINDOW, bite=9),
        lambda store: store.redrive(digest, token=1, message="{}"),
        lambda store: store.discard(digest, token=1, retention=RETENTION),
        lambda store: store.resolve(
            digest, token=1, result="1", reason=Reason.DONE, retention=RETENTION, window=WINDOW
        ),
    ]


def fails_unknown(digest: UUID) -> Work:
    """The verb of a worker that does not know the task."""
    return lambda store: store.fail_unknown(
        digest, task_id="A", sends=1, failure=a_failure(), retention=RETENTION
    )
