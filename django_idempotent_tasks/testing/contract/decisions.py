"""Promises of ``redrive``, ``discard`` and ``resolve``, and of the progress of redrive operations."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ledger.rules import Step, decide
from ...ledger.stores.clock import shifted
from ...ledger.values import Claim, RedriveBite
from ...models import OperationState, RedriveOperation
from ...states import Reason, State
from .bench import MESSAGE, RETENTION, WINDOW
from .failing import Failing
from .sweeping import Sweeping

DEAD = (State.FAILED, State.REVIEW)


class Decisions(Failing, Sweeping):
    """The words of the promises about what people decide."""

    def dead(self, state: State = State.FAILED) -> Claim:
        """A dead letter after three attempts and two crashes."""
        claim = self.claimed()
        self.in_columns(claim, attempts=3, crashes=2)
        reason = Reason.IN_DOUBT if state is State.REVIEW else Reason.PERMANENT
        assert self.fail(claim, state=state, reason=reason) is True
        return claim

    def redrive(self, claim: Claim, *, token: int | None = None, message: str = MESSAGE) -> bool:
        """Whether the redrive was accepted."""
        token = self.row(claim).token if token is None else token
        return self.store().redrive(claim.digest, token=token, message=message)

    def discard(self, claim: Claim, *, token: int | None = None) -> bool:
        """Whether the discard was accepted."""
        token = self.row(claim).token if token is None else token
        return self.store().discard(claim.digest, token=token, retention=RETENTION)

    def resolve(self, claim: Claim, *, token: int | None = None, result: str | None = '"paid"') -> bool:
        """Whether the resolution was accepted."""
        token = self.row(claim).token if token is None else token
        return self.store().resolve(
            claim.digest, token=token, result=result, reason=Reason.DONE, retention=RETENTION, window=WINDOW
        )

    def ways_to_decide(self) -> tuple[Callable[..., bool], ...]:
        """Each decision."""
        return (self.redrive, self.discard, self.resolve)


class DecidedOnce(Decisions):
    """A decision is for the dead letter as it was read; of two decisions the first counts."""

    def test_a_decision_about_a_row_that_has_moved_on_changes_nothing(self) -> None:
        for decide_it in self.ways_to_decide():
            for state in DEAD:
                claim = self.dead(state)
                with self.untouched(claim):
                    for token in (claim.token - 1, claim.token + 1, 2**70, -(2**70)):
                        assert decide_it(claim, token=token) is False

    def test_only_what_has_failed_or_is_in_review_is_decided(self) -> None:
        for decide_it in self.ways_to_decide():
            for state in State:
                if state not in DEAD:
                    claim = self.in_state(state)
                    with self.untouched(claim):
                        assert decide_it(claim) is False

    def test_of_two_decisions_the_first_counts(self) -> None:
        for first in self.ways_to_decide():
            for second in self.ways_to_decide():
                claim = self.dead()
                token = self.row(claim).token
                assert first(claim, token=token) is True
                with self.untouched(claim):
                    assert second(claim, token=token) is False

    def test_other_keys_are_left_alone(self) -> None:
        for decide_it in self.ways_to_decide():
            claim, other = self.dead(), self.dead()
            with self.untouched(other):
                assert decide_it(claim) is True

    def test_a_decision_leaves_the_records_of_what_failed(self) -> None:
        for decide_it in self.ways_to_decide():
            claim = self.dead()
            decide_it(claim)
            assert len(self.jobs(claim)) == 1

    def test_the_owner_that_failed_can_end_nothing_after_a_decision(self) -> None:
        for decide_it in self.ways_to_decide():
            claim = self.dead()
            decide_it(claim)
            with self.untouched(claim):
                assert self.complete(claim) is False
                assert self.retry(claim) is False
                assert self.fail(claim) is False


class Redriven(Decisions):
    """A redrive runs the same call again, from its first attempt."""

    def test_a_redriven_key_waits_to_be_sent_now_as_if_it_had_never_run(self) -> None:
        for state in DEAD:
            claim = self.dead(state)
            self.in_columns(claim, in_external=state is State.REVIEW)
            with self.sets(claim, due_at=0):
                assert self.redrive(claim, message='{"v": 1, "args": [8]}') is True
            row = self.row(claim)
            assert (row.state, row.reason, row.token) == (State.PENDING, Reason.NONE, claim.token + 1)
            assert (row.attempts, row.crashes, row.sends, row.generation) == (0, 0, -1, 1)
            assert (row.message, row.task_id) == ('{"v": 1, "args": [8]}', "A")
            assert (row.result, row.category, row.signature, row.finished_at) == (None, None, None, None)
            assert (row.in_external, row.open_at, row.discarded_at) == (False, None, None)

    def test_a_redriven_key_is_sent_by_the_next_sweep(self) -> None:
        claim = self.dead()
        self.redrive(claim)
        row = self.swept(claim)
        assert (row.state, row.publish, row.size, row.sends) == (State.PENDING, True, len(MESSAGE), 0)

    def test_a_redriven_key_is_claimed_by_the_same_call_and_by_no_other(self) -> None:
        claim = self.dead()
        self.redrive(claim)
        other = self.call("B", of=claim.call)
        verdict = decide(self.seen(other), other, owner="w:2:b", on_failed="rerun")
        assert verdict.step is Step.REFUSE
        grant = self.taken_over(claim.call).grant
        assert (grant.attempts, grant.crashes, grant.generation) == (1, 0, 1)

    def test_a_discarded_key_can_still_be_redriven(self) -> None:
        claim = self.dead()
        self.discard(claim)
        assert self.redrive(claim) is True
        assert self.row(claim).discarded_at is None


class Discarded(Decisions):
    """A discarded dead letter keeps its row for its retention, and its key is free."""

    def test_a_discarded_key_is_a_failure_that_is_no_dead_letter_any_more(self) -> None:
        for state in DEAD:
            claim = self.dead(state)
            with self.sets(claim, discarded_at=0):
                assert self.discard(claim) is True
            row = self.row(claim)
            assert (row.state, row.token, row.message) == (State.FAILED, claim.token + 1, MESSAGE)
            assert row.result is not None

    def test_a_discarded_key_is_open_to_another_call_whatever_its_task_says(self) -> None:
        for state in DEAD:
            for on_failed in ("rerun", "block"):
                claim = self.dead(state)
                other = self.call("B", of=claim.call)
                assert decide(self.seen(other), other, owner="b", on_failed=on_failed).step is Step.REFUSE
                self.discard(claim)
                assert decide(self.seen(other), other, owner="b", on_failed=on_failed).step is Step.REOPEN
                assert self.claimed_anew(other).grant.attempts == 1
                row = self.row(claim)
                assert (row.discarded_at, row.signature, row.task_id) == (None, None, "B")

    def test_a_discarded_key_is_not_run_again_by_its_own_call(self) -> None:
        claim = self.dead(State.REVIEW)
        self.discard(claim)
        verdict = decide(self.seen(claim.call), claim.call, owner="w:2:b", on_failed="rerun")
        assert verdict.step is Step.RECALL

    def test_a_key_in_review_that_is_discarded_is_pruned_in_its_time(self) -> None:
        claim = self.dead(State.REVIEW)
        self.in_columns(claim, in_external=True)
        with self.sets(claim, due_at=RETENTION):
            self.discard(claim)
        assert self.row(claim).in_external is False
        assert self.store().prune(State.FAILED, bite=9) == 0
        with shifted(RETENTION + 1):
            assert self.store().prune(State.FAILED, bite=9) == 1

    def test_a_discard_does_not_lengthen_the_time_of_a_failure(self) -> None:
        claim = self.dead()
        before = self.row(claim).due_at
        with shifted(100):
            self.discard(claim)
        assert self.row(claim).due_at == before

    def test_what_was_discarded_is_not_discarded_once_more(self) -> None:
        claim = self.dead()
        self.discard(claim)
        with self.untouched(claim):
            assert self.discard(claim) is False


class Resolved(Decisions):
    """A person says that the work is done, and with which result."""

    def test_a_resolved_key_has_succeeded_with_the_given_result(self) -> None:
        for state in DEAD:
            claim = self.dead(state)
            with self.sets(claim, finished_at=0, open_at=RETENTION, due_at=WINDOW):
                assert self.resolve(claim) is True
            row = self.row(claim)
            assert (row.state, row.reason, row.result) == (State.SUCCEEDED, Reason.DONE, '"paid"')
            assert (row.message, row.category, row.signature, row.token) == (None, None, None, 2)
            assert row.in_external is False

    def test_a_resolved_key_answers_duplicates_and_its_own_call_with_that_result(self) -> None:
        claim = self.dead(State.REVIEW)
        self.resolve(claim)
        own, other = claim.call, self.call("B", of=claim.call)
        assert decide(self.seen(own), own, owner="b", on_failed="rerun").step is Step.REPLAY
        verdict = decide(self.seen(other), other, owner="b", on_failed="rerun")
        assert (verdict.step, verdict.reason) == (Step.REFUSE, "already_completed")
        assert self.seen(other).result == '"paid"'

    def test_a_resolved_key_is_new_work_to_another_call_past_its_retention(self) -> None:
        claim = self.dead()
        self.resolve(claim)
        with shifted(RETENTION + 1):
            anew = self.claimed_anew(self.call("B", of=claim.call))
            assert anew.grant.generation == 2
            answer = self.store().answer(claim.digest, task_id="A")
        assert answer is not None
        assert answer.result == '"paid"'


class RedriveOperations(Decisions):
    """The progress of an operation is counted once, whoever carries it out."""

    def test_a_bite_is_counted_and_its_place_remembered(self) -> None:
        operation, claim = self._operation(), self.dead()
        row = self.row(claim)
        place = {"last_signature": row.signature, "last_at": row.finished_at, "last_digest": row.digest}
        assert self._advance(operation, redriven=3, skipped=1, **place) is True
        operation.refresh_from_db(using=self.alias)
        assert (operation.redriven, operation.skipped, operation.state) == (3, 1, OperationState.RUNNING)
        kept = (operation.last_signature, operation.last_at, operation.last_digest)
        assert kept == (row.signature, row.finished_at, row.digest)
        assert operation.finished_at is None

    def test_the_last_bite_ends_the_operation_and_forgets_no_place(self) -> None:
        operation, claim = self._operation(), self.dead()
        row = self.row(claim)
        place = {"last_signature": row.signature, "last_at": row.finished_at, "last_digest": row.digest}
        self._advance(operation, redriven=1, **place)
        assert self._advance(operation, seen=1, is_last=True) is True
        operation.refresh_from_db(using=self.alias)
        assert (operation.state, operation.redriven) == (OperationState.DONE, 1)
        assert (operation.last_digest, operation.finished_at is None) == (row.digest, False)

    def test_a_bite_that_somebody_else_has_taken_is_not_counted(self) -> None:
        operation = self._operation()
        assert self._advance(operation, redriven=2) is True
        assert self._advance(operation, redriven=2) is False
        operation.refresh_from_db(using=self.alias)
        assert operation.redriven == 2

    def test_an_operation_that_has_ended_neither_goes_on_nor_is_stopped(self) -> None:
        stopped, done = self._operation(), self._operation()
        assert self.store().stop_redrive(stopped.pk, by="ann") is True
        assert self._advance(done, is_last=True) is True
        for operation in (stopped, done):
            assert self._advance(operation, redriven=1) is False
            assert self.store().stop_redrive(operation.pk, by="bob") is False
        stopped.refresh_from_db(using=self.alias)
        assert (stopped.state, stopped.stopped_by) == (OperationState.STOPPED, "ann")
        assert (stopped.redriven, stopped.finished_at is None) == (0, False)

    def test_an_operation_is_pruned_a_while_after_its_end_and_not_before(self) -> None:
        stopped, done, running = (self._operation() for _ in range(3))
        self.store().stop_redrive(stopped.pk, by="ann")
        self._advance(done, is_last=True)
        with shifted(RETENTION - 100):
            assert self.store().prune_redrives(keep=RETENTION, bite=9) == 0
        with shifted(RETENTION + 1):
            assert [self.store().prune_redrives(keep=RETENTION, bite=1) for _ in range(3)] == [1, 1, 0]
        assert list(RedriveOperation.objects.using(self.alias).values_list("pk", flat=True)) == [running.pk]

    def _operation(self) -> RedriveOperation:
        values = {"created_by": "ann", "reason": "why", "selection": "{}", "total": 9}
        created_at = self.now(self.claimed())
        return RedriveOperation.objects.using(self.alias).create(created_at=created_at, **values)

    def _advance(self, operation: RedriveOperation, **changes: Any) -> bool:
        values: dict[str, Any] = {"seen": 0, "redriven": 0, "skipped": 0, "is_last": False}
        place = {"last_signature": None, "last_at": None, "last_digest": None}
        return self.store().advance_redrive(operation.pk, RedriveBite(**{**values, **place, **changes}))
