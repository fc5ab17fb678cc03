"""Promises about turns: a message of an earlier turn of its call runs nothing."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from ...conf import settings
from ...identity.key import Identity
from ...ledger.values import Call
from ...messages.message import HEADER, Message
from ...messages.turns import FIRST, REDRIVEN, Turn
from ...states import State
from .bench import LEASE, WINDOW
from .decisions import Decisions

RETRY: Turn = (0, 0, 2)
REDRIVE: Turn = (4, 0, 0)
REPLACED: Turn = (0, 1, 0)


def message_of(turn: Turn) -> str:
    """A stored message of this turn."""
    redrive, nesting, retries = turn
    header = {REDRIVEN: redrive} if redrive else {}
    options = {"headers": {HEADER: header}, "replaced_task_nesting": nesting, "retries": retries}
    text = Message("shop.charge", ["7"], {}, options).encode(limit=1000)
    assert text is not None
    return text


def of_turn(call: Call, turn: Turn) -> Call:
    """The same call, delivered by a message of this turn."""
    identity: Identity = call.identity
    return Call(identity, call.task, call.task_id, call.message, turn=turn)


class OfOneTurn(Decisions):
    """A message that is out of date runs nothing, and a redrive is not forgotten."""

    def test_a_row_tells_the_turn_of_its_message(self) -> None:
        for turn in (FIRST, RETRY, REDRIVE, REPLACED):
            assert self.seen(self.reserved(self.call(message=message_of(turn)))).turn == turn
        assert self.seen(self.reserved(self.call(message=None))).turn is None

    def test_a_reservation_is_claimed_unseen_by_a_message_of_its_own_turn_only(self) -> None:
        for turn in (FIRST, RETRY, REDRIVE, REPLACED):
            for delivered in (FIRST, RETRY, REDRIVE, REPLACED):
                call = of_turn(self.reserved(self.call(message=message_of(turn))), delivered)
                grant = self.store().claim_reserved(call, owner="w:1:x", lease=LEASE)
                assert (grant is not None) == (delivered == turn)

    def test_what_may_not_be_stored_is_claimed_by_every_message(self) -> None:
        call = of_turn(self.reserved(self.call(message=None)), FIRST)
        assert self.store().claim_reserved(call, owner="w:1:x", lease=LEASE) is not None

    def test_a_cancelled_key_keeps_the_message_of_a_redrive_and_no_other(self) -> None:
        for turn, is_kept in ((FIRST, False), (RETRY, False), (REDRIVE, True)):
            for cancel in self.ways_to_cancel():
                call = self.reserved(self.call(uuid4().hex, message=message_of(turn)))
                assert cancel(call)
                row = self.row(call)
                assert (row.state, row.message is not None) == (State.CANCELLED, is_kept)
                assert row.due_at is not None
                assert row.finished_at is not None
                kept = max(WINDOW, settings().dead_letter_retention) if is_kept else WINDOW
                assert abs((row.due_at - row.finished_at).total_seconds() - kept) < 1

    def ways_to_cancel(self) -> tuple[Callable[[Call], object], ...]:
        """Each of the verbs."""
        store = self.store()
        return (
            lambda call: store.cancel(call.identity.digest, window=WINDOW),
            lambda call: store.cancel_waiting([call.task_id], window=WINDOW),
            lambda call: store.expire(call.identity.digest, task_id=call.task_id, window=WINDOW),
        )
