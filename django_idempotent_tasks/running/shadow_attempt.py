"""What ``self.idempotency`` is in shadow mode, and how the claim of a body that was not guarded ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

from celery.exceptions import Ignore, Reject, Retry

from ..conf import settings
from ..errors.presented import presentable
from ..errors.raised import is_a, is_shutdown
from ..ledger.encoding import storable
from ..ledger.failures import failure_of, masked
from ..ledger.ledger import Ledger
from ..ledger.values import Call, Claim, Claimed, Failure, Grant, Outcome
from ..messages.address import delay_of
from ..messages.masking import sensitive_texts
from ..states import Category, Reason, State
from . import heartbeat
from .categories import FINAL, category_of_error, category_shown, is_thrown
from .context import Entered, announce_start
from .endings import cause_of, is_misfit, ordinary, struck_by
from .progress import Progress
from .unguarded import Detached

logger = logging.getLogger("django_idempotent_tasks")


class Observed(Detached):
    """The handle of a body in shadow mode: that of a plain call, with the key and the token of its claim."""

    def __init__(self, task: Any, claim: Claim) -> None:
        self._task = task.name
        self._identity = claim.call.identity
        self._generation = claim.grant.generation
        self.key = self._identity.key_text
        self.scope = self._identity.scope
        self.token = claim.token
        self.attempt = claim.grant.attempts
        self.previous_attempt_died = claim.grant.reason is Reason.OWNER_DIED


class ShadowAttempt:
    """One run in shadow mode. It may own the key; what it then tells the ledger, no worker acts on."""

    def __init__(
        self, task: Any, ledger: Ledger, call: Call, outcome: Outcome | None, *, in_transaction: bool
    ) -> None:
        self.task = task
        self.request = task.request
        self.ledger = ledger
        self.in_transaction = in_transaction
        #: Seconds until the retry that the body has sent, None without one.
        self.retry_in: float | None = None
        unclaimed = Grant(0, 1, (self.request.retries or 0) + 1, 0, Reason.NONE)
        self.claim = Claim(call, "", unclaimed, ledger.policy.lease)
        self.take(outcome)
        self.handle = Observed(task, self.claim)

    def take(self, outcome: Outcome | None) -> None:
        """Own the key where it was granted."""
        self.outcome = outcome
        self.is_owner = isinstance(outcome, Claimed)
        if isinstance(outcome, Claimed):
            self.claim = outcome.claim

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside, the body runs, and the lease of its claim is held for as long."""
        with ExitStack() as stack:
            if self.is_owner:
                self._begin(stack)
            stack.enter_context(Entered(self))
            yield

    def _begin(self, stack: ExitStack) -> None:
        if not self.in_transaction:
            try:
                stack.enter_context(heartbeat.holding(self.claim, _nothing, _nothing, Progress()))
            except RuntimeError as error:  # no thread can be started
                logger.warning("%s: its lease is not held (%r)", self.task.name, error)
        announce_start(self)

    # -- what the mixin asks of an attempt --

    def captures(self, task: Any, options: dict[str, Any]) -> bool:
        """False: a retry is sent by Celery. It is remembered for the ledger."""
        is_own = task.name == self.task.name and options.get("task_id") == self.request.id
        if is_own and (options.get("retries") or 0) > self.request.retries:
            self.retry_in = delay_of(options, now=self.task.app.now)
        return False

    def is_retried_by(self, _task: Any, _request: Any, _options: dict[str, Any]) -> bool:
        """False: the signature of a retry stays Celery's own."""
        return False

    def replace(self, sig: Any, send: Callable[[Any], Any]) -> NoReturn:
        """Replace as Celery does."""
        send(sig)
        raise AssertionError  # Celery's own raises Ignore

    # -- the end of the claim --

    def returned(self, value: Any) -> None:
        """SUCCEEDED, or RETRY after ``self.retry(throw=False)``."""
        if self.retry_in is not None:
            self._retry(None)
        else:
            self._complete(value, Reason.DONE)

    def failed(self, error: BaseException) -> None:
        """Note how the body ended by the rules of the task; the retry itself is Celery's to decide."""
        error = struck_by(error)
        if is_shutdown(error):
            self.ledger.release(self.claim)
        elif is_a(error, Retry) or self.retry_in is not None:
            self._retry(cause_of(error) if is_a(error, Retry) else error)
        elif is_a(error, Ignore):
            self._complete(None, Reason.IGNORED)
        elif is_a(error, Reject) and error.requeue:  # type: ignore[attr-defined]
            self._retry(None, wait=1)
        else:
            self._fail(ordinary(error))

    def _complete(self, value: Any, reason: Reason) -> None:
        keep, limit = self.ledger.policy.store_result, settings().max_result
        text, reason = storable(value, reason, keep=keep, limit=limit, secrets=self._secrets())
        self.ledger.complete(self.claim, result=text, reason=reason)

    def _retry(self, error: BaseException | None, wait: int = 0) -> None:
        """RETRY without a message: nobody but Celery sends the call again."""
        failure = None if error is None else self._failure(error, Reason.RETRY_ASKED)
        wait = 0 if self.request.is_eager else int(self.retry_in or wait)
        self.ledger.retry(self.claim, message=None, wait=wait, reason=Reason.RETRY_ASKED, failure=failure)

    def _fail(self, error: BaseException) -> None:
        policy = self.ledger.policy
        category = category_of_error(error, policy)
        if category is None and is_misfit(error):
            category = Category.FATAL
        if category is None and is_thrown(error, policy):
            category = Category.EXPECTED
        reason = Reason.PERMANENT if is_a(error, Reject) else FINAL.get(category, Reason.RETRIES_USED_UP)
        state = State.REVIEW if category is Category.MANUAL_REVIEW else State.FAILED
        failure = self._failure(error, reason)
        self.ledger.fail(self.claim, presentable(error), failure=failure, state=state, reason=reason)

    def _failure(self, error: BaseException, reason: Reason) -> Failure:
        category, worker = category_shown(error, reason), self.request.hostname
        failure = failure_of(error, task=self.task.name, category=category, worker=worker)
        return masked(failure, self._secrets())

    def _secrets(self) -> list[str]:
        return sensitive_texts(self.ledger.policy, self.request.args, self.request.kwargs)


def _nothing(*_given: object) -> None:
    """What the heartbeat says of the lease, which decides nothing here."""
