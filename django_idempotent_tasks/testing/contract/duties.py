"""Promises of recording and refusing duplicates, of ``sum_duplicates`` and of ``lead``."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import product
from uuid import uuid4

from django.utils import timezone

from ...ledger.rules import COMPLETED, IN_PROGRESS, Step, Verdict, decide
from ...ledger.stores.clock import shifted
from ...ledger.values import Answer, Call, Entry
from ...models import DuplicateAttempt, Leader
from ...states import State
from .bench import LEASE, Bench


class Duplicates(Bench):
    """Refused calls are recorded one by one and counted on their key later."""

    def test_recording_a_duplicate_never_touches_the_key(self) -> None:
        claim = self.claimed()
        with self.untouched(claim):
            self._record(claim.call, times=2)

    def test_a_recorded_duplicate_tells_who_was_refused_where_and_why(self) -> None:
        first = self.claimed(self.call(scope="tenant-42")).call
        self._record(self.call("B", of=first, scope="tenant-42"))
        record = DuplicateAttempt.objects.using(self.alias).get(digest=first.identity.digest)
        assert (record.task_id, record.scope) == ("B", "tenant-42")
        assert (record.place, record.reason, record.summed) == ("worker", "in_progress", False)

    def test_each_duplicate_is_counted_once(self) -> None:
        first, second = self.claimed(), self.claimed()
        self._record(first.call, times=3)
        self._record(second.call)
        assert self.store().sum_duplicates(bite=100) == 4
        assert self.store().sum_duplicates(bite=100) == 0
        self._record(first.call)
        assert self.store().sum_duplicates(bite=100) == 1
        assert (self.row(first).duplicates, self.row(second).duplicates) == (4, 1)

    def test_duplicates_are_counted_a_bite_at_a_time(self) -> None:
        claim = self.claimed()
        self._record(claim.call, times=5)
        assert [self.store().sum_duplicates(bite=2) for _ in range(4)] == [2, 2, 1, 0]
        assert self.row(claim).duplicates == 5

    def test_counting_duplicates_changes_nothing_else(self) -> None:
        claim, bystander = self.claimed(), self.claimed()
        self._record(claim.call)
        before = self.columns(claim)
        with self.untouched(bystander):
            self.store().sum_duplicates(bite=100)
        assert before is not None
        assert self.columns(claim) == before | {"duplicates": 1}

    def test_duplicates_of_a_key_that_is_gone_hold_nothing_up(self) -> None:
        claim = self.claimed()
        self._record(self.call())
        self._record(claim.call)
        assert self.store().sum_duplicates(bite=1) == 1
        assert self.store().sum_duplicates(bite=1) == 1
        assert self.row(claim).duplicates == 1

    def test_only_who_meets_a_completed_key_of_another_call_is_noted_as_refused(self) -> None:
        for call in self._readers():
            reason = self._noted(call, lambda call: self.store().read_noting(call, place="worker"), "worker")
            assert reason in {None, COMPLETED}

    def test_a_sender_is_noted_as_refused_only_where_the_rules_refuse_it_for_that_reason(self) -> None:
        for call in self._readers():
            self._noted(call, lambda call: self.store().read_refusing(call, place="send"), "send")

    def _noted(self, call: Call, read: Callable[[Call], Entry | None], place: str) -> str | None:
        """Why this call was noted as refused; None where it was not, as a store may do."""
        records = DuplicateAttempt.objects.using(self.alias)
        before, row = records.count(), self.columns(call)
        entry = read(call)
        assert entry is not None
        verdict = decide(entry, call, owner="", on_failed="rerun")
        noted = list(records.order_by("id")[before:].values_list("task_id", "place", "reason"))
        assert noted == ([(call.task_id, place, verdict.reason)] if entry.is_noted else [])
        assert not entry.is_noted or verdict == Verdict(Step.REFUSE, verdict.reason), (entry, call)
        as_read = self.seen(call)
        assert replace(entry, is_noted=False, opens_in=None) == replace(as_read, opens_in=None)
        assert self.columns(call) == row
        return verdict.reason if entry.is_noted else None

    def test_a_call_is_refused_at_once_only_where_the_rules_refuse_it_for_that_reason(self) -> None:
        refused = [self._refused_at_once(call, undone=True) for call in self._readers()]
        assert {COMPLETED, IN_PROGRESS} < set(refused)

    def test_a_call_is_refused_at_once_by_what_is_not_done_only_where_that_is_asked_for(self) -> None:
        refused = [self._refused_at_once(call, undone=False) for call in self._readers()]
        assert set(refused) == {None, COMPLETED}

    def _refused_at_once(self, call: Call, *, undone: bool) -> str | None:
        """Why this call was refused at once, whatever the task's ``on_failed``."""
        records = DuplicateAttempt.objects.using(self.alias)
        before, row, entry = records.count(), self.columns(call), self.seen(call)
        refused = self.store().refuse_at_once(call, place="worker", undone=undone)
        noted = list(
            records.order_by("id")[before:].values_list("digest", "scope", "task_id", "place", "reason")
        )
        assert self.columns(call) == row
        if refused is None:
            assert noted == []
            return None
        for on_failed in ("rerun", "block"):
            assert decide(entry, call, owner="", on_failed=on_failed) == Verdict(Step.REFUSE, refused.reason)
        identity = call.identity
        told = (identity.digest, identity.scope, call.task_id, "worker", refused.reason)
        assert noted == ([told] if refused.is_noted else [])
        assert refused.answer == Answer(entry.state, entry.reason, entry.result)
        assert refused.holder == entry.task_id
        assert (refused.opens_in is None) == (entry.opens_in is None)
        return refused.reason

    def test_a_key_without_a_row_is_noted_by_nobody(self) -> None:
        assert self.store().read_noting(self.call(), place="worker") is None
        assert self.store().refuse_at_once(self.call(), place="worker", undone=True) is None
        assert not DuplicateAttempt.objects.using(self.alias).exists()

    def _readers(self) -> list[Call]:
        """Calls of every kind, each of a key with a row."""
        payload = uuid4()
        done = self.completed(self.claimed(self.call(fingerprint=payload, scope="t"))).call
        unprinted = self.call("B", of=done, scope="t")
        others = [
            replace(unprinted, identity=replace(unprinted.identity, fingerprint=given))
            for given in (payload, uuid4(), None)
        ]
        foreign = [replace(unprinted, task="shop.refund"), self.call("B", of=done, scope="u")]
        replaced = self.completed(retention=0).call
        self.completed(self.claimed_anew(self.call("B", of=replaced)))
        runner = self.call("B", of=self.claimed().call)
        with shifted(61):
            self.completed(self.taken_over(runner))
        ended = [self.claimed(), self.completed(retention=0), self.failed(self.claimed())]
        ended += [self.cancelled(self.claimed()), self.in_state(State.SUCCEEDED, open_at=None)]
        with shifted(9):
            ended.append(self.completed(retention=0))
        late = [self.call("B", of=claim.call) for claim in ended]
        return [done, *others, *foreign, replaced, runner, self.call("C", of=runner), *late, *self._undone()]

    def _undone(self) -> list[Call]:
        """Calls of keys that nobody has completed: of what waits, runs, was left, or has no message."""
        waiting, running = self.reserved(), self.claimed()
        retried = self.claimed()
        self.retry(retried)
        moments = [None, *(timezone.now() + timedelta(seconds=seconds) for seconds in (-99, 99))]
        states = [
            self.in_state(
                state, open_at=at, message=message, in_external=state is State.RUNNING and not message
            )
            for state, at, message in product((State.RUNNING, State.RETRY), moments, (None, "{}"))
        ]
        own = [waiting, running.call, retried.call]
        return [*own, *(self.call("B", of=call) for call in [*own, *(each.call for each in states)])]

    def _record(self, call: Call, *, times: int = 1) -> None:
        for _ in range(times):
            self.store().record_duplicate(call, place="worker", reason="in_progress")


class Leadership(Bench):
    """A duty has one holder at a time, for a lease."""

    def test_a_free_duty_is_taken_and_nobody_else_gets_it(self) -> None:
        assert self._lead("one") is True
        assert self._lead("two") is False
        assert self._leader().holder == "one"

    def test_the_holder_keeps_the_duty_as_long_as_it_renews(self) -> None:
        self._lead("one")
        term = self._leader()
        for turn in (1, 2, 3):
            with shifted(turn * (LEASE - 10)):
                assert self._lead("one") is True
                assert self._lead("two") is False
        assert (self._leader().since, self._leader().token) == (term.since, term.token)

    def test_a_duty_whose_lease_is_over_goes_to_whoever_asks(self) -> None:
        self._lead("one")
        token = self._leader().token
        with shifted(LEASE - 10):
            assert self._lead("two") is False
        with shifted(LEASE + 1):
            assert self._lead("two") is True
            assert self._lead("one") is False
        assert self._leader().token == token + 1

    def test_a_holder_that_let_its_lease_run_out_begins_a_new_term(self) -> None:
        self._lead("one")
        term = self._leader()
        with shifted(LEASE + 1):
            assert self._lead("one") is True
        assert self._leader().token == term.token + 1
        assert self._leader().since > term.since

    def test_a_holder_that_resigns_is_followed_at_once(self) -> None:
        self._lead("one")
        self.store().resign("sweeper", holder="one")
        assert self._lead("two") is True

    def test_nobody_resigns_for_another(self) -> None:
        self._lead("one")
        self.store().resign("sweeper", holder="two")
        self.store().resign("beat", holder="one")
        assert self._lead("two") is False

    def test_it_is_known_for_how_long_a_duty_has_had_its_holder(self) -> None:
        assert self.store().led_for("sweeper") is None
        self._lead("one")
        with shifted(LEASE - 10):
            self._lead("one")
            assert _about(self.store().led_for("sweeper"), LEASE - 10)
        with shifted(3 * LEASE):
            assert _about(self.store().led_for("sweeper"), 3 * LEASE)
            self._lead("one")
            assert _about(self.store().led_for("sweeper"), 0)

    def test_a_key_tells_for_how_long_the_ledger_has_answered(self) -> None:
        call = self.claimed().call
        assert self.seen(call).answered_for is None
        self.store().lead("ledger", holder="ledger", lease=LEASE)
        with shifted(LEASE - 10):
            assert _about(self.seen(call).answered_for, LEASE - 10)
            assert self.seen(call).answers is True
            assert 0 < self.seen(call).note_lasts <= 10
        with shifted(LEASE + 1):
            assert self.seen(call).answers is False
            assert self.seen(call).note_lasts < 0

    def test_duties_have_holders_of_their_own(self) -> None:
        self._lead("one")
        assert self.store().lead("beat", holder="two", lease=LEASE) is True
        assert self._lead("two") is False

    def _lead(self, holder: str) -> bool:
        return self.store().lead("sweeper", holder=holder, lease=LEASE)

    def _leader(self) -> Leader:
        return Leader.objects.using(self.alias).get(name="sweeper")


def _about(seconds: float | None, expected: int) -> bool:
    """Whether a number is as expected, on a busy machine."""
    return seconds is not None and -1 < seconds - expected < 9
