"""Promises of ``claim_finished`` and ``answer``: new work under a finished key, and the calls it replaced."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from uuid import uuid4

from ...ledger.stores.clock import shifted
from ...ledger.values import Answer, Call
from ...states import Reason, State
from .bench import RECORDED, RETENTION, WINDOW, Bench


class Reclaims(Bench):
    """A finished key is claimed by another call."""

    def test_a_succeeded_key_is_closed_while_its_retention_lasts(self) -> None:
        claim = self.completed()
        with shifted(RETENTION - 100), self.untouched(claim):
            assert self.try_anew(self.call("B", of=claim.call)) is None

    def test_past_its_retention_a_succeeded_key_begins_a_new_generation(self) -> None:
        claim = self.completed()
        with shifted(RETENTION + 1):
            anew = self.claimed_anew(self.call("B", of=claim.call))
        grant = anew.grant
        assert (grant.token, grant.generation, grant.attempts, grant.crashes) == (2, 2, 1, 0)
        assert grant.reason is Reason.NONE

    def test_with_no_retention_a_succeeded_key_is_open_at_once(self) -> None:
        claim = self.completed(retention=0)
        assert self.seen(claim.call).is_open is True
        assert self.claimed_anew(self.call("B", of=claim.call)).grant.generation == 2

    def test_with_no_retention_a_succeeded_key_is_open_to_a_statement_that_began_before_its_end(self) -> None:
        """A server takes the time of a statement before it reads the rows: they may tell of a later end."""
        for take in (self.try_anew, self.try_reserve_anew):
            with shifted(9):
                claim = self.completed(retention=0)
            late = self.call("B", of=claim.call)
            assert self.seen(late).is_open is True
            assert take(late) is not None

    def test_a_failed_or_cancelled_key_is_claimed_within_its_generation(self) -> None:
        for end in (self.failed, self.cancelled):
            claim = self.claimed()
            end(claim)
            token = self.seen(claim.call).token
            grant = self.claimed_anew(self.call("B", of=claim.call)).grant
            assert (grant.token, grant.generation, grant.attempts) == (token + 1, 1, 1)

    def test_other_arguments_under_a_failed_or_cancelled_key_begin_a_new_generation(self) -> None:
        one, two = uuid4(), uuid4()
        for end in (self.failed, self.cancelled):
            for later, generation in ((one, 1), (two, 2), (None, 1)):
                claim, reserved = (self.claimed(self.call(fingerprint=one)) for _ in range(2))
                end(claim)
                end(reserved)
                anew = self.call("B", of=claim.call, fingerprint=later)
                assert self.claimed_anew(anew).grant.generation == generation
                assert self.try_reserve_anew(self.call("B", of=reserved.call, fingerprint=later)) is not None
                assert self.row(reserved).generation == generation

    def test_a_key_that_is_live_or_in_review_is_not_claimed_anew(self) -> None:
        for state in (State.PENDING, State.RUNNING, State.RETRY, State.REVIEW):
            claim = self.in_state(state)
            with shifted(RETENTION + WINDOW), self.untouched(claim):
                assert self.try_anew(self.call("B", of=claim.call)) is None

    def test_a_call_never_claims_anew_the_key_that_it_finished(self) -> None:
        claim = self.completed(retention=0)
        with shifted(RETENTION + WINDOW), self.untouched(claim):
            assert self.try_anew(claim.call) is None

    def test_a_claim_anew_judged_on_a_row_that_has_changed_since_is_refused(self) -> None:
        claim = self.completed(retention=0)
        late, faster = self.call("B", of=claim.call), self.call("C", of=claim.call)
        seen = self.seen(late)
        self.completed(self.claimed_anew(faster), retention=0)
        with self.untouched(claim):
            assert self.try_anew(late, seen=seen) is None

    def test_a_claim_anew_judged_on_another_state_is_refused(self) -> None:
        claim = self.completed(retention=0)
        late = self.call("B", of=claim.call)
        seen = self.seen(late)
        self.in_columns(claim, state=State.FAILED)
        with self.untouched(claim):
            assert self.try_anew(late, seen=seen) is None

    def test_a_claim_anew_leaves_nothing_of_the_old_work(self) -> None:
        claim = self.claimed(self.call(fingerprint=uuid4()))
        self.failed(claim)
        self.in_columns(claim, result="1", signature="ab", progress="{}", runner_task_id="R")
        self.in_columns(claim, crashes=2, sends=3, duplicates=4, in_external=True)
        self.in_columns(claim, discarded_at=self.now(claim))
        self.claimed_anew(self.call("B", of=claim.call))
        row = self.row(claim)
        for column in ("result", "signature", "progress", "runner_task_id", "category", "discarded_at"):
            assert getattr(row, column) is None, f"{column} was not cleared"
        assert (row.crashes, row.sends, row.duplicates, row.in_external) == (0, 0, 0, False)
        assert (row.reason, row.finished_at) == (Reason.NONE, None)

    def test_a_claim_anew_brings_its_own_call_message_fingerprint_and_times(self) -> None:
        claim = self.completed(self.claimed(self.call(fingerprint=uuid4())), retention=0)
        call = self.call("B", of=claim.call, fingerprint=uuid4(), message='{"v": 1, "args": [8]}')
        with self.sets(call, created_at=0, started_at=0, open_at=60, due_at=60):
            anew = self.claimed_anew(call)
        row = self.row(call)
        assert (row.task_id, row.owner, row.message) == ("B", anew.owner, call.message)
        assert row.fingerprint == call.identity.fingerprint
        assert row.state == State.RUNNING


class ReplacedCalls(Bench):
    """A late copy of a replaced call gets its answer and never runs again."""

    def test_a_call_that_was_not_replaced_has_no_answer(self) -> None:
        claim = self.completed(retention=0)
        self._is_not_answered(claim.call)
        self._is_not_answered(self.call("B", of=claim.call))

    def test_a_replaced_call_is_answered_with_how_it_ended(self) -> None:
        ends = (
            (self.completed, Answer(State.SUCCEEDED, Reason.DONE, "1")),
            (self.failed, Answer(State.FAILED, Reason.RETRIES_USED_UP, RECORDED)),
            (self.cancelled, Answer(State.CANCELLED, Reason.CANCELLED, None)),
        )
        for end, answer in ends:
            claim = self.claimed()
            end(claim)
            with shifted(RETENTION + 1):
                self.claimed_anew(self.call("B", of=claim.call))
            self._is_answered(claim.call, answer)

    def test_a_replaced_call_stays_answered_when_the_next_one_has_finished_too(self) -> None:
        for end in (lambda claim: self.completed(claim, retention=0), self.failed, self.cancelled):
            claim = self.claimed()
            end(claim)
            self.completed(self.claimed_anew(self.call("B", of=claim.call)), retention=0)
            assert self.seen(claim.call).was_answered is True

    def test_each_call_in_a_row_of_replaced_ones_keeps_its_own_answer(self) -> None:
        claim = first = self.completed(result="0", retention=0)
        for number, task_id in enumerate("BCD", start=1):
            anew = self.claimed_anew(self.call(task_id, of=claim.call))
            claim = self.completed(anew, result=str(number), retention=0)
        for number, task_id in enumerate("ABC"):
            call = self.call(task_id, of=first.call)
            self._is_answered(call, Answer(State.SUCCEEDED, Reason.DONE, str(number)))
        self._is_not_answered(claim.call)

    def test_a_call_that_had_taken_the_replaced_one_over_is_answered_as_well(self) -> None:
        call = self.claimed().call
        runner = self.call("B", of=call)
        with shifted(61):
            self.completed(self.taken_over(runner), retention=0)
            self.completed(self.claimed_anew(self.call("C", of=call)), retention=0)
        for replaced in (call, runner):
            self._is_answered(replaced, Answer(State.SUCCEEDED, Reason.DONE, "1"))

    def test_a_call_that_ended_before_the_window_is_not_remembered(self) -> None:
        claim = self.completed(retention=0)
        with shifted(WINDOW + 1):
            self.claimed_anew(self.call("B", of=claim.call), window=WINDOW)
        self._is_not_answered(claim.call)

    def test_a_claim_anew_that_is_refused_remembers_nothing(self) -> None:
        claim = self.completed()
        assert self.try_anew(self.call("B", of=claim.call)) is None
        self._is_not_answered(claim.call)

    def test_an_answer_belongs_to_its_key(self) -> None:
        claim, other = self.completed(retention=0), self.completed(retention=0)
        self.claimed_anew(self.call("B", of=claim.call))
        assert self.seen(claim.call).was_answered is True
        self._is_not_answered(other.call)

    def _is_answered(self, call: Call, answer: Answer) -> None:
        assert self.seen(call).was_answered is True, f"{call.task_id} is not remembered"
        assert self.store().answer(call.identity.digest, task_id=call.task_id) == answer

    def _is_not_answered(self, call: Call) -> None:
        assert self.seen(call).was_answered is False
        assert self.store().answer(call.identity.digest, task_id=call.task_id) is None
