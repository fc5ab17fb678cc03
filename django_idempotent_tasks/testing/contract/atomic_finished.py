"""Promises of ``atomic_finished``: an atomic run of a finished key, and the call that it replaces."""
# ruff: noqa: S101  promises are asserted, in plain numbers

from __future__ import annotations

from uuid import uuid4

from ...ledger.stores.clock import shifted
from ...ledger.values import Answer, Call, Claim, Entry, Grant
from ...states import Reason, State
from .atomic_bench import AtomicBench
from .bench import RECORDED, RETENTION, WINDOW


class AtomicReclaims(AtomicBench):
    """A finished key is claimed by an atomic run of another call."""

    def test_a_succeeded_key_is_closed_to_atomic_runs_while_its_retention_lasts(self) -> None:
        for claim in (self.run(), self.completed()):
            with shifted(RETENTION - 100), self.untouched(claim):
                assert self._try(self.call("B", of=claim.call)) is None

    def test_past_its_retention_an_atomic_run_begins_a_new_generation(self) -> None:
        for claim in (self.run(), self.completed()):
            with shifted(RETENTION + 1):
                grant = self._try(self.call("B", of=claim.call))
            assert grant == Grant(2, 2, attempts=1, crashes=0, reason=Reason.DONE)

    def test_with_no_retention_an_atomic_run_follows_at_once(self) -> None:
        call = self.run(retention=0).call
        for number, task_id in enumerate("BCD", start=2):
            grant = self._try(self.call(task_id, of=call), retention=0)
            assert grant is not None
            assert (grant.token, grant.generation) == (number, number)

    def test_a_failed_or_cancelled_key_is_run_atomically_within_its_generation(self) -> None:
        for end in (self.failed, self.cancelled):
            claim = end(self.claimed())
            token = self.seen(claim.call).token
            grant = self._try(self.call("B", of=claim.call))
            assert grant == Grant(token + 1, 1, attempts=1, crashes=0, reason=Reason.DONE)

    def test_other_arguments_begin_a_new_generation_of_atomic_runs(self) -> None:
        one, two = uuid4(), uuid4()
        for later, generation in ((one, 1), (two, 2), (None, 1)):
            claim = self.failed(self.claimed(self.call(fingerprint=one)))
            grant = self._try(self.call("B", of=claim.call, fingerprint=later))
            assert grant is not None
            assert grant.generation == generation

    def test_a_key_that_is_live_or_in_review_is_not_run_atomically_anew(self) -> None:
        for state in (State.PENDING, State.RUNNING, State.RETRY, State.REVIEW):
            claim = self.in_state(state)
            with shifted(RETENTION + WINDOW), self.untouched(claim):
                assert self._try(self.call("B", of=claim.call)) is None

    def test_a_call_never_runs_atomically_again_what_it_finished(self) -> None:
        claim = self.run(retention=0)
        with shifted(RETENTION + WINDOW), self.untouched(claim):
            assert self._try(claim.call) is None

    def test_an_atomic_run_anew_judged_on_a_row_that_has_changed_since_is_refused(self) -> None:
        call = self.run(retention=0).call
        late = self.call("B", of=call)
        seen = self.seen(late)
        assert self._try(self.call("C", of=call), retention=0) is not None
        with self.untouched(call):
            assert self._try(late, seen=seen) is None

    def test_an_atomic_run_anew_judged_on_another_state_is_refused(self) -> None:
        claim = self.run(retention=0)
        late = self.call("B", of=claim.call)
        seen = self.seen(late)
        self.in_columns(claim, state=State.FAILED)
        with self.untouched(claim):
            assert self._try(late, seen=seen) is None

    def test_an_atomic_run_anew_leaves_nothing_of_the_old_work(self) -> None:
        claim = self.failed(self.claimed(self.call(fingerprint=uuid4())))
        self.in_columns(claim, signature="ab", progress="{}", runner_task_id="R", message="{}")
        self.in_columns(claim, crashes=2, sends=3, duplicates=4, in_external=True)
        self.in_columns(claim, discarded_at=self.now(claim))
        assert self._try(self.call("B", of=claim.call)) is not None
        row = self.row(claim)
        cleared = ("result", "signature", "progress", "runner_task_id", "category", "discarded_at", "message")
        for column in (*cleared, "fingerprint"):
            assert getattr(row, column) is None, f"{column} was not cleared"
        assert (row.crashes, row.sends, row.duplicates, row.in_external) == (0, 0, 0, False)
        assert (row.reason, row.lease_seconds) == (Reason.DONE, 0)

    def test_an_atomic_run_anew_brings_its_own_call_fingerprint_and_times(self) -> None:
        claim = self.run(self.call(fingerprint=uuid4()), retention=0)
        call = self.call("B", of=claim.call, fingerprint=uuid4())
        with self.sets(call, created_at=0, started_at=0, finished_at=0, open_at=RETENTION, due_at=WINDOW):
            assert self._try(call) is not None
        row = self.row(call)
        assert (row.state, row.task_id, row.owner) == (State.SUCCEEDED, "B", "w:1:atomic")
        assert row.fingerprint == call.identity.fingerprint

    def test_an_atomic_run_anew_is_seen_by_others_when_it_is_committed_and_not_before(self) -> None:
        call = self.run(retention=0).call
        other = self.call("B", of=call)
        with self.atomically():
            assert self.try_atomic_anew(other) is not None
            before = self.seen_by_others(other)
        assert before is not None
        assert (before.task_id, before.token) == ("A", 1)
        assert self._remembered(call) is True

    def test_an_atomic_run_anew_that_is_rolled_back_leaves_the_row_and_no_answer(self) -> None:
        for claim in (self.run(retention=0), self.failed(self.claimed()), self.cancelled(self.claimed())):
            with self.untouched(claim), self.undone():
                assert self.try_atomic_anew(self.call("B", of=claim.call)) is not None
            assert self._remembered(claim.call) is False

    def test_a_call_replaced_by_an_atomic_run_is_answered_with_how_it_ended(self) -> None:
        ends: tuple[tuple[Claim, Answer], ...] = (
            (self.run(result="5"), Answer(State.SUCCEEDED, Reason.DONE, "5")),
            (self.failed(self.claimed()), Answer(State.FAILED, Reason.RETRIES_USED_UP, RECORDED)),
            (self.cancelled(self.claimed()), Answer(State.CANCELLED, Reason.CANCELLED, None)),
        )
        for claim, answer in ends:
            with shifted(RETENTION + 1):
                assert self._try(self.call("B", of=claim.call)) is not None
            assert self._remembered(claim.call) is True
            assert self.store().answer(claim.digest, task_id="A") == answer

    def test_a_runner_replaced_by_an_atomic_run_is_answered_as_well(self) -> None:
        call = self.expired().call
        runner = self.call("B", of=call)
        with self.atomically():
            assert self.try_atomic_open(runner, retention=0) is not None
        assert self._try(self.call("C", of=call)) is not None
        assert (self._remembered(call), self._remembered(runner)) == (True, True)

    def test_a_call_that_ended_before_the_window_is_not_remembered_by_an_atomic_run(self) -> None:
        claim = self.run(retention=0)
        with shifted(WINDOW + 1):
            assert self._try(self.call("B", of=claim.call)) is not None
        assert self._remembered(claim.call) is False

    def test_an_atomic_run_anew_that_is_refused_remembers_nothing(self) -> None:
        claim = self.run()
        assert self._try(self.call("B", of=claim.call)) is None
        assert self._remembered(claim.call) is False

    def _try(self, call: Call, *, seen: Entry | None = None, retention: int = RETENTION) -> Grant | None:
        """In a transaction of its own, committed."""
        with self.atomically():
            return self.try_atomic_anew(call, seen=seen, retention=retention)

    def _remembered(self, call: Call) -> bool:
        return self.seen(call).was_answered
