"""Runs one claim of a key, and settles the claim by the same rules however the body ends."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from celery.exceptions import Ignore, Reject, Retry

from ..errors.presented import presentable
from ..errors.raised import is_a, is_shutdown
from ..exceptions import LeaseLost, PoisonTask, UnreadableError
from ..ledger.failures import traceback_of
from ..messages.address import delay_of, to_its_queue
from ..messages.header import with_identity
from ..messages.message import Message, beside
from ..states import Category, Reason, State
from .categories import CERTAIN, FINAL, category_of_error, is_thrown
from .conflicts import conflict_behind
from .context import Done, Entered
from .endings import SIGNALS, cause_of, is_misfit, ordinary, struck_by
from .handle import Handle
from .leftovers import Watch
from .replay import ignored
from .retries import retry_after, retry_options
from .settlement import Settlement

logger = logging.getLogger("django_idempotent_tasks")

_UNREAD = "The task raised an error that cannot be read: its class or one of its methods raises another."
#: The options that name a call's key. A retry takes both from the call that it repeats.
_NAMING = ("idempotency_key", "scope")


class Attempt(ABC):
    """One run under one claim. Inside the caller's transaction (eager mode) it uses a savepoint."""

    def __init__(self, settlement: Settlement, watch: Watch) -> None:
        self.settlement = settlement
        self.watch = watch
        self.task = settlement.task
        self.request = settlement.request
        self.ledger = settlement.ledger
        self.claim = settlement.claim
        self.in_caller_transaction = settlement.in_caller_transaction
        self.completed = False
        self.result: Any = None
        self.captured: tuple[Message, float] | None = None
        #: Whether an effect outside the database may have happened that another attempt would repeat.
        self.doubt = False
        #: The replacement that ``self.replace()`` sent, as the row keeps it.
        self.replacement: str | None = None
        self.is_replacing = False

    @property
    def handle(self) -> Handle:
        """What the body gets as ``self.idempotency``."""
        return Handle(self)

    def bury(self) -> NoReturn:
        """Fail a key whose workers died too often, without another start of the body."""
        error = PoisonTask(
            f"{self.task.name} {self.claim.call.identity.key_text!r} ended {self.claim.grant.crashes}"
            " workers; the body was not started again. Find the cause, then redrive it."
        )
        self.settlement.fail(error, state=State.FAILED, reason=Reason.POISON)
        raise error

    @property
    def alias(self) -> str:
        """The ledger's database."""
        return self.ledger.store.connection.alias

    def tells_lost(self) -> bool:
        """The value of ``.lost``: whether another attempt has, or may have, the key."""
        return False

    @abstractmethod
    def outside(self) -> AbstractContextManager[None]:
        """What ``.external()`` does."""

    @abstractmethod
    def completing(self) -> AbstractContextManager[Done]:
        """What ``.complete()`` does."""

    @abstractmethod
    def step(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, *, external: bool) -> Any:
        """What ``.step()`` does."""

    @abstractmethod
    def report(self, done: float, total: float | None = None, note: str = "") -> None:
        """What ``.progress()`` does."""

    # -- the retry that a body asks for --

    def captures(self, task: Any, options: dict[str, Any]) -> bool:
        """Whether the call that is being sent is the retry of the running request."""
        is_own = task.name == self.task.name and options.get("task_id") == self.request.id
        return bool(is_own and (options.get("retries") or 0) > self.request.retries)

    def is_retried_by(self, task: Any, request: Any, options: dict[str, Any]) -> bool:
        """Whether the signature made of ``request`` is for the retry of the running request."""
        is_own = request is self.request and task.name == self.task.name
        return is_own and (options.get("retries") or 0) > self.request.retries

    def keep_named(self, retry: Any) -> None:
        """Let a retry's signature name this call and its key, whatever ``self.retry()`` was given."""
        options = retry.options
        own = {"task_id": self.request.id, "headers": self._headers(options.get("headers"))}
        left_out = [name for name in _NAMING if options.pop(name, None) is not None]
        if options.get("task_id") not in {None, self.request.id}:
            left_out.append("task_id")
        if left_out:
            logger.warning(
                "%s (%s): a retry is the same call under the same key; %s given to self.retry() is left"
                " out. For other work send another call.",
                self.task.name,
                self.request.id,
                ", ".join(left_out),
            )
        options |= own

    def _headers(self, given: Any) -> dict[str, Any]:
        return with_identity(given, self.request, task_name=self.task.name)

    def capture(self, args: Any, kwargs: Any, options: dict[str, Any]) -> None:
        """Keep the retry unsent: it is published after the ledger knows of it."""
        options = {**options, "headers": self._headers(options.get("headers"))}
        sent = to_its_queue(self.task.app, options, self.request.delivery_info or {})
        headers = {**beside(self.request), **(options.get("headers") or {})}
        message = Message.of(self.task.name, args, kwargs, {**sent, "headers": headers})
        self.captured = (message, delay_of(options, now=self.task.app.now))

    # -- the replacement that a body sends --

    @abstractmethod
    def replace(self, sig: Any, send: Callable[[Any], Any]) -> Any:
        """What ``self.replace()`` does; ``send`` is Celery's own. Raises ``Ignore``."""

    def continues(self, task: Any, task_id: str, header: Any) -> bool:
        """Whether a replacement is a call of the running key itself, which goes on as a retry does."""
        is_own = task.name == self.task.name and task_id == self.request.id
        return self.is_replacing and is_own and header["digest"] == self.claim.digest.hex

    # -- how a body ends --

    def ended_by(self, error: BaseException) -> Any:
        """Settle what the body raised; the result if it had completed before, else raises for Celery.

        An error that cannot be read settles the claim as failed with :class:`UnreadableError`.
        """
        try:
            return self._settled(error)
        except BaseException as outcome:
            given = presentable(outcome)
            if given is outcome:
                raise
        raise given from None

    def _settled(self, error: BaseException) -> Any:
        try:
            return self._ended_by(error)
        except BaseException as outcome:
            if self.completed or self.settlement.began or is_a(outcome, LeaseLost):
                raise
            unread = outcome  # raised by a method of the error, or a signal that struck meanwhile
        return self._ended_by(unread if is_a(unread, *SIGNALS) else UnreadableError(_UNREAD))

    def _ended_by(self, error: BaseException) -> Any:
        error = struck_by(error)
        if is_shutdown(error):
            if not self.completed:
                self._interrupted(error)
            raise error
        if self.completed:
            trace = traceback_of(error)
            logger.warning("%s raised after it had completed\n%s", self.task.name, trace)
            return self.result
        return self._settle_error(error)

    def _interrupted(self, error: BaseException) -> None:
        if self.doubt:
            self.settlement.fail(error, state=State.REVIEW, reason=Reason.IN_DOUBT)
        else:
            self.settlement.release()

    def _settle_error(self, error: BaseException) -> NoReturn:
        if self.captured is not None and not is_a(error, Retry, LeaseLost) and not self._is_final(error):
            if self.doubt:
                self._failed(ordinary(error))
            self.settle_captured(error)  # of self.retry(throw=False); Celery would have sent it by now
            raise error
        if is_a(error, LeaseLost):
            raise error
        if is_a(error, Retry):
            self._asked_to_retry(error)
        if is_a(error, Ignore):
            self._ignored(error)
        if is_a(error, Reject):
            self._rejected(error)
        self._failed(ordinary(error))

    def _asked_to_retry(self, retry: Retry) -> NoReturn:
        cause = cause_of(retry)
        if is_a(cause, LeaseLost):
            raise cause
        if cause is not None and self._is_final(cause):
            self._failed(cause)  # Celery's autoretry wraps the body, and decided before our rules could
        if self.doubt:
            self._failed(cause or retry)
        if self.captured is None:  # eager: Celery runs the signature itself, there is nothing to send
            if retry.sig is None:  # type: ignore[attr-defined]  # raised by hand: nothing says what to send
                self._failed(cause or RuntimeError("Retry was raised without self.retry()."))
            sig = retry.sig  # type: ignore[attr-defined]
            self.captured = (Message.of(self.task.name, sig.args, sig.kwargs, sig.options), 0.0)
        self._honour_retry_after(cause)
        self.settle_captured(cause)
        raise retry

    def _honour_retry_after(self, cause: BaseException | None) -> None:
        """Wait as long as the other side's ``Retry-After`` asks, unless the body chose the wait itself."""
        if self.captured is None or not self.retries_by_itself(cause):
            return
        message, delay = self.captured
        self.captured = (message, max(delay, retry_after(cause, now=self.task.app.now())))

    def retries_by_itself(self, cause: BaseException | None) -> bool:
        """Whether the task's own rules retry a call that ends with this error."""
        kinds = tuple(getattr(self.task, "autoretry_for", ()))
        return is_a(cause, *kinds) or (cause is not None and self._category(cause) is Category.RETRYABLE)

    def _category(self, error: BaseException) -> Category | None:
        category = category_of_error(error, self.ledger.policy)
        return Category.FATAL if category is None and is_misfit(error) else category

    def _is_final(self, error: BaseException) -> bool:
        return self._category(error) in FINAL

    def settle_captured(self, error: BaseException | None = None) -> None:
        """Settle the claim as RETRY with the retry that the body asked for, because of ``error``."""
        if self.captured is not None:
            message, delay = self.captured
            self.settlement.retry(message, delay=delay, error=error)

    def _ignored(self, error: Ignore) -> NoReturn:
        if self.replacement is not None:
            self.settlement.complete(self.replacement, Reason.REPLACED)
            raise error
        self.settlement.complete(None, Reason.IGNORED)
        raise ignored(self.task, error)

    def _rejected(self, error: Reject) -> NoReturn:
        if self.doubt:
            self._failed(error)
        if error.requeue:  # type: ignore[attr-defined]
            self.settlement.postpone(wait=1)
        else:
            self.settlement.fail(error, state=State.FAILED, reason=Reason.PERMANENT)
        raise error

    def _failed(self, error: BaseException) -> NoReturn:
        category = self._category(error)
        if category is None and self._met_a_conflict(error):
            category = Category.RETRYABLE
        if category not in CERTAIN and self.doubt:
            category = Category.MANUAL_REVIEW
        if category is Category.RETRYABLE:
            error = self._retry_by_policy(error)
            if is_a(error, Retry):
                self._asked_to_retry(error)
        if category is None and is_thrown(error, self.ledger.policy):
            category = Category.EXPECTED
        state = State.REVIEW if category is Category.MANUAL_REVIEW else State.FAILED
        self.settlement.fail(error, state=state, reason=FINAL.get(category, Reason.RETRIES_USED_UP))
        raise error

    def _met_a_conflict(self, error: BaseException) -> bool:
        """Whether a conflict undid the transaction, so that the same body may succeed in another run.

        Not inside the transaction of an eager caller: the conflict undid the caller's work as well.
        """
        is_callers = self.in_caller_transaction and self.request.is_eager
        return not is_callers and conflict_behind(error) is not None

    def _retry_by_policy(self, error: BaseException) -> BaseException:
        """Ask Celery for a retry: it raises ``Retry``, or the error itself once the retries are used up."""
        with Entered(self):
            try:
                self.task.retry(exc=error, **retry_options(self.task, self.request.retries))
            except BaseException as outcome:  # noqa: BLE001  whichever it is, the caller settles it
                return outcome
        return error
