"""Promises about atomic runs at the same moment: one winner, and nobody waits for its end."""
# ruff: noqa: S101  promises are asserted, in plain numbers

from __future__ import annotations

from collections.abc import Callable, Iterator

from django.db import transaction

from ...ledger.stores import LedgerStore
from ...ledger.stores.clock import shifted
from ...ledger.values import Call, Entry, Grant
from ...states import State
from .atomic_bench import AtomicBench
from .bench import LEASE, REPUBLISH, RETENTION, WINDOW, new_owner
from .meeting import Meeting

#: How a key may be claimed by an atomic run.
Verb = Callable[[LedgerStore, Call, Entry | None], Grant | None]


def _new(store: LedgerStore, call: Call, _seen: Entry | None) -> Grant | None:
    return store.atomic_new(call, owner=new_owner(), retention=RETENTION, window=WINDOW)


def _reserved(store: LedgerStore, call: Call, _seen: Entry | None) -> Grant | None:
    return store.atomic_reserved(call, owner=new_owner(), retention=RETENTION, window=WINDOW)


def _open(store: LedgerStore, call: Call, seen: Entry | None) -> Grant | None:
    assert seen is not None
    return store.atomic_open(
        call, owner=new_owner(), retention=RETENTION, window=WINDOW, seen=seen, counted=False
    )


def _finished(store: LedgerStore, call: Call, seen: Entry | None) -> Grant | None:
    assert seen is not None
    return store.atomic_finished(call, owner=new_owner(), retention=RETENTION, window=WINDOW, seen=seen)


class AtomicRivals(Meeting, AtomicBench):
    """Several connections at the same moment, one of them in an atomic run."""

    def test_of_simultaneous_atomic_claims_of_each_kind_one_is_granted(self) -> None:
        for call, seen, verb in self._claimable():
            grants = self.all_at_once(lambda store: verb(store, call, seen))  # noqa: B023
            assert len([grant for grant in grants if grant]) == 1, verb.__name__
            assert self.seen(call).state is State.SUCCEEDED

    def test_an_atomic_claim_does_not_wait_for_another_one_of_the_key(self) -> None:
        for call, seen, verb in self._claimable():
            with self.open_transaction():
                assert verb(self.store(), call, seen) is not None
                for try_claim in self._tries(call, seen):
                    assert self.without_waiting(try_claim) is None, verb.__name__

    def test_an_atomic_claim_does_not_wait_for_a_reservation(self) -> None:
        call = self.call()
        with self.open_transaction():
            self.reserved(call)
            for try_claim in self._tries(call, None):
                assert self.without_waiting(try_claim) is None

    def test_an_atomic_claim_does_not_wait_for_who_holds_the_key(self) -> None:
        for call, seen, _verb in self._claimable():
            if seen is None and not self.locks_missing_rows:
                continue
            with self.open_transaction(), self.store().holding(call):
                for try_claim in self._tries(call, seen):
                    assert self.without_waiting(try_claim) is None

    def test_a_reservation_does_not_wait_for_an_atomic_run(self) -> None:
        for call, seen, verb in self._claimable():
            with self.open_transaction():
                assert verb(self.store(), call, seen) is not None
                other = self.call("R", of=call)
                assert self.without_waiting(lambda store: store.reserve_new(other, wait=9, sends=0)) is None  # noqa: B023
                if seen is not None and verb is _finished:
                    assert self.without_waiting(lambda store: self._reserve_anew(store, other, seen)) is None  # noqa: B023

    def test_who_wants_to_hold_a_key_does_not_wait_for_an_atomic_run(self) -> None:
        for call, seen, verb in self._claimable():
            with self.open_transaction():
                assert verb(self.store(), call, seen) is not None
                assert self.without_waiting(lambda store: self._is_alone(store, call)) is False  # noqa: B023
            assert self.without_waiting(lambda store: self._is_alone(store, call)) is True  # noqa: B023

    def test_who_wants_to_hold_a_key_does_not_wait_for_who_holds_it(self) -> None:
        new = self.call if self.locks_missing_rows else self.reserved
        call, other = new(), new()
        with self.open_transaction(), self.store().holding(call):
            assert self.without_waiting(lambda store: self._is_alone(store, call)) is False
            assert self.without_waiting(lambda store: self._is_alone(store, other)) is True
        with self.store().holding(call):
            pass
        assert self.without_waiting(lambda store: self._is_alone(store, call)) is True

    def test_a_sweep_a_cancel_and_a_prune_pass_over_an_atomic_run(self) -> None:
        for call, seen, verb in self._claimable():
            with shifted(REPUBLISH + RETENTION + WINDOW), self.open_transaction():
                assert verb(self.store(), call, seen) is not None
                self._nothing_is_done_to(call)
            assert self.seen(call).state is State.SUCCEEDED

    def test_a_call_that_an_atomic_run_has_is_not_made_due_early(self) -> None:
        call = self.reserved()
        digest, token = call.identity.digest, self.row(call).token
        with self.open_transaction():
            assert _reserved(self.store(), call, None) is not None
            assert self.without_waiting(lambda store: store.hasten(digest, token=token)) is False

    def test_a_renewal_passes_over_an_atomic_takeover(self) -> None:
        held, other = self.claimed(), self.claimed()
        seen = self.seen(held.call)
        with self.open_transaction():
            with shifted(LEASE + 1):
                assert _open(self.store(), held.call, seen) is not None
            assert self.without_waiting(lambda store: store.renew([held, other])) == {other.digest}

    def _nothing_is_done_to(self, call: Call) -> None:
        digest = call.identity.digest
        works: tuple[Callable[[LedgerStore], object], ...] = (
            lambda store: [row for row in store.sweep(bite=99, republish=REPUBLISH) if row.digest == digest],
            lambda store: store.cancel(digest, window=WINDOW),
            lambda store: store.cancel_waiting([call.task_id], window=WINDOW),
            lambda store: store.expire(digest, task_id=call.task_id, window=WINDOW),
            lambda store: store.prune(State.SUCCEEDED, bite=99),
        )
        for number, work in enumerate(works):
            assert not self.without_waiting(work), f"number {number} has changed it"

    def _claimable(self) -> Iterator[tuple[Call, Entry | None, Verb]]:
        """One key for each kind of atomic claim, what was read of it, and how it is claimed."""
        yield self.call(), None, _new
        reserved = self.reserved()
        yield reserved, self.seen(reserved), _reserved
        for make in (self.retried, self.died, self.expired):
            live = make().call
            yield live, self.seen(live), _open
        anew = self.call("B", of=self.run(retention=0).call)
        yield anew, self.seen(anew), _finished

    def _tries(self, call: Call, seen: Entry | None) -> list[Callable[[LedgerStore], object]]:
        """Each kind of atomic claim of this key by itself and by another call."""
        tries: list[Callable[[LedgerStore], object]] = []
        for rival in (call, self.call("C", of=call)):
            tries += [
                lambda store, rival=rival, verb=verb: verb(store, rival, seen)  # type: ignore[misc]
                for verb in ((_new, _reserved) if seen is None else (_new, _reserved, _open, _finished))
            ]
        return tries

    @staticmethod
    def _is_alone(store: LedgerStore, call: Call) -> bool:
        with store.holding(call) as alone:
            return alone

    @staticmethod
    def _reserve_anew(store: LedgerStore, call: Call, seen: Entry) -> int | None:
        with transaction.atomic(using=store.connection.alias):
            return store.reserve_finished(call, wait=9, sends=0, seen=seen, window=WINDOW)
