"""Atomic runs: claim, body and completion in one transaction; nothing is visible before its commit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any

from celery.exceptions import Ignore, SoftTimeLimitExceeded
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, transaction
from django.db.transaction import TransactionManagementError

from .atomic_ledger import ANY_TOKEN, AtomicLedger, Recorded
from .attempt import Attempt, Handle
from .conf import settings
from .context import Done, entered
from .delivery import Delivery
from .endings import struck_by
from .exceptions import LeaseLost
from .ledger import Claimed, Refusal, Waiting
from .message import Message
from .outcomes import Call, Claim, Grant
from .reschedule import come_back
from .results import decode_result
from .settlement import Settlement, Verb
from .states import Reason, State
from .verdict import Step

logger = logging.getLogger("django_idempotent_tasks")

#: How often a transaction is begun whose claim the database refuses (a dead connection, a conflict of
#: isolation), before the message goes back. Nothing of the body has run then.
TRIES = 3
#: Seconds until a call asks again whose key another transaction has.
PACE = 1.0

_STARTS = frozenset({Step.INSERT, Step.OPEN, Step.REOPEN})


class _Undone(Exception):
    """The body is not to be committed."""


class _DatabaseGone(Exception):
    """The connection died under the transaction."""


class AtomicHandle(Handle):
    """What an atomic body sees."""

    def complete(self) -> AbstractContextManager[Done]:
        """Refused: the whole body is that transaction."""
        msg = "complete() is for leased tasks. An atomic body is one transaction already: return the result."
        raise RuntimeError(msg)


class AtomicSettlement(Settlement):
    """The ways in which an attempt ends whose transaction was rolled back: recorded after it."""

    ledger: AtomicLedger
    #: The token of the row before this attempt.
    seen: int

    def release(self) -> None:
        """Take a counted start back; another one has left nothing that could be given back."""
        if self.ledger.counted is not None:
            super().release()

    def crash(self) -> None:
        """Count a connection that died under the body, as a worker that did; a counted start was before."""
        if self.ledger.counted is None:
            self._carry(self._die)

    def _die(self, claim: Claim) -> bool:
        republish = settings().republish_after
        return self.ledger.store.free_dead(claim.digest, owner_prefix=claim.owner, republish=republish)

    def _carry(self, verb: Verb) -> bool:
        call = replace(self.claim.call, message=self._message())
        with self._outside() as ledger:
            recorded = ledger.record(call, owner=self.claim.owner, seen=self.seen, settle=verb)
        return recorded is Recorded.DONE

    def _message(self) -> str | None:
        """Only here is it needed: a body that commits leaves none."""
        if self.ledger.policy.sensitive or self.request.is_eager:
            return None
        return Message.of_request(self.task, self.request).encode(limit=settings().max_payload)

    @contextmanager
    def _outside(self) -> Iterator[AtomicLedger]:
        """The ledger on a connection whose transaction the failed body does not end."""
        if not self.in_caller_transaction or self.request.is_eager:
            yield self.ledger
            return
        with self.ledger.store.side_connection() as store:
            yield replace(self.ledger, store=store)


class AtomicAttempt(Attempt):
    """The run of a claim that nobody else sees."""

    settlement: AtomicSettlement
    ledger: AtomicLedger

    def __init__(self, task: Any, ledger: AtomicLedger, claim: Claim, *, in_caller_transaction: bool) -> None:
        settlement = AtomicSettlement(task, ledger, claim, in_caller_transaction=in_caller_transaction)
        settlement.seen = claim.token - 1
        super().__init__(task, ledger, claim, settlement, in_caller_transaction=in_caller_transaction)
        self.handle = AtomicHandle(self)
        self.is_poison = claim.grant.crashes >= ledger.policy.max_crashes
        self.ignored: Ignore | None = None
        self.committing = False
        #: What kept the transaction from its commit, or may have.
        self.error: BaseException | None = None

    def run_inside(self, args: Any, kwargs: Any) -> None:
        """Run the body and complete the key, before the commit."""
        if self.is_poison:
            raise _Undone
        with entered(self):
            self._body(args, kwargs)
        if self.captured is not None:  # self.retry(throw=False)
            raise _Undone
        problem = self.ledger.store.transaction_problem()
        if problem is not None:
            msg = f"The transaction of {self.task.name} cannot be committed: {problem}."
            raise TransactionManagementError(msg)
        self.committing = True
        reason = Reason.IGNORED if self.ignored is not None else Reason.DONE
        self.ledger.complete_inside(self.claim, self.result, reason)

    def _body(self, args: Any, kwargs: Any) -> None:
        try:
            self.result = self.task.run(*args, **kwargs)
        except Ignore as ignored:
            self.ignored = ignored

    def outcome(self) -> Any:
        """After the transaction: the result, or what Celery has to see is raised."""
        error, self.error = self.error, None
        if error is not None:
            return self._undone_by(struck_by(error))
        if self.ignored is not None:
            raise self.ignored
        return self.result

    def _undone_by(self, error: BaseException) -> Any:
        # It may be the answer to COMMIT that was lost, or a hook after it that failed: the row knows.
        if self.committing and self.settlement.is_completed():
            self.completed = True
        try:
            if isinstance(error, _Undone):
                return self._taken_back()
            if not self.completed and self._is_of_the_connection(error):
                self._give_back(error)
            return self.ended_by(error)
        except LeaseLost:
            return self._superseded()

    def _taken_back(self) -> Any:
        if self.is_poison:
            self.bury()
        self.settle_captured()
        return self.result

    def _is_of_the_connection(self, error: BaseException) -> bool:
        """Whether the ledger's database went away; what a body makes of other errors is its own."""
        if self.in_caller_transaction or not isinstance(error, OperationalError | InterfaceError):
            return False
        return self.committing or self.ledger.store.connection.connection is None

    def _give_back(self, error: BaseException) -> None:
        with suppress(DatabaseError):
            if self.committing:
                self.settlement.release()
            else:
                self.settlement.crash()
        raise _DatabaseGone from error

    def _superseded(self) -> Any:
        """Another transaction has or had the key: what it completed is this call's result too."""
        if self.request.is_eager:
            raise self.settlement.lost()
        entry = self.settlement.row()
        call = self.claim.call
        if entry is not None and entry.state is State.SUCCEEDED and entry.task_id == call.task_id:
            return decode_result(entry.result)
        return come_back(self.task, seconds=PACE)


class AtomicDelivery(Delivery):
    """Claim and run in one transaction."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.atomic_ledger = AtomicLedger(self.ledger.store, self.policy)

    def _claim_and_run(self, call: Call, owner: str) -> Any:
        try:
            ran = self._tried(call, owner)
        except (SoftTimeLimitExceeded, SystemExit, KeyboardInterrupt) as error:
            return self._struck(call, owner, error)
        if not isinstance(ran, AtomicAttempt):
            return self._answer(call, ran)
        return self._outcome(ran)

    def _outcome(self, attempt: AtomicAttempt) -> Any:
        try:
            return attempt.outcome()
        except _DatabaseGone as gone:
            self._store_is_down(gone.__cause__)

    def _tried(self, call: Call, owner: str) -> AtomicAttempt | Refusal:
        """One transaction, begun again while the database refuses its claim."""
        first = self._first_step()
        for left in reversed(range(TRIES)):
            try:
                return self._counted(call, owner) or self._transaction(call, owner, first)
            except DatabaseError as error:
                if self.in_transaction:
                    raise
                self.ledger.store.connection.close()
                if not left:
                    self._store_is_down(error)
            first = Step.WAIT
        raise AssertionError  # the last round returns or raises

    def _transaction(self, call: Call, owner: str, first: Step) -> AtomicAttempt | Refusal:
        attempt: AtomicAttempt | None = None
        alias = self.ledger.store.connection.alias
        try:
            with transaction.atomic(using=alias, durable=not self.in_transaction):
                outcome = self.atomic_ledger.claim(call, owner=owner, first=first)
                if not isinstance(outcome, Claimed):
                    return outcome
                attempt = self._attempt(outcome.claim)
                attempt.run_inside(self.args, self.kwargs)
        except BaseException as error:
            if attempt is None:
                raise
            attempt.error = error  # of the body or the commit: settled now that the transaction is over
        return attempt

    def _attempt(self, claim: Claim) -> AtomicAttempt:
        return AtomicAttempt(self.task, self.atomic_ledger, claim, in_caller_transaction=self.in_transaction)

    def _counted(self, call: Call, owner: str) -> Refusal | None:
        """Before a redelivered copy starts, count that start; what it gets if it cannot start."""
        if not self._is_redelivered() or self.in_transaction or self.atomic_ledger.counted is not None:
            return None
        entry, verdict = self.atomic_ledger.look(call, owner)
        if verdict.step not in _STARTS:
            return self.atomic_ledger.refusal(verdict, entry, call)
        token = self.atomic_ledger.count_start(self._stored(call), entry)
        if token is None:
            return Waiting(PACE)
        self.atomic_ledger = replace(self.atomic_ledger, counted=token)
        return None

    def _struck(self, call: Call, owner: str, error: BaseException) -> Any:
        """A signal struck before the body began: the call ends as if it had struck at its first line."""
        if self.in_transaction:
            raise error
        attempt = self._attempt(Claim(call, owner, Grant(0, 1, 0, 0, Reason.NONE), self.policy.lease))
        attempt.settlement.seen, attempt.error = ANY_TOKEN, error
        return self._outcome(attempt)
