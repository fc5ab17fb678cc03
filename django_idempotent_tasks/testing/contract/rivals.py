"""Promises that need two connections: one winner, and no waiting for a row that somebody else has locked."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from ...ledger.stores.clock import shifted
from ...states import State
from .bench import LEASE, REPUBLISH, WINDOW, new_owner
from .meeting import RIVALS, Meeting


class Rivals(Meeting):
    """Several connections at the same moment."""

    def test_a_claim_is_seen_by_other_connections_at_once(self) -> None:
        claim = self.claimed()
        with self.second_store() as second:
            entry = second.read(claim.digest, task_id="A")
        assert entry is not None
        assert entry.owner == claim.owner

    def test_a_side_connection_is_closed_at_its_end(self) -> None:
        with self.store().side_connection() as side:
            side.read(self.call().identity.digest, task_id="A")
            assert side.connection is not self.store().connection
            assert side.connection.connection is not None
        assert side.connection.connection is None

    def test_of_simultaneous_first_claims_one_is_granted(self) -> None:
        call = self.call()
        grants = self.all_at_once(lambda store: store.claim_new(call, owner=new_owner(), lease=LEASE))
        assert [grant.token for grant in grants if grant] == [1]

    def test_of_simultaneous_takeovers_one_is_granted(self) -> None:
        call = self.claimed().call
        with shifted(LEASE + 1):
            seen = self.seen(call)
            grants = self.all_at_once(
                lambda store: store.claim_open(call, owner=new_owner(), lease=LEASE, seen=seen)
            )
        assert [grant.token for grant in grants if grant] == [2]

    def test_of_simultaneous_claims_of_a_finished_key_one_is_granted(self) -> None:
        call = self.call("B", of=self.completed(retention=0).call)
        seen = self.seen(call)
        grants = self.all_at_once(
            lambda store: store.claim_finished(call, owner=new_owner(), lease=LEASE, seen=seen, window=WINDOW)
        )
        assert [(grant.token, grant.generation) for grant in grants if grant] == [(2, 2)]

    def test_of_simultaneous_reservations_one_is_made(self) -> None:
        call = self.call()
        made = self.all_at_once(lambda store: store.reserve_new(call, wait=REPUBLISH, sends=0))
        assert [token for token in made if token is not None] == [0]

    def test_of_simultaneous_reservations_of_a_finished_key_one_is_made(self) -> None:
        call = self.call("B", of=self.completed(retention=0).call)
        seen = self.seen(call)
        made = self.all_at_once(
            lambda store: store.reserve_finished(call, wait=REPUBLISH, sends=0, seen=seen, window=WINDOW)
        )
        assert [token for token in made if token is not None] == [2]

    def test_of_simultaneous_claims_of_a_reservation_one_is_granted(self) -> None:
        call = self.reserved()
        grants = self.all_at_once(lambda store: store.claim_reserved(call, owner=new_owner(), lease=LEASE))
        assert [grant.token for grant in grants if grant] == [1]

    def test_a_reservation_does_not_wait_for_another_transaction(self) -> None:
        finished = self.completed(retention=0).call
        call, anew = self.call(), self.call("B", of=finished)
        seen = self.seen(anew)
        with self.open_transaction():
            self.reserved(call)
            assert self.try_reserve_anew(anew) is not None
            for other in (self.call("B", of=call), call):
                assert self.without_waiting(lambda store: store.reserve_new(other, wait=9, sends=0)) is None  # noqa: B023
            late = self.call("C", of=finished)
            assert (
                self.without_waiting(
                    lambda store: store.reserve_finished(late, wait=9, sends=0, seen=seen, window=WINDOW)
                )
                is None
            )

    def test_a_reservation_does_not_wait_for_who_ends_a_key(self) -> None:
        held = self.claimed()
        other = self.call("B", of=held.call)
        with self.completing(held):
            made = self.without_waiting(lambda store: store.reserve_new(other, wait=9, sends=0))
        assert made is None

    def test_nobody_waits_to_cancel_a_call_whose_key_somebody_holds(self) -> None:
        call, other = self.reserved(), self.reserved()
        with self.open_transaction():
            self.started(call)
            digest = call.identity.digest
            assert self.without_waiting(lambda store: store.cancel_waiting(["A"], window=WINDOW)) == 1
            assert self.without_waiting(lambda store: store.expire(digest, task_id="A", window=9)) is False
        assert self.seen(call).state is State.RUNNING
        assert self.seen(other).state is State.CANCELLED

    def test_two_prunes_share_no_key_and_do_not_wait_for_each_other(self) -> None:
        claims = [self.completed(retention=0) for _ in range(6)]
        with shifted(WINDOW + 1):
            with self.open_transaction():
                assert self.store().prune(State.SUCCEEDED, bite=3) == 3
                assert self.without_waiting(lambda store: store.prune(State.SUCCEEDED, bite=9)) == 3
            assert all(self.columns(claim) is None for claim in claims)

    def test_a_prune_passes_over_a_key_that_is_being_claimed_anew(self) -> None:
        claim, other = self.completed(retention=0), self.completed(retention=0)
        with shifted(WINDOW + 1):
            with self.open_transaction():
                self.claimed_anew(self.call("B", of=claim.call))
                assert self.without_waiting(lambda store: store.prune(State.SUCCEEDED, bite=9)) == 1
            assert self.store().prune(State.SUCCEEDED, bite=9) == 0
        assert (self.seen(claim.call).task_id, self.columns(other)) == ("B", None)

    def test_simultaneous_sweeps_share_no_row_and_leave_none(self) -> None:
        claims = [self.claimed() for _ in range(2 * RIVALS)]
        with shifted(LEASE + 1):
            bites = self.all_at_once(lambda store: store.sweep(bite=2, republish=REPUBLISH))
        swept = [row.digest for bite in bites for row in bite]
        assert len(swept) == len(set(swept)), "a row was swept twice"
        assert {self.seen(claim.call).state for claim in claims} >= {State.RETRY}

    def test_a_renewal_passes_over_a_row_that_a_completion_holds(self) -> None:
        held, other = self.claimed(), self.claimed()
        with self.completing(held):
            renewed = self.without_waiting(lambda store: store.renew([held, other]))
        assert renewed == {other.digest}

    def test_a_word_on_progress_does_not_wait_for_a_completion(self) -> None:
        held = self.claimed()
        with self.completing(held):
            written = self.without_waiting(lambda store: store.progress(held, text="{}"))
        assert (written, self.row(held).progress) == (False, None)

    def test_a_cancel_does_not_wait_for_a_completion(self) -> None:
        held = self.claimed()
        with self.completing(held):
            cancelled = self.without_waiting(lambda store: store.cancel(held.digest, window=WINDOW))
        assert cancelled is False
        assert self.seen(held.call).state is State.SUCCEEDED

    def test_a_sweep_passes_over_a_row_that_a_completion_holds(self) -> None:
        held, other = self.claimed(), self.claimed()
        with shifted(LEASE + 1), self.completing(held):
            rows = self.without_waiting(lambda store: store.sweep(bite=9, republish=REPUBLISH))
        assert [row.digest for row in rows] == [other.digest]
