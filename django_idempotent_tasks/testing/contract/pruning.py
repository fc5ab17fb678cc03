"""Promises of ``prune``, ``prune_answered`` and ``prune_duplicates``: rows past their retention go."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ...ledger.stores.clock import shifted
from ...ledger.values import Call, Claim
from ...models import AnsweredCall, DuplicateAttempt
from ...states import LIVE, State
from .bench import LEASE, RETENTION, WINDOW, Bench

ENDED = (State.SUCCEEDED, State.CANCELLED, State.FAILED)


class PrunedKeys(Bench):
    """Keys that have ended."""

    def test_a_finished_key_is_pruned_when_its_time_is_over_and_not_before(self) -> None:
        claims = {State.SUCCEEDED: self.completed(retention=0), State.FAILED: self.failed(self.claimed())}
        claims[State.CANCELLED] = self.cancelled(self.claimed())
        for state, claim in claims.items():
            time = RETENTION if state is State.FAILED else WINDOW
            with shifted(time - 100), self.untouched(claim):
                assert self.store().prune(state, bite=100) == 0
            with shifted(time + 1):
                assert self.store().prune(state, bite=100) == 1
            assert self.columns(claim) is None

    def test_a_prune_takes_only_the_state_that_it_names(self) -> None:
        claims = {state: self._past(state) for state in ENDED}
        for state in ENDED:
            others = [claim for other, claim in claims.items() if other is not state]
            with self.untouched(*others):
                assert self.store().prune(state, bite=100) == 1
            assert self.columns(claims.pop(state)) is None

    def test_a_key_in_review_or_live_is_never_pruned(self) -> None:
        claims = [self._past(state) for state in (*LIVE, State.REVIEW)]
        with self.untouched(*claims):
            for state in State:
                assert self.store().prune(state, bite=100) == 0

    def test_a_failed_key_without_a_time_is_not_pruned(self) -> None:
        claim = self.in_state(State.FAILED, due_at=None)
        with self.untouched(claim), shifted(100 * RETENTION):
            assert self.store().prune(State.FAILED, bite=100) == 0

    def test_a_prune_takes_at_most_a_bite_and_the_oldest_first(self) -> None:
        claims = [self._past(State.SUCCEEDED, seconds=seconds) for seconds in (10, 50, 30, 40, 20)]
        oldest_first = [claims[number] for number in (1, 3, 2, 4, 0)]
        for left in (oldest_first[2:], oldest_first[4:], []):
            self.store().prune(State.SUCCEEDED, bite=2)
            kept = [claim for claim in claims if self.columns(claim) is not None]
            assert {claim.digest for claim in kept} == {claim.digest for claim in left}

    def test_a_pruned_key_is_free(self) -> None:
        claim = self._past(State.FAILED)
        self.store().prune(State.FAILED, bite=1)
        assert self.claimed(self.call("B", of=claim.call)).token == 1

    def _past(self, state: State, *, seconds: int = 1, **columns: Any) -> Claim:
        claim = self.in_state(state, **columns)
        self.in_columns(claim, due_at=self.now(claim) - timedelta(seconds=seconds))
        return claim


class PrunedRecords(Bench):
    """Answers of replaced calls, and records of duplicates."""

    def test_an_answer_is_pruned_when_its_window_is_over_and_not_before(self) -> None:
        claim = self.completed(retention=0)
        self.claimed_anew(self.call("B", of=claim.call))
        with shifted(WINDOW - 100):
            assert self.store().prune_answered(bite=100) == 0
        assert self.seen(claim.call).was_answered is True
        with shifted(WINDOW + 1):
            assert self.store().prune_answered(bite=100) == 1
        assert self.seen(claim.call).was_answered is False

    def test_answers_are_pruned_a_bite_at_a_time_and_the_oldest_first(self) -> None:
        claim = first = self.completed(retention=0)
        for number, task_id in enumerate("BCD", start=1):
            with shifted(10 * number):
                claim = self.completed(self.claimed_anew(self.call(task_id, of=claim.call)), retention=0)
        with shifted(WINDOW + 1000):
            assert self.store().prune_answered(bite=2) == 2
            assert self._answered(first) == ["C"]
            assert [self.store().prune_answered(bite=2) for _ in range(2)] == [1, 0]

    def test_pruning_records_touches_no_key(self) -> None:
        claim = self.completed(retention=0)
        anew = self.claimed_anew(self.call("B", of=claim.call))
        self._duplicate(claim.call)
        self.store().sum_duplicates(bite=9)
        with shifted(10 * WINDOW), self.untouched(anew):
            assert self.store().prune_answered(bite=9) == 1
            assert self.store().prune_duplicates(keep=WINDOW, bite=9) == 1

    def test_a_duplicate_is_pruned_when_it_is_old_and_not_before(self) -> None:
        self._duplicate(self.claimed().call)
        self.store().sum_duplicates(bite=9)
        with shifted(LEASE - 10):
            assert self.store().prune_duplicates(keep=LEASE, bite=9) == 0
        with shifted(LEASE + 1):
            assert self.store().prune_duplicates(keep=LEASE, bite=9) == 1
        assert DuplicateAttempt.objects.using(self.alias).count() == 0

    def test_a_duplicate_is_not_pruned_before_it_was_counted(self) -> None:
        claim = self.claimed()
        self._duplicate(claim.call)
        with shifted(10 * WINDOW):
            assert self.store().prune_duplicates(keep=WINDOW, bite=9) == 0
            assert self.store().sum_duplicates(bite=9) == 1
            assert self.store().prune_duplicates(keep=WINDOW, bite=9) == 1
        assert self.row(claim).duplicates == 1

    def test_duplicates_are_pruned_a_bite_at_a_time_and_the_oldest_first(self) -> None:
        call = self.claimed().call
        for number, task_id in enumerate("ABCDE"):
            with shifted(10 * number):
                self._duplicate(self.call(task_id, of=call))
        self.store().sum_duplicates(bite=9)
        with shifted(10 * WINDOW):
            for left in ("CDE", "E", ""):
                self.store().prune_duplicates(keep=WINDOW, bite=2)
                records = DuplicateAttempt.objects.using(self.alias).order_by("id")
                assert [*records.values_list("task_id", flat=True)] == [*left]

    def _duplicate(self, call: Call) -> None:
        self.store().record_duplicate(call, place="worker", reason="in_progress")

    def _answered(self, claim: Claim) -> list[str]:
        rows = AnsweredCall.objects.using(self.alias).filter(digest=claim.digest)
        return [*rows.values_list("task_id", flat=True)]
