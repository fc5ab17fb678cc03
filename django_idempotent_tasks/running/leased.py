"""Delivers a leased task: commits the claim first, then runs the body under a lease."""

from __future__ import annotations

import logging
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.db import Error as DatabaseError

from ..exceptions import OuterTransaction
from ..ledger import following
from ..ledger.rules import Step
from ..ledger.values import Call, Claim, Claimed, Grant, Outcome
from ..states import State
from .delivery import Delivery
from .leased_attempt import LeasedAttempt
from .settlement import Settlement

logger = logging.getLogger("django_idempotent_tasks")


class LeasedDelivery(Delivery):
    """Claims the key, then runs the body."""

    def _claim_and_run(self, call: Call, owner: str) -> Any:
        if self.in_transaction and not self.request.is_eager:
            msg = f"{self.task.name} is leased and cannot start inside an open transaction."
            raise OuterTransaction(msg)
        try:
            self.watch.begin()
            outcome = self._claim(call, owner)
            if isinstance(outcome, Claimed):
                return self._run(self._attempt(outcome.claim))
            return self._answer(call, outcome)
        except (SoftTimeLimitExceeded, SystemExit, KeyboardInterrupt) as error:
            return self._struck(call, owner, error)

    def _run(self, attempt: LeasedAttempt) -> Any:
        """Run the body; once all is committed, its batch learns of it, and its key goes to a follow-up."""
        try:
            return attempt.run(self.args, self.kwargs)
        finally:
            attempt.tell_batch()
            if self.ledger.policy.follows and not self.in_transaction:
                self._let_follow(attempt.claim)

    def _let_follow(self, claim: Claim) -> None:
        """Give the ended key to its follow-up; the sweeper does so where this fails."""
        try:
            following.promote(self.ledger.store, claim.digest, self.task.app, token=claim.token)
        except (DatabaseError, SoftTimeLimitExceeded) as error:
            logger.warning("%s: the sweeper gives its key to the follow-up (%r)", self.task.name, error)

    def _attempt(self, claim: Claim) -> LeasedAttempt:
        settlement = Settlement(
            self.task, self.request, self.ledger, claim, in_caller_transaction=self.in_transaction
        )
        return LeasedAttempt(settlement, self.watch)

    def _claim(self, call: Call, owner: str) -> Outcome:
        """Claim, and once more on a new connection; by its owner id a claim recognises its own row."""
        try:
            first = self._first_step()
            foreseen = self._foreseen(call, first)
            if foreseen is not None:
                return foreseen
            return self.ledger.claim(self._stored(call), owner=owner, first=first, place=self.place)
        except DatabaseError:
            if self.in_transaction:
                raise
            self.ledger.store.connection.close()
        try:
            return self.ledger.claim(self._stored(call), owner=owner, first=Step.WAIT)
        except DatabaseError as error:
            self._store_is_down(error)

    def _struck(self, call: Call, owner: str, error: BaseException) -> Any:
        """End the call that a signal struck: settle its claim, if the row shows an unsettled one."""
        if self.in_transaction:
            raise error
        is_polite = isinstance(error, SoftTimeLimitExceeded) and not self.request.is_eager
        try:
            self.ledger.store.connection.close()
            claim, doubt = self._unsettled(self._stored(call), owner, is_polite=is_polite)
        except DatabaseError as problem:
            if is_polite:  # Celery would acknowledge the message, and without a row the work be gone
                self._store_is_down(problem)
            raise error from problem  # the lease runs out
        if claim is None:
            raise error
        attempt = self._attempt(claim)
        attempt.doubt = doubt
        return attempt.end_by(error)

    def _unsettled(self, call: Call, owner: str, *, is_polite: bool) -> tuple[Claim | None, bool]:
        """The claim that a signal left unsettled, and whether it was inside ``external()``.

        After a soft time limit a key without a row is claimed, to be ended: Celery acknowledges the message.
        """
        entry = self.ledger.store.read(call.identity.digest, task_id=call.task_id)
        if entry is None and is_polite:
            outcome = self.ledger.claim(call, owner=owner, first=Step.INSERT)
            return (outcome.claim if isinstance(outcome, Claimed) else None), False
        if entry is None or entry.owner != owner or entry.state is not State.RUNNING:
            return None, False
        grant = Grant(entry.token, entry.generation, entry.attempts, entry.crashes, entry.reason)
        return Claim(call, owner, grant, self.policy.lease), entry.in_external
