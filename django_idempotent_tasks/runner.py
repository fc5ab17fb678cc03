"""One delivery, top to bottom: identify, claim, then run, replay, refuse or reschedule."""

from __future__ import annotations

import logging
import random
import time
from typing import Any, NoReturn

from celery import states as celery_states
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded
from django.db import Error as DatabaseError

from .attempt import Attempt
from .conf import settings
from .exceptions import (
    DuplicateTask,
    InvalidKey,
    OuterTransaction,
    RecordedError,
    ResultNotStored,
    StoreDown,
)
from .header import from_header, is_reserved, to_header
from .identity import identify
from .ledger import Answered, Claimed, Ledger, Outcome, Refused, Waiting
from .message import HEADER, Message
from .options import Policy
from .outcomes import Answer, Call, Claim, Grant, Identity
from .owner import new_owner
from .reschedule import come_back
from .results import decode_error, decode_result
from .states import Reason, State
from .stores import get_store
from .verdict import COMPLETED, IN_PROGRESS, Step

logger = logging.getLogger("django_idempotent_tasks")

#: A duplicate that waits for a result asks again after at most this many seconds.
LONGEST_REPLAY_WAIT = 5.0
#: Longest task id that the ledger can name.
TASK_ID_LIMIT = 255


def run(task: Any, policy: Policy, args: Any, kwargs: Any) -> Any:
    """Run one delivery of a guarded task; returns its result or raises what Celery has to see."""
    return _Delivery(task, policy, args, kwargs).perform()


class _Delivery:
    """One message in a worker, or one eager call."""

    def __init__(self, task: Any, policy: Policy, args: Any, kwargs: Any) -> None:
        self.task = task
        self.policy = policy
        self.args = args
        self.kwargs = kwargs
        self.request = task.request
        self.ledger = Ledger(get_store(), policy)
        self.in_transaction = self.ledger.store.connection.in_atomic_block

    def perform(self) -> Any:
        if self.in_transaction and not self.request.is_eager:
            msg = f"{self.task.name} is leased and cannot start inside an open transaction."
            raise OuterTransaction(msg)
        call, owner = self._call(), new_owner()
        try:
            return self._go_on(call, self._claim(call, owner))
        except (SoftTimeLimitExceeded, SystemExit, KeyboardInterrupt) as error:
            self._struck(call, owner, error)
            raise

    def _go_on(self, call: Call, outcome: Outcome) -> Any:
        match outcome:
            case Claimed(claim):
                attempt = Attempt(self.task, self.ledger, claim, in_caller_transaction=self.in_transaction)
                if claim.grant.crashes >= self.policy.max_crashes:
                    attempt.bury()
                return attempt.run(self.args, self.kwargs)
            case Waiting(seconds):
                return self._come_back(seconds)
            case Answered(answer):
                return self._recall(answer)
            case Refused() as refused:
                return self._refused(call, refused)

    # -- identity --

    def _call(self) -> Call:
        task_id = self.request.id
        if len(task_id) > TASK_ID_LIMIT or "\0" in task_id:
            msg = f"A task id of {self.task.name} is over {TASK_ID_LIMIT} characters or has a NUL in it."
            raise InvalidKey(msg)
        identity = self._identity()
        message = None
        if not self.policy.sensitive and not self.request.is_eager:
            message = Message.of_request(self.task, self.request).encode(limit=settings().max_payload)
        return Call(identity, self.task.name, task_id, message)

    def _identity(self) -> Identity:
        """The identity that travelled with the message; without one it is computed here, and travels on.

        So retries, copies and what the sweeper sends again name the same key as this delivery.
        """
        task, task_id, headers = self.task.name, self.request.id, self.request.headers or {}
        identity = from_header(headers.get(HEADER), task_name=task, task_id=task_id)
        if identity is None:
            identity = identify(task, self.policy.key_rules, self.args, self.kwargs, task_id=task_id)
            header = to_header(identity, task_name=task, task_id=task_id)
            self.request.headers = {**headers, HEADER: header}
        return identity

    # -- claim --

    def _claim(self, call: Call, owner: str) -> Outcome:
        """Claim; a connection that had died is replaced once. The owner's name recognises a lost answer."""
        try:
            return self.ledger.claim(call, owner=owner, first=self._first_step())
        except DatabaseError:
            if self.in_transaction:
                raise
            self.ledger.store.connection.close()
        try:
            return self.ledger.claim(call, owner=owner, first=Step.WAIT)
        except DatabaseError as error:
            self._store_is_down(error)

    def _first_step(self) -> Step:
        """What saves a statement: most likely the key is new, or reserved, or known already."""
        info = self.request.delivery_info or {}
        if self.request.retries > 0 or info.get("redelivered"):
            return Step.WAIT
        return Step.RESERVED if is_reserved((self.request.headers or {}).get(HEADER)) else Step.INSERT

    def _struck(self, call: Call, owner: str, error: BaseException) -> None:
        """A signal struck. Whether it left a claim unsettled is read, not guessed; such a one is ended."""
        if self.in_transaction:
            return
        try:
            self.ledger.store.connection.close()
            entry = self.ledger.store.read(call.identity.digest, task_id=call.task_id)
        except DatabaseError:
            return  # the lease runs out
        if entry is not None and entry.owner == owner and entry.state is State.RUNNING:
            grant = Grant(entry.token, entry.generation, entry.attempts, entry.crashes, entry.reason)
            claim = Claim(call, owner, grant, self.policy.lease)
            Attempt(self.task, self.ledger, claim, in_caller_transaction=False).end_by(error)

    def _store_is_down(self, error: DatabaseError) -> NoReturn:
        """Never acknowledged, never run unguarded, retries untouched."""
        self.ledger.store.connection.close()
        msg = f"{self.task.name}: the ledger's database did not answer ({error})."
        if self.request.is_eager:
            raise StoreDown(msg) from error
        logger.error("%s Its message goes back to the queue.", msg)
        if self.policy.on_store_down == "retry":
            time.sleep(random.uniform(1.0, 5.0))
        raise Reject(f"StoreDown: {msg}", requeue=True) from error

    # -- not now --

    def _come_back(self, seconds: float) -> NoReturn:
        if self.request.is_eager:
            msg = f"{self.task.name}: its key is held by another process."
            raise DuplicateTask(msg, reason=IN_PROGRESS)
        come_back(self.task, seconds=seconds)

    # -- answers --

    def _recall(self, answer: Answer) -> Any:
        """This very call ended earlier: the same end again, without running the body."""
        if answer.state is State.CANCELLED:
            self._cancelled()
        if answer.state is State.SUCCEEDED:
            return self._replay(answer)
        raise self._recorded(answer)

    def _replay(self, answer: Answer) -> Any:
        if answer.reason is Reason.IGNORED:
            raise Ignore
        if answer.reason is Reason.RESULT_NOT_STORED:
            msg = f"{self.task.name} is completed; its result was not stored."
            raise ResultNotStored(msg)
        return decode_result(answer.result)

    def _recorded(self, answer: Answer) -> RecordedError:
        return RecordedError(f"{self.task.name} ended earlier with {decode_error(answer.result)}")

    def _cancelled(self) -> NoReturn:
        if not self.request.is_eager:
            self.task.update_state(state=celery_states.REVOKED)
        raise Ignore

    # -- duplicates --

    def _refused(self, call: Call, refused: Refused) -> Any:
        if self.policy.on_duplicate == "replay" or self._in_canvas():
            if refused.reason == IN_PROGRESS:
                return self._come_back(min(max(refused.opens_in or 0.0, 1.0), LONGEST_REPLAY_WAIT))
            self._record(call, refused)
            if refused.reason == COMPLETED:
                return self._replay(refused.answer)
            raise self._recorded(refused.answer)
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

    def _in_canvas(self) -> bool:
        """Whether others wait for this message: a canvas must finish with real values."""
        request = self.request
        return any((request.chord, request.chain, request.group, request.callbacks, request.errbacks))

    def _record(self, call: Call, refused: Refused) -> None:
        """The audit row must not change an outcome: without it the duplicate is refused all the same."""
        try:
            self.ledger.refuse(call, place="worker", reason=refused.reason, holder=refused.holder)
        except DatabaseError:
            logger.warning("%s: a refused duplicate could not be recorded", self.task.name)
