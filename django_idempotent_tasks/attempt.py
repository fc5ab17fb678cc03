"""One granted attempt: the body runs under its lease, and however it ends, its claim is settled."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

from celery.exceptions import Ignore, Reject, Retry
from django.db import transaction

from . import heartbeat, signals
from .backoff import delay_of, retry_options
from .context import Done, downstream_key, entered
from .endings import is_shutdown, ordinary, struck_by
from .exceptions import LeaseLost, PoisonTask
from .judgement import Judgement, judge
from .ledger import Ledger
from .message import Message
from .outcomes import Claim
from .reschedule import come_back
from .results import decode_result
from .settlement import Settlement
from .states import Reason, State

logger = logging.getLogger("django_idempotent_tasks")

_FINAL = {Judgement.PERMANENT: Reason.PERMANENT, Judgement.REVIEW: Reason.IN_DOUBT}


class Handle:
    """``self.idempotency`` of a guarded run; see :class:`~.context.Idempotency`."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        claim = attempt.claim
        self.key = claim.call.identity.key_text
        self.scope = claim.call.identity.scope
        self.token = claim.token
        self.attempt = claim.grant.attempts
        self.previous_attempt_died = claim.grant.reason is Reason.OWNER_DIED

    @property
    def lost(self) -> bool:
        """Whether the lease is known to be lost."""
        return self._attempt.lost

    def downstream_key(self, purpose: str) -> str:
        """The same in every attempt of this work."""
        claim = self._attempt.claim
        return downstream_key(claim.digest, claim.grant.generation, purpose)

    def complete(self) -> AbstractContextManager[Done]:
        """A transaction whose commit also completes the key."""
        return self._attempt.completing()


class Attempt:
    """The run of one claim. A leased one inside the caller's transaction (eager mode) uses a savepoint."""

    def __init__(self, task: Any, ledger: Ledger, claim: Claim, *, in_caller_transaction: bool) -> None:
        self.task = task
        self.request = task.request
        self.ledger = ledger
        self.claim = claim
        self.in_caller_transaction = in_caller_transaction
        self.settlement = Settlement(task, ledger, claim, in_caller_transaction=in_caller_transaction)
        self.handle = Handle(self)
        self.lost = False
        self.completed = False
        self.result: Any = None
        self.captured: tuple[Message, float] | None = None

    def run(self, args: Any, kwargs: Any) -> Any:
        """Run the body and settle the claim; returns the result or raises what Celery has to see."""
        with self._held():
            try:
                try:
                    with entered(self), self._savepoint():
                        value = self._body(args, kwargs)
                except BaseException as error:  # noqa: BLE001  whatever ends a body must settle its claim
                    return self._ended_by(error)
                return self._returned(value)
            except LeaseLost:
                return self._superseded()

    def _body(self, args: Any, kwargs: Any) -> Any:
        try:
            return self.task.run(*args, **kwargs)
        except Exception as error:
            if not (self.completed and self.in_caller_transaction):
                raise
            return self._ended_by(error)  # or its savepoint would take the completion back

    def end_by(self, error: BaseException) -> NoReturn:
        """Settle a claim whose body was never started, because ``error`` struck inside the claim."""
        try:
            self._ended_by(error)
        except LeaseLost:
            self._on_lost()
        raise error

    def bury(self) -> NoReturn:
        """Fail a key whose workers died too often, instead of starting the body once more."""
        error = PoisonTask(
            f"{self.task.name} {self.handle.key!r} ended {self.claim.grant.crashes} workers; the body was"
            " not started again. Find the cause, then redrive it."
        )
        self.settlement.fail(error, state=State.FAILED, reason=Reason.POISON)
        raise error

    def _held(self) -> AbstractContextManager[None]:
        if self.in_caller_transaction:  # nobody else can see the claim: no lease to keep
            return nullcontext()
        return heartbeat.holding(self.claim, self._on_lost)

    def _savepoint(self) -> AbstractContextManager[Any]:
        if self.in_caller_transaction:
            return transaction.atomic(using=self._alias)
        return nullcontext()

    @property
    def _alias(self) -> str:
        return self.ledger.store.connection.alias

    # -- the retry that a body asks for --

    def captures(self, task: Any, options: dict[str, Any]) -> bool:
        """Whether this sending is the retry of the running request itself."""
        is_own = task.name == self.task.name and options.get("task_id") == self.request.id
        return bool(is_own and (options.get("retries") or 0) > self.request.retries)

    def capture(self, args: Any, kwargs: Any, options: dict[str, Any]) -> None:
        """Keep the retry unsent: it is published after the ledger knows of it."""
        message = Message.of(self.task.name, args, kwargs, options)
        self.captured = (message, delay_of(options, now=self.task.app.now))

    # -- how a body ends --

    @contextmanager
    def completing(self) -> Iterator[Done]:
        """The transaction of ``.complete()``."""
        if self.completed:
            msg = f"{self.task.name} called complete() twice; its key is completed already."
            raise RuntimeError(msg)
        done, committing = Done(), False
        try:
            with transaction.atomic(using=self._alias, durable=not self.in_caller_transaction):
                yield done
                committing = True
                self.settlement.complete_once(done.result)
        except BaseException as error:
            # It may be the answer to COMMIT that was lost, or a signal that struck inside it: the row knows.
            unsure = committing and not isinstance(error, LeaseLost)
            if not (unsure and self.settlement.is_completed()):
                raise
            self.completed, self.result = True, done.result
            if is_shutdown(struck_by(error)):
                raise
        self.completed, self.result = True, done.result

    def _returned(self, value: Any) -> Any:
        if self.completed:
            return self.result
        if self.captured is None:
            self.settlement.complete(value)
        else:  # self.retry(throw=False)
            self._settle_retry(*self.captured)
        return value

    def _ended_by(self, error: BaseException) -> Any:
        error = struck_by(error)
        if is_shutdown(error):
            if not self.completed:
                self.settlement.release()
            raise error
        if self.completed:
            logger.warning("%s raised after it had completed", self.task.name, exc_info=error)
            return self.result
        return self._settle_error(error)

    def _settle_error(self, error: BaseException) -> NoReturn:
        if (
            self.captured is not None
            and not isinstance(error, Retry | LeaseLost)
            and not self._is_final(error)
        ):
            self._settle_retry(*self.captured)  # asked for with throw=False; Celery would have sent it by now
            raise error
        match error:
            case LeaseLost():
                raise error
            case Retry():
                self._asked_to_retry(error)
            case Ignore():
                self.settlement.complete(None, Reason.IGNORED)
                raise error
            case Reject():
                self._rejected(error)
            case _:
                self._failed(ordinary(error))

    def _asked_to_retry(self, retry: Retry) -> NoReturn:
        cause = retry.exc
        if isinstance(cause, LeaseLost):
            raise cause
        if isinstance(cause, BaseException) and self._is_final(cause):
            self._failed(cause)  # Celery's autoretry wraps the body, so it was asked before our rules
        if self.captured is None:  # eager: Celery runs the signature itself, there is nothing to send
            if retry.sig is None:  # type: ignore[attr-defined]  # raised by hand: nothing says what to send
                self._failed(cause or RuntimeError("Retry was raised without self.retry()."))
            sig = retry.sig  # type: ignore[attr-defined]
            self.captured = (Message.of(self.task.name, sig.args, sig.kwargs, sig.options), 0.0)
        self._settle_retry(*self.captured)
        raise retry

    def _is_final(self, error: BaseException) -> bool:
        return judge(error, self.ledger.policy) in _FINAL

    def _settle_retry(self, message: Message, delay: float) -> None:
        self.settlement.retry(message, delay=delay)

    def _rejected(self, error: Reject) -> NoReturn:
        if error.requeue:  # type: ignore[attr-defined]
            self.settlement.postpone(wait=1)
        else:
            self.settlement.fail(error, state=State.FAILED, reason=Reason.PERMANENT)
        raise error

    def _failed(self, error: BaseException) -> NoReturn:
        judgement = judge(error, self.ledger.policy)
        if judgement is Judgement.TRANSIENT:
            error = self._retry_by_policy(error)
            if isinstance(error, Retry):
                self._asked_to_retry(error)
        state = State.REVIEW if judgement is Judgement.REVIEW else State.FAILED
        self.settlement.fail(error, state=state, reason=_FINAL.get(judgement, Reason.RETRIES_USED_UP))
        raise error

    def _retry_by_policy(self, error: BaseException) -> BaseException:
        """Ask Celery for a retry: it raises ``Retry``, or the error itself once the retries are used up."""
        with entered(self):
            try:
                self.task.retry(exc=error, **retry_options(self.task, self.request.retries))
            except BaseException as outcome:  # noqa: BLE001  whichever it is, the caller settles it
                return outcome
        return error

    # -- a lost lease --

    def _on_lost(self) -> None:
        """Called by the heartbeat's thread, or here when a settlement was refused."""
        if not self.lost:
            self.lost = True
            signals.lease_lost.send_robust(sender=self.task.name, claim=self.claim)

    def _superseded(self) -> Any:
        """The settlement was refused: the winner's recorded result is this call's result as well."""
        self._on_lost()
        if self.request.is_eager:
            raise self.settlement.lost()
        entry = self.settlement.row()
        if entry is not None and entry.state is State.SUCCEEDED and not entry.was_answered:
            return decode_result(entry.result)
        if entry is not None and entry.runner_task_id not in {None, self.request.id}:
            come_back(self.task, seconds=max(entry.opens_in or 0.0, 1.0))  # another call runs it now
        raise Ignore  # another delivery of this very call runs it now
