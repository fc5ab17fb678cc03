"""Runs an atomic task's body in the transaction of its claim and completion, unseen before the commit."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from celery.exceptions import Ignore, Reject
from django.db import Error as DatabaseError
from django.db import InterfaceError, InternalError, OperationalError
from django.db.transaction import TransactionManagementError

from ..errors.raised import is_a, is_shutdown, message_of
from ..exceptions import LeaseLost, PermanentError
from ..ledger.atomic import ANY_TOKEN, AtomicLedger
from ..ledger.values import Answer
from ..messages.blame import Fault, fault_of
from ..messages.header import carried, carry
from ..states import Reason, State
from .atomic_settlement import AtomicSettlement
from .attempt import Attempt
from .conflicts import LIMIT, conflict_behind, is_decided, met_once_more, times_met, wait_after
from .context import Entered, announce_start
from .endings import struck_by
from .handlers import mark_answered
from .leftovers import Watch, refuse
from .replay import check_replacement, go_on, ignored, replacement_text, replay
from .reschedule import come_back

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds until a call claims again whose key another transaction holds.
PACE = 1.0


class _RollBack(Exception):
    """Raised inside the transaction so that nothing of the body is committed."""


class DatabaseGone(Exception):
    """The connection died inside the transaction, or the database refused the commit."""


class AtomicAttempt(Attempt):
    """One run of an atomic claim, which no other process sees before the commit."""

    settlement: AtomicSettlement
    ledger: AtomicLedger

    def __init__(self, settlement: AtomicSettlement, watch: Watch) -> None:
        settlement.seen = settlement.claim.token - 1
        super().__init__(settlement, watch)
        self.is_poison = self.claim.grant.crashes >= self.ledger.policy.max_crashes
        self.ignored: Ignore | None = None
        self.committing = False
        #: The conflict by which the database undid the transaction in favour of another one.
        self.conflict: BaseException | None = None
        #: The driver's connection on which the claim was made.
        self.driver = self.ledger.store.connection.connection
        #: The error that prevented the commit, or may have prevented it.
        self.error: BaseException | None = None

    def outside(self) -> NoReturn:
        """Refused: a rollback cannot take an effect outside the database back."""
        msg = "external() is for leased tasks: an atomic task cannot roll back effects outside the database."
        raise RuntimeError(msg)

    def completing(self) -> NoReturn:
        """Refused: the whole body is one transaction that completes the key."""
        msg = "complete() is for leased tasks. An atomic body is one transaction already: return the result."
        raise RuntimeError(msg)

    def step(self, *_given: object, **_named: object) -> NoReturn:
        """Refused: nothing of the body is kept before its end."""
        msg = 'step() is for leased tasks, and an atomic body is one step already. Set mode="leased".'
        raise RuntimeError(msg)

    @property
    def records(self) -> NoReturn:
        """Refused: the outcomes of records would be rolled back with the body."""
        msg = 'Batches are for leased tasks: each record has a transaction of its own. Set mode="leased".'
        raise RuntimeError(msg)

    def report(self, done: float, total: float | None = None, note: str = "") -> NoReturn:  # noqa: ARG002
        """Refused: nobody sees the row before the commit."""
        msg = 'progress() is for leased tasks: nobody sees an atomic body before it ends. Set mode="leased".'
        raise RuntimeError(msg)

    def run_inside(self, args: Any, kwargs: Any) -> None:
        """Run the body and complete the key, before the commit."""
        if self.is_poison:
            raise _RollBack
        with Entered(self):
            announce_start(self)
            self._body(args, kwargs)
        if self.captured is not None:  # self.retry(throw=False)
            raise _RollBack
        self._check_commits()
        self.committing = True
        self.ledger.complete_inside(self.claim, *self._outcome_inside(), secrets=self.settlement.secrets())

    def _outcome_inside(self) -> tuple[Any, Reason]:
        if self.ignored is None:
            return self.result, Reason.DONE
        return self.replacement, Reason.IGNORED if self.replacement is None else Reason.REPLACED

    def _check_commits(self) -> None:
        store = self.ledger.store
        if self.conflict is not None:
            msg = f"A conflict undid the transaction of {self.task.name}, and its body caught the error."
            raise TransactionManagementError(msg) from self.conflict
        problem = store.transaction_problem()
        if problem is None:
            return
        if store.has_ended() and not store.connection.closed_in_transaction:
            msg = f"The connection of {self.task.name} broke, and its body caught the error."
            raise OperationalError(msg)
        msg = f"The transaction of {self.task.name} cannot be committed: {problem}."
        raise TransactionManagementError(msg)

    def _body(self, args: Any, kwargs: Any) -> None:
        with self.ledger.store.connection.execute_wrapper(self._execute):
            try:
                self.result = self.task.idempotency_body(*args, **kwargs)
            except Ignore as ignored:
                self.ignored = ignored
            finally:
                left = self.watch.close()  # on other databases
                self._check_still_open()
                self._forget_undone_conflict()
            refuse(self.task.name, left)

    def _execute(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        """Run a statement only inside the transaction that has the claim, and note its conflict."""
        self._check_still_open()
        try:
            return execute(sql, params, many, context)
        except DatabaseError as error:
            self.conflict = conflict_behind(error) or self.conflict
            raise

    def _forget_undone_conflict(self) -> None:
        """Forget a conflict that a savepoint has undone; on MySQL a conflict ends the whole transaction."""
        store = self.ledger.store
        if self.conflict is not None and not store.confirms and store.transaction_problem() is None:
            self.conflict = None

    def _check_still_open(self) -> None:
        """Raise PermanentError where the body itself has sent COMMIT or ROLLBACK to the database."""
        store = self.ledger.store
        if self.conflict is not None:
            return  # the transaction may be over, and not by the body
        if not self.settlement.ended_inside:
            if store.connection.connection is None or not store.has_ended():
                return
            if not store.connection.is_usable():
                return  # closed or broken: Django and the driver refuse every further statement
            self.settlement.ended_inside = True
        msg = (
            f"The transaction of {self.task.name} was committed or rolled back by the body itself: what it"
            " writes and its key no longer commit together. Use mode='leased' for a body that commits."
        )
        raise PermanentError(msg)

    def replace(self, sig: Any, send: Callable[[Any], Any]) -> Any:
        """Send the replacement after the commit, or now where the row cannot keep it."""
        check_replacement(self.task, sig, self.claim, in_place=False)
        self.replacement, is_kept = replacement_text(self.task, sig)
        if is_kept:
            raise Ignore
        return send(sig)

    def outcome(self) -> Any:
        """The result after the transaction; raises what Celery has to see."""
        error, self.error = self.error, None
        if error is not None:
            return self._rolled_back_by(struck_by(error))
        return self._committed()

    def _committed(self) -> Any:
        if self.ignored is None:
            return self.result
        if self.replacement is None:
            raise ignored(self.task, self.ignored)
        return self._send_replacement(self.replacement)

    def _send_replacement(self, replacement: str) -> Any:
        """Send the replacement; while the broker is away this message goes back, and sends it later."""
        try:
            return go_on(self.task, replacement)
        except Exception as error:
            if fault_of(error, self.task.app.connection_for_write()) is not Fault.BROKER:
                raise
            time.sleep(random.uniform(0.2, 1.0))
            raise Reject(f"not replaced: {error!r}", requeue=True) from error

    def _rolled_back_by(self, error: BaseException) -> Any:
        # Django replaces a broken connection when the block is left, and reading the row below always does.
        broke = self.ledger.store.connection.connection is not self.driver
        # The answer to COMMIT may be lost, or a hook after the commit failed: the row tells.
        if self.committing and self.settlement.is_completed():
            self.completed = True
            if self.ignored is not None and not is_shutdown(error):
                return self._committed()
        elif self.ledger.store.confirms and self.settlement.seen != ANY_TOKEN:
            self.settlement.look_for_a_commit()  # else a signal struck, perhaps after our own commit
        try:
            if is_a(error, _RollBack):
                return self._poison_or_retry()
            if not self.completed:
                self._run_again(error)
                if self._is_of_the_database(error, broke=broke):
                    self._give_back(error, broke=broke)
            return self.ended_by(error)
        except LeaseLost:
            return self._superseded()

    def _poison_or_retry(self) -> Any:
        if self.is_poison:
            self.bury()
        self.settle_captured()
        return self.result

    def _run_again(self, error: BaseException) -> None:
        """Send the message once more where a conflict undid the transaction.

        At most LIMIT times: after that the task's own retry policy decides, and fails the call in the end.
        """
        conflict = None if is_decided(error) else self.conflict or conflict_behind(error)
        own = carried(vars(self.request), task_name=self.task.name, task_id=self.request.id)
        header = {} if own is None else own.header
        times = times_met(header)
        if conflict is None or self.in_caller_transaction or self.request.is_eager or times >= LIMIT:
            return
        logger.info("%s met a conflict and is run again: %s", self.task.name, message_of(conflict))
        self.settlement.release()
        carry(self.request, met_once_more(header))
        come_back(self.task, seconds=wait_after(times))

    def _is_of_the_database(self, error: BaseException, *, broke: bool) -> bool:
        """Whether the database went away or refused the commit; any other error is the body's own."""
        if self.in_caller_transaction:
            return False
        if broke and is_a(error, InternalError):  # PostgreSQL's time limits of a transaction
            return True
        return (self.committing or broke) and is_a(error, OperationalError, InterfaceError)

    def _give_back(self, error: BaseException, *, broke: bool) -> None:
        with suppress(DatabaseError):
            if broke:  # perhaps the server ended it for what the body does in its transaction
                self.settlement.crash(error)
            else:
                self.settlement.release()
        raise DatabaseGone from error

    def _superseded(self) -> Any:
        """Answer a call whose key another transaction took: with its result, or later."""
        mark_answered(self.request)
        if self.request.is_eager:
            raise self.settlement.lost()
        entry = self.settlement.row()
        call = self.claim.call
        if entry is not None and entry.state is State.SUCCEEDED and entry.task_id == call.task_id:
            return replay(self.task, Answer(entry.state, entry.reason, entry.result))
        return come_back(self.task, seconds=PACE)
