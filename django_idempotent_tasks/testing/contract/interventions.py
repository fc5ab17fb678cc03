"""Promises of ``cancel_waiting``, ``expire``, ``release``, ``retry_now``, ``fail_unknown`` and ``sends``."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from ...ledger.encoding import decode_error
from ...ledger.stores.clock import shifted
from ...ledger.values import Call
from ...states import FINISHED, Category, Reason, State
from .bench import LEASE, MESSAGE, REPUBLISH, RETENTION, WINDOW, a_failure
from .sweeping import Sweeping

UNKNOWN = a_failure("LookupError", "no such task", category=Category.FATAL)


class Revoking(Sweeping):
    """A revoked or expired message ends a call that waits."""

    def test_a_revoked_call_that_waits_is_cancelled(self) -> None:
        for state in (State.PENDING, State.RETRY):
            claim = self.in_state(state, self.call(f"revoked {state}"))
            with self.sets(claim, finished_at=0, due_at=WINDOW):
                assert self.store().cancel_waiting([claim.call.task_id], window=WINDOW) == 1
            row = self.row(claim)
            assert (row.state, row.reason, row.token) == (State.CANCELLED, Reason.CANCELLED, claim.token + 1)
            assert (row.message, row.owner, row.open_at) == (None, None, None)

    def test_a_revoked_call_is_cancelled_under_each_of_its_keys_and_no_other(self) -> None:
        mine, others = [self.reserved() for _ in range(3)], [self.reserved(self.call("B")) for _ in range(2)]
        with self.untouched(*others):
            assert self.store().cancel_waiting(["A"], window=WINDOW) == 3
        assert {self.seen(call).state for call in mine} == {State.CANCELLED}

    def test_many_revoked_calls_are_cancelled_at_once_and_no_other(self) -> None:
        mine, others = [self.reserved(self.call(name)) for name in "AB"], [self.reserved(self.call("C"))]
        with self.untouched(*others):
            assert self.store().cancel_waiting(["A", "B", "unknown"], window=WINDOW) == 2
            assert self.store().cancel_waiting([], window=WINDOW) == 0
        assert {self.seen(call).state for call in mine} == {State.CANCELLED}

    def test_a_revoked_call_that_runs_or_has_ended_is_left_alone(self) -> None:
        claims = [self.in_state(state) for state in (State.RUNNING, *FINISHED)]
        with self.untouched(*claims):
            assert self.store().cancel_waiting(["A"], window=WINDOW) == 0

    def test_a_cancelled_reservation_is_not_run(self) -> None:
        call = self.reserved()
        self.store().cancel_waiting(["A"], window=WINDOW)
        with shifted(WINDOW), self.untouched(call):
            assert self.store().claim_reserved(call, owner="w:2:b", lease=LEASE) is None
            assert self.sweep() == {}

    def test_an_expired_message_cancels_a_reservation(self) -> None:
        call = self.reserved()
        with self.sets(call, finished_at=0, due_at=WINDOW):
            assert self.store().expire(call.identity.digest, task_id="A", window=WINDOW) is True
        row = self.row(call)
        assert (row.state, row.reason, row.token) == (State.CANCELLED, Reason.CANCELLED, 1)
        assert row.message is None

    def test_an_expired_message_cancels_only_what_was_never_started(self) -> None:
        for state in (State.RUNNING, State.RETRY, *FINISHED):
            claim = self.in_state(state)
            with self.untouched(claim):
                assert self.store().expire(claim.digest, task_id="A", window=WINDOW) is False

    def test_an_expired_message_cancels_only_its_own_call_and_key(self) -> None:
        call, other = self.reserved(), self.reserved()
        with self.untouched(call, other):
            assert self.store().expire(call.identity.digest, task_id="B", window=WINDOW) is False
            assert self.store().expire(uuid4(), task_id="A", window=WINDOW) is False
        with self.untouched(other):
            assert self.store().expire(call.identity.digest, task_id="A", window=WINDOW) is True


class Releasing(Sweeping):
    """An operator takes a key from its holder."""

    def test_a_released_key_is_due_now_and_sent_at_once(self) -> None:
        claim = self.claimed()
        with self.sets(claim, open_at=0, due_at=0):
            assert self.store().release(claim.digest, token=claim.token) is True
        entry = self.seen(claim.call)
        assert (entry.state, entry.reason, entry.token) == (State.RETRY, Reason.OWNER_DIED, claim.token + 1)
        assert (entry.owner, entry.attempts, entry.crashes) == (None, 1, 0)
        row = self.swept(claim)
        assert (row.publish, row.sends) == (True, 0)

    def test_the_holder_of_a_released_key_can_neither_settle_nor_renew(self) -> None:
        claim = self.claimed()
        self.store().release(claim.digest, token=claim.token)
        with self.untouched(claim):
            assert self.complete(claim) is False
            assert self.retry(claim) is False
            assert self.fail(claim) is False
            assert self.store().renew([claim]) == set()

    def test_a_key_that_has_moved_on_since_it_was_looked_at_is_not_released(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            self.taken_over(claim.call)
        with self.untouched(claim):
            for token in (claim.token, claim.token + 2):
                assert self.store().release(claim.digest, token=token) is False

    def test_only_a_key_that_runs_is_released(self) -> None:
        for state in (State.PENDING, State.RETRY, *FINISHED):
            claim = self.in_state(state)
            with self.untouched(claim):
                assert self.store().release(claim.digest, token=claim.token) is False

    def test_a_key_released_inside_an_external_call_goes_to_review(self) -> None:
        claim = self.in_state(State.RUNNING, in_external=True)
        assert self.store().release(claim.digest, token=claim.token) is True
        row = self.row(claim)
        assert (row.state, row.open_at, row.due_at, row.message) == (State.REVIEW, None, None, MESSAGE)
        with shifted(10 * REPUBLISH):
            assert self.sweep() == {}


class Hastening(Sweeping):
    """A person does not wait for the time of a retry."""

    def test_a_waiting_retry_that_is_asked_for_is_sent_at_once_and_may_be_claimed(self) -> None:
        claim = self.in_state(State.RETRY, sends=3, attempts=2, crashes=1)
        self.in_columns(claim, open_at=self.now(claim) + timedelta(hours=1))
        with self.sets(claim, open_at=0, due_at=0):
            assert self.store().retry_now(claim.digest, token=claim.token) is True
        row = self.row(claim)
        assert (row.state, row.token, row.attempts, row.crashes) == (State.RETRY, claim.token + 1, 2, 1)
        assert row.message == MESSAGE
        due = self.swept(claim)
        assert (due.publish, due.sends) == (True, 0)

    def test_of_two_people_who_ask_for_one_retry_the_first_is_heard(self) -> None:
        claim = self.in_state(State.RETRY)
        assert self.store().retry_now(claim.digest, token=claim.token) is True
        with self.untouched(claim):
            for token in (claim.token, claim.token + 2, 2**70):
                assert self.store().retry_now(claim.digest, token=token) is False

    def test_only_a_retry_that_can_be_sent_is_asked_for(self) -> None:
        for state in State:
            if state is not State.RETRY:
                claim = self.in_state(state)
                with self.untouched(claim):
                    assert self.store().retry_now(claim.digest, token=claim.token) is False
        claim = self.in_state(State.RETRY, message=None)
        with self.untouched(claim):
            assert self.store().retry_now(claim.digest, token=claim.token) is False


class UnknownTasks(Sweeping):
    """A task whose name no worker knows is given up after enough messages."""

    def test_an_unknown_task_fails_from_the_given_number_of_messages_and_not_before(self) -> None:
        for state in (State.PENDING, State.RETRY):
            claim = self.in_state(state, sends=2)
            with self.untouched(claim):
                assert self._fails(claim.call, sends=3) is False
            self.in_columns(claim, sends=3)
            with self.sets(claim, finished_at=0, due_at=RETENTION):
                assert self._fails(claim.call, sends=3) is True
            row = self.row(claim)
            assert (row.state, row.reason, row.category) == (State.FAILED, Reason.PERMANENT, Category.FATAL)
            assert (row.message, row.token) == (MESSAGE, claim.token + 1)
            assert decode_error(row.result) == "LookupError: no such task"
            assert (row.category, row.signature) == (Category.FATAL, UNKNOWN.signature)
            assert row.open_at is None

    def test_an_unknown_task_that_runs_or_has_ended_is_left_alone(self) -> None:
        for state in (State.RUNNING, *FINISHED):
            claim = self.in_state(state, sends=9)
            with self.untouched(claim):
                assert self._fails(claim.call, sends=3) is False

    def test_only_the_call_that_was_refused_fails_as_unknown(self) -> None:
        claim, other = self.in_state(State.PENDING, sends=9), self.in_state(State.PENDING, sends=9)
        with self.untouched(claim, other):
            assert self._fails(self.call("B", of=claim.call), sends=3) is False
        with self.untouched(other):
            assert self._fails(claim.call, sends=3) is True

    def _fails(self, call: Call, *, sends: int) -> bool:
        return self.store().fail_unknown(
            call.identity.digest, task_id=call.task_id, sends=sends, failure=UNKNOWN, retention=RETENTION
        )


class CountsOfMessages(Sweeping):
    """``sends``: -1 while the broker is not known to have a message, 0 after the first message."""

    def test_a_reservation_that_was_never_sent_is_sent_for_the_first_time(self) -> None:
        call = self.reserved(wait=100, sends=-1)
        with shifted(90):
            assert self.sweep() == {}
        with shifted(101), self.sets(call, due_at=REPUBLISH):
            row = self.sweep()[call.identity.digest]
        assert (row.state, row.publish, row.sends) == (State.PENDING, True, 0)

    def test_what_was_sent_before_is_known_to_have_been(self) -> None:
        call = self.reserved(wait=100, sends=0)
        retry = self.claimed()
        self.retry(retry)
        with shifted(REPUBLISH + 1):
            rows = self.sweep()
        assert [rows[digest].sends for digest in (call.identity.digest, retry.digest)] == [1, 1]

    def test_a_message_that_was_not_sent_is_not_counted_as_sent(self) -> None:
        for state in (State.PENDING, State.RETRY):
            claim = self.in_state(state, sends=4, open_at=None)
            self.store().send_failed(claim.digest, token=claim.token)
            assert self.row(claim).sends == -1
            assert self.swept(claim).sends == 0

    def test_a_claim_begins_the_count_anew(self) -> None:
        for claim_again in (self.taken_over, self.started):
            claim = self.in_state(State.RETRY, sends=7)
            with shifted(LEASE + 1):
                claim_again(claim.call)
            assert self.row(claim).sends == 0
