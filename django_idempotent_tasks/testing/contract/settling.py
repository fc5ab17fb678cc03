"""Promises of ``complete``, ``retry``, ``fail``, ``cancel`` and ``send_failed``: how a claim may end."""
# ruff: noqa: S101  promises are asserted, in plain numbers

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from ...ledger.encoding import decode_error
from ...ledger.stores.clock import shifted
from ...ledger.values import Claim
from ...states import FINISHED, Category, Reason, State
from .bench import LEASE, MESSAGE, REPUBLISH, RETENTION, WINDOW, Bench, a_failure


class Settling(Bench):
    """The owner, and nobody else, ends its claim, once."""

    def test_a_completion_stores_the_result_and_drops_the_message(self) -> None:
        claim = self.claimed()
        with self.sets(claim, finished_at=0, open_at=RETENTION, due_at=WINDOW):
            assert self.complete(claim, result='{"ref": 1}') is True
        row = self.row(claim)
        assert (row.state, row.reason, row.result) == (State.SUCCEEDED, Reason.DONE, '{"ref": 1}')
        assert (row.message, row.in_external) == (None, False)

    def test_a_completion_may_have_no_result_and_another_reason(self) -> None:
        claim = self.claimed()
        assert self.complete(claim, result=None, reason=Reason.IGNORED) is True
        entry = self.seen(claim.call)
        assert (entry.state, entry.reason, entry.result) == (State.SUCCEEDED, Reason.IGNORED, None)

    def test_a_succeeded_key_is_kept_for_the_longer_of_retention_and_window(self) -> None:
        claim = self.claimed()
        with self.sets(claim, open_at=WINDOW + 1, due_at=WINDOW + 1):
            assert self.complete(claim, retention=WINDOW + 1, window=WINDOW) is True

    def test_an_owner_whose_lease_is_over_may_complete_while_nobody_has_taken_it(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            assert self.complete(claim) is True

    def test_a_retry_is_due_after_its_wait_and_sent_again_a_while_later(self) -> None:
        claim = self.claimed()
        with self.sets(claim, open_at=100, due_at=100 + REPUBLISH):
            assert self.retry(claim, message='{"v": 1, "args": [8]}', wait=100) is True
        row = self.row(claim)
        assert (row.state, row.reason, row.owner) == (State.RETRY, Reason.RETRY_ASKED, None)
        assert (row.message, row.token, row.attempts) == ('{"v": 1, "args": [8]}', 1, 1)

    def test_a_retry_without_a_message_keeps_the_stored_one(self) -> None:
        claim = self.claimed()
        assert self.retry(claim, message=None) is True
        assert self.row(claim).message == MESSAGE

    def test_a_retry_whose_message_cannot_be_stored_forgets_the_old_one(self) -> None:
        claim = self.claimed()
        assert self.retry(claim, message="") is True
        assert self.row(claim).message is None
        assert self.seen(claim.call).no_message is True

    def test_a_failure_keeps_the_error_and_the_message_until_its_retention_is_over(self) -> None:
        claim = self.claimed()
        with self.sets(claim, finished_at=0, due_at=RETENTION):
            assert (
                self.fail(claim, reason=Reason.PERMANENT, failure=a_failure(category=Category.FATAL)) is True
            )
        row = self.row(claim)
        assert (row.state, row.reason, row.category) == (State.FAILED, Reason.PERMANENT, Category.FATAL)
        assert (decode_error(row.result), row.message) == ("builtins.ValueError: no", MESSAGE)
        assert row.signature == a_failure().signature
        assert (row.owner, row.open_at) == (None, None)

    def test_a_key_in_review_waits_for_a_person_without_a_time(self) -> None:
        claim = self.claimed()
        failure = a_failure(category=Category.MANUAL_REVIEW)
        assert self.fail(claim, state=State.REVIEW, reason=Reason.IN_DOUBT, failure=failure) is True
        row = self.row(claim)
        assert (row.state, row.reason) == (State.REVIEW, Reason.IN_DOUBT)
        assert row.category == Category.MANUAL_REVIEW
        assert (row.owner, row.open_at, row.due_at, row.message) == (None, None, None, MESSAGE)

    def test_nothing_that_was_settled_is_still_inside_an_external_call(self) -> None:
        for settle in self._settlements():
            claim = self.claimed()
            self.in_columns(claim, in_external=True)
            assert settle(claim) is True
            assert self.row(claim).in_external is False

    def test_a_claim_is_settled_once(self) -> None:
        for first in self._settlements():
            claim = self.claimed()
            assert first(claim) is True
            self._refuses_every_settlement(claim)

    def test_a_settlement_with_a_token_that_is_not_the_rows_changes_nothing(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            self.taken_over(claim.call)
        for token in (claim.token - 1, claim.token, claim.token + 2):
            owner = self.row(claim).owner or ""
            wrong = replace(claim, owner=owner, grant=replace(claim.grant, token=token))
            self._refuses_every_settlement(wrong)

    def test_a_settlement_by_an_owner_that_is_not_the_rows_changes_nothing(self) -> None:
        claim = self.claimed()
        self._refuses_every_settlement(replace(claim, owner="w:2:b"))
        self._refuses_every_settlement(replace(claim, owner=""))

    def test_a_settlement_of_a_key_that_is_not_running_changes_nothing(self) -> None:
        for state in State:
            if state is not State.RUNNING:
                self._refuses_every_settlement(self.in_state(state))

    def test_a_settlement_of_a_key_without_a_row_is_refused(self) -> None:
        claim = self.claimed()
        for settle in self._settlements():
            assert settle(replace(claim, call=self.call())) is False

    def test_an_owner_that_was_taken_over_is_refused_and_the_taker_is_not(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            taker = self.taken_over(claim.call)
            self._refuses_every_settlement(claim)
            assert self.complete(taker) is True
            self._refuses_every_settlement(claim)

    def _settlements(self) -> tuple[Callable[[Claim], bool], ...]:
        return (self.complete, self.retry, self.fail)

    def _refuses_every_settlement(self, claim: Claim) -> None:
        for settle in self._settlements():
            with self.untouched(claim):
                assert settle(claim) is False, f"{settle.__name__} was accepted"


class Cancelling(Bench):
    """A live key can be cancelled; the first of cancel and completion wins."""

    def test_a_live_key_is_cancelled_and_its_message_dropped(self) -> None:
        for state in (State.PENDING, State.RUNNING, State.RETRY):
            claim = self.in_state(state, in_external=True)
            with self.sets(claim, finished_at=0, due_at=WINDOW):
                assert self.store().cancel(claim.digest, window=WINDOW) is True
            row = self.row(claim)
            assert (row.state, row.reason) == (State.CANCELLED, Reason.CANCELLED)
            assert (row.owner, row.message, row.open_at, row.in_external) == (None, None, None, False)

    def test_a_cancel_that_names_a_call_is_for_who_was_accepted_or_runs(self) -> None:
        for task_id in ("A", "B"):
            claim = self.claimed()
            with shifted(LEASE + 1):
                self.taken_over(self.call("B", of=claim.call))
            for other in ("C", ""):
                with self.untouched(claim):
                    assert self.store().cancel(claim.digest, window=WINDOW, task_id=other) is False
            assert self.store().cancel(claim.digest, window=WINDOW, task_id=task_id) is True

    def test_a_finished_key_is_not_cancelled(self) -> None:
        for state in FINISHED:
            claim = self.in_state(state)
            with self.untouched(claim):
                assert self.store().cancel(claim.digest, window=WINDOW) is False

    def test_a_key_without_a_row_is_not_cancelled(self) -> None:
        assert self.store().cancel(uuid4(), window=WINDOW) is False

    def test_a_cancelled_owner_can_neither_settle_nor_renew(self) -> None:
        claim = self.cancelled(self.claimed())
        assert self.row(claim).token == claim.token + 1
        with self.untouched(claim):
            assert self.complete(claim) is False
            assert self.retry(claim) is False
            assert self.fail(claim) is False
            assert self.store().renew([claim]) == set()

    def test_a_completed_key_stays_completed_when_it_is_cancelled_later(self) -> None:
        claim = self.completed()
        with self.untouched(claim):
            assert self.store().cancel(claim.digest, window=WINDOW) is False


class UnsentMessages(Bench):
    """The sweeper sends an unsent message as soon as its row is due."""

    def test_an_unsent_message_that_is_due_is_looked_at_now(self) -> None:
        claim = self.claimed()
        self.retry(claim, wait=0)
        with self.sets(claim, due_at=0):
            self.store().send_failed(claim.digest, token=claim.token)

    def test_an_unsent_message_that_is_not_due_is_looked_at_when_it_is(self) -> None:
        claim = self.claimed()
        self.retry(claim, wait=100)
        self.store().send_failed(claim.digest, token=claim.token)
        row = self.row(claim)
        assert row.due_at == row.open_at

    def test_an_unsent_reservation_is_looked_at_now(self) -> None:
        claim = self.in_state(State.PENDING, open_at=None)
        with self.sets(claim, due_at=0):
            self.store().send_failed(claim.digest, token=claim.token)

    def test_an_unsent_message_changes_no_row_that_has_moved_on(self) -> None:
        claim = self.claimed()
        with self.untouched(claim):
            self.store().send_failed(claim.digest, token=claim.token)
        self.retry(claim)
        with self.untouched(claim):
            self.store().send_failed(claim.digest, token=claim.token + 1)
