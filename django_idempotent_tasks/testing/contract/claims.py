"""Promises of ``claim_new``, ``claim_open`` and ``read``: who may run, and what a claim leaves on the row."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from uuid import uuid4

from ...ledger.stores.clock import shifted
from ...ledger.values import Grant
from ...states import Reason, State
from .bench import LEASE, MESSAGE, REPUBLISH, Bench, new_owner


class FirstClaims(Bench):
    """A key without a row."""

    def test_the_first_claim_of_a_key_is_granted(self) -> None:
        grant = self.store().claim_new(self.call(), owner="w:1:a", lease=LEASE)
        assert grant == Grant(token=1, generation=1, attempts=1, crashes=0, reason=Reason.NONE)

    def test_a_second_first_claim_of_the_key_is_refused_and_changes_nothing(self) -> None:
        first = self.claimed()
        with self.untouched(first):
            for task_id in ("A", "B"):
                again = self.call(task_id, of=first.call)
                assert self.store().claim_new(again, owner=new_owner(), lease=LEASE) is None

    def test_a_claim_that_a_crash_may_undo_is_granted_once_like_any_other(self) -> None:
        fresh, reserved = self.call(uuid4().hex, named_here=True), self.reserved()
        for call, claims in ((fresh, "claim_new"), (self.call(), "claim_new"), (reserved, "claim_reserved")):
            owner, claim = new_owner(), getattr(self.store(), claims)
            grant = claim(call, owner=owner, lease=LEASE, durable=False)
            assert grant == Grant(1, 1, attempts=1, crashes=0, reason=Reason.NONE)
            with self.untouched(call):
                for again in (call, self.call("B", of=call)):
                    assert claim(again, owner=new_owner(), lease=LEASE, durable=False) is None
            assert self.seen(call).owner == owner
            assert self.complete(self.granted(call, owner, grant, LEASE)) is True

    def test_a_key_without_a_row_is_read_as_none(self) -> None:
        assert self.store().read(uuid4(), task_id="A") is None

    def test_a_claim_is_read_as_it_was_made(self) -> None:
        claim = self.claimed(self.call(fingerprint=uuid4()))
        entry = self.seen(claim.call)
        assert (entry.state, entry.reason, entry.token, entry.generation) == (2, 0, 1, 1)
        assert (entry.attempts, entry.crashes, entry.result) == (1, 0, None)
        assert (entry.task_id, entry.runner_task_id, entry.owner) == ("A", None, claim.owner)
        assert entry.fingerprint == claim.call.identity.fingerprint
        assert entry.is_open is False
        assert entry.was_answered is False

    def test_the_row_of_a_claim_tells_the_whole_call(self) -> None:
        call = self.call(scope="tenant-42", key_text="order 7", fingerprint=uuid4())
        self.claimed(call)
        row = self.row(call)
        assert (row.task, row.scope, row.key_text, row.task_id) == (
            "shop.charge",
            "tenant-42",
            "order 7",
            "A",
        )
        assert (row.message, row.fingerprint) == (MESSAGE, call.identity.fingerprint)
        assert (row.lease_seconds, row.sends, row.duplicates, row.in_external) == (LEASE, 0, 0, False)
        assert row.created_at == row.started_at
        assert row.finished_at is None

    def test_a_claim_may_come_without_a_message_and_a_fingerprint(self) -> None:
        claim = self.claimed(self.call(message=None))
        assert (self.row(claim).message, self.seen(claim.call).fingerprint) == (None, None)

    def test_keys_do_not_meet_each_other(self) -> None:
        first, second = self.claimed(), self.claimed()
        with self.untouched(second):
            self.completed(first)

    def test_a_lease_is_open_to_others_once_it_is_over_and_not_before(self) -> None:
        call = self.claimed().call
        entry = self.seen(call)
        assert entry.is_open is False
        assert entry.opens_in is not None
        assert 0 < entry.opens_in <= LEASE
        with shifted(LEASE - 30):
            assert self.seen(call).is_open is False
        with shifted(LEASE + 1):
            late = self.seen(call)
        assert late.is_open is True
        assert late.opens_in is not None
        assert late.opens_in < 0

    def test_every_claim_has_a_lease_of_its_own_length(self) -> None:
        short, long = self.claimed(lease=50), self.claimed(lease=5000)
        with shifted(51):
            assert self.seen(short.call).is_open is True
            assert self.seen(long.call).is_open is False

    def test_the_sweeper_looks_at_a_claim_when_its_lease_is_over(self) -> None:
        row = self.row(self.claimed())
        assert row.started_at is not None
        assert row.open_at == row.due_at
        assert row.open_at is not None
        assert (row.open_at - row.started_at).total_seconds() == LEASE


class Takeovers(Bench):
    """Claims within a generation: an expired lease, a due retry, a reservation."""

    def test_a_lease_that_lasts_is_not_taken_over(self) -> None:
        claim = self.claimed()
        for task_id in ("A", "B"):
            other = self.call(task_id, of=claim.call)
            with self.untouched(claim):
                seen = self.seen(other)
                assert self.store().claim_open(other, owner="w:2:b", lease=LEASE, seen=seen) is None

    def test_an_expired_lease_is_taken_over_and_the_crash_is_counted(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            taker = self.taken_over(claim.call)
        assert taker.grant == Grant(2, 1, attempts=2, crashes=1, reason=Reason.OWNER_DIED)
        row = self.row(claim)
        assert (row.state, row.owner) == (State.RUNNING, taker.owner)

    def test_every_takeover_raises_token_attempts_and_crashes_by_one(self) -> None:
        call = self.claimed().call
        grants = []
        for turn in (1, 2, 3):
            with shifted(turn * (LEASE + 1)):
                grants.append(self.taken_over(call).grant)
        assert [(grant.token, grant.attempts, grant.crashes) for grant in grants] == [
            (2, 2, 1),
            (3, 3, 2),
            (4, 4, 3),
        ]
        assert {grant.generation for grant in grants} == {1}

    def test_a_takeover_lasts_for_the_lease_of_the_taker(self) -> None:
        call = self.claimed().call
        with shifted(LEASE + 1), self.sets(call, started_at=0, open_at=500, due_at=500):
            self.taken_over(call, lease=500)
        assert self.row(call).lease_seconds == 500

    def test_a_takeover_by_another_call_keeps_the_accepted_call_and_names_the_runner(self) -> None:
        first = self.claimed().call
        other = self.call("B", of=first)
        with shifted(LEASE + 1):
            self.taken_over(other)
        entry = self.seen(other)
        assert (entry.task_id, entry.runner_task_id) == ("A", "B")
        with shifted(2 * LEASE + 2):
            self.taken_over(first)
        entry = self.seen(other)
        assert (entry.task_id, entry.runner_task_id) == ("A", None)

    def test_a_takeover_without_a_message_keeps_the_stored_one(self) -> None:
        call = self.claimed().call
        with shifted(LEASE + 1):
            self.taken_over(self.call(of=call, message=None))
        assert self.row(call).message == MESSAGE

    def test_a_takeover_with_a_message_stores_its_own(self) -> None:
        call = self.claimed().call
        with shifted(LEASE + 1):
            self.taken_over(self.call("B", of=call, message='{"v": 1, "args": [8]}'))
        assert self.row(call).message == '{"v": 1, "args": [8]}'

    def test_a_takeover_judged_on_a_row_that_has_changed_since_is_refused(self) -> None:
        call = self.claimed().call
        with shifted(LEASE + 1):
            seen = self.seen(call)
            self.taken_over(call)
        with shifted(2 * LEASE + 2), self.untouched(call):
            assert self.store().claim_open(call, owner="w:2:b", lease=LEASE, seen=seen) is None

    def test_a_takeover_judged_on_another_state_is_refused(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            seen = self.seen(claim.call)
            assert self.retry(claim)
            with self.untouched(claim):
                assert self.store().claim_open(claim.call, owner="w:2:b", lease=LEASE, seen=seen) is None

    def test_a_retry_is_claimed_when_it_is_due_and_not_before(self) -> None:
        claim = self.claimed()
        self.retry(claim, wait=100)
        with self.untouched(claim):
            seen = self.seen(claim.call)
            assert self.store().claim_open(claim.call, owner="w:2:b", lease=LEASE, seen=seen) is None
        with shifted(101):
            again = self.taken_over(claim.call)
        assert again.grant == Grant(2, 1, attempts=2, crashes=0, reason=Reason.RETRY_ASKED)

    def test_a_reservation_is_claimed_at_once(self) -> None:
        claim = self.in_state(State.PENDING, token=0, attempts=0, open_at=None, owner=None)
        assert self.taken_over(claim.call).grant == Grant(1, 1, 1, 0, Reason.NONE)
        assert self.row(claim).state == State.RUNNING

    def test_a_finished_key_is_never_open_to_a_claim_within_its_generation(self) -> None:
        for state in (State.REVIEW, State.FAILED, State.CANCELLED, State.SUCCEEDED):
            claim = self.in_state(state)
            with shifted(LEASE + REPUBLISH), self.untouched(claim):
                for task_id in ("A", "B"):
                    call = self.call(task_id, of=claim.call)
                    seen = self.seen(call)
                    assert self.store().claim_open(call, owner="w:2:b", lease=LEASE, seen=seen) is None

    def test_the_count_of_attempts_stops_at_what_its_column_holds(self) -> None:
        claim = self.in_state(State.RETRY, attempts=32767)
        with shifted(LEASE + 1):
            assert self.taken_over(claim.call).grant.attempts == 32767
