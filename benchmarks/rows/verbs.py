"""What each verb of the store takes at a number of rows, and how the server reads the table for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from uuid import uuid4

from benchmarks.claims.tables import FEW, TABLE, execute
from benchmarks.claims.work import LEASE, MESSAGE, atomic, duplicate, expect, new_call, times
from benchmarks.reserve.pruned import p99
from django_idempotent_tasks.ledger.owner import new_owner
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.states import Reason, State
from tests.support.ledger.statements import postgresql_pages, postgresql_plan

#: As the sweeper has them.
SWEPT, PRUNED, REPUBLISH = 200, 1000, 300

Verb = Callable[[LedgerStore], object]

#: Leases that are over, whose work the sweeper sends again.
OVER = f"""
UPDATE {TABLE} SET due_at = due_at - interval '1 hour', open_at = open_at - interval '1 hour'
 WHERE state = {State.RUNNING}
"""  # noqa: S608  our own names


@dataclass(frozen=True)
class Taken:
    """Microseconds of a verb, the pages that its statements touch, and the ways in which they read tables."""

    median: float
    p99: float
    pages: int
    plan: list[str]


def measure(rows: int, samples: int) -> dict[str, Taken]:
    """Time each verb so many times; sweeps and prunes, which are long, a tenth as often."""
    store, few = get_store(), max(samples // 10, 5)
    found = {
        "claim and completion": _taken(lambda store: complete(claim(store)), store, samples),
        "atomic": _taken(lambda store: atomic(store, rows), store, samples),
        "refused duplicate": _taken(lambda store: duplicate(store, rows), store, samples),
        "a sweep that finds nothing": _taken(sweep, store, samples),
        "a prune that finds nothing": _taken(
            lambda store: store.prune(State.CANCELLED, bite=PRUNED), store, samples
        ),
    }
    found[f"a sweep of {SWEPT}"] = _taken(sweep, store, few, before=_leases_run_out)
    found[f"a prune of {PRUNED}"] = _taken(prune, store, few // 2)
    return found


def claim(store: LedgerStore) -> Claim:
    """Claim a new key, with its message."""
    call, owner = new_call(uuid4(), MESSAGE), new_owner()
    grant = store.claim_new(call, owner=owner, lease=LEASE)
    if grant is None:
        raise AssertionError(call)
    return Claim(call, owner, grant, LEASE)


def complete(held: Claim) -> None:
    """End a claim."""
    expect(get_store().complete(held, result=None, reason=Reason.DONE, **times()))


def sweep(store: LedgerStore) -> int:
    """Free and take what is due; how many rows."""
    return len(store.sweep(bite=SWEPT, republish=REPUBLISH))


def prune(store: LedgerStore) -> int:
    """Delete the oldest completed keys that are past their time; how many."""
    return store.prune(State.SUCCEEDED, bite=PRUNED)


def _leases_run_out(store: LedgerStore) -> None:
    for _ in range(SWEPT):
        claim(store)
    execute(FEW, OVER)


def _taken(verb: Verb, store: LedgerStore, samples: int, before: Verb | None = None) -> Taken:
    seconds = sorted(_seconds(verb, store, samples, before))
    if before is not None:
        before(store)
    accesses = postgresql_plan(verb, freely=True)
    plan = sorted({f"{each.node} {each.index or each.table}" for each in accesses})
    return Taken(1e6 * median(seconds), 1e6 * p99(seconds), postgresql_pages(verb), plan)


def _seconds(verb: Verb, store: LedgerStore, samples: int, before: Verb | None) -> Iterator[float]:
    for _ in range(samples):
        if before is not None:
            before(store)
        began = time.perf_counter()
        verb(store)
        yield time.perf_counter() - began
