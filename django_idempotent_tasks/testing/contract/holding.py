"""Promises of ``holding``: a short transaction that holds a key alone."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

from contextlib import suppress

from ...ledger.stores import LedgerStore
from ...ledger.values import Call
from ...states import Reason, State
from .atomic_bench import AtomicBench, Undone
from .bench import LEASE, RETENTION, WINDOW, a_failure, new_owner


class Holding(AtomicBench):
    """A short transaction that holds a key alone."""

    def test_a_key_that_nobody_has_is_held_whether_it_has_a_row_or_not(self) -> None:
        for call in (self.call(), self.claimed().call, self.run().call):
            for _ in range(2):
                with self.store().holding(call) as alone:
                    assert alone is True

    def test_what_is_written_while_a_key_is_held_is_seen_by_others_at_the_end(self) -> None:
        call = self.call()
        with self.store().holding(call):
            claim = self.claimed(call)
            assert self.seen_by_others(call) is None
            assert self.retry(claim)
        entry = self.seen_by_others(call)
        assert entry is not None
        assert entry.state is State.RETRY

    def test_what_is_written_while_a_key_is_held_is_gone_after_an_error(self) -> None:
        call, old = self.call(), self.claimed()
        with self.untouched(old), suppress(Undone), self.store().holding(call):
            self.claimed(call)
            assert self.complete(old)
            raise Undone
        assert self.columns(call) is None

    def test_a_side_connection_holds_a_key_as_well(self) -> None:
        for call in (self.call(), self.reserved(), self.retried().call, self.expired().call):
            with self.store().side_connection() as side, side.holding(call) as alone:
                assert alone is True
                self._fail_on(side, call)
            assert self.seen(call).state is State.FAILED

    def test_a_finished_key_is_claimed_anew_while_a_side_connection_holds_it(self) -> None:
        old = self.run(retention=0).call
        call = self.call("B", of=old)
        with self.store().side_connection() as side, side.holding(call) as alone:
            assert alone is True
            seen = side.read(call.identity.digest, task_id="B")
            assert seen is not None
            grant = side.claim_finished(call, owner="w:2:b", lease=LEASE, seen=seen, window=WINDOW)
        assert grant is not None
        assert (self.seen(old).task_id, self.seen(old).was_answered) == ("B", True)

    def test_what_a_side_connection_wrote_while_it_held_a_key_is_gone_after_an_error(self) -> None:
        call = self.reserved()
        with self.untouched(call), self.store().side_connection() as side:
            with suppress(Undone), side.holding(call):
                self._fail_on(side, call)
                raise Undone
            with side.holding(call) as alone:
                assert alone is True

    def _fail_on(self, side: LedgerStore, call: Call) -> None:
        """Claim and fail, as the parent of a killed process does."""
        owner = new_owner()
        seen = side.read(call.identity.digest, task_id=call.task_id)
        if seen is None:
            grant = side.claim_new(call, owner=owner, lease=LEASE)
        else:
            grant = side.claim_open(call, owner=owner, lease=LEASE, seen=seen)
        claim = self.granted(call, owner, grant, LEASE)
        reason, state = Reason.RETRIES_USED_UP, State.FAILED
        assert side.fail(claim, state=state, reason=reason, failure=a_failure(), retention=RETENTION)
