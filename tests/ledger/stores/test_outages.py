"""After an outage of the ledger a claim leaves each key alone for the lease that its owner was given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from django_idempotent_tasks.ledger import outage
from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Claimed, Outcome, Waiting
from django_idempotent_tasks.testing.contract.bench import Bench, new_owner
from tests.support.ledger.policies import POLICY

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

#: What the owner was given, and what its task's policy says since then.
OLD, NEW = 40, 400
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

    def claims(self, lease: int, policys: int) -> Outcome:
        """What a copy gets whose key was claimed with ``lease``, and whose task has another one by now."""
        call = self.claimed(lease=lease).call
        ledger = Ledger(self.store(), replace(POLICY, lease=policys))
        with shifted(lease + 1):
            return ledger.claim(call, owner=new_owner(), first=Step.WAIT)


def test_a_copy_waits_for_the_lease_of_the_owner_and_not_for_its_own(bench: Claims) -> None:
    for lease, policys in ((OLD, NEW), (NEW, OLD)):
        with shifted(lease + 1):
            bench.store().resign(outage.LEDGER, holder=outage.LEDGER)
            outage.note(bench.store())  # the first word after the outage
        outcome = bench.claims(lease, policys)
        assert isinstance(outcome, Waiting)
        assert lease - SLACK < outcome.seconds <= lease


def test_where_no_sweeper_is_back_yet_it_waits_for_that_lease_as_well(bench: Claims) -> None:
    outage.note(bench.store())
    for lease, policys in ((OLD, NEW), (NEW, OLD)):
        with shifted(lease + 1):
            bench.store().resign(outage.LEDGER, holder=outage.LEDGER)
        assert bench.claims(lease, policys) == Waiting(lease)


def test_where_the_ledger_has_answered_for_that_lease_it_takes_over(bench: Claims) -> None:
    bench.store().lead(outage.LEDGER, holder=outage.LEDGER, lease=NEW)
    assert isinstance(bench.claims(OLD, NEW), Claimed)
