"""Two people at one dead letter, a person and a claim, two sweepers at one operation: one of them counts."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.models import FailedJob, RedriveOperation
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.sweeper.redrives import carry_on
from django_idempotent_tasks.testing.contract.bench import MESSAGE, new_owner
from django_idempotent_tasks.testing.contract.meeting import Meeting
from tests.races.staging import (
    BOTH_ENDS,
    LEASE,
    REPUBLISH,
    RETENTION,
    WINDOW,
    Stage,
    claim_anew,
    end,
    waiting,
)
from tests.support.ledger.session import Session, Work
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


def redrive(dead: Claim, token: int) -> Work[bool]:
    return lambda store: store.redrive(dead.digest, token=token, message=MESSAGE)


def discard(dead: Claim, token: int) -> Work[bool]:
    return lambda store: store.discard(dead.digest, token=token, retention=RETENTION)


def resolve(dead: Claim, token: int) -> Work[bool]:
    times: Any = {"reason": Reason.DONE, "retention": RETENTION, "window": WINDOW}
    return lambda store: store.resolve(dead.digest, token=token, result=None, **times)


DECISIONS = [redrive, discard, resolve]


class TestDecisions(Stage):
    @BOTH_ENDS
    @pytest.mark.parametrize("second", DECISIONS, ids=lambda verb: verb.__name__)
    @pytest.mark.parametrize("first", DECISIONS, ids=lambda verb: verb.__name__)
    def test_the_second_waits_for_the_first_and_loses_if_it_stands(
        self, one: Session, two: Session, first: Any, second: Any, *, commits: bool
    ) -> None:
        dead = self.failed(self.claimed())
        one.begin()
        assert one.do(first(dead, dead.token)) is True
        late = waiting(two, second(dead, dead.token), for_=one)
        end(one, commits=commits)
        assert late.result(PATIENCE) is not commits
        assert self.row(dead).token == dead.token + 1

    @BOTH_ENDS
    @pytest.mark.parametrize("decision", DECISIONS, ids=lambda verb: verb.__name__)
    def test_a_decision_waits_for_a_claim_by_another_call_and_loses_if_it_stands(
        self, one: Session, two: Session, decision: Any, *, commits: bool
    ) -> None:
        dead = self.failed(self.claimed())
        other = self.call("B", of=dead.call)
        one.begin()
        assert one.do(claim_anew(other, self.seen(other))) is not None
        late = waiting(two, decision(dead, dead.token), for_=one)
        end(one, commits=commits)
        assert late.result(PATIENCE) is not commits
        assert (self.row(dead).state == State.RUNNING) is commits

    @BOTH_ENDS
    @pytest.mark.parametrize("decision", DECISIONS, ids=lambda verb: verb.__name__)
    def test_a_claim_by_another_call_waits_for_a_decision_and_loses_if_it_stands(
        self, one: Session, two: Session, decision: Any, *, commits: bool
    ) -> None:
        dead = self.failed(self.claimed())
        other = self.call("B", of=dead.call)
        seen = self.seen(other)
        one.begin()
        assert one.do(decision(dead, dead.token)) is True
        late = waiting(two, claim_anew(other, seen), for_=one)
        end(one, commits=commits)
        assert (late.result(PATIENCE) is None) is commits
        assert (self.row(dead).task_id == "A") is commits


class Crowd(Meeting):
    """Several at the same moment; also the promises of a store without PostgreSQL's look at who waits."""

    def test_of_simultaneous_redrives_one_is_carried_out(self) -> None:
        dead = self.failed(self.claimed())
        assert self.all_at_once(redrive(dead, dead.token)).count(True) == 1
        assert self.row(dead).token == dead.token + 1

    def test_of_simultaneous_takeovers_one_tells_of_what_it_ended(self) -> None:
        call = self.claimed().call
        with shifted(LEASE + 1):
            seen = self.seen(call)
            self.all_at_once(lambda store: store.claim_open(call, owner=new_owner(), lease=LEASE, seen=seen))
        assert FailedJob.objects.using(self.alias).filter(digest=call.identity.digest).count() == 1

    def test_simultaneous_sweeps_tell_of_each_owner_once(self) -> None:
        claims = [self.claimed() for _ in range(12)]
        with shifted(LEASE + 1):
            self.all_at_once(lambda store: store.sweep(bite=9, republish=REPUBLISH))
            self.store().sweep(bite=99, republish=REPUBLISH)
        told = FailedJob.objects.using(self.alias).values_list("digest", flat=True)
        assert (len(told), {*told}) == (12, {claim.digest for claim in claims})

    def test_simultaneous_sweepers_carry_one_operation_out_once(self) -> None:
        dead = [self.failed(self.claimed()) for _ in range(40)]
        operation = RedriveOperation.objects.using(self.alias).create(
            created_at=self.now(dead[-1]),
            created_by="ann",
            reason="mended",
            selection=Selection().encode(),
            total=40,
        )
        for _ in range(3):
            self.all_at_once(carry_on)
        operation.refresh_from_db(using=self.alias)
        assert (operation.redriven, operation.skipped) == (40, 0)
        assert {self.row(claim).token for claim in dead} == {2}


class TestAtOnce(Crowd, Stage):
    pass
