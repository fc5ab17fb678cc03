"""Promises of the verbs for many calls: each call gets what it would get alone, in a statement for all."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from uuid import uuid4

from django.db import transaction

from ...ledger.values import Call, Wanted
from ...models import DuplicateAttempt
from ...states import State
from .bench import MESSAGE, REPUBLISH, Bench
from .meeting import RIVALS, Meeting


def wanted(calls: list[Call], *, wait: int = 0, sends: int = 0) -> list[Wanted]:
    """These calls, to be reserved alike."""
    return [Wanted(call, wait, REPUBLISH, sends) for call in calls]


class ManyReservations(Bench):
    """``reserve_many`` writes what ``reserve_new`` would."""

    def test_many_reservations_are_what_single_ones_are(self) -> None:
        call, alone = (
            self.call(scope="t", key_text="order 7 \x7f\\,{}\"'", fingerprint=uuid4()) for _ in range(2)
        )
        other = self.call(scope=None, fingerprint=None, message='{"v": 1, "x": "\\"%s%%,{}"}')
        with transaction.atomic(using=self.alias):
            assert self.store().reserve_many(wanted([call], wait=7)) == {call.identity.digest}
        assert self.store().reserve_many([Wanted(other, 0, 0, -1)]) == {other.identity.digest}
        self.reserved(alone, wait=REPUBLISH + 7)
        found, single = self.columns(call), self.columns(alone)
        assert found is not None
        assert single is not None
        row = self.row(call)
        assert row.due_at is not None
        assert (row.due_at - row.created_at).total_seconds() == REPUBLISH + 7
        for name in ("digest", "created_at", "due_at", "fingerprint"):
            found.pop(name), single.pop(name)
        assert found == single
        assert row.fingerprint == call.identity.fingerprint
        late = self.row(other)
        assert (late.message, late.scope, late.fingerprint, late.sends) == (other.message, None, None, -1)
        assert late.due_at == late.created_at

    def test_a_key_that_has_a_row_is_none_of_those_that_were_reserved(self) -> None:
        keys = [self.claimed().call, self.completed(retention=0).call, self.reserved()]
        fresh = self.call()
        with self.untouched(*keys):
            calls = [self.call("B", of=key) for key in keys]
            assert self.store().reserve_many(wanted([*calls, fresh])) == {fresh.identity.digest}
            assert self.store().reserve_many(wanted(calls)) == set()
        assert self.store().reserve_many([]) == set()

    def test_over_a_thousand_calls_are_reserved(self) -> None:
        calls = [self.call() for _ in range(1100)]
        written = self.store().reserve_many(wanted(calls))
        assert written == {call.identity.digest for call in calls}
        assert self.seen(calls[-1]).state is State.PENDING

    def test_many_reservations_in_a_transaction_are_gone_with_it(self) -> None:
        calls = [self.call() for _ in range(3)]
        with transaction.atomic(using=self.alias):
            with transaction.atomic(using=self.alias):
                assert len(self.store().reserve_many(wanted(calls))) == 3
                transaction.set_rollback(True, using=self.alias)
            again = [self.call("B", of=calls[0])]
            assert len(self.store().reserve_many(wanted(again))) == 1
        assert self.seen(calls[0]).task_id == "B"
        assert [self.columns(call) for call in calls[1:]] == [None, None]

    def test_many_rows_are_read_as_each_is_alone(self) -> None:
        replaced = self.completed(retention=0).call
        self.completed(self.claimed_anew(self.call("B", of=replaced)))
        calls = [
            self.call("B", of=replaced),
            self.call("A", of=replaced),
            self.call(),
            self.call("B", of=self.claimed().call),
            self.call("C", of=self.reserved(self.call(message=MESSAGE))),
        ]
        entries = self.store().read_many(calls)
        assert [entry and entry.was_answered for entry in entries] == [False, True, None, False, False]
        for call, entry in zip(calls, entries, strict=True):
            alone = self.store().read(call.identity.digest, task_id=call.task_id)
            if alone is None or entry is None:
                assert alone is entry
                continue
            assert (entry.state, entry.token, entry.task_id, entry.turn) == (
                alone.state,
                alone.token,
                alone.task_id,
                alone.turn,
            )
            assert (entry.is_open, entry.no_message, entry.result) == (
                alone.is_open,
                alone.no_message,
                alone.result,
            )
        assert self.store().read_many([]) == []

    def test_many_duplicates_are_recorded(self) -> None:
        calls = [self.call("B", of=self.reserved(), scope=scope) for scope in (None, "t")]
        reasons = ["in_progress", "failed"]
        self.store().record_duplicates(list(zip(calls, reasons, strict=True)), place="send")
        self.store().record_duplicates([], place="send")
        rows = {row.digest: row for row in DuplicateAttempt.objects.using(self.alias)}
        for call, reason in zip(calls, reasons, strict=True):
            row = rows.pop(call.identity.digest)
            assert (row.task_id, row.place, row.reason, row.scope) == (
                "B",
                "send",
                reason,
                call.identity.scope,
            )
            assert row.summed is False
        assert rows == {}

    def test_many_messages_are_all_to_be_sent_until_one_call_has_gone_on(self) -> None:
        one, other, anew, bare = (self.reserved() for _ in range(4))
        tokens = {call.identity.digest: 0 for call in (one, other)}
        assert self.store().all_wait(tokens)
        assert self.store().all_wait({})
        assert not self.store().all_wait({**tokens, anew.identity.digest: 1})
        assert not self.store().all_wait({**tokens, self.call().identity.digest: 0})
        self.in_columns(bare, message=None)
        assert not self.store().all_wait({**tokens, bare.identity.digest: 0})
        with self.untouched(other):
            assert self.store().claim_reserved(one, owner="A", lease=60) is not None
        assert not self.store().all_wait(tokens)
        assert self.store().all_wait({one.identity.digest: 1, other.identity.digest: 0})

    def test_of_many_messages_that_were_not_sent_those_are_due_that_still_wait(self) -> None:
        late, anew, other, runs = self.reserved(), self.reserved(), self.reserved(), self.claimed()
        tokens = {late.identity.digest: 0, anew.identity.digest: 5, runs.digest: runs.token}
        with self.untouched(anew, other, runs), self.sets(late, due_at=0):
            self.store().sends_failed(tokens)
        assert self.row(late).sends == -1
        self.store().sends_failed({})


class ManyAtOnce(Meeting):
    """``reserve_many`` meets others."""

    def test_of_simultaneous_reservations_of_many_each_is_made_once(self) -> None:
        calls = [self.call() for _ in range(40)]
        made = self.all_at_once(lambda store: store.reserve_many(wanted(calls)))
        assert len(made) == RIVALS
        everything = [digest for each in made for digest in each]
        assert len(everything) == len(set(everything)), "a key was reserved twice"
        self.store().reserve_many(wanted(calls))
        assert {self.seen(call).state for call in calls} == {State.PENDING}

    def test_many_reservations_stop_at_a_key_that_another_holds(self) -> None:
        calls = sorted((self.call() for _ in range(9)), key=lambda call: call.identity.digest)
        with self.open_transaction():
            self.reserved(self.call("B", of=calls[4]))
            made = self.without_waiting(lambda store: store.reserve_many(wanted(calls)))
        assert made == {call.identity.digest for call in calls[:4]}
        assert [self.columns(call) for call in calls[5:]] == [None] * 4

    def test_many_reservations_do_not_wait_for_who_ends_a_key(self) -> None:
        held, fresh = self.claimed(), self.call()
        other = self.call("B", of=held.call)
        with self.completing(held):
            made = self.without_waiting(lambda store: store.reserve_many(wanted([other, fresh])))
        assert made == {fresh.identity.digest}
