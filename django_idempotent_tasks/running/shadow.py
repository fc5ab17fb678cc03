"""Shadow mode: a body runs as under plain Celery, and the ledger notes which calls the guard would refuse."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar
from uuid import NAMESPACE_OID, uuid5

from celery.exceptions import SoftTimeLimitExceeded
from django.db import Error as DatabaseError

from .. import signals
from ..conf.options import Policy
from ..exceptions import KeyMismatch, KeyReused
from ..identity.key import Identity
from ..identity.text import for_people
from ..ledger import rules
from ..ledger.misnamed import Misnamed
from ..ledger.owner import new_owner
from ..ledger.rules import SHADOW, Step
from ..ledger.shadow import ShadowLedger
from ..ledger.values import Answer, Answered, Call, Outcome, OutOfDate, Refused, Waiting
from ..messages.header import is_unkeyed
from ..signals import announce
from ..states import Reason, State
from .delivery import Delivery
from .shadow_attempt import ShadowAttempt

T = TypeVar("T")

logger = logging.getLogger("django_idempotent_tasks")

#: Mark in the identity's header of a retry that its call was noted: it is one call, however often it runs.
NOTED = "noted"
#: Seconds for which a process leaves a ledger alone that has failed: bodies are not to wait for it.
REST = 5.0
#: Seconds within which a connection that has died says so: what takes longer is not tried again.
AT_ONCE = 1.0
#: Above zero from a failure of the ledger until it answers again.
_rests_until = 0.0


def observe(task: Any, request: Any, policy: Policy, args: Any, kwargs: Any) -> Any:
    """Run the body. What it returns or raises is Celery's, whatever the ledger answers or raises."""
    delivery = ShadowDelivery(task, request, policy, args, kwargs)
    with delivery.watch.as_the_callers():
        return delivery.perform()


class ShadowDelivery(Delivery):
    """One message whose body runs in any case; its key is claimed beside, so that duplicates are known."""

    kind = ShadowLedger
    #: Whether the call has a key: without one the ledger is not asked.
    has_key = True
    has_ended = False
    #: Whether it was told that the ledger is away: once of each call.
    is_away_told = False

    def perform(self) -> Any:
        """Run the body between a claim and its end, neither of which decides anything."""
        call = self._known()
        outcome = None if NOTED in self.header else self._first_claim(call)
        attempt = ShadowAttempt(self.task, self.ledger, call, outcome, in_transaction=self.in_transaction)
        try:
            with attempt.running():
                value = self.task.idempotency_body(*self.args, **self.kwargs)
        except BaseException as error:
            ended = error  # the clause's own name is unbound at its end
            self._settle(call, attempt, lambda: attempt.failed(ended))
            raise
        self._settle(call, attempt, lambda: attempt.returned(value))
        return value

    def _known(self) -> Call:
        """The delivered call, or a stand-in for one that has no key, which is noted."""
        reason: object = "it was sent without one"
        try:
            if not is_unkeyed(vars(self.request)):
                return self._call()
        except SoftTimeLimitExceeded:
            raise
        except Exception as error:  # noqa: BLE001  a key function may raise anything
            reason = error
        logger.warning("%s runs without a key, which the guard would refuse: %s", self.task.name, reason)
        self.has_key = False
        task_id = str(self.request.id)
        digest = uuid5(NAMESPACE_OID, repr((self.task.name, task_id)))
        call = Call(Identity(digest, None, for_people(task_id), None), self.task.name, task_id, None)
        self._tell(call, rules.INVALID_KEY, "")
        return call

    # -- the ledger, which may fail --

    def _tried(self, call: Call, work: Callable[[], T], again: Callable[[], T] | None = None) -> T | None:
        """What ``work`` gives; None where the ledger fails, which is noted. A stop of the process goes on.

        On a connection that has died ``work`` fails at once; then ``again``, or ``work``, gets a new one.
        """
        if not self.has_key:
            return None
        if time.monotonic() < _rests_until:
            self._tell_away(call)
            return None
        aside = self._in_savepoint if self.in_transaction else self._on_a_living_connection
        return self._safely(call, lambda: aside(work, again or work))

    def _safely(self, call: Call, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except SoftTimeLimitExceeded:
            if not self.has_ended:
                raise  # before the body, as in its first line
            logger.warning("%s: its soft time limit struck after its end", self.task.name)
        except Exception as error:  # noqa: BLE001  nothing of the ledger's may stop or fail a body
            self._failed(call, error)
        return None

    def _in_savepoint(self, work: Callable[[], T], _again: Callable[[], T]) -> T:
        """In the caller's transaction, which a failing statement would end."""
        with self.ledger.store.together():
            return work()

    def _on_a_living_connection(self, work: Callable[[], T], again: Callable[[], T]) -> T:
        """For a few seconds at most: a server that is silent fails no sooner by itself."""
        global _rests_until  # noqa: PLW0603  one ledger a process
        store, began = self.ledger.store, time.monotonic()
        if _rests_until and store.connection.connection is None:
            with store.side_connection():  # which gives up soon where nobody answers
                pass
        try:
            with store.bounded():
                found = work()
        except DatabaseError:
            if time.monotonic() - began >= AT_ONCE:
                raise
            store.connection.close()
            with store.bounded():
                found = again()
        _rests_until = 0.0
        return found

    def _failed(self, call: Call, error: Exception) -> None:
        global _rests_until  # noqa: PLW0603  one ledger a process
        logger.warning("%s: the ledger could not note its call (%r); its body runs", self.task.name, error)
        if not self.in_transaction:
            _rests_until = time.monotonic() + REST
            self.ledger.store.connection.close()
        self._tell_away(call)

    def _tell_away(self, call: Call) -> None:
        if not self.is_away_told:
            self.is_away_told = True
            self._tell(call, rules.STORE_DOWN, "")

    # -- the claim --

    def _first_claim(self, call: Call) -> Outcome | None:
        """Claim the key; by its owner id the second try recognises what the first has claimed."""
        owner = new_owner()
        return self._tried(
            call,
            lambda: self._claim_and_run(call, owner),
            lambda: self._claimed(call, owner, Step.WAIT),
        )

    def _claim_and_run(self, call: Call, owner: str) -> Any:
        """Claim the key only: the body runs in any case. Nothing is stored that could be sent again."""
        if not self.in_transaction:
            self.watch.begin()
        return self._claimed(call, owner, self._first_step())

    def _claimed(self, call: Call, owner: str, first: Step) -> Outcome:
        outcome = self._claim(call, owner, first)
        self._note(call, outcome)
        return outcome

    def _claim(self, call: Call, owner: str, first: Step) -> Outcome:
        place = SHADOW if self.place else ""
        try:
            return self.ledger.claim(call, owner=owner, first=first, place=place)
        except Misnamed as found:
            return self.ledger.claim(self._renamed(call, found), owner=owner, first=Step.WAIT)
        except KeyReused as error:
            reason = rules.MISMATCH if isinstance(error, KeyMismatch) else rules.KEY_REUSED
            return Refused(reason, "", Answer(State.PENDING, Reason.NONE, None), None)

    def _note(self, call: Call, outcome: Outcome) -> None:
        match outcome:
            case Refused() as refused:
                self._would_refuse(call, refused.reason, refused.holder, is_noted=refused.is_noted)
            case Answered(answer):
                is_cancelled = answer.state is State.CANCELLED
                reason = rules.CANCELLED if is_cancelled else rules.REDELIVERED
                self._would_refuse(call, reason, call.task_id)
            case OutOfDate():
                self._would_refuse(call, rules.OUT_OF_DATE, call.task_id)

    def _would_refuse(self, call: Call, reason: str, holder: str, *, is_noted: bool = False) -> None:
        if not is_noted:
            self.ledger.store.record_duplicate(call, place=SHADOW, reason=reason)
        self.travels_as({**self.header, NOTED: True})
        self._tell(call, reason, holder, using=self.ledger.store.connection.alias)

    def _tell(self, call: Call, reason: str, holder: str, using: str | None = None) -> None:
        told = {"call": call, "reason": reason, "holder": holder}
        announce(signals.would_refuse, sender=self.task.name, using=using, **told)

    # -- the end --

    def _settle(self, call: Call, attempt: ShadowAttempt, settle: Callable[[], None]) -> None:
        """End the claim; a call that had to wait for its key looks once more, now that its body has ended."""
        self.has_ended = True
        if self.has_key and not self.request.is_eager:  # what is left open would commit nothing
            self._safely(call, self.watch.close)
        if isinstance(attempt.outcome, Waiting):
            attempt.take(self._tried(call, lambda: self._looked_again(call)))
        if attempt.is_owner:
            self._tried(call, settle)

    def _looked_again(self, call: Call) -> Outcome:
        return self._claimed(replace(call, turn=None), new_owner(), Step.WAIT)
