"""A claim and its completion through the store alone: the statements of a task, without the task."""

from __future__ import annotations

from collections.abc import Callable
from random import randint
from typing import Any
from uuid import UUID, uuid4

from django.db import connections, transaction

from benchmarks.claims.tables import known_digest
from django_idempotent_tasks.conf import settings
from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.owner import new_owner
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.states import Reason

#: As long as the message of a small task.
MESSAGE = "m" * 600
LEASE = 60

#: Given a store and the number of keys that were filled, do one.
Work = Callable[[LedgerStore, int], object]


def atomic(store: LedgerStore, _rows: int) -> None:
    """One statement and the commit."""
    with transaction.atomic(using=store.connection.alias):
        found = store.atomic_new(new_call(uuid4(), None), owner=new_owner(), **times())
    expect(found is not None)


def leased(store: LedgerStore, _rows: int) -> None:
    """The claim with its message and its commit, then the completion and its commit."""
    call, owner = new_call(uuid4(), MESSAGE), new_owner()
    grant = store.claim_new(call, owner=owner, lease=LEASE)
    expect(grant is not None)
    if grant is not None:
        claim = Claim(call, owner, grant, LEASE)
        expect(store.complete(claim, result=None, reason=Reason.DONE, **times()))


def duplicate(store: LedgerStore, rows: int) -> None:
    """A claim that finds one of the newer keys, the row that is read then, and the audit row."""
    call = new_call(known_digest(randint(rows // 2 + 1, rows)), None)
    expect(store.claim_new(call, owner=new_owner(), lease=LEASE) is None)
    expect(store.read(call.identity.digest, task_id=call.task_id) is not None)
    store.record_duplicate(call, place="worker", reason="already_completed")


KINDS: dict[str, Work] = {"atomic": atomic, "leased": leased, "duplicate": duplicate}


def store_of(alias: str) -> LedgerStore:
    """The package's store on another database."""
    kind: Any = type(get_store())
    store: LedgerStore = kind(connections[alias])
    return store


def new_call(digest: UUID, message: str | None) -> Call:
    """A call of a small task."""
    return Call(Identity(digest, None, "order_id=7", None), "shop.tasks.charge", str(uuid4()), message)


def times() -> dict[str, int]:
    """How long a completed key is kept, by the settings."""
    return {"retention": settings().retention, "window": settings().redelivery_window}


def expect(is_so: bool) -> None:  # noqa: FBT001  the one thing it is asked
    """Raise AssertionError unless it is so."""
    if not is_so:
        raise AssertionError("A claim or a completion ended otherwise than it must.")
