"""Reserves a call: writes its row in the caller's transaction, and sends its message after the commit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.db import Error as DatabaseError
from django.db import transaction
from django.db.transaction import TransactionManagementError

from ..conf import settings
from ..conf.options import Policy
from ..exceptions import ConfigurationError, DuplicateTask
from ..ledger.ledger import Ledger
from ..ledger.rules import COMPLETED, FAILED, IN_PROGRESS, IN_REVIEW
from ..ledger.stores import get_store
from ..ledger.stores.session import Session, session_of
from ..ledger.values import Call, Refused
from ..messages.address import delay_of
from ..messages.header import RESERVED, Carried, is_in_canvas
from ..messages.message import Message
from ..messages.relay import relay
from ..states import State
from .result import AcceptedResult, accepted_result
from .submission import Submission

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds: a call with an ETA further away waits in the ledger, and not with the broker.
FAR = 300

#: Why a call that has ended is not accepted when it is sent again.
_ENDS = {
    State.SUCCEEDED: COMPLETED,
    State.FAILED: FAILED,
    State.REVIEW: IN_REVIEW,
    State.CANCELLED: "cancelled",
}

#: Options that keep a call from SYNC_FALLBACK: running it in the caller would drop what follows it.
_FOLLOWED = ("chord", "chain", "group_id", "link", "link_error")


def runs_here() -> bool:
    """Whether ``SYNC_FALLBACK`` has callers run what they send; a function there is asked at every call."""
    choice = settings().sync_fallback
    return bool(choice()) if callable(choice) else choice


def run_here(task: Any, message: Message) -> Any:
    """Run a call as it would have arrived; its ETA is not waited for. Returns Celery's EagerResult.

    Not for a message with a chain or a chord: Celery's ``apply`` would drop what follows.
    """
    message = message.started()
    return task.apply(list(message.args), dict(message.kwargs), **message.options)


class Reservation:
    """One call on its way in. ``message`` is what Celery would publish now, stamped by its sender."""

    def __init__(self, task: Any, policy: Policy, message: Message, own: Carried) -> None:
        self.task = task
        self.task_id = str(message.options["task_id"])
        self.identity, self.header = own
        #: Whether a canvas waits for this call, which is then sent even as a duplicate.
        self.is_in_canvas = is_in_canvas(self.header)
        self.ledger = Ledger(get_store(), policy)
        self.delay = delay_of(message.options, now=task.app.now)
        self.message = message.with_header({**self.header, RESERVED: True})
        self.call = self._call()
        self.token = 0
        #: The call, while its message waits for the open transaction to commit.
        self.held_call: str | None = None

    def submit(self) -> Submission:
        """Reserve, and send once the open transaction has committed; or name the call that has the work.

        Raises :class:`KeyReused` for another payload under the key. Nothing was written then.
        """
        self._check_commits()
        far = self.delay > FAR
        republish = 0 if far else settings().republish_after
        outcome = self.ledger.accept(
            self.call, wait=int(self.delay), republish=republish, sends=-1 if far else 0
        )
        if isinstance(outcome, Refused):
            return self._refused(outcome)
        self.token = outcome.token
        return self._submission(
            self._sent(self._leave_until_eta if far else self._publish, self._stored), State.PENDING
        )

    def send_duplicate(self) -> AcceptedResult:
        """Send a call that was not accepted; the worker decides what it gets.

        Raises what the transport raises, soon. In a transaction it is sent after the commit, and an error is
        logged.
        """
        if self.task.app.conf.task_always_eager or self.ledger.store.connection.in_atomic_block:
            return self._sent(self._publish_duplicate_late, self._unreserved)
        self._publish_duplicate()
        return self._result(self.task_id)

    def record(self, submission: Submission) -> None:
        """Note a duplicate that was not sent."""
        self.ledger.refuse(self.call, place="send", reason=submission.reason, holder=_holder(submission))

    def was_accepted(self, submission: Submission) -> bool:
        """Whether this very call, by its task id, was accepted before: sent again it is no duplicate."""
        return _holder(submission) == self.task_id

    def refuse(self, submission: Submission) -> DuplicateTask:
        """The error of a duplicate: with ``on_duplicate="raise"``, or where the holder has no id to see."""
        holder = _holder(submission)
        by = f"call {holder}" if holder else "another open transaction"
        msg = f"{self.task.name} {self.identity.key_text!r} was accepted from {by}."
        return DuplicateTask(msg, reason=submission.reason, task_id=holder)

    def _call(self) -> Call:
        """The call as its row holds it. Raises ConfigurationError for a message that no row can hold."""
        text = self.message.text_or_raise()
        if '"__type__"' in text:  # kombu takes such a dict for an encoded object
            self._check_readable(text)
        return Call(self.identity, self.task.name, self.task_id, text)

    def _check_readable(self, text: str) -> None:
        try:
            Message.decode(self.task.name, text)
        except ValueError as error:
            msg = f'{error}. Pass data without "__type__" keys, or register the type with kombu.'
            raise ConfigurationError(msg) from error

    def _check_commits(self) -> None:
        """Raise, before anything is written, without autocommit or ``atomic()``: no commit is reported."""
        connection = self.ledger.store.connection
        if self.task.app.conf.task_always_eager or connection.in_atomic_block:
            return
        if connection.get_autocommit() and session_of(connection, at_any_cost=False) is not Session.OPEN:
            return
        msg = (
            f"{self.task.name} cannot be reserved in manual transaction management: its message has to go"
            " out after the commit. Use transaction.atomic()."
        )
        raise TransactionManagementError(msg)

    def _refused(self, refused: Refused) -> Submission:
        result, state = self._result(refused.holder) if refused.holder else None, refused.answer.state
        if refused.holder == self.task_id:
            return self._submission(result, state, _ENDS.get(state, IN_PROGRESS))
        if result is not None:
            result.duplicate = True
        return self._submission(result, state, refused.reason)

    def _submission(self, result: AcceptedResult | None, state: State, refusal: str = "") -> Submission:
        return Submission(result, not refusal, state, self.identity.key_text, refusal)

    def _result(self, task_id: str) -> AcceptedResult:
        result = accepted_result(self.task, task_id)
        result.digest = self.identity.digest
        result.ignored = bool(self.message.options.get("ignore_result"))
        return result

    def _stored(self) -> Message:
        """The message as the row stores it: the caller may have changed the arguments since."""
        return Message.decode(self.call.task, self.call.message or "")

    def _unreserved(self) -> Message:
        return self._stored().with_header(self.header)

    # -- sent: now in eager mode, else after the commit --

    def _sent(self, send: Callable[[], None], message: Callable[[], Message]) -> AcceptedResult:
        result = self._result(self.task_id)
        if self.task.app.conf.task_always_eager:
            result.keep(run_here(self.task, message()))
        else:
            self.held_call = self.task_id
            # A bound method, since Django logs a failing hook's name. Robust: a failure stops no other hook.
            transaction.on_commit(send, using=self.ledger.store.connection.alias, robust=True)
        return result

    def _leave_until_eta(self) -> None:
        self.held_call = None

    def _publish(self) -> None:
        self.held_call = None
        if self._runs_here():
            run_here(self.task, self._stored())
        elif not relay.send(self.task.app, self._stored()):
            self._leave_to_the_sweeper()

    def _publish_duplicate(self) -> None:
        if self._runs_here():
            run_here(self.task, self._unreserved())
        else:
            relay.post(self.task.app, self._unreserved())

    def _publish_duplicate_late(self) -> None:
        self.held_call = None
        try:
            self._publish_duplicate()
        except Exception:
            logger.exception("%s (%s) was not sent; its canvas does not finish", self.task.name, self.task_id)

    def _runs_here(self) -> bool:
        return runs_here() and not any(self.message.options.get(name) for name in _FOLLOWED)

    def _leave_to_the_sweeper(self) -> None:
        try:
            self.ledger.store.send_failed(self.identity.digest, token=self.token)
        except DatabaseError:
            logger.warning("%s: the sweeper sends it REPUBLISH_AFTER late", self.task.name)


def _holder(submission: Submission) -> str:
    """The task id of the call that has the work; empty where it cannot be seen yet."""
    return submission.result.id if submission.result is not None else ""
