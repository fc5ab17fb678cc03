"""Promises of ``reserve_new``, ``sent``, ``reserve_finished`` and ``claim_reserved``: waiting calls."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from django.db import transaction

from ...ledger.stores.clock import shifted
from ...ledger.values import Answer, Grant
from ...states import Reason, State
from .bench import LEASE, MESSAGE, REPUBLISH, RETENTION, WINDOW, Bench, new_owner


class Reservations(Bench):
    """A key without a row is reserved."""

    def test_a_reservation_waits_to_be_run(self) -> None:
        call = self.call(scope="tenant-42", key_text="order 7", fingerprint=uuid4())
        assert self.store().reserve_new(call, wait=REPUBLISH, sends=0) == 0
        entry, row = self.seen(call), self.row(call)
        assert (entry.state, entry.reason, entry.token, entry.generation) == (State.PENDING, 0, 0, 1)
        assert (entry.attempts, entry.crashes, entry.owner, entry.is_open) == (0, 0, None, None)
        assert (row.task, row.scope, row.key_text, row.task_id) == (
            "shop.charge",
            "tenant-42",
            "order 7",
            "A",
        )
        assert (row.message, row.fingerprint) == (MESSAGE, call.identity.fingerprint)
        assert (row.started_at, row.finished_at, row.open_at, row.in_external) == (None, None, None, False)

    def test_a_reservation_may_come_without_a_scope_and_a_fingerprint(self) -> None:
        call = self.reserved(self.call(scope=None, fingerprint=None))
        assert (self.row(call).scope, self.seen(call).fingerprint) == (None, None)

    def test_a_reservation_is_looked_at_after_its_wait(self) -> None:
        for wait in (0, REPUBLISH, 500_000):
            call = self.reserved(wait=wait)
            row = self.row(call)
            assert row.due_at is not None
            assert (row.due_at - row.created_at).total_seconds() == wait

    def test_a_reservation_counts_the_messages_that_it_is_told(self) -> None:
        assert [self.row(self.reserved(sends=sends)).sends for sends in (-1, 0)] == [-1, 0]

    def test_a_key_that_has_a_row_is_not_reserved(self) -> None:
        for key in (self.claimed().call, self.completed(retention=0).call, self.reserved()):
            with self.untouched(key):
                for task_id in ("A", "B"):
                    other = self.call(task_id, of=key)
                    assert self.store().reserve_new(other, wait=REPUBLISH, sends=0) is None

    def test_a_reserved_key_is_not_claimed_as_a_new_one(self) -> None:
        call = self.reserved()
        with self.untouched(call):
            for task_id in ("A", "B"):
                other = self.call(task_id, of=call)
                assert self.store().claim_new(other, owner=new_owner(), lease=LEASE) is None

    def test_a_reservation_in_a_transaction_is_gone_with_it(self) -> None:
        call, kept = self.call(), self.call()
        with transaction.atomic(using=self.alias):
            self.reserved(kept)
            with transaction.atomic(using=self.alias):
                self.reserved(call)
                transaction.set_rollback(True, using=self.alias)
            assert self.columns(call) is None
        assert self.columns(call) is None
        assert self.seen(kept).state is State.PENDING

    def test_a_key_whose_reservation_was_rolled_back_is_reserved_again(self) -> None:
        call = self.call()
        with transaction.atomic(using=self.alias):
            with transaction.atomic(using=self.alias):
                self.reserved(call)
                transaction.set_rollback(True, using=self.alias)
            self.reserved(self.call("B", of=call))
        assert self.seen(call).task_id == "B"

    def test_a_transaction_meets_its_own_reservation_at_once(self) -> None:
        call = self.call()
        with transaction.atomic(using=self.alias):
            self.reserved(call)
            other = self.call("B", of=call)
            assert self.store().reserve_new(other, wait=REPUBLISH, sends=0) is None
            assert self.seen(other).task_id == "A"


class SentOnly(Bench):
    """``sent``: a plain task's key is done once the broker has the message, since no worker claims it."""

    def test_what_was_sent_is_done_and_open_after_its_retention(self) -> None:
        call = self.reserved()
        with self.sets(call, finished_at=0, open_at=RETENTION, due_at=RETENTION):
            assert self.store().sent([call.identity.digest], token=0, retention=RETENTION) == 1
        entry, row = self.seen(call), self.row(call)
        assert (entry.state, entry.reason, entry.token) == (State.SUCCEEDED, Reason.SENT, 1)
        assert (row.message, row.task_id, row.attempts) == (None, call.task_id, 0)

    def test_only_what_waits_to_be_run_is_noted_as_sent(self) -> None:
        for state in (
            State.RUNNING,
            State.RETRY,
            State.REVIEW,
            State.FAILED,
            State.CANCELLED,
            State.SUCCEEDED,
        ):
            claim = self.in_state(state)
            token = self.seen(claim.call).token
            with self.untouched(claim):
                assert self.store().sent([claim.digest], token=token, retention=RETENTION) == 0

    def test_a_key_that_has_moved_on_since_it_was_written_is_not_noted_as_sent(self) -> None:
        claim = self.completed(retention=0)
        assert self.try_reserve_anew(self.call("B", of=claim.call)) is not None
        with self.untouched(claim):
            assert self.store().sent([claim.digest], token=claim.token, retention=RETENTION) == 0

    def test_what_was_sent_together_is_noted_together_and_nothing_else(self) -> None:
        calls, other = [self.reserved() for _ in range(3)], self.reserved()
        with self.untouched(other):
            digests = [call.identity.digest for call in calls]
            assert self.store().sent(digests, token=0, retention=RETENTION) == 3
            assert self.store().sent(digests, token=0, retention=RETENTION) == 0
            assert self.store().sent([], token=0, retention=RETENTION) == 0
        assert {self.seen(call).state for call in calls} == {State.SUCCEEDED}


class ReservedAnew(Bench):
    """A finished key is reserved for another call."""

    def test_past_its_retention_a_succeeded_key_is_reserved_for_a_new_generation(self) -> None:
        claim = self.completed()
        other = self.call("B", of=claim.call, fingerprint=uuid4(), message='{"v": 1, "args": [8]}')
        with shifted(RETENTION + 1), self.sets(claim, created_at=0, due_at=REPUBLISH):
            assert self.try_reserve_anew(other, sends=-1) == claim.token + 1
        entry, row = self.seen(other), self.row(claim)
        assert (entry.state, entry.task_id, entry.token, entry.generation) == (State.PENDING, "B", 2, 2)
        assert (entry.attempts, entry.owner, entry.is_open) == (0, None, None)
        assert (row.message, row.fingerprint, row.sends) == (other.message, other.identity.fingerprint, -1)

    def test_a_failed_or_cancelled_key_is_reserved_within_its_generation(self) -> None:
        for end in (self.failed, self.cancelled):
            claim = end(self.claimed())
            token = self.seen(claim.call).token
            other = self.call("B", of=claim.call)
            assert self.try_reserve_anew(other) == token + 1
            assert self.seen(other).generation == 1

    def test_a_key_that_is_closed_live_or_in_review_is_not_reserved_anew(self) -> None:
        keys = [self.in_state(state) for state in (State.PENDING, State.RUNNING, State.RETRY, State.REVIEW)]
        with shifted(RETENTION - 100):
            for claim in (*keys, self.completed()):
                with self.untouched(claim):
                    assert self.try_reserve_anew(self.call("B", of=claim.call)) is None
                    assert self.seen(claim.call).was_answered is False

    def test_a_call_never_reserves_anew_the_key_that_it_finished(self) -> None:
        claim = self.completed(retention=0)
        with shifted(RETENTION + WINDOW), self.untouched(claim):
            assert self.try_reserve_anew(claim.call) is None

    def test_a_reservation_anew_judged_on_a_row_that_has_changed_since_is_refused(self) -> None:
        claim = self.completed(retention=0)
        late = self.call("B", of=claim.call)
        seen = self.seen(late)
        self.completed(self.claimed_anew(self.call("C", of=claim.call)), retention=0)
        with self.untouched(claim):
            assert self.try_reserve_anew(late, seen=seen) is None

    def test_a_reservation_anew_judged_on_another_state_is_refused(self) -> None:
        claim = self.completed(retention=0)
        late = self.call("B", of=claim.call)
        seen = self.seen(late)
        self.in_columns(claim, state=State.FAILED)
        with self.untouched(claim):
            assert self.try_reserve_anew(late, seen=seen) is None

    def test_a_reservation_anew_leaves_nothing_of_the_old_work(self) -> None:
        claim = self.failed(self.claimed(self.call(fingerprint=uuid4())))
        self.in_columns(claim, result="1", signature="ab", progress="{}", runner_task_id="R", owner="w:1:a")
        self.in_columns(claim, crashes=2, sends=3, duplicates=4, in_external=True)
        self.in_columns(claim, discarded_at=self.now(claim))
        assert self.try_reserve_anew(self.call("B", of=claim.call)) is not None
        row = self.row(claim)
        for column in ("result", "signature", "progress", "runner_task_id", "category", "discarded_at"):
            assert getattr(row, column) is None, f"{column} was not cleared"
        for column in ("owner", "fingerprint", "started_at", "finished_at", "open_at"):
            assert getattr(row, column) is None, f"{column} was not cleared"
        assert (row.attempts, row.crashes, row.sends, row.duplicates) == (0, 0, 0, 0)
        assert (row.reason, row.lease_seconds, row.in_external) == (Reason.NONE, 0, False)

    def test_a_call_replaced_by_a_reservation_stays_answered(self) -> None:
        call = self.claimed().call
        runner, other = self.call("B", of=call), self.call("C", of=call)
        with shifted(LEASE + 1):
            self.completed(self.taken_over(runner), retention=0)
            assert self.try_reserve_anew(other) is not None
        for replaced in (call, runner):
            assert self.seen(replaced).was_answered is True
            answer = self.store().answer(call.identity.digest, task_id=replaced.task_id)
            assert answer == Answer(State.SUCCEEDED, Reason.DONE, "1")
        assert self.seen(other).was_answered is False

    def test_a_reservation_anew_remembers_nobody_from_before_the_window(self) -> None:
        claim = self.completed(retention=0)
        with shifted(WINDOW + 1):
            assert self.try_reserve_anew(self.call("B", of=claim.call)) is not None
        assert self.seen(claim.call).was_answered is False

    def test_a_reservation_anew_that_is_rolled_back_changes_and_remembers_nothing(self) -> None:
        claim = self.completed(retention=0)
        with self.untouched(claim), transaction.atomic(using=self.alias):
            assert self.try_reserve_anew(self.call("B", of=claim.call)) is not None
            transaction.set_rollback(True, using=self.alias)
        assert self.seen(claim.call).was_answered is False


class ReservedClaims(Bench):
    """A reserved key is claimed by the call that reserved it."""

    def test_a_reservation_is_claimed_by_its_own_call(self) -> None:
        call = self.reserved(sends=-1)
        with self.sets(call, started_at=0, open_at=50, due_at=50):
            claim = self.started(call, lease=50)
        assert claim.grant == Grant(1, 1, attempts=1, crashes=0, reason=Reason.NONE)
        row = self.row(call)
        assert (row.state, row.owner, row.message) == (State.RUNNING, claim.owner, MESSAGE)
        assert (row.lease_seconds, row.sends) == (50, 0)
        assert self.complete(claim) is True

    def test_a_reservation_is_claimed_once(self) -> None:
        call = self.reserved()
        self.started(call)
        with self.untouched(call):
            assert self.store().claim_reserved(call, owner="w:2:b", lease=LEASE) is None

    def test_a_reservation_is_not_claimed_by_another_call(self) -> None:
        call = self.reserved()
        with self.untouched(call):
            for other in (self.call("B", of=call), self.call("", of=call), self.call("A")):
                assert self.store().claim_reserved(other, owner="w:2:b", lease=LEASE) is None

    def test_a_reservation_is_not_claimed_for_another_task_or_scope(self) -> None:
        for scope, others in ((None, ("", "t")), ("", (None, "t")), ("t", (None, "T"))):
            call = self.reserved(self.call(scope=scope))
            foreign = [replace(call, identity=replace(call.identity, scope=other)) for other in others]
            with self.untouched(call):
                for other in (replace(call, task="shop.refund"), *foreign):
                    assert self.store().claim_reserved(other, owner="w:2:b", lease=LEASE) is None
            entry = self.seen(call)
            assert (entry.task, entry.scope) == ("shop.charge", scope)
            self.started(call)

    def test_a_reserved_call_is_named_by_its_id(self) -> None:
        task_id = uuid4().hex
        call = self.call(task_id, scope="t", fingerprint=uuid4())
        assert self.store().named(call.task, task_id=task_id) is None
        replaced = self.reserved(self.call(task_id))
        self.in_columns(replaced, state=State.SUCCEEDED, reason=Reason.REPLACED)
        self.reserved(call)
        self.claimed(self.call(task_id))  # on arrival: that tells nothing of a call
        assert self.store().named(call.task, task_id=task_id) == call.identity
        assert self.store().named("shop.refund", task_id=task_id) is None

    def test_a_call_whose_id_waits_under_another_key_gets_no_second_one(self) -> None:
        call = self.reserved(self.call(uuid4().hex))
        unnamed = replace(self.call(call.task_id), named_here=True)
        assert self.store().claim_new(unnamed, owner=new_owner(), lease=LEASE) is None
        assert self.columns(unnamed) is None
        fresh = replace(self.call(uuid4().hex), named_here=True)
        assert self.store().claim_new(fresh, owner=new_owner(), lease=LEASE) is not None

    def test_a_retry_is_claimed_by_its_own_call_when_it_is_due_and_not_before(self) -> None:
        claim = self.claimed()
        self.retry(claim, wait=100)
        self.in_columns(claim, sends=5, runner_task_id="B")
        with self.untouched(claim):
            assert self.store().claim_reserved(claim.call, owner="w:2:b", lease=LEASE) is None
        with shifted(101):
            assert self.store().claim_reserved(self.call("B", of=claim.call), owner="w:2:b", lease=9) is None
            again = self.started(claim.call)
        assert again.grant == Grant(2, 1, attempts=2, crashes=0, reason=Reason.RETRY_ASKED)
        assert (self.row(claim).sends, self.row(claim).runner_task_id) == (0, None)

    def test_only_what_waits_is_claimed_as_reserved(self) -> None:
        for state in (State.RUNNING, State.REVIEW, State.FAILED, State.CANCELLED, State.SUCCEEDED):
            claim = self.in_state(state)
            with shifted(LEASE + REPUBLISH), self.untouched(claim):
                assert self.store().claim_reserved(claim.call, owner="w:2:b", lease=LEASE) is None

    def test_the_count_of_attempts_of_a_reservation_stops_at_what_its_column_holds(self) -> None:
        call = self.reserved()
        self.in_columns(call, attempts=32767)
        assert self.started(call).grant.attempts == 32767
