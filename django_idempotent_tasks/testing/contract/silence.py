"""Promises about owners that died: the end of their key, also inside ``external()``, and its record."""
# ruff: noqa: S101  promises are asserted, in plain numbers

from __future__ import annotations

from dataclasses import replace

from ...ledger.encoding import decode_error
from ...ledger.stores.clock import shifted
from ...ledger.values import Claim
from ...states import FINISHED, Category, State
from .bench import LEASE, REPUBLISH, new_owner
from .failing import Failing
from .sweeping import Sweeping

OWNER_DIED = "django_idempotent_tasks.exceptions.OwnerDied"


class SilentOwners(Failing, Sweeping):
    """Whoever takes a key from a dead owner records the owner's failed attempt."""

    def test_a_freed_lease_leaves_a_record_of_the_attempt_that_it_ended(self) -> None:
        claim = self.claimed(self.call(scope="tenant"))
        with shifted(LEASE + 1):
            self.swept(claim)
        (job,) = self.jobs(claim)
        assert (job.token, job.attempt, job.state) == (claim.token, 1, State.RETRY)
        assert (job.error, job.worker, job.scope) == (OWNER_DIED, claim.owner, "tenant")
        assert (job.task_id, job.category) == ("A", Category.RETRYABLE)

    def test_a_sweep_records_each_ended_attempt_once_and_nothing_else(self) -> None:
        freed, resent, unsendable = self.claimed(), self.claimed(), self.claimed(self.call(message=None))
        self.retry(resent)
        for seconds in (LEASE + 1, LEASE + 3 * REPUBLISH):
            with shifted(seconds):
                self.sweep()
        assert [len(self.jobs(claim)) for claim in (freed, resent, unsendable)] == [1, 0, 0]

    def test_a_takeover_leaves_a_record_of_the_attempt_that_it_ended(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            second = self.taken_over(self.call("B", of=claim.call))
        with shifted(2 * LEASE + 2):
            self.taken_over(claim.call)
        told = [(job.token, job.attempt, job.task_id, job.worker) for job in self.jobs(claim)]
        assert told == [(1, 1, "A", claim.owner), (2, 2, "B", second.owner)]
        assert {(job.error, job.state) for job in self.jobs(claim)} == {(OWNER_DIED, State.RUNNING)}

    def test_a_takeover_that_is_refused_leaves_no_record(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            seen = self.seen(claim.call)
            for wrong in (replace(seen, token=seen.token + 1), replace(seen, token=seen.token - 1)):
                owner = new_owner()
                assert self.store().claim_open(claim.call, owner=owner, lease=LEASE, seen=wrong) is None
        assert self.jobs(claim) == []

    def test_a_claim_of_what_nobody_had_leaves_no_record(self) -> None:
        claims = [self.started(self.reserved()), self.claimed()]
        self.retry(claims[1])
        self.taken_over(claims[1].call)
        assert [self.jobs(claim) for claim in claims] == [[], []]


class ExternalCalls(Failing, Sweeping):
    """A key whose owner died inside ``external()`` waits for a person, and no worker runs it."""

    def test_an_owner_says_that_it_is_inside_an_external_call(self) -> None:
        claim = self.claimed()
        assert self.store().enter_external(claim) is True
        assert self.row(claim).in_external is True
        assert self.seen(claim.call).in_external is True

    def test_only_the_owner_is_inside_an_external_call(self) -> None:
        claim = self.claimed()
        late = replace(claim, grant=replace(claim.grant, token=claim.token + 1))
        with self.untouched(claim):
            assert self.store().enter_external(late) is False
            assert self.store().enter_external(replace(claim, owner="w:2:b")) is False
        for state in (State.PENDING, State.RETRY, *FINISHED):
            claim = self.in_state(state)
            with self.untouched(claim):
                assert self.store().enter_external(claim) is False

    def test_what_ended_inside_an_external_call_is_not_taken_over(self) -> None:
        claim = self._inside()
        with shifted(LEASE + 1):
            seen = self.seen(claim.call)
            assert seen.is_open is False
            for task_id in ("A", "B"):
                call = self.call(task_id, of=claim.call)
                with self.untouched(claim):
                    forced = replace(seen, is_open=True)
                    granted = self.store().claim_open(call, owner="w:2:b", lease=LEASE, seen=forced)
                    assert granted is None

    def test_whoever_ends_an_external_call_leaves_a_dead_letter_that_tells_why(self) -> None:
        for end in (self._sweep_it, self._release_it, self.fail_as_dead):
            claim = self._inside()
            with self.sets(claim, finished_at=0):
                end(claim)
            row = self.row(claim)
            assert (row.state, row.category) == (State.REVIEW, Category.MANUAL_REVIEW)
            assert row.signature == "interrupted"
            assert "external()" in decode_error(row.result)
            assert (row.open_at, row.due_at, row.owner) == (None, None, None)

    def test_a_dead_letter_of_a_sweep_has_its_record(self) -> None:
        claim = self._inside()
        self._sweep_it(claim)
        (job,) = self.jobs(claim)
        assert (job.state, job.category) == (State.REVIEW, Category.MANUAL_REVIEW)
        assert job.signature == self.row(claim).signature

    def _inside(self) -> Claim:
        claim = self.claimed()
        assert self.store().enter_external(claim) is True
        return claim

    def _sweep_it(self, claim: Claim) -> None:
        self.in_columns(claim, due_at=self.row(claim).created_at)
        assert self.swept(claim).state is State.REVIEW

    def _release_it(self, claim: Claim) -> None:
        assert self.store().release(claim.digest, token=claim.token) is True
