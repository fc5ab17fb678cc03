"""Two clients at one row: the second waits until the first has ended its transaction, and then sees how."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

import pytest

from django_idempotent_tasks.conf.options import Policy
from django_idempotent_tasks.ledger.atomic import AtomicLedger, Recorded
from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import (
    Abandoned,
    Call,
    Claim,
    Entry,
    Grant,
    Outcome,
    Refused,
    Reserved,
)
from django_idempotent_tasks.testing.contract.bench import (
    LEASE,
    REPUBLISH,
    RETENTION,
    WINDOW,
    Bench,
    new_owner,
)
from tests.support.ledger.policies import POLICY
from tests.support.ledger.session import Session, T, Work, wait_until_blocked

__all__ = ["LEASE", "REPUBLISH", "RETENTION", "WINDOW", "Stage"]


BOTH_ENDS = pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])


def end(session: Session, *, commits: bool) -> None:
    """End the session's transaction one way or the other."""
    session.commit() if commits else session.rollback()


class Stage(Bench):
    """The words of the shipped promises, on the default database."""

    def store(self) -> LedgerStore:
        return get_store("default")


def waiting(session: Session, work: Work[T], *, for_: Session) -> Future[T]:
    """Begin ``work`` and see that it waits for another session; what it gets once that has gone on."""
    pid, other = session.pid, for_.pid
    future = session.start(work)
    wait_until_blocked(pid, by=other)
    return future


def insert(call: Call) -> Work[Grant | None]:
    """A first claim."""
    return lambda store: store.claim_new(call, owner=new_owner(), lease=LEASE)


def take_over(call: Call, seen: Entry) -> Work[Grant | None]:
    """A claim within the generation."""
    return lambda store: store.claim_open(call, owner=new_owner(), lease=LEASE, seen=seen)


def claim_anew(call: Call, seen: Entry) -> Work[Grant | None]:
    """A claim of a finished key."""
    return lambda store: store.claim_finished(call, owner=new_owner(), lease=LEASE, seen=seen, window=WINDOW)


def claim(call: Call) -> Work[Outcome]:
    """A claim through the ledger, as a worker makes it."""
    return lambda store: Ledger(store, POLICY).claim(call, owner=new_owner(), first=Step.INSERT)


#: An atomic task whose success is closed to other calls.
ATOMIC: Policy = replace(POLICY, mode="atomic", retention=RETENTION)


def run(call: Call) -> Work[Outcome]:
    """The claim of an atomic run through the ledger; its transaction is the session's."""
    return lambda store: AtomicLedger(store, ATOMIC).claim(call, owner=new_owner(), first=Step.INSERT)


def record(call: Call, *, seen: int = 0) -> Work[Recorded]:
    """Write that a run has died which left nothing."""

    def work(store: LedgerStore) -> Recorded:
        def die(claim: Claim) -> bool:
            return store.free_dead(claim.digest, owner_prefix=claim.owner, republish=REPUBLISH)

        return AtomicLedger(store, ATOMIC).record(call, owner=new_owner(), seen=seen, settle=die)

    return work


def reserve(call: Call, *, wait: int = REPUBLISH) -> Work[Reserved | Refused | Abandoned]:
    """A reservation through the ledger, as a sender makes it."""
    return lambda store: Ledger(store, POLICY).reserve(call, wait=wait, sends=0)
