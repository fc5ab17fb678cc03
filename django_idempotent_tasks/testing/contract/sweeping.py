"""Promises of ``sweep``: it frees what its owner left, and picks what is due to be sent."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ...ledger.stores.clock import shifted
from ...ledger.stores.upkeep import LONGEST
from ...ledger.values import Call, Claim, Due
from ...states import FINISHED, Reason, State
from .bench import LEASE, MESSAGE, REPUBLISH, Bench


class Sweeping(Bench):
    """The words of the promises about sweeps."""

    def sweep(
        self, *, bite: int = 100, calm: int = LONGEST, until: datetime | None = None
    ) -> dict[UUID, Due]:
        """One bite, by digest."""
        rows = self.store().sweep(bite=bite, republish=REPUBLISH, calm=calm, until=until)
        by_digest = {row.digest: row for row in rows}
        assert len(by_digest) == len(rows), "a row was swept twice"
        return by_digest

    def swept(self, claim: Claim) -> Due:
        """The change of this claim's key by one bite."""
        rows = self.sweep()
        assert claim.digest in rows, "the key was not swept"
        return rows[claim.digest]

    def due(self, state: State, **columns: Any) -> Claim:
        """A key in this state that the sweeper must look at now."""
        claim = self.in_state(state, **columns)
        self.in_columns(claim, due_at=self.now(claim) - timedelta(seconds=1))
        return claim


class FreedLeases(Sweeping):
    """A RUNNING key whose lease is over."""

    def test_a_sweep_without_anything_due_moves_nothing(self) -> None:
        assert self.sweep() == {}

    def test_a_living_lease_is_never_swept(self) -> None:
        claim = self.claimed()
        with self.untouched(claim):
            for seconds in (0, 20, LEASE - 10):
                with shifted(seconds):
                    assert self.sweep() == {}

    def test_an_expired_lease_is_freed_and_its_message_is_due_now(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1), self.sets(claim, open_at=0, due_at=REPUBLISH):
            row = self.swept(claim)
            assert self.seen(claim.call).is_open is True
        assert row == Due(claim.digest, 2, State.RETRY, 1, "shop.charge", len(MESSAGE), publish=True)
        entry = self.seen(claim.call)
        assert (entry.state, entry.reason, entry.owner) == (State.RETRY, Reason.OWNER_DIED, None)
        assert (entry.token, entry.attempts, entry.crashes) == (2, 1, 1)

    def test_a_lease_is_not_freed_before_the_ledger_has_answered_for_as_long(self) -> None:
        claim, short = self.claimed(), self.claimed(lease=LEASE - 50)
        with shifted(LEASE + 1):
            with self.untouched(claim):
                assert self.sweep(calm=LEASE - 50).keys() == {short.digest}
                assert self.sweep(calm=LEASE - 1) == {}
            assert self.sweep(calm=LEASE).keys() == {claim.digest}

    def test_what_waits_to_be_sent_does_not_wait_for_a_lease(self) -> None:
        claims = {self.due(state, open_at=None).digest for state in (State.PENDING, State.RETRY)}
        assert self.sweep(calm=0).keys() == claims

    def test_an_owner_that_was_freed_can_neither_settle_nor_renew(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            self.sweep()
            with self.untouched(claim):
                assert self.complete(claim) is False
                assert self.retry(claim) is False
                assert self.fail(claim) is False
                assert self.store().renew([claim]) == set()

    def test_a_freed_key_is_claimed_as_a_takeover_and_the_crash_counts_once(self) -> None:
        call = self.claimed().call
        with shifted(LEASE + 1):
            self.sweep()
            grant = self.taken_over(call).grant
        assert (grant.token, grant.attempts, grant.crashes) == (3, 2, 1)
        assert grant.reason is Reason.OWNER_DIED

    def test_after_each_later_crash_a_key_waits_twice_as_long_up_to_a_minute(self) -> None:
        for crashes, wait in ((1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 60), (7, 60), (300, 60)):
            claim = self.due(State.RUNNING, crashes=crashes)
            with self.sets(claim, open_at=wait, due_at=wait):
                row = self.swept(claim)
            assert (row.state, row.crashes, row.publish) == (State.RETRY, crashes + 1, False)

    def test_a_freed_key_is_sent_at_once_and_that_is_its_first_message(self) -> None:
        claim = self.due(State.RUNNING, sends=7)
        assert self.swept(claim).sends == 0

    def test_a_freed_key_that_waits_has_no_message_on_its_way(self) -> None:
        claim = self.due(State.RUNNING, crashes=1, sends=7)
        assert self.swept(claim).sends == -1
        with shifted(3):
            row = self.swept(claim)
        assert (row.publish, row.sends) == (True, 0)

    def test_what_waits_after_a_crash_is_sent_when_the_wait_is_over(self) -> None:
        claim = self.due(State.RUNNING, crashes=5)
        self.sweep()
        with shifted(10):
            assert self.sweep() == {}
        with shifted(33):
            assert self.swept(claim).publish is True

    def test_a_key_without_a_message_keeps_its_owner_open_to_whoever_comes_next(self) -> None:
        claim = self.claimed(self.call(message=None))
        with shifted(LEASE + 1):
            row = self.swept(claim)
            assert self.seen(claim.call).is_open is True
            assert self.sweep() == {}
        assert (row.token, row.state, row.crashes, row.publish) == (1, State.RUNNING, 0, False)
        assert self.seen(claim.call).owner == claim.owner
        with shifted(LEASE + 1):
            assert self.taken_over(claim.call).grant.crashes == 1

    def test_a_key_interrupted_inside_an_external_call_goes_to_review(self) -> None:
        for message in (MESSAGE, None):
            claim = self.in_state(State.RUNNING, self.call(message=message), in_external=True)
            with shifted(LEASE + 1):
                row = self.swept(claim)
            assert (row.token, row.state, row.publish) == (2, State.REVIEW, False)
            columns = self.row(claim)
            assert (columns.open_at, columns.due_at, columns.owner) == (None, None, None)
            assert (columns.reason, columns.message) == (Reason.OWNER_DIED, message)
            with shifted(10 * REPUBLISH):
                assert self.sweep() == {}


class SentAgain(Sweeping):
    """A RETRY or PENDING key that nobody has claimed in time."""

    def test_a_retry_is_sent_again_a_while_after_it_was_due_and_not_before(self) -> None:
        claim = self.claimed()
        self.retry(claim, wait=100)
        for seconds in (101, 100 + REPUBLISH - 50):
            with shifted(seconds), self.untouched(claim):
                assert self.sweep() == {}
        with shifted(100 + REPUBLISH + 1):
            row = self.swept(claim)
        assert row == Due(claim.digest, 1, State.RETRY, 0, "shop.charge", len(MESSAGE), publish=True, sends=1)

    def test_a_reservation_that_was_just_sent_is_not_an_orphan(self) -> None:
        claim = self.due(State.PENDING, open_at=None)
        with shifted(-LEASE), self.untouched(claim):
            assert self.sweep() == {}

    def test_a_reservation_that_never_arrived_is_sent_again(self) -> None:
        claim = self.due(State.PENDING, open_at=None)
        row = self.swept(claim)
        assert row == Due(
            claim.digest, 1, State.PENDING, 0, "shop.charge", len(MESSAGE), publish=True, sends=1
        )

    def test_sending_again_changes_neither_the_token_nor_when_the_key_is_open(self) -> None:
        for state in (State.PENDING, State.RETRY):
            claim = self.due(state)
            before = self.columns(claim)
            self.sweep()
            after = self.columns(claim)
            assert before is not None
            assert after is not None
            changed = {name for name in before if before[name] != after[name]}
            assert changed - {"owner"} == {"due_at", "sends"}

    def test_the_pause_between_two_sendings_doubles_up_to_an_hour(self) -> None:
        for sends, pause in ((0, 300), (1, 600), (2, 1200), (3, 2400), (4, 3600), (12, 3600), (500, 3600)):
            claim = self.due(State.PENDING, sends=sends, open_at=None)
            with self.sets(claim, due_at=pause):
                self.sweep()
            assert self.row(claim).sends == sends + 1

    def test_the_count_of_sendings_stops_at_what_its_column_holds(self) -> None:
        claim = self.due(State.PENDING, sends=32767, open_at=None)
        self.sweep()
        assert self.row(claim).sends == 32767

    def test_a_retry_without_a_message_is_not_sent(self) -> None:
        claim = self.due(State.RETRY, message=None, open_at=None)
        assert self.swept(claim).publish is False

    def test_a_finished_key_is_never_swept(self) -> None:
        claims = [self.due(state) for state in FINISHED]
        with self.untouched(*claims), shifted(10 * LEASE):
            assert self.sweep() == {}


class Bites(Sweeping):
    """One sweep is bounded, so that it never holds many rows for long."""

    def test_a_sweep_moves_at_most_one_bite_of_each_state(self) -> None:
        states = (State.RUNNING, State.RETRY, State.PENDING)
        claims = {state: [self.due(state) for _ in range(3)] for state in states}
        for expected in (2, 1, 0):
            swept = self.sweep(bite=2)
            for state in states:
                digests = {claim.digest for claim in claims[state]}
                assert len(digests & swept.keys()) == expected

    def test_a_sweep_leaves_what_is_due_since_it_began(self) -> None:
        states = (State.RUNNING, State.RETRY, State.PENDING)
        early, late = ([self.due(state) for state in states] for _ in range(2))
        for claim in late:
            self.in_columns(claim, due_at=self.now(claim))
        until = self.now(early[0]) - timedelta(milliseconds=500)
        for claim in late:
            self.in_columns(claim, due_at=until + timedelta(milliseconds=2))
        for claim in early:
            self.in_columns(claim, due_at=until)
        with self.untouched(*late):
            assert self.sweep(until=until).keys() == {claim.digest for claim in early}
        with shifted(1):
            assert self.sweep().keys() == {claim.digest for claim in late}

    def test_a_message_is_read_for_the_token_that_is_named_and_no_other(self) -> None:
        odd = '{"v": "\u20ac\u00e4"}'
        held, mute, other = (
            self.claimed(),
            self.claimed(self.call(message=None)),
            self.claimed(self.call(message=odd)),
        )
        tokens = {claim.digest: claim.token for claim in (held, mute, other)}
        store = self.store()
        assert store.messages(tokens) == {held.digest: MESSAGE, other.digest: odd}
        assert store.messages({**tokens, held.digest: held.token + 1}) == {other.digest: odd}
        assert store.sizes(list(tokens)) == {held.digest: len(MESSAGE), other.digest: len(odd.encode())}
        assert (store.messages({}), store.sizes([])) == ({}, {})

    def test_a_sweep_takes_what_has_waited_longest(self) -> None:
        late = self.claimed()
        with shifted(-LEASE):
            early = self.claimed()
        with shifted(LEASE + 1):
            assert self.sweep(bite=1).keys() == {early.digest}
            assert self.sweep(bite=1).keys() == {late.digest}


class EarlyMessages(Sweeping):
    """A call whose message is out, and most likely lost, is made due before its time."""

    def test_a_call_whose_message_is_out_is_made_due_now_and_its_next_message_counts(self) -> None:
        call, retry = self.reserved(), self.claimed()
        assert self.retry(retry, wait=0)
        for key, digest in ((call, call.identity.digest), (retry, retry.digest)):
            with self.sets(key, due_at=0):
                assert self.store().hasten(digest, token=self.row(key).token) is True
            assert self.sweep()[digest].sends == 1

    def test_nothing_else_is_made_due(self) -> None:
        moved, unsent, due = self.reserved(), self.reserved(sends=-1), self.reserved(wait=0)
        for key in (moved, unsent, due, self.claimed(), self.completed()):
            token = self.row(key).token + (key is moved)
            digest = key.identity.digest if isinstance(key, Call) else key.digest
            with self.untouched(key):
                assert self.store().hasten(digest, token=token) is False
