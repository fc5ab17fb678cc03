"""Promises of ``promote`` and ``cancel_follow_up``: an ended key is given to its follow-up, once."""
# ruff: noqa: PLR2004, S101  promises are asserted, in plain numbers

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

from django.db import DatabaseError

from ...ledger.stores import LedgerStore
from ...ledger.stores.clock import shifted
from ...ledger.values import Answer, Claim, Promoted
from ...models import IdempotencyKey, Step
from ...states import LIVE, Reason, State
from .bench import LEASE, MESSAGE, RECORDED, REPUBLISH, WINDOW
from .follow_ups import PutOffCalls

CANCELLED = Answer(State.CANCELLED, Reason.CANCELLED, None)


class PromotedFollowUps(PutOffCalls):
    """A key whose call has ended goes on with the follow-up."""

    def test_however_a_run_ends_its_key_goes_on_with_the_follow_up(self) -> None:
        ends: tuple[Callable[[Claim], object], ...] = (
            lambda claim: self.completed(claim, retention=0),
            lambda claim: self.fail(claim, state=State.FAILED, reason=Reason.PERMANENT),
            lambda claim: self.fail(claim, state=State.FAILED, reason=Reason.POISON),
            lambda claim: self.fail(claim, state=State.REVIEW, reason=Reason.IN_DOUBT),
        )
        for end in ends:
            claim, call = self.followed()
            end(claim)
            before = self.row(claim)
            with self.sets(claim, due_at=REPUBLISH):
                promoted = self.promote(claim)
            assert promoted == Promoted(call, before.token + 1, is_due=True)
            row = self.row(claim)
            assert (row.state, row.reason, row.generation) == (State.PENDING, Reason.NONE, 2)
            assert (row.task_id, row.message, row.token) == ("B", MESSAGE, before.token + 1)
            assert (row.attempts, row.crashes, row.sends, row.duplicates, row.lease_seconds) == (
                0,
                0,
                0,
                0,
                0,
            )
            assert (row.owner, row.result, row.category, row.signature) == (None,) * 4
            assert (row.started_at, row.finished_at, row.open_at, row.progress) == (None,) * 4
            assert self.next_of(claim) is None
            assert self.started(call).grant.generation == 2

    def test_a_live_key_is_not_given_on(self) -> None:
        for state in LIVE:
            claim, _ = self.followed()
            self.in_columns(claim, state=state)
            with self.untouched(claim):
                assert self.promote(claim) is None
            assert self.next_of(claim) is not None
        assert self.store().promotable(bite=9) == []

    def test_a_key_without_a_follow_up_stays_as_it_is(self) -> None:
        claim = self.completed(retention=0)
        with self.untouched(claim):
            assert self.promote(claim) is None

    def test_the_call_that_ended_and_the_one_that_took_it_over_stay_answerable(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            taker = self.taken_over(self.call("T", of=claim.call))
        self.followed(taker)
        self.fail(taker)
        assert self.promote(claim) is not None
        for task_id in ("A", "T"):
            answer = self.store().answer(claim.digest, task_id=task_id)
            assert answer == Answer(State.FAILED, Reason.RETRIES_USED_UP, RECORDED)
        assert self.seen(claim.call).was_answered
        with shifted(WINDOW + 60):
            assert self.store().prune_answered(bite=9) == 2

    def test_a_follow_up_is_promoted_once(self) -> None:
        claim, _ = self.followed()
        self.completed(claim, retention=0)

        def promote(store: LedgerStore) -> Promoted | None:
            with suppress(DatabaseError):
                return store.promote(claim.digest, window=WINDOW, republish=REPUBLISH)
            return None

        granted = [each for each in self.all_at_once(promote) if each is not None]
        assert len(granted) <= 1
        assert (self.row(claim).generation == 2) is bool(granted)
        assert granted or self.promote(claim)

    def test_a_follow_up_whose_key_is_gone_gets_it_anew(self) -> None:
        claim, call = self.followed()
        IdempotencyKey.objects.using(self.alias).filter(digest=claim.digest).delete()
        assert self.store().promotable(bite=9) == [claim.digest]
        assert self.promote(claim) == Promoted(call, 0, is_due=True)
        assert (self.row(claim).state, self.row(claim).generation) == (State.PENDING, 1)
        assert self.next_of(claim) is None

    def test_a_follow_up_waits_for_its_time_without_a_message(self) -> None:
        claim, call = self.followed(wait=500)
        self.completed(claim, retention=0)
        waiting = self.next_of(claim)
        promoted = self.promote(claim)
        assert promoted == Promoted(call, 2, is_due=False)
        row = self.row(claim)
        assert row.sends == -1
        assert waiting is not None
        assert row.due_at is not None
        assert abs((row.due_at - waiting.due_at).total_seconds()) < 2
        assert row.created_at == waiting.created_at

    def test_a_follow_up_that_the_sweeper_is_to_send_is_due_at_once(self) -> None:
        claim, call = self.followed()
        self.completed(claim, retention=0)
        with self.sets(claim, due_at=0):
            promoted = self.store().promote(claim.digest, window=WINDOW, republish=0)
        assert promoted == Promoted(call, 2, is_due=True)
        swept = self.store().sweep(bite=9, republish=REPUBLISH)
        assert [(each.digest, each.publish, each.sends) for each in swept] == [(claim.digest, True, 0)]

    def test_the_steps_of_the_run_before_go(self) -> None:
        claim, _ = self.followed()
        assert self.store().keep_step(claim, "plan", value="1", elapsed=1.0) is True
        self.fail(claim)
        assert self.promote(claim) is not None
        assert not Step.objects.using(self.alias).filter(digest=claim.digest).exists()

    def test_the_keys_that_can_be_given_on_are_found_a_bite_at_a_time(self) -> None:
        claims = [self.followed()[0] for _ in range(3)]
        self.followed()
        for claim in claims:
            self.completed(claim, retention=0)
        found = self.store().promotable(bite=9)
        assert sorted(found) == sorted(claim.digest for claim in claims)
        assert len(self.store().promotable(bite=2)) == 2

    def test_a_cancelled_run_has_a_lease_to_end_before_its_follow_up_begins(self) -> None:
        claim, _ = self.followed()
        self.cancelled(claim)
        assert self.promote(claim) is None
        assert self.promote(claim, token=claim.token - 1) is None
        assert self.store().promotable(bite=9) == []
        with shifted(LEASE + 1):
            assert self.store().promotable(bite=9) == [claim.digest]
            assert self.promote(claim) is not None

    def test_the_follow_up_of_a_cancelled_run_begins_once_that_has_ended(self) -> None:
        claim, _ = self.followed()
        self.cancelled(claim)
        assert self.promote(claim, token=claim.token) is not None

    def promote(self, claim: Claim, *, token: int | None = None) -> Promoted | None:
        """What became of the key's follow-up."""
        return self.store().promote(claim.digest, window=WINDOW, republish=REPUBLISH, token=token)


class CancelledFollowUps(PromotedFollowUps):
    """A follow-up ends before it has begun."""

    def test_a_follow_up_is_cancelled_by_its_key_or_its_task_id(self) -> None:
        for by_id in (False, True):
            (claim, call), (beside, _) = (
                self.followed(task_id=uuid4().hex),
                self.followed(task_id=uuid4().hex),
            )
            which = {"task_id": call.task_id} if by_id else {"digest": claim.digest}
            with self.untouched(claim):
                assert self.store().cancel_follow_up(window=WINDOW, **which) is True
            assert self.next_of(claim) is None
            assert self.next_of(beside) is not None
            assert self.store().answer(claim.digest, task_id=call.task_id) == CANCELLED
            assert self.store().cancel_follow_up(window=WINDOW, **which) is False

    def test_nothing_is_cancelled_where_nothing_is_named(self) -> None:
        self.followed()
        assert self.store().cancel_follow_up(window=WINDOW) is False

    def test_the_follow_up_of_another_key_is_not_cancelled_under_this_one(self) -> None:
        claim, call = self.followed()
        assert self.store().cancel_follow_up(window=9, digest=uuid4(), task_id=call.task_id) is False
        assert self.next_of(claim) is not None
