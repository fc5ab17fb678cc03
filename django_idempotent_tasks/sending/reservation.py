"""Reserves a call: writes its row in the caller's transaction, and sends its message after the commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from django.db import Error as DatabaseError

from ..conf import settings
from ..conf.options import Policy
from ..exceptions import ConfigurationError, DuplicateTask
from ..ledger import following, pauses
from ..ledger.ledger import Ledger
from ..ledger.rules import COMPLETED, FAILED, IN_PROGRESS, IN_REVIEW
from ..ledger.stores import LedgerStore, commits, get_store
from ..ledger.stores.connection import in_the_callers
from ..ledger.stores.locks import Taken
from ..ledger.values import Call, Following, Refused, Wanted
from ..messages.address import delay_of
from ..messages.header import RESERVED, Carried, is_in_canvas
from ..messages.message import Message
from ..messages.mould import Cast
from ..messages.relay import relay
from ..states import State
from .here import is_followed, run_here, runs_here
from .result import AcceptedResult, accepted_result
from .submission import Submission
from .together import behind, note

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


def check_commits(task: Any, store: LedgerStore) -> None:
    """Raise, before anything is written, where nobody would say when to send; eager calls are not sent."""
    if not task.app.conf.task_always_eager:
        commits.check_reported(task.name, store.connection)


class Reservation:
    """One call on its way in. ``message`` is what Celery would publish now, stamped by its sender."""

    #: Whether the ledger has recorded already that the call is a refused duplicate.
    _is_noted = False
    token = 0
    _is_out = False
    #: The task id of the call whose message, or whose run, waits for the open transaction to commit.
    _held = ""
    #: The commit hooks among which its own was registered.
    _hooks: list[Any] | None = None

    def __init__(self, task: Any, policy: Policy, message: Message, own: Carried) -> None:
        self.task = task
        self.task_id = str(message.options["task_id"])
        self.identity, self.header = own
        #: Whether a canvas waits for this call, which is then sent even as a duplicate.
        self.is_in_canvas = is_in_canvas(self.header)
        self.ledger = Ledger(get_store(), policy)
        self.delay = max(delay_of(message.options, now=task.app.now), policy.debounce)
        self.message = message.with_header({**self.header, RESERVED: True})
        self.call = self._call()
        self.is_ignored = bool(message.options.get("ignore_result"))

    def submit(self) -> Submission:
        """Reserve, and send once the open transaction has committed; or name the call that has the work.

        Raises :class:`KeyReused` for another payload under the key. Nothing was written then.
        """
        check_commits(self.task, self.ledger.store)
        with in_the_callers(self.ledger.store.connection, at_any_cost=False):
            # A canvas sends its duplicates, which are then no refused ones.
            outcome = following.accept(self.ledger, self.wanted, place="" if self.is_in_canvas else "send")
        if isinstance(outcome, Refused):
            self._is_noted = outcome.is_noted
            if self.leaves_something(outcome):
                self._later(self.after_commit, outcome.holder)
            return self.refused(outcome)
        if isinstance(outcome, Following):
            self._later(self.after_commit, self.task_id)
            return self.accepted()
        self.token = outcome.token
        send = self._leave_to_its_time if self.is_far else self._publish
        return self.accepted(self._sent(send, self._stored))

    @property
    def is_far(self) -> bool:
        """Whether no message goes out now: its time is far away, or is put off by each duplicate."""
        return self.delay > FAR or bool(self.ledger.policy.debounce)

    def leaves_something(self, refused: Refused) -> bool:
        """Whether a duplicate of what waits has put that off, or holds it until the transaction ends."""
        policy = self.ledger.policy
        holds = self.ledger.store.connection.in_atomic_block or bool(policy.debounce)
        return policy.follows and refused.reason == IN_PROGRESS and bool(refused.holder) and holds

    def after_commit(self) -> None:
        """Promote the follow-up if the run before it has ended meanwhile, and put off what waits."""
        self._held = ""
        following.after_commit(self.ledger, self.identity.digest, self.task.app)

    @property
    def wanted(self) -> Wanted:
        """The call as the ledger is asked for it."""
        far = self.is_far
        return Wanted(self.call, int(self.delay), 0 if far else settings().republish_after, -1 if far else 0)

    def accepted(self, result: AcceptedResult | None = None) -> Submission:
        """What ``submit`` says of a call that has the work."""
        return self._submission(result or self._result(self.task_id), State.PENDING)

    def run_here(self, result: Any) -> None:
        """In eager mode: run the call, and keep what it came to in its result."""
        result.keep(run_here(self.task, self._stored()))

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
        told = {"reason": submission.reason, "holder": _holder(submission)}
        self.ledger.refuse(self.call, place="send", is_noted=self._is_noted, **told)

    def was_accepted(self, submission: Submission) -> bool:
        """Whether this very call, by its task id, was accepted before: sent again it is no duplicate."""
        return _holder(submission) == self.task_id

    def refuse(self, submission: Submission) -> DuplicateTask:
        """The error of a duplicate: with ``on_duplicate="raise"``, or where the holder has no id to see."""
        holder = _holder(submission)
        by = f"call {holder} has" if holder else "another open transaction holds"
        msg = f"{self.task.name} {self.identity.key_text!r} is a duplicate: {by} the key."
        return DuplicateTask(msg, reason=submission.reason, task_id=holder)

    def holds(self, task_id: str) -> bool:
        """Whether the call of this task id waits for the open transaction to commit."""
        return task_id == self._held

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

    def refused(self, refused: Refused) -> Submission:
        """What ``submit`` says of a call whose key another one has."""
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
        result.ignored = self.is_ignored
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
            self._later(send, self.task_id)
        return result

    def _later(self, work: Callable[[], None], held: str) -> None:
        """After the commit; the sweeper does it for an eager caller whose commit nobody reports."""
        self._held = held
        self._hooks = note(self.ledger.store.connection)
        commits.after_commit(self.ledger.store.connection, work)

    def _leave_to_its_time(self) -> None:
        self._held = ""

    def _publish(self) -> None:
        self._held = ""
        if self._is_out:
            return
        if self._runs_here():
            run_here(self.task, self._stored())
            return
        calls = [self, *self._others()]
        for each in calls:
            each._is_out = True  # noqa: SLF001  another of this class
        together = {each: each.to_publish() for each in calls if not each.is_paused}
        if list(together) == [self]:
            sent = {self} if relay.send(self.task.app, together[self]) else set()
        else:
            sent = relay.send_few(self.task.app, together)
        self._leave_to_the_sweeper([each for each in calls if each not in sent])

    def _others(self) -> Iterator[Reservation]:
        """The calls that this commit sends right after this one, before anything else happens."""
        for hook in behind(self._publish, self._hooks, self.ledger.store.connection):
            other = getattr(hook, "__self__", None)
            if isinstance(hook, Taken):
                continue
            if not isinstance(other, Reservation) or hook != other._publish:  # noqa: SLF001  as above
                return
            if other.task.app is not self.task.app or other._runs_here():  # noqa: SLF001  as above
                return
            yield other

    def to_publish(self) -> Message | Cast:
        """The message to send."""
        return self._stored()

    @property
    def is_paused(self) -> bool:
        """Whether the call waits in the ledger; the sweeper lets it wait until the pause is over."""
        return pauses.pause_of(self.ledger.store, self.task.name, self.identity.scope) is not None

    def _publish_duplicate(self) -> None:
        if self._runs_here():
            run_here(self.task, self._unreserved())
        else:
            relay.post(self.task.app, self._unreserved())

    def _publish_duplicate_late(self) -> None:
        self._held = ""
        try:
            self._publish_duplicate()
        except Exception:
            logger.exception("%s (%s) was not sent; its canvas does not finish", self.task.name, self.task_id)

    def _runs_here(self) -> bool:
        return runs_here() and not is_followed(self.message)

    def _leave_to_the_sweeper(self, unsent: list[Reservation]) -> None:
        try:
            self.ledger.store.sends_failed({each.identity.digest: each.token for each in unsent})
        except DatabaseError:
            logger.warning("%s: the sweeper sends the call only after REPUBLISH_AFTER", self.task.name)


def _holder(submission: Submission) -> str:
    """The task id of the call that has the work; empty where it cannot be seen yet."""
    return submission.result.id if submission.result is not None else ""
