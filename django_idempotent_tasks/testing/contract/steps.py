"""Promises of ``keep_step`` and ``step_values``: only the owner keeps a value, which goes with its work."""
# ruff: noqa: S101  promises are asserted, in plain numbers

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from django.db import DatabaseError, IntegrityError, transaction

from ...identity.text import STEP_NAME_LENGTH
from ...ledger.stores.clock import shifted
from ...ledger.values import Call, Claim
from ...models import Step
from ...states import FINISHED, State
from .bench import LEASE, REPUBLISH, RETENTION, new_owner
from .meeting import Meeting
from .text import HOSTILE

VALUE = '{"weeks": [1, 2]}'


class KeptSteps(Meeting):
    """The value of a step is kept once, and by the owner of its key only."""

    def test_a_value_is_kept_with_its_attempt_and_changes_nothing_of_the_key(self) -> None:
        claim = self.claimed()
        with self.untouched(claim):
            assert self.keep_step(claim, elapsed=2.5) is True
        step = Step.objects.using(self.alias).get(digest=claim.digest)
        assert (step.generation, step.name, step.token, step.attempt) == (1, "plan", 1, 1)
        assert abs(step.finished_at - step.started_at - timedelta(seconds=2.5)) < timedelta(seconds=0.01)
        assert abs(step.finished_at - self.now(claim)) < timedelta(seconds=LEASE)
        assert self.store().step_values(claim) == {"plan": VALUE}

    def test_a_step_of_no_time_ends_when_it_began(self) -> None:
        claim = self.claimed()
        for elapsed in (0.0, -1.0):
            assert self.keep_step(claim, str(elapsed), elapsed=elapsed) is True
        for step in Step.objects.using(self.alias).filter(digest=claim.digest):
            assert abs(step.finished_at - step.started_at) < timedelta(seconds=0.01)

    def test_a_later_attempt_finds_the_values_of_all_attempts_before_it(self) -> None:
        claim = self.claimed()
        assert self.keep_step(claim) is True
        with shifted(LEASE + 1):
            taker = self.taken_over(claim.call)
            assert self.store().step_values(taker) == {"plan": VALUE}
            assert self.keep_step(taker, "ask", value=None) is True
            assert self.store().step_values(taker) == {"plan": VALUE, "ask": None}
            self.retry(taker)
            again = self.taken_over(claim.call)
            assert self.store().step_values(again) == {"plan": VALUE, "ask": None}
        attempts = Step.objects.using(self.alias).filter(digest=claim.digest).order_by("id")
        assert [*attempts.values_list("token", "attempt")] == [(1, 1), (2, 2)]

    def test_who_is_not_the_owner_keeps_nothing(self) -> None:
        claim = self.claimed()
        late = replace(claim, grant=replace(claim.grant, token=claim.token + 1))
        for stranger in (late, replace(claim, owner="w:2:b"), replace(claim, call=self.call())):
            assert self.keep_step(stranger) is False
        for state in (State.PENDING, State.RETRY, *FINISHED):
            assert self.keep_step(self.in_state(state)) is False
        assert not Step.objects.using(self.alias).exists()

    def test_an_owner_that_was_taken_over_keeps_nothing_and_the_taker_does(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            taker = self.taken_over(claim.call)
            assert self.keep_step(claim) is False
            assert self.keep_step(taker) is True

    def test_a_name_is_kept_once(self) -> None:
        claim = self.claimed()
        assert self.keep_step(claim) is True
        with suppress(IntegrityError), transaction.atomic(using=self.alias):
            self.keep_step(claim, value="2")
            raise AssertionError("a name was kept twice")
        assert self.store().step_values(claim) == {"plan": VALUE}

    def test_names_and_values_are_kept_as_they_are(self) -> None:
        claim = self.claimed()
        names = {"plan", "Plan", "plan ", " plan", "x" * STEP_NAME_LENGTH, "東🧾" * 50, "%s", "{key}", "'"}
        texts = (json.dumps(HOSTILE), json.dumps("🧾" * 9, ensure_ascii=False), '"' + "x" * 70_000 + '"', "")
        values = {name: texts[number % len(texts)] for number, name in enumerate(sorted(names))}
        for name, value in values.items():
            assert self.keep_step(claim, name, value=value) is True
        assert self.store().step_values(claim) == values

    def test_what_is_rolled_back_keeps_no_step(self) -> None:
        claim = self.claimed()
        with suppress(ZeroDivisionError), transaction.atomic(using=self.alias):
            assert self.keep_step(claim) is True
            raise ZeroDivisionError
        assert self.store().step_values(claim) == {}

    def test_nobody_takes_a_key_over_between_a_step_and_its_commit(self) -> None:
        claim = self.claimed()
        seen, grant = self.seen(claim.call), None
        with self.open_transaction():
            assert self.keep_step(claim) is True
            with shifted(LEASE + 1), self.second_store() as second, suppress(DatabaseError):
                grant = second.claim_open(claim.call, owner=new_owner(), lease=LEASE, seen=seen)
            assert grant is None
        assert [*self.store().step_values(claim)] == ["plan"]

    def keep_step(
        self, claim: Claim, name: str = "plan", *, value: str | None = VALUE, elapsed: float = 1.0
    ) -> bool:
        """Whether the value was kept."""
        return self.store().keep_step(claim, name, value=value, elapsed=elapsed)


class ForgottenSteps(KeptSteps):
    """Steps go with the work that they are of."""

    def test_a_redrive_keeps_the_steps(self) -> None:
        claim = self.failed(self._with_a_step(self.claimed()))
        token = self.seen(claim.call).token
        assert self.store().redrive(claim.digest, token=token, message='{"v": 1}') is True
        assert self.store().step_values(self.taken_over(claim.call)) == {"plan": VALUE}

    def test_a_new_generation_begins_without_the_steps_of_the_last_one(self) -> None:
        ways: tuple[Callable[[Call], object], ...] = (self.claimed_anew, self._reserved_anew)
        for number, anew in enumerate(ways):
            beside = self._with_a_step(self.claimed())
            claim = self.completed(self._with_a_step(self.claimed()), retention=0)
            anew(self.call(f"B{number}", of=claim.call))
            assert not Step.objects.using(self.alias).filter(digest=claim.digest).exists()
            assert self.store().step_values(beside) == {"plan": VALUE}

    def test_a_claim_that_is_refused_forgets_no_step(self) -> None:
        claim = self.completed(self._with_a_step(self.claimed()), retention=RETENTION)
        assert self.try_anew(self.call("B", of=claim.call)) is None
        assert self.store().step_values(claim) == {"plan": VALUE}

    def test_other_arguments_begin_without_the_steps(self) -> None:
        one, two = uuid4(), uuid4()
        for later, is_kept in ((one, True), (two, False), (None, True)):
            claim = self.cancelled(self._with_a_step(self.claimed(self.call(fingerprint=one))))
            taker = self.claimed_anew(self.call("B", of=claim.call, fingerprint=later))
            assert self.store().step_values(taker) == ({"plan": VALUE} if is_kept else {})
            assert Step.objects.using(self.alias).filter(digest=claim.digest).exists() is is_kept

    def test_the_steps_of_a_pruned_key_are_pruned_and_no_others(self) -> None:
        for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED):
            gone, kept = (self._with_a_step(self.claimed()) for _ in range(2))
            for claim, seconds in ((gone, -1), (kept, REPUBLISH)):
                self.in_columns(claim, state=state, due_at=self.now(claim) + timedelta(seconds=seconds))
            assert self.store().prune(state, bite=9) == 1
            assert self.store().step_values(gone) == {}
            assert self.store().step_values(kept) == {"plan": VALUE}

    def test_as_many_keys_are_pruned_as_were_asked_for_however_many_steps_they_have(self) -> None:
        claims = [self.claimed() for _ in range(3)]
        for claim in claims:
            assert all(self.keep_step(claim, str(number)) for number in range(3))
            self.in_columns(claim, state=State.FAILED, due_at=self.now(claim) - timedelta(seconds=1))
        assert [self.store().prune(State.FAILED, bite=2) for _ in range(3)] == [2, 1, 0]
        assert not Step.objects.using(self.alias).exists()

    def _with_a_step(self, claim: Claim) -> Claim:
        assert self.keep_step(claim) is True
        return claim

    def _reserved_anew(self, call: Call) -> None:
        assert self.try_reserve_anew(call) is not None
