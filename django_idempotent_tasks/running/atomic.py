"""Delivers an atomic task: claim and body are one transaction, begun again while the claim fails."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.db import Error as DatabaseError
from django.db import transaction

from ..ledger.atomic import ANY_TOKEN, AtomicLedger
from ..ledger.rules import Step
from ..ledger.values import Call, Claim, Claimed, Grant, Refusal, Waiting
from ..messages.message import AGAIN
from ..states import Reason
from .atomic_attempt import PACE, AtomicAttempt, DatabaseGone
from .atomic_settlement import AtomicSettlement
from .delivery import Delivery
from .endings import struck_by

#: How often a transaction is begun before the message goes back, while the database refuses its claim (a
#: dead connection, a conflict of isolation). Nothing of the body has run then.
TRIES = 3

_STARTS = frozenset({Step.INSERT, Step.OPEN, Step.REOPEN})


class AtomicDelivery(Delivery):
    """Claims the key and runs the body in one transaction."""

    kind = AtomicLedger
    ledger: AtomicLedger

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.watch.leave(self.ledger.store.connection.alias)

    def _claim_and_run(self, call: Call, owner: str) -> Any:
        try:
            self.watch.begin()
            ran = self._tried(call, owner)
        except (SoftTimeLimitExceeded, SystemExit, KeyboardInterrupt) as error:
            return self._struck(call, owner, error)
        if not isinstance(ran, AtomicAttempt):
            return self._answer(call, ran)
        return self._outcome(ran)

    def _outcome(self, attempt: AtomicAttempt) -> Any:
        try:
            return attempt.outcome()
        except DatabaseGone as gone:
            self._store_is_down(gone.__cause__)

    def _tried(self, call: Call, owner: str) -> AtomicAttempt | Refusal:
        """Run the transaction, and begin it again while the database refuses its claim."""
        first = step = self._first_step()
        for left in reversed(range(TRIES)):
            try:
                refusal = self._counted(call, owner) or self._foreseen(call, first)
                return refusal or self._transaction(call, owner, step)
            except DatabaseError as error:
                if self.in_transaction:
                    raise
                if (struck := struck_by(error)) is not error:
                    raise struck from error
                self.ledger.store.connection.close()
                if not left:
                    self._store_is_down(error)
            step = Step.WAIT
        raise AssertionError  # the last round returns or raises

    def _transaction(self, call: Call, owner: str, first: Step) -> AtomicAttempt | Refusal:
        attempt: AtomicAttempt | None = None
        try:
            with self._begun():
                outcome = self.ledger.claim(call, owner=owner, first=first, place=self.place)
                if not isinstance(outcome, Claimed):
                    return outcome
                attempt = self._attempt(outcome.claim)
                attempt.run_inside(self.args, self.kwargs)
        except BaseException as error:
            if attempt is None:
                raise
            attempt.error = error  # of the body or the commit: outcome() settles it after the transaction
        return attempt

    def _begun(self) -> AbstractContextManager[Any]:
        """The transaction of claim, body and completion, or a savepoint in the caller's."""
        store = self.ledger.store
        if self.in_transaction:
            return store.together()
        return transaction.atomic(using=store.connection.alias, durable=True)

    def _attempt(self, claim: Claim) -> AtomicAttempt:
        settlement = AtomicSettlement(
            self.task, self.request, self.ledger, claim, in_caller_transaction=self.in_transaction
        )
        return AtomicAttempt(settlement, self.watch)

    def _counted(self, call: Call, owner: str) -> Refusal | None:
        """Count the start of a redelivered message before it runs; its refusal where it must not run."""
        if not self._is_redelivered() or self.in_transaction or self.ledger.counted is not None:
            return None
        self._mark_copies()
        entry, verdict = self.ledger.look(call, owner)
        if verdict.step not in _STARTS:
            return self.ledger.refusal(verdict, entry, call)
        token = self.ledger.count_start(self._stored(call), entry)
        if token is None:
            return Waiting(PACE)
        self.ledger = replace(self.ledger, counted=token)
        return None

    def _mark_copies(self) -> None:
        """Mark copies of this message as redeliveries, so that their starts are counted too."""
        self.travels_as({**self.header, AGAIN: True})

    def _struck(self, call: Call, owner: str, error: BaseException) -> Any:
        """End a call that a signal struck before its body began, as if in the body's first line."""
        if self.in_transaction:
            raise error
        attempt = self._attempt(Claim(call, owner, Grant(0, 1, 0, 0, Reason.NONE), self.policy.lease))
        attempt.settlement.seen, attempt.error = ANY_TOKEN, error
        return self._outcome(attempt)
