"""Promises of ``follow``, ``hold`` and ``postpone``: one follow-up waits, and reads what was written."""
# ruff: noqa: PLR2004, S101  promises are asserted, in plain numbers

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from django.db import DatabaseError

from ...ledger.stores import LedgerStore
from ...ledger.stores.clock import shifted
from ...ledger.values import Call, Claim
from ...models import FollowUp
from ...states import FINISHED, State
from .bench import LEASE, MESSAGE, REPUBLISH, new_owner
from .meeting import Meeting

NEWER = '{"v": 1, "args": [8], "kwargs": {}, "options": {}}'


class Followed(Meeting):
    """A key that runs with a follow-up, and what is known of that."""

    def followed(
        self, claim: Claim | None = None, *, wait: int = 0, task_id: str = "B"
    ) -> tuple[Claim, Call]:
        """A claim, and the call that follows it."""
        claim = claim or self.claimed()
        call = self.call(task_id, of=claim.call)
        assert self.store().follow(call, wait=wait) is True, "the follow-up was refused"
        return claim, call

    def next_of(self, key: Call | Claim) -> FollowUp | None:
        """The row of a key's follow-up."""
        digest = key.digest if isinstance(key, Claim) else key.identity.digest
        return FollowUp.objects.using(self.alias).filter(digest=digest).first()


class AcceptedFollowUps(Followed):
    """A call becomes the follow-up of a key that runs."""

    def test_a_call_follows_a_key_that_runs_and_changes_nothing_of_it(self) -> None:
        claim = self.claimed()
        with self.untouched(claim):
            _, call = self.followed(claim, wait=20)
        found = self.store().follow_up(claim.digest)
        assert found is not None
        assert (found.task_id, found.message) == (call.task_id, MESSAGE)
        assert 0 < found.due_in <= 20
        row = self.next_of(claim)
        assert row is not None
        assert row.due_at - row.created_at == timedelta(seconds=20)

    def test_nothing_follows_a_key_that_does_not_run(self) -> None:
        for state in (State.PENDING, State.RETRY, *FINISHED):
            claim = self.in_state(state)
            assert self.store().follow(self.call("B", of=claim.call), wait=0) is False
        assert self.store().follow(self.call("B"), wait=0) is False
        assert not FollowUp.objects.using(self.alias).exists()

    def test_a_call_follows_a_cancelled_run_until_its_body_has_been_told_of_that(self) -> None:
        claim, waiting = self.cancelled(self.claimed()), self.reserved()
        assert self.store().cancel(waiting.identity.digest, window=REPUBLISH)
        assert self.store().follow(self.call("B", of=waiting), wait=0) is False
        with shifted(LEASE + 1):
            assert self.store().follow(self.call("B", of=claim.call), wait=0) is False
        assert self.store().follow(self.call("B", of=claim.call), wait=0) is True

    def test_a_call_does_not_follow_a_key_of_another_task_or_scope(self) -> None:
        claim = self.claimed(self.call(scope="north"))
        for stranger in (
            self.call("B", of=claim.call, scope="south"),
            self.call("B", of=claim.call, scope=None),
            replace(self.call("B", of=claim.call, scope="north"), task="shop.refund"),
        ):
            assert self.store().follow(stranger, wait=0) is False
        assert self.store().follow(self.call("B", of=claim.call, scope="north"), wait=0) is True

    def test_of_several_calls_one_follows(self) -> None:
        claim, _ = self.followed()
        assert self.store().follow(self.call("C", of=claim.call, message=NEWER), wait=0) is False
        found = self.store().follow_up(claim.digest)
        assert found is not None
        assert (found.task_id, found.message) == ("B", MESSAGE)

    def test_of_calls_at_the_same_moment_one_follows(self) -> None:
        claim = self.claimed()

        def follow(store: LedgerStore) -> bool:
            call = self.call(uuid4().hex, of=claim.call)
            with suppress(DatabaseError):
                return store.follow(call, wait=0)
            return False

        assert self.all_at_once(follow).count(True) <= 1
        assert FollowUp.objects.using(self.alias).count() <= 1

    def test_a_follow_up_is_kept_as_its_call_is(self) -> None:
        fingerprint = uuid4()
        given = {"key_text": "7 %s {key} ' 🧾", "scope": "東🧾", "message": '"' + "x" * 70_000 + '"'}
        claim = self.claimed(self.call(scope="東🧾"))
        call = self.call("B%s{key}'", of=claim.call, fingerprint=fingerprint, **given)
        assert self.store().follow(call, wait=0) is True
        row = self.next_of(claim)
        assert row is not None
        assert (row.key_text, row.scope, row.message) == tuple(given.values())
        assert (row.task, row.task_id, row.fingerprint) == ("shop.charge", "B%s{key}'", fingerprint)

    def test_the_end_of_a_run_does_not_wait_for_the_transaction_of_its_follow_up(self) -> None:
        claim = self.claimed()
        with self.open_transaction():
            self.followed(claim)
            assert self.without_waiting(lambda side: side.renew([claim])) == {claim.digest}
            done = self.without_waiting(
                lambda side: side.complete(
                    claim, result="1", reason=claim.grant.reason, retention=0, window=9
                )
            )
            assert done is True
        assert self.store().promotable(bite=9) == [claim.digest]

    def test_a_follow_up_of_an_open_transaction_is_not_waited_for(self) -> None:
        claim = self.claimed()
        with self.open_transaction():
            self.followed(claim)
            other = self.call("C", of=claim.call)
            assert self.without_waiting(lambda side: side.follow(other, wait=0)) is False
        found = self.store().follow_up(claim.digest)
        assert found is not None
        assert found.task_id == "B"


class HeldCalls(AcceptedFollowUps):
    """What a sender counts on does not begin before its transaction has ended."""

    def test_a_waiting_call_is_not_claimed_while_a_sender_holds_it(self) -> None:
        call = self.reserved()
        with self.open_transaction():
            assert self.store().hold(call) is True
            with self.store().side_connection() as side, suppress(DatabaseError):
                assert side.claim_reserved(call, owner=new_owner(), lease=LEASE) is None
        assert self.started(call).token == 1

    def test_several_senders_hold_one_call_and_nobody_changes_it(self) -> None:
        call = self.reserved()
        with self.open_transaction(), self.untouched(call):
            assert self.store().hold(call) is True
            with self.second_store() as second, second.together():
                assert second.hold(call) is True

    def test_what_runs_or_has_ended_is_not_held(self) -> None:
        for state in (State.RUNNING, *FINISHED):
            assert self.store().hold(self.in_state(state).call) is False
        for state in (State.PENDING, State.RETRY):
            assert self.store().hold(self.in_state(state).call) is True
        assert self.store().hold(self.call()) is False

    def test_a_follow_up_that_a_sender_holds_is_not_promoted_before(self) -> None:
        claim, _ = self.followed()
        self.completed(claim, retention=0)
        with self.open_transaction():
            assert self.store().hold_follow_up(claim.digest) is True
            with self.second_store() as second, second.together():
                assert second.hold_follow_up(claim.digest) is True
            kept = self.without_waiting(
                lambda side: side.promote(claim.digest, window=9, republish=REPUBLISH)
            )
            assert kept is None
        assert self.store().promote(claim.digest, window=9, republish=REPUBLISH) is not None

    def test_a_follow_up_gets_the_newest_message_and_nobody_else_s(self) -> None:
        (claim, _), (beside, _) = self.followed(), self.followed()
        assert self.store().hold_follow_up(claim.digest) is True
        assert self.store().hold_follow_up(claim.digest, message=NEWER) is True
        found, other = (self.store().follow_up(each.digest) for each in (claim, beside))
        assert found is not None
        assert other is not None
        assert (found.task_id, found.message, other.message) == ("B", NEWER, MESSAGE)

    def test_where_nothing_follows_nothing_is_held(self) -> None:
        claim = self.claimed()
        assert self.store().hold_follow_up(claim.digest) is False
        assert self.store().hold_follow_up(claim.digest, message=NEWER) is False

    def test_a_message_is_not_changed_while_another_sender_holds_it(self) -> None:
        claim, _ = self.followed()
        with self.open_transaction():
            assert self.store().hold_follow_up(claim.digest) is True
            changed = self.without_waiting(lambda side: side.hold_follow_up(claim.digest, message=NEWER))
            assert changed is False


class PutOffCalls(HeldCalls):
    """With ``debounce`` a call that waits for its time waits longer with each duplicate."""

    def test_a_call_that_waits_for_its_time_gets_the_newest_message(self) -> None:
        call = self.reserved(wait=20, sends=-1)
        assert self.rewrite(call) is True
        assert self.row(call).message == NEWER

    def test_a_call_that_was_sent_or_is_another_one_keeps_its_message(self) -> None:
        call, sent = self.reserved(wait=20, sends=-1), self.reserved(wait=20)
        assert self.rewrite(call, task_id="B") is False
        assert self.rewrite(sent) is False
        with shifted(21):
            assert self.rewrite(call) is False
        assert {self.row(call).message, self.row(sent).message} == {MESSAGE}

    def test_a_call_that_is_held_is_not_rewritten(self) -> None:
        call = self.reserved(wait=20, sends=-1)
        with self.open_transaction():
            assert self.store().hold(call) is True
            given = {"task_id": call.task_id, "message": NEWER}
            assert self.without_waiting(lambda side: side.rewrite(call.identity.digest, **given)) is None

    def test_a_call_that_waits_for_its_time_is_put_off(self) -> None:
        call, beside = self.reserved(wait=20, sends=-1), self.reserved(wait=20, sends=-1)
        with self.untouched(beside), self.sets(call, due_at=30):
            self.put_off(call, wait=30)

    def test_a_call_is_put_off_no_longer_than_was_said_since_it_was_made(self) -> None:
        call = self.reserved(wait=20, sends=-1)
        self.put_off(call, wait=1000, longest=40)
        row = self.row(call)
        assert row.due_at == row.created_at + timedelta(seconds=40)

    def test_no_call_is_put_forward(self) -> None:
        call = self.reserved(wait=500, sends=-1)
        with self.untouched(call):
            self.put_off(call, wait=30)

    def test_a_call_whose_time_has_come_is_not_put_off(self) -> None:
        sent, due = self.reserved(wait=20), self.reserved(wait=20, sends=-1)
        running = self.in_state(State.RUNNING, sends=-1).call
        with self.untouched(sent, due, running):
            self.put_off(sent, wait=1000)
            self.put_off(running, wait=1000)
            with shifted(21):
                self.put_off(due, wait=1000)

    def test_a_follow_up_is_put_off_as_well(self) -> None:
        claim, call = self.followed(wait=20)
        self.put_off(call, wait=30)
        row = self.next_of(claim)
        assert row is not None
        assert timedelta(seconds=30) <= row.due_at - row.created_at < timedelta(seconds=40)
        self.put_off(call, wait=1000, longest=60)
        row = self.next_of(claim)
        assert row is not None
        assert row.due_at - row.created_at == timedelta(seconds=60)

    def test_a_call_that_another_sender_holds_is_not_waited_for(self) -> None:
        call = self.reserved(wait=20, sends=-1)
        with self.open_transaction(), self.untouched(call):
            assert self.store().hold(call) is True
            self.without_waiting(lambda side: side.postpone(call.identity.digest, wait=30, longest=900))

    def rewrite(self, call: Call, *, task_id: str = "A") -> bool | None:
        """Whether the call got the newer message."""
        return self.store().rewrite(call.identity.digest, task_id=task_id, message=NEWER)

    def put_off(self, call: Call, *, wait: int, longest: int = 900) -> None:
        """Postpone what waits under the call's key."""
        self.store().postpone(call.identity.digest, wait=wait, longest=longest)
