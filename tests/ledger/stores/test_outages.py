"""After an outage of the ledger a claim leaves each key alone for the lease that its owner was given."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from django.db import transaction

from django_idempotent_tasks.ledger import outage
from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call, Claimed, Outcome, Refused, Waiting
from django_idempotent_tasks.models import Leader
from django_idempotent_tasks.testing.contract.bench import Bench, new_owner
from tests.support.ledger.policies import POLICY

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

#: What the owner was given, and what its task's policy says since then; and a lease below the pace of copies.
OLD, NEW, SHORT = 40, 400, 4
#: After how many seconds, at most, a copy comes back that waits for an owner after an outage.
PACE = outage.GAP // 2
#: An outage after which the lease is over.
OUTAGE = OLD + 1
#: Seconds that may pass on a busy machine.
SLACK = 9


@pytest.fixture(params=["default", "sqlite"])
def bench(request: pytest.FixtureRequest) -> Claims:
    return Claims(request.param)


class Claims(Bench):
    """Copies of calls whose owners have a lease that is over."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def store(self) -> LedgerStore:
        return get_store(self._alias)

    def claims(self, lease: int, policys: int, *, answered: int) -> Outcome:
        """What a copy gets just after a lease, where sweepers note for so long that the ledger answers.

        The key was claimed with ``lease``, and its task has another one by now.
        """
        with shifted(lease + 1 - answered):
            self.store().resign(outage.LEDGER, holder=outage.LEDGER)
            self.store().lead(outage.LEDGER, holder=outage.LEDGER, lease=answered + outage.GAP)
        return self.comes_back(self.claimed(lease=lease).call, lease + 1, policys)

    def noted_until(self) -> datetime:
        """The end of the latest note."""
        return Leader.objects.using(self.alias).get(name=outage.LEDGER).expires_at

    def comes_back(self, call: Call, after: int, policys: int) -> Outcome:
        """What a copy of this call gets so many seconds from now."""
        ledger = Ledger(self.store(), replace(POLICY, lease=policys))
        with shifted(after):
            return ledger.claim(call, owner=new_owner(), first=Step.WAIT)


def test_a_copy_waits_for_the_lease_of_the_owner_and_not_for_its_own(bench: Claims) -> None:
    for lease, policys in ((OLD, NEW), (NEW, OLD)):
        assert isinstance(bench.claims(lease, policys, answered=lease - SLACK), Waiting)
        assert isinstance(bench.claims(lease, policys, answered=lease), Claimed)


@pytest.mark.parametrize("lease", [OLD, SHORT])
def test_where_no_sweeper_is_back_yet_copies_note_that_the_ledger_answers_until_the_lease_is_over(
    bench: Claims, lease: int
) -> None:
    outage.note(bench.store())
    call = bench.claimed(lease=lease).call
    for after in range(0, lease, PACE):
        outcome = bench.comes_back(call, OUTAGE + after, NEW)
        assert isinstance(outcome, Waiting)
        assert 0 < outcome.seconds <= PACE
    assert isinstance(bench.comes_back(call, OUTAGE + lease, NEW), Claimed)


def test_beside_sweepers_that_note_every_few_seconds_a_copy_notes_nothing(bench: Claims) -> None:
    outage.note(bench.store())
    call = bench.claimed(lease=OLD).call
    with shifted(OUTAGE):
        outage.note(bench.store())
    noted = bench.noted_until()
    assert isinstance(bench.comes_back(call, OUTAGE, OLD), Waiting)
    assert bench.noted_until() == noted
    assert isinstance(bench.comes_back(call, OUTAGE + PACE, OLD), Waiting)
    assert bench.noted_until() > noted


def test_a_sender_in_a_transaction_leaves_a_key_to_an_owner_of_which_nobody_has_noted_anything_yet(
    bench: Claims,
) -> None:
    outage.note(bench.store())
    owner = bench.claimed(bench.call(message=None), lease=OLD)
    ledger = Ledger(bench.store(), replace(POLICY, lease=OLD))
    with shifted(OUTAGE), transaction.atomic(using=bench.alias):
        sent = ledger.accept(bench.call("B", of=owner.call), wait=0, republish=300, sends=0)
    assert isinstance(sent, Refused)
    with shifted(OUTAGE):
        assert bench.store().renew([owner]) == {owner.digest}


def test_a_second_outage_right_after_the_first_is_seen_though_only_a_copy_has_come_between(
    bench: Claims,
) -> None:
    outage.note(bench.store())
    call = bench.claimed(lease=OLD).call
    for after in (OUTAGE, 2 * OUTAGE, 3 * OUTAGE):
        assert isinstance(bench.comes_back(call, after, OLD), Waiting)
        with shifted(after + outage.GAP + 1):
            assert outage.note(bench.store()) <= SLACK
