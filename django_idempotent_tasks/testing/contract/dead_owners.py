"""Promises of ``free_dead`` and ``fail_dead``: what a worker's parent does for a child that died."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

from collections.abc import Callable

from ...ledger.stores.clock import shifted
from ...ledger.values import Claim
from ...states import Category, Reason, State
from .bench import LEASE, MESSAGE, RECORDED, REPUBLISH, RETENTION, Bench, a_failure


class DeadOwners(Bench):
    """Only the claim of the owner that died is ended, and only while it holds the key."""

    def test_the_key_of_a_dead_owner_is_free_at_once_and_the_crash_is_counted(self) -> None:
        claim = self.claimed()
        with self.sets(claim, open_at=0, due_at=REPUBLISH):
            assert self._free(claim) is True
        entry = self.seen(claim.call)
        assert (entry.state, entry.reason, entry.owner) == (State.RETRY, Reason.OWNER_DIED, None)
        assert (entry.token, entry.attempts, entry.crashes) == (2, 1, 1)
        assert self.row(claim).message == MESSAGE

    def test_the_key_of_an_owner_that_died_again_waits_longer_each_time(self) -> None:
        for crashes, wait in ((1, 2), (2, 4), (5, 32), (6, 60), (300, 60)):
            claim = self.in_state(State.RUNNING, crashes=crashes)
            with self.sets(claim, open_at=wait, due_at=wait + REPUBLISH):
                assert self._free(claim) is True
            assert self.seen(claim.call).crashes == crashes + 1

    def test_the_next_claim_after_a_dead_owner_knows_of_the_crash_once(self) -> None:
        claim = self.claimed()
        self._free(claim)
        grant = self.taken_over(claim.call).grant
        assert (grant.token, grant.attempts, grant.crashes) == (3, 2, 1)
        assert grant.reason is Reason.OWNER_DIED

    def test_an_owner_that_died_inside_an_external_call_leaves_its_key_to_a_person(self) -> None:
        claim = self.in_state(State.RUNNING, in_external=True)
        assert self._free(claim) is True
        row = self.row(claim)
        assert (row.state, row.token, row.owner) == (State.REVIEW, 2, None)
        assert (row.open_at, row.due_at) == (None, None)

    def test_a_dead_owner_can_be_recorded_as_a_failure_for_good(self) -> None:
        claim = self.claimed()
        with self.sets(claim, finished_at=0, due_at=RETENTION):
            assert self._fail(claim) is True
        row = self.row(claim)
        assert (row.state, row.reason, row.category) == (State.FAILED, Reason.PERMANENT, Category.FATAL)
        assert (row.result, row.message, row.signature) == (RECORDED, MESSAGE, a_failure().signature)
        assert (row.owner, row.open_at) == (None, None)

    def test_an_owner_that_was_taken_for_dead_can_neither_settle_nor_renew(self) -> None:
        for end in (self._free, self._fail):
            claim = self.claimed()
            end(claim)
            with self.untouched(claim):
                assert self.complete(claim) is False
                assert self.retry(claim) is False
                assert self.fail(claim) is False
                assert self.store().renew([claim]) == set()

    def test_the_key_of_another_owner_is_left_alone(self) -> None:
        for end in self._ends():
            claim = self.claimed()
            with shifted(LEASE + 1):
                taker = self.taken_over(claim.call)
            with self.untouched(taker):
                assert end(claim) is False

    def test_a_key_that_is_not_running_has_no_dead_owner(self) -> None:
        for end in self._ends():
            for state in State:
                if state is not State.RUNNING:
                    claim = self.in_state(state)
                    with self.untouched(claim):
                        assert end(claim) is False

    def test_what_an_owner_gave_back_before_it_died_is_a_crash_as_well_while_nobody_has_claimed_it(
        self,
    ) -> None:
        for crashes, wait in ((0, 0), (1, 2), (2, 4)):
            claim = self.in_state(State.RUNNING, crashes=crashes)
            assert self._give_back(claim) is True
            assert self.row(claim).owner == claim.owner
            with self.sets(claim, open_at=wait, due_at=wait + REPUBLISH):
                assert self._free(claim) is True
            entry = self.seen(claim.call)
            assert (entry.state, entry.reason, entry.owner) == (State.RETRY, Reason.OWNER_DIED, None)
            assert entry.crashes == crashes + 1
            with self.untouched(claim):
                assert self._free(claim) is False

        claim = self.claimed()
        self._give_back(claim)
        taker = self.taken_over(claim.call)
        assert (taker.grant.attempts, taker.grant.crashes) == (2, 0)
        with self.untouched(taker):
            assert self._free(claim) is False

    def test_what_an_owner_gave_back_is_not_failed_for_it(self) -> None:
        claim = self.claimed()
        self._give_back(claim)
        with self.untouched(claim):
            assert self._fail(claim) is False

    def test_other_keys_of_a_dead_owner_are_left_alone(self) -> None:
        for end in self._ends():
            claim = self.claimed()
            other = self.in_state(State.RUNNING, owner=claim.owner)
            with self.untouched(other):
                end(claim)

    def _ends(self) -> tuple[Callable[[Claim], bool], ...]:
        return (self._free, self._fail)

    def _give_back(self, claim: Claim) -> bool:
        return self.store().retry(claim, message=None, reason=Reason.RELEASED, wait=0, republish=REPUBLISH)

    def _free(self, claim: Claim) -> bool:
        return self.store().free_dead(claim.digest, owner_prefix=_process(claim), republish=REPUBLISH)

    def _fail(self, claim: Claim) -> bool:
        return self.store().fail_dead(
            claim.digest,
            owner_prefix=_process(claim),
            reason=Reason.PERMANENT,
            failure=a_failure(category=Category.FATAL),
            retention=RETENTION,
        )


def _process(claim: Claim) -> str:
    """The owner's name without its last character: a parent knows the child, not the claim."""
    return claim.owner[:-1]
