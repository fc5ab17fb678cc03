"""Promises of ``atomic_new`` and ``atomic_reserved``: completed from the start, unseen before the commit."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from ...ledger.stores.clock import shifted
from ...ledger.values import Grant
from ...states import Reason, State
from .atomic_bench import AtomicBench
from .bench import RETENTION, WINDOW


class AtomicFirstClaims(AtomicBench):
    """A key without a row."""

    def test_an_atomic_claim_is_completed_from_the_start(self) -> None:
        call = self.call()
        with self.atomically():
            assert self.try_atomic(call) == Grant(1, 1, attempts=1, crashes=0, reason=Reason.DONE)
        row = self.row(call)
        assert (row.state, row.reason, row.token, row.generation) == (State.SUCCEEDED, Reason.DONE, 1, 1)
        assert (row.attempts, row.crashes, row.sends, row.duplicates) == (1, 0, 0, 0)
        assert row.created_at == row.started_at == row.finished_at

    def test_the_row_of_an_atomic_claim_tells_the_whole_call_but_not_its_message(self) -> None:
        call = self.call(scope="tenant-42", key_text="order 7", fingerprint=uuid4())
        claim = self.run(call)
        row = self.row(call)
        assert (row.task, row.scope, row.key_text, row.task_id) == (
            "shop.charge",
            "tenant-42",
            "order 7",
            "A",
        )
        assert (row.owner, row.runner_task_id, row.fingerprint) == (
            claim.owner,
            None,
            call.identity.fingerprint,
        )
        assert (row.message, row.result, row.lease_seconds, row.in_external) == (None, None, 0, False)

    def test_an_atomic_claim_may_come_without_a_scope_and_a_fingerprint(self) -> None:
        call = self.run(self.call(scope=None, fingerprint=None)).call
        assert (self.row(call).scope, self.seen(call).fingerprint) == (None, None)

    def test_an_atomic_claim_is_open_to_others_once_its_retention_is_over_and_not_before(self) -> None:
        for retention in (0, RETENTION):
            call = self.run(retention=retention).call
            row = self.row(call)
            assert row.open_at is not None
            assert row.finished_at is not None
            assert (row.open_at - row.finished_at).total_seconds() == retention
        assert self.seen(call).is_open is False
        with shifted(RETENTION + 1):
            assert self.seen(call).is_open is True

    def test_an_atomic_claim_is_kept_for_its_retention_or_the_window_whichever_is_longer(self) -> None:
        for retention, window in ((0, WINDOW), (RETENTION, WINDOW), (WINDOW, RETENTION)):
            call = self.call()
            with self.atomically():
                self.try_atomic(call, retention=retention, window=window)
            row = self.row(call)
            assert row.due_at is not None
            assert row.finished_at is not None
            assert (row.due_at - row.finished_at).total_seconds() == WINDOW

    def test_an_atomic_claim_is_seen_by_others_when_it_is_committed_and_not_before(self) -> None:
        call = self.call()
        with self.atomically():
            self.try_atomic(call)
            assert self.seen(call).state is State.SUCCEEDED
            assert self.seen_by_others(call) is None
        entry = self.seen_by_others(call)
        assert entry is not None
        assert entry.state is State.SUCCEEDED

    def test_an_atomic_claim_that_is_rolled_back_leaves_no_row(self) -> None:
        call = self.call()
        with self.undone():
            assert self.try_atomic(call) is not None
        assert self.columns(call) is None

    def test_a_key_whose_atomic_run_was_rolled_back_is_free_for_other_connections_at_once(self) -> None:
        call = self.call()
        with self.undone():
            self.try_atomic(call)
        with self.second_store() as second:
            assert second.atomic_new(call, owner="w:2:b", retention=0, window=WINDOW) is not None

    def test_an_atomic_claim_is_gone_with_its_savepoint_and_may_be_made_again(self) -> None:
        call = self.call()
        with self.atomically():
            with self.undone():
                assert self.try_atomic(call) is not None
            assert self.try_atomic(self.call("B", of=call)) is not None
        assert self.seen(call).task_id == "B"

    def test_a_key_that_has_a_row_is_not_claimed_as_a_new_one_by_an_atomic_run(self) -> None:
        for state in State:
            claim = self.in_state(state)
            for task_id in ("A", "B"):
                with self.untouched(claim), self.atomically():
                    assert self.try_atomic(self.call(task_id, of=claim.call)) is None

    def test_a_transaction_meets_its_own_atomic_claim_at_once(self) -> None:
        call = self.call()
        with self.atomically():
            assert self.try_atomic(call) is not None
            for task_id in ("A", "B"):
                assert self.try_atomic(self.call(task_id, of=call)) is None


class AtomicReservedClaims(AtomicBench):
    """A key that the call itself reserved or retries."""

    def test_a_reservation_is_completed_by_an_atomic_claim_of_its_own_call(self) -> None:
        call = self.reserved(sends=-1)
        with (
            self.sets(call, started_at=0, finished_at=0, open_at=RETENTION, due_at=WINDOW),
            self.atomically(),
        ):
            grant = self.try_atomic_reserved(call)
        assert grant == Grant(1, 1, attempts=1, crashes=0, reason=Reason.DONE)
        row = self.row(call)
        assert (row.state, row.reason, row.owner) == (State.SUCCEEDED, Reason.DONE, "w:1:atomic")
        assert (row.message, row.runner_task_id, row.lease_seconds, row.sends) == (None, None, 0, 0)

    def test_a_reservation_without_retention_is_open_at_once_when_its_atomic_run_is_committed(self) -> None:
        call = self.reserved()
        with self.sets(call, open_at=0, due_at=WINDOW), self.atomically():
            self.try_atomic_reserved(call, retention=0)
        assert self.seen(call).is_open is True

    def test_a_reservation_is_not_completed_by_an_atomic_claim_of_another_call(self) -> None:
        for call in self.waiting():
            with self.untouched(call), self.atomically():
                assert self.try_atomic_reserved(self.call("B", of=call)) is None
                assert self.try_atomic_reserved(replace(call, task="shop.refund")) is None

    def test_a_retry_is_claimed_atomically_by_its_own_call_when_it_is_due_and_not_before(self) -> None:
        call = self.retried(wait=100).call
        with self.untouched(call), self.atomically():
            assert self.try_atomic_reserved(call) is None
        with shifted(101), self.atomically():
            grant = self.try_atomic_reserved(call)
        assert grant == Grant(2, 1, attempts=2, crashes=0, reason=Reason.DONE)

    def test_only_what_waits_is_claimed_atomically_as_reserved(self) -> None:
        for state in set(State) - {State.PENDING, State.RETRY}:
            claim = self.in_state(state)
            with shifted(RETENTION + WINDOW), self.untouched(claim), self.atomically():
                assert self.try_atomic_reserved(claim.call) is None
        with self.atomically():
            assert self.try_atomic_reserved(self.call()) is None

    def test_an_atomic_claim_of_a_reservation_is_seen_by_others_when_it_is_committed(self) -> None:
        call = self.reserved()
        with self.atomically():
            assert self.try_atomic_reserved(call) is not None
            before = self.seen_by_others(call)
        after = self.seen_by_others(call)
        assert before is not None
        assert after is not None
        assert (before.state, before.token, before.no_message) == (State.PENDING, 0, False)
        assert (after.state, after.token, after.no_message) == (State.SUCCEEDED, 1, True)

    def test_an_atomic_claim_of_a_reservation_that_is_rolled_back_leaves_it_as_it_was(self) -> None:
        for call in self.waiting():
            with self.untouched(call), self.undone():
                assert self.try_atomic_reserved(call) is not None

    def test_an_atomic_claim_of_a_reservation_knows_whether_the_owner_before_it_died(self) -> None:
        call = self.died().call
        with self.atomically():
            grant = self.try_atomic_reserved(call)
        assert grant == Grant(3, 1, attempts=2, crashes=1, reason=Reason.OWNER_DIED)

    def test_the_count_of_attempts_of_an_atomic_claim_of_a_reservation_stops_too(self) -> None:
        call = self.reserved()
        self.in_columns(call, attempts=32767)
        with self.atomically():
            grant = self.try_atomic_reserved(call)
        assert grant is not None
        assert grant.attempts == 32767
