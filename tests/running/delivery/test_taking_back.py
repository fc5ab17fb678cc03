"""A completion that a body committed itself is taken back by its own claim, and by no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

DAY = 24 * 3600


def completed(store: LedgerStore, task: Any) -> Claim:
    """An atomic claim, committed."""
    call = Call(task.idempotency_identity((7,)), task.name, "A", None)
    grant = store.atomic_new(call, owner="w:1:a", retention=DAY, window=DAY)
    assert grant is not None
    return Claim(call, "w:1:a", grant, 60)


def test_it_is_a_running_claim_again_which_can_be_ended(till: Till, shop: Counter) -> None:
    store = get_store()
    claim = completed(store, till.seller(shop))
    assert store.take_back(claim)
    row = shop.row
    assert (row.state, row.token, row.owner, row.finished_at) == (State.RUNNING, 1, "w:1:a", None)
    assert row.open_at is not None
    assert row.started_at is not None
    assert (row.open_at - row.started_at).total_seconds() == pytest.approx(60, abs=30)
    assert store.retry(claim, message=None, reason=claim.grant.reason, wait=0, republish=300)


def test_another_claim_of_the_key_cannot_take_it_back(till: Till, shop: Counter) -> None:
    store = get_store()
    claim = completed(store, till.seller(shop))
    others = [replace(claim, owner="w:1:b"), replace(claim, grant=replace(claim.grant, token=2))]
    assert [store.take_back(other) for other in others] == [False, False]
    assert shop.state == State.SUCCEEDED


@pytest.mark.parametrize("state", [state for state in State if state != State.SUCCEEDED])
def test_only_a_success_can_be_taken_back(till: Till, shop: Counter, state: State) -> None:
    store = get_store()
    claim = completed(store, till.seller(shop))
    shop.put(state=state)
    assert not store.take_back(claim)
    assert shop.state == state


def test_a_success_is_not_taken_back_from_a_body_that_did_not_commit_it(till: Till, shop: Counter) -> None:
    task = till.seller(shop)
    assert till.deliver(task, 7).result == till.deliver(task, 7, redelivered=True).result
    assert (shop.state, shop.row.token, shop.runs) == (State.SUCCEEDED, 1, 1)
