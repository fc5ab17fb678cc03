"""Handles one delivered message: finds its call and key, and answers it where no body is run."""

from __future__ import annotations

import logging
import random
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NoReturn

from celery import states as celery_states
from celery.exceptions import Ignore
from django.db import Error as DatabaseError

from ..conf.options import Policy
from ..exceptions import DuplicateTask, InvalidKey, KeyMismatch, RecordedError, StoreDown
from ..identity.key import Identity
from ..ledger import guesses
from ..ledger.encoding import decode_error
from ..ledger.following import Intake
from ..ledger.ledger import Ledger
from ..ledger.misnamed import Misnamed
from ..ledger.owner import new_owner
from ..ledger.rules import COMPLETED, IN_PROGRESS, MISMATCH, Step
from ..ledger.stores import get_store
from ..ledger.stores.absent import remedy
from ..ledger.values import Answer, Answered, Call, Following, OutOfDate, Refusal, Refused, Waiting, Wanted
from ..messages.header import carried, carry, is_in_canvas, is_reserved, task_id_problem, to_header
from ..messages.message import AGAIN, stored_text
from ..messages.turns import turn_of
from ..states import Reason, State
from .handlers import mark_answered
from .held import hold_back
from .leftovers import Watch
from .replay import replay
from .reschedule import come_back, give_back

logger = logging.getLogger("django_idempotent_tasks")

#: A duplicate that waits for a result asks again after at most this many seconds.
LONGEST_REPLAY_WAIT = 5.0
#: Where a duplicate was refused, as its record says.
WORKER = "worker"


def is_redelivered(info: Any, header: Any) -> bool:
    """Whether an earlier delivery of this message may have been started."""
    return bool((info or {}).get("redelivered") or (isinstance(header, dict) and header.get(AGAIN)))


class Delivery(ABC):
    """One message in a worker, or one eager call."""

    kind: type[Ledger] = Ledger

    def __init__(self, task: Any, request: Any, policy: Policy, args: Any, kwargs: Any) -> None:
        self.task = task
        self.request = request
        self.policy = policy
        self.args = args
        self.kwargs = kwargs
        #: The call's identity as it travels, with the marks in it.
        self.header: dict[str, Any] = {}
        self.ledger = self.kind(get_store(), policy)
        connection = self.ledger.store.connection
        #: Finds the transactions that the body leaves open.
        self.watch = Watch(connection, is_eager=bool(self.request.is_eager))
        #: Whether the caller has a transaction open: what is written belongs to it, and it is never ended.
        self.in_transaction = connection.in_atomic_block or self.watch.is_begun_by_hand
        #: Where a claim may record its refusal: not in a transaction that may be the caller's.
        self.place = "" if self.in_transaction or self.request.is_eager else WORKER

    def perform(self) -> Any:
        """The result, or what Celery has to see is raised."""
        if not self.watch.is_begun_by_hand:
            return self._perform()
        with self.watch.as_the_callers():
            return self._perform()

    def _perform(self) -> Any:
        if not self.in_transaction:
            # Skips the statement of CONN_HEALTH_CHECKS: the claim itself replaces a connection that has died.
            self.ledger.store.connection.health_check_done = True  # type: ignore[attr-defined]  # no stub
        call = self._call()
        try:
            try:
                return self._hold_or_run(call)
            except Misnamed as found:
                return self._hold_or_run(self._renamed(call, found))
        except KeyMismatch as error:
            if error.task_id == call.task_id:
                self._note_mismatch(call)
            raise

    def _hold_or_run(self, call: Call) -> Any:
        """Leave the call of a paused task to the ledger, or run it."""
        if not (self.request.is_eager or self.in_transaction):
            hold_back(self.task, self.ledger.store, call, self.header, begin=self.watch.begin)
        return self._claim_and_run(call, new_owner())

    @abstractmethod
    def _claim_and_run(self, call: Call, owner: str) -> Any:
        """Run the body under a claim, or answer the call that got none."""

    def _first_step(self) -> Step:
        """The step that most likely fits, which saves a statement: the key is new, reserved, or known."""
        if self.request.retries > 0 or self._is_redelivered():
            return Step.WAIT
        return Step.RESERVED if is_reserved(self.header) else Step.INSERT

    def _foreseen(self, call: Call, first: Step) -> Refused | None:
        """The refusal of a call that is expected to be a duplicate, before anything is begun or stored.

        None where the call is none, and where a duplicate that finds work undone waits for it or follows it.
        """
        if first is not Step.INSERT or not guesses.expects_a_duplicate(self.place, call.task):
            return None
        undone = not (self.policy.follows or self._replays())
        return self.ledger.foreseen(call, self.place, undone=undone)

    def _is_redelivered(self) -> bool:
        return is_redelivered(self.request.delivery_info, self.header)

    def _answer(self, call: Call, outcome: Refusal) -> Any:
        mark_answered(self.request)
        match outcome:
            case Waiting(seconds):
                return self._come_back(seconds)
            case Answered(answer):
                return self._recall(answer)
            case Refused() as refused:
                return self._refused(call, refused)
            case Following():
                raise Ignore
            case OutOfDate():
                logger.info("%s: an out-of-date copy was dropped; the ledger has a later one", self.task.name)
                raise Ignore

    # -- identity --

    def _call(self) -> Call:
        """The delivered call; raises :class:`InvalidKey` for one without an identity."""
        task_id = self.request.id
        problem = task_id_problem(task_id)
        if problem is not None:
            msg = f"A task id of {self.task.name} {problem}."
            raise InvalidKey(msg)
        identity, name, is_new = self._identity(task_id)
        if self.request.is_eager:
            return Call(identity, name, task_id, None)
        turn = turn_of(self.header, vars(self.request))
        return Call(identity, name, task_id, None, named_here=is_new, turn=turn)

    def _identity(self, task_id: str) -> tuple[Identity, str, bool]:
        """The identity in the message's header, with its task's name; or one computed here, true then.

        Either goes on with retries, copies and what the sweeper sends again: all name the same key.
        """
        task = self.task.name
        own = carried(vars(self.request), task_name=task, task_id=task_id)
        if own is not None:
            self.travels_as(own.header)
            return own.identity, own.task, False
        identity = self.task.idempotency_identity(self.args, self.kwargs, task_id=task_id)
        self.travels_as(to_header(identity, task_name=task, task_id=task_id))
        return identity, task, True

    def _renamed(self, call: Call, found: Misnamed) -> Call:
        """The call under the key that accepted it, where its message has lost the header."""
        logger.warning(
            "%s (%s) arrived without its identity; the ledger knows its key by the task id. Something on"
            " its way drops the message header 'idempotency'.",
            call.task,
            call.task_id,
        )
        identity = found.call.identity
        self.travels_as(to_header(identity, task_name=call.task, task_id=call.task_id, reserved=True))
        return replace(call, identity=identity, named_here=False)

    def travels_as(self, header: dict[str, Any]) -> None:
        """Give this header to every message that is sent in this message's place."""
        self.header = header
        carry(self.request, header)

    def _note_mismatch(self, call: Call) -> None:
        logger.warning(
            "%s (%s) named the key %s of another task or scope, and was refused",
            call.task,
            call.task_id,
            call.identity.digest,
        )
        self._record(call, Refused(MISMATCH, "", Answer(State.PENDING, Reason.NONE, None), None))

    def _stored(self, call: Call) -> Call:
        """The call with its message, so that the sweeper can send it again, where that may be kept."""
        return replace(call, message=stored_text(self.task, self.request, self.header))

    def _store_is_down(self, error: BaseException | None) -> NoReturn:
        """Put the message back: it is not acknowledged, not run unguarded, and its retries are kept.

        In the caller's transaction the error is the caller's, as that of any other statement.
        """
        if self.in_transaction and error is not None:
            raise error
        self.ledger.store.connection.close()
        msg = f"{self.task.name}: {_trouble(error, self.ledger.store.connection.alias)}"
        if self.request.is_eager:
            raise StoreDown(msg) from error
        logger.error("%s Its message goes back to the queue.", msg)
        if self.policy.on_store_down == "retry":
            time.sleep(random.uniform(1.0, 5.0))
        give_back(self.task, f"StoreDown: {msg}")

    # -- not now --

    def _come_back(self, seconds: float) -> NoReturn:
        if self.request.is_eager:
            msg = f"{self.task.name}: its key is held by another process."
            raise DuplicateTask(msg, reason=IN_PROGRESS)
        come_back(self.task, seconds=seconds)

    # -- answers --

    def _recall(self, answer: Answer) -> Any:
        """Answer a call that ended before with the same outcome, without running the body."""
        if answer.state is State.CANCELLED:
            self._cancelled()
        if answer.state is State.SUCCEEDED:
            return replay(self.task, answer)
        raise self._recorded(answer)

    def _recorded(self, answer: Answer) -> RecordedError:
        return RecordedError(f"{self.task.name} ended earlier with {decode_error(answer.result)}")

    def _cancelled(self) -> NoReturn:
        if not self.request.is_eager:
            self.task.update_state(state=celery_states.REVOKED)
        raise Ignore

    # -- duplicates --

    def _refused(self, call: Call, refused: Refused) -> Any:
        if self._replays():
            if refused.reason == IN_PROGRESS:
                return self._come_back(min(max(refused.opens_in or 0.0, 1.0), LONGEST_REPLAY_WAIT))
            self._record(call, refused)
            if refused.reason == COMPLETED:
                return replay(self.task, refused.answer)
            raise self._recorded(refused.answer)
        if self.policy.follows and refused.answer.state is State.RUNNING:
            refused = self._follow(call, refused)
        self._record(call, refused)
        if self.policy.on_duplicate == "raise":
            msg = f"{self.task.name} {call.identity.key_text!r}: {refused.reason} as call {refused.holder}."
            raise DuplicateTask(msg, reason=refused.reason, task_id=refused.holder)
        return {
            "status": "skipped",
            "reason": refused.reason,
            "key": call.identity.key_text,
            "task_id": refused.holder,
        }

    def _follow(self, call: Call, refused: Refused) -> Refused:
        """Leave the call to the ledger as the follow-up of what runs, or say which call is that already."""
        call = self._stored(call)
        if call.message is None:  # nothing is stored that could be run later: a copy of the message is
            self._come_back(min(max(refused.opens_in or 0.0, 1.0), LONGEST_REPLAY_WAIT))
        try:
            outcome = Intake(self.ledger, Wanted(call, 0, 0, 0)).follow(refused.holder)
        except DatabaseError as error:
            self._store_is_down(error)
        if isinstance(outcome, Following):
            raise Ignore
        return outcome or self._come_back(1.0)

    def _replays(self) -> bool:
        """Whether a duplicate gets the outcome of the call that has the key."""
        return self.policy.on_duplicate == "replay" or self._in_canvas()

    def _in_canvas(self) -> bool:
        """Whether a canvas or a callback waits for this call's result, which must be a real value."""
        request = self.request
        waiting = (request.chord, request.chain, request.group, request.callbacks, request.errbacks)
        return any(waiting) or is_in_canvas(self.header)

    def _record(self, call: Call, refused: Refused) -> None:
        """Write the audit row; a duplicate is refused also where that row cannot be written."""
        try:
            self.ledger.refuse(
                call, place=WORKER, reason=refused.reason, holder=refused.holder, is_noted=refused.is_noted
            )
        except DatabaseError:
            logger.warning("%s: a refused duplicate could not be recorded", self.task.name)


def _trouble(error: BaseException | None, alias: str) -> str:
    if advice := remedy(error, alias):
        return f"the ledger refused a statement ({error}). {advice}"
    return f"the ledger's database did not answer ({error})."
