"""Promises of ``atomic_open``, and of starts that were counted as crashes before they began."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from ...ledger.stores.clock import shifted
from ...ledger.values import Call, Grant
from ...states import Reason, State
from .atomic_bench import AtomicBench
from .bench import LEASE, REPUBLISH, RETENTION, WINDOW, new_owner


class AtomicTakeovers(AtomicBench):
    """Atomic claims within a generation: an expired lease, a due retry, a reservation."""

    def test_a_lease_that_lasts_is_not_taken_over_by_an_atomic_run(self) -> None:
        claim = self.claimed()
        for task_id in ("A", "B"):
            with self.untouched(claim), self.atomically():
                assert self.try_atomic_open(self.call(task_id, of=claim.call)) is None

    def test_an_expired_lease_is_taken_over_by_an_atomic_run_and_the_crash_is_counted(self) -> None:
        call = self.expired().call
        with (
            self.sets(call, started_at=0, finished_at=0, open_at=RETENTION, due_at=WINDOW),
            self.atomically(),
        ):
            grant = self.try_atomic_open(call)
        assert grant == Grant(2, 1, attempts=2, crashes=1, reason=Reason.OWNER_DIED)
        row = self.row(call)
        assert (row.state, row.owner, row.message) == (State.SUCCEEDED, "w:1:atomic", None)
        assert (row.lease_seconds, row.sends) == (0, 0)

    def test_a_retry_is_taken_by_an_atomic_run_when_it_is_due_and_not_before(self) -> None:
        call = self.retried(wait=100).call
        with self.untouched(call), self.atomically():
            assert self.try_atomic_open(call) is None
        with shifted(101), self.atomically():
            grant = self.try_atomic_open(call)
        assert grant == Grant(2, 1, attempts=2, crashes=0, reason=Reason.DONE)

    def test_a_reservation_is_taken_by_an_atomic_run_at_once(self) -> None:
        call = self.reserved()
        with self.atomically():
            assert self.try_atomic_open(call) == Grant(1, 1, attempts=1, crashes=0, reason=Reason.DONE)

    def test_an_atomic_takeover_may_leave_a_key_that_is_open_at_once(self) -> None:
        call = self.expired().call
        with self.sets(call, open_at=0, due_at=WINDOW), self.atomically():
            assert self.try_atomic_open(call, retention=0) is not None
        assert self.seen(call).is_open is True

    def test_an_atomic_takeover_by_another_call_keeps_the_accepted_call_and_names_the_runner(self) -> None:
        first = self.expired().call
        other = self.call("B", of=first)
        with self.atomically():
            assert self.try_atomic_open(other) is not None
        entry = self.seen(other)
        assert (entry.task_id, entry.runner_task_id) == ("A", "B")

    def test_an_atomic_takeover_judged_on_a_row_that_has_changed_since_is_refused(self) -> None:
        call = self.expired().call
        seen = self.seen(call)
        self.taken_over(call)
        with shifted(LEASE + 1):
            for counted in (False, True):
                with self.untouched(call), self.atomically():
                    assert self.try_atomic_open(call, seen=seen, counted=counted) is None

    def test_an_atomic_takeover_judged_on_another_state_is_refused(self) -> None:
        claim = self.expired()
        seen = self.seen(claim.call)
        assert self.retry(claim)
        for counted in (False, True):
            with self.untouched(claim), self.atomically():
                assert self.try_atomic_open(claim.call, seen=seen, counted=counted) is None

    def test_a_finished_key_is_never_open_to_an_atomic_run_within_its_generation(self) -> None:
        for state in (State.REVIEW, State.FAILED, State.CANCELLED, State.SUCCEEDED):
            claim = self.in_state(state)
            for task_id in ("A", "B"):
                for counted in (False, True):
                    with shifted(RETENTION + WINDOW), self.untouched(claim), self.atomically():
                        assert (
                            self.try_atomic_open(self.call(task_id, of=claim.call), counted=counted) is None
                        )

    def test_an_atomic_takeover_is_seen_by_others_when_it_is_committed_and_not_before(self) -> None:
        claim = self.expired()
        with self.atomically():
            assert self.try_atomic_open(claim.call) is not None
            before = self.seen_by_others(claim.call)
        assert before is not None
        assert (before.state, before.token, before.owner) == (State.RUNNING, 1, claim.owner)
        assert self.seen(claim.call).state is State.SUCCEEDED

    def test_an_atomic_takeover_that_is_rolled_back_leaves_the_row_as_it_was(self) -> None:
        for call in (*self.waiting(), self.expired().call):
            for task_id in ("A", "B"):
                with self.untouched(call), self.undone():
                    assert self.try_atomic_open(self.call(task_id, of=call)) is not None

    def test_an_atomic_takeover_knows_whether_the_owner_before_it_died(self) -> None:
        call = self.died().call
        with self.atomically():
            grant = self.try_atomic_open(call)
        assert grant == Grant(3, 1, attempts=2, crashes=1, reason=Reason.OWNER_DIED)

    def test_the_count_of_attempts_of_an_atomic_takeover_stops_at_what_its_column_holds(self) -> None:
        claim = self.in_state(State.PENDING, attempts=32767)
        with self.atomically():
            grant = self.try_atomic_open(claim.call)
        assert grant is not None
        assert grant.attempts == 32767


class CountedStarts(AtomicBench):
    """A start that was counted as a crash beforehand takes its own count back, and waits for nobody."""

    def test_a_counted_start_does_not_wait_for_the_end_of_its_own_crash(self) -> None:
        call = self.counted(crashes=4).call
        assert self.seen(call).is_open is False
        with self.atomically():
            assert self.try_atomic_open(call, counted=True) is not None
        assert self.seen(call).state is State.SUCCEEDED

    def test_a_start_that_was_not_counted_waits_for_the_end_of_a_crash(self) -> None:
        call = self.counted(crashes=4).call
        for grant in (self._leased, self.try_atomic_open):
            with self.untouched(call), self.atomically():
                assert grant(call, counted=False) is None

    def test_a_counted_start_takes_its_own_count_back_and_no_other(self) -> None:
        for crashes in (0, 1, 4):
            claim = self.counted(crashes=crashes)
            assert self.seen(claim.call).crashes == crashes + 1
            with self.atomically():
                grant = self.try_atomic_open(claim.call, counted=True)
            assert grant == Grant(3, 1, attempts=1, crashes=crashes, reason=Reason.OWNER_DIED)
            assert self.seen(claim.call).crashes == crashes

    def test_an_attempt_that_left_nothing_is_counted_with_the_start_after_it(self) -> None:
        claim = self.claimed()
        assert self.store().free_dead(claim.digest, owner_prefix=claim.owner, republish=REPUBLISH, unseen=1)
        with self.atomically():
            grant = self.try_atomic_open(claim.call, counted=True)
        assert grant is not None
        assert (grant.attempts, grant.crashes) == (2, 0)

    def test_a_counted_start_that_is_rolled_back_stays_counted(self) -> None:
        call = self.counted(crashes=4).call
        with self.untouched(call), self.undone():
            assert self.try_atomic_open(call, counted=True) is not None
        assert self.seen(call).crashes == 5

    def test_a_counted_start_is_taken_back_by_a_leased_claim_as_well(self) -> None:
        for crashes in (0, 1, 4):
            call = self.counted(crashes=crashes).call
            grant = self._leased(call, counted=True)
            assert grant == Grant(3, 1, attempts=1, crashes=crashes, reason=Reason.OWNER_DIED)
            assert (self.seen(call).state, self.seen(call).crashes) == (State.RUNNING, crashes)

    def test_a_counted_start_is_refused_when_another_claim_was_faster(self) -> None:
        call = self.counted().call
        seen = self.seen(call)
        taker = self.taken_over(call)
        for grant in (self._leased, self.try_atomic_open):
            with self.untouched(taker), self.atomically():
                assert grant(call, seen=seen, counted=True) is None

    def _leased(self, call: Call, **judged: object) -> Grant | None:
        seen = judged.pop("seen", None) or self.seen(call)
        return self.store().claim_open(call, owner=new_owner(), lease=LEASE, seen=seen, **judged)  # type: ignore[arg-type]
