"""Ends a claim: writes its outcome to the ledger, again while the database is away, then publishes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, NoReturn

from celery.exceptions import SoftTimeLimitExceeded
from django.db import Error as DatabaseError
from django.db import OperationalError

from ..conf import settings
from ..errors.presented import presentable
from ..exceptions import LeaseLost, OuterTransaction, StoreDown
from ..ledger.encoding import storable
from ..ledger.failures import failure_of, masked
from ..ledger.ledger import Ledger
from ..ledger.stores.session import Session
from ..ledger.values import Claim, Entry, Failure
from ..messages.masking import sensitive_texts
from ..messages.message import Message
from ..messages.relay import relay
from ..states import Reason, State
from .categories import category_shown
from .leftovers import let_go
from .reschedule import give_back

logger = logging.getLogger("django_idempotent_tasks")

#: Ends a claim in a ledger; False when the claim no longer owns its key.
Verb = Callable[[Ledger, Claim], bool]

_SETTLED = frozenset({State.SUCCEEDED, State.RETRY, State.FAILED, State.REVIEW})


class Settlement:
    """The ways in which one claim can end.

    Each raises :class:`LeaseLost` when the claim is no longer the owner. While the database is away
    each tries again for one lease and then puts the message back (``Reject``; eagerly:
    :class:`StoreDown`): nothing is acknowledged whose end is not written.
    """

    def __init__(
        self, task: Any, request: Any, ledger: Ledger, claim: Claim, *, in_caller_transaction: bool
    ) -> None:
        self.task = task
        self.request = request
        self.ledger = ledger
        self.claim = claim
        self.in_caller_transaction = in_caller_transaction
        #: Whether an outcome was given to the ledger: whatever is raised from then on comes from there.
        self.began = False
        #: Whether the ledger has the end of the work itself, not only of this attempt.
        self.has_ended = False
        #: Whether that end is SUCCEEDED.
        self.has_completed = False

    def complete_once(self, value: Any) -> None:
        """Complete as one statement of the caller's own transaction, without a second try."""
        if not self._complete(value, Reason.DONE):
            raise self.lost()

    def complete(self, value: Any, reason: Reason = Reason.DONE) -> None:
        """SUCCEEDED with the value as the stored result."""
        self._settle(lambda: self._complete(value, reason))
        self.has_ended = self.has_completed = True

    def retry(self, message: Message, *, delay: float, error: BaseException | None = None) -> None:
        """RETRY, committed before the message is published: a broker that is down loses nothing."""
        failure = None if error is None else self._failure(error, Reason.RETRY_ASKED)
        text = None if self.ledger.policy.sensitive else message.encode(limit=settings().max_payload)
        eager = bool(self.request.is_eager)
        wait = 0 if eager else int(delay)  # rounded down: the copy must never arrive before it is due
        self._move(
            lambda ledger, claim: ledger.retry(
                claim, message=text or "", wait=wait, reason=Reason.RETRY_ASKED, failure=failure
            )
        )
        if not eager:
            self._publish(message, delay, stored=text is not None)

    def postpone(self, *, wait: int) -> None:
        """RETRY without a stored message: the delivered message goes back to its queue."""
        self._move(
            lambda ledger, claim: ledger.retry(claim, message=None, wait=wait, reason=Reason.RETRY_ASKED)
        )

    def release(self) -> None:
        """Give the key back when the worker is told to stop: the message's next delivery claims at once.

        If the message does not come back, the sweeper sends it as soon as after a silent death.
        """
        self.began = True
        try:
            self._prepare(0.0)
            self._carry(Ledger.release)
        except DatabaseError:
            logger.warning("%s: its key was not given back at shutdown; its lease runs out", self.task.name)

    def fail(self, error: BaseException, *, state: State, reason: Reason) -> None:
        """FAILED or REVIEW with the recorded error."""
        failure, shown = self._failure(error, reason), presentable(error)  # receivers may read it in any way
        self._move(
            lambda ledger, claim: ledger.fail(claim, shown, failure=failure, state=state, reason=reason)
        )
        self.has_ended = True

    def _failure(self, error: BaseException, reason: Reason) -> Failure:
        category = category_shown(error, reason)
        failure = failure_of(error, task=self.task.name, category=category, worker=self.request.hostname)
        return masked(failure, self.secrets())

    def enter_external(self, *, aside: bool) -> None:
        """Mark the row before an effect that must not be repeated.

        ``aside`` uses another connection, since a rollback of the body's transaction would undo the mark.
        """
        entered = self._enter_aside() if aside else self.ledger.store.enter_external(self.claim)
        if not entered:
            raise self.lost()

    def _enter_aside(self) -> bool:
        try:
            with self.ledger.store.side_connection() as side:
                return side.enter_external(self.claim)
        except OperationalError as error:
            msg = (
                f"{self.task.name}: external() could not be noted in the ledger beside the open transaction"
                f" ({error}). Call it outside of a transaction; on SQLite, which has one writer, you must."
            )
            raise OuterTransaction(msg) from error

    def is_completed(self) -> bool:
        """Whether the row shows that this claim completed; asked when the answer to COMMIT was lost.

        Reads on a new connection: on the old one a statement that a signal interrupted may still run.
        """
        if self.in_caller_transaction:
            return False
        try:
            self._reconnect()
            entry = self.row()
        except DatabaseError:
            return False
        return entry is not None and entry.state is State.SUCCEEDED and entry.owner == self.claim.owner

    def is_kept(self, name: str) -> bool:
        """Whether the ledger has this claim's value of a step: asked, as above, when an answer was lost.

        The row is read after the value: one that has still this token has had no other attempt.
        """
        if self.in_caller_transaction:
            return False
        try:
            self._reconnect()
            values, entry = self.ledger.store.step_values(self.claim), self.row()
        except DatabaseError:
            return False
        return name in values and entry is not None and entry.token == self.claim.token

    def row(self) -> Entry | None:
        """The key's row now."""
        return self.ledger.store.read(self.claim.digest, task_id=self.claim.call.task_id)

    def lost(self) -> LeaseLost:
        """The error of a refused settlement."""
        label = f"{self.task.name} {self.claim.call.identity.key_text!r}"
        return LeaseLost(f"{label}: another attempt has taken over; this one's completion was refused.")

    def _complete(self, value: Any, reason: Reason) -> bool:
        text, reason = storable(
            value,
            reason,
            keep=self.ledger.policy.store_result,
            limit=settings().max_result,
            secrets=self.secrets(),
        )
        return self.ledger.complete(self.claim, result=text, reason=reason)

    def secrets(self) -> list[str]:
        """The values of sensitive arguments, which no record of this call may quote."""
        return sensitive_texts(self.ledger.policy, self.request.args, self.request.kwargs)

    def _move(self, verb: Verb) -> None:
        self._settle(lambda: self._carry(verb))

    def _carry(self, verb: Verb) -> bool:
        """Apply a verb to the claim."""
        return verb(self.ledger, self.claim)

    def _settle(self, transition: Callable[[], bool]) -> None:
        """Carry out the transition, again while the database is away or when a signal struck in it."""
        self.began = True
        deadline = time.monotonic() + self.claim.lease
        pause = 0.0
        while True:
            try:
                self._prepare(pause)
                self._carry_out(transition, unsure=pause > 0)
            except DatabaseError as error:
                if self.in_caller_transaction:
                    raise
                if time.monotonic() > deadline:
                    self._give_up(error)
            except SoftTimeLimitExceeded:
                logger.warning("%s: its soft time limit struck while its claim was settled", self.task.name)
            except (SystemExit, KeyboardInterrupt):
                self._settle_at_shutdown(transition)
                raise
            else:
                return
            pause = min(pause * 2 or 0.1, 2.0)

    def _prepare(self, pause: float) -> None:
        """Open a new connection for a further try, after a pause, or where a transaction is left open."""
        if pause or self._is_left_open():
            self._reconnect()
            time.sleep(pause)

    def _is_left_open(self) -> bool:
        """Whether a signal since the body's end has left a transaction open: nothing would be committed."""
        if self.in_caller_transaction or self.request.is_eager:
            return False
        return self.ledger.store.session(at_any_cost=False) is not Session.IDLE

    def _carry_out(self, transition: Callable[[], bool], *, unsure: bool) -> None:
        """Try once. After an error, 0 rows may mean that an earlier try succeeded and its answer was lost."""
        if not transition() and not (unsure and self._is_settled()):
            raise self.lost()

    def _settle_at_shutdown(self, transition: Callable[[], bool]) -> None:
        """Try once more and no longer: the message comes back, to the outcome or to a lease that ends."""
        try:
            self._reconnect()
            transition()
        except DatabaseError:
            logger.warning("%s: a shutdown struck while its claim was settled", self.task.name)

    def _is_settled(self) -> bool:
        entry = self.row()
        if entry is None or entry.owner not in {None, self.claim.owner}:  # after a lost claim: the same token
            return False
        return entry.token == self.claim.token and entry.state in _SETTLED

    def _give_up(self, error: DatabaseError) -> NoReturn:
        msg = f"{self.task.name}: the ledger's database did not answer for a whole lease ({error})."
        if self.request.is_eager:
            raise StoreDown(msg) from error
        give_back(self.task, f"StoreDown: {msg}")

    def _reconnect(self) -> None:
        """Close the connection; a broken one stays broken in autocommit. The next statement opens one.

        Never the caller's, whose transaction would be lost without an error.
        """
        if not self.in_caller_transaction:
            let_go(self.ledger.store.connection, Session.UNREADY)

    def _publish(self, message: Message, delay: float, *, stored: bool) -> None:
        try:
            if stored:
                message.publish(self.task.app, countdown=delay)
            else:
                relay.replace(self.task.app, message, countdown=delay)
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            logger.warning("%s: its retry was not sent (%r); the sweeper sends it", self.task.name, error)
            if not stored:  # no sweeper could send it: keep the delivered message
                give_back(self.task, repr(error))
            self._send_failed()

    def _send_failed(self) -> None:
        try:
            self.ledger.store.send_failed(self.claim.digest, token=self.claim.token)
        except DatabaseError:
            logger.warning("%s: the sweeper sends its retry only after REPUBLISH_AFTER", self.task.name)
