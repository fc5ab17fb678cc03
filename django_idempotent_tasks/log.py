"""Writes log lines: a receiver of the package's signals. Puts the key and the attempt on log records."""

from __future__ import annotations

import logging
import time
from typing import Any

from celery import current_task

from . import signals
from .identity.key import Identity
from .identity.text import harmless
from .ledger.values import Call, Claim, Failure
from .messages.header import carried
from .running.context import active
from .states import Category, State

logger = logging.getLogger("django_idempotent_tasks")

_UID = "django_idempotent_tasks.log"


class KeyFields(logging.Filter):
    """Gives each record of a running body ``idempotency.key``, ``task_id``, ``token`` and ``attempt``.

    Around the body, while a message is claimed or its end is written, it gives the first two.

    Put it on a handler (``"filters"`` in ``LOGGING``); this package's own logger has it already. A record
    that has such a field keeps it, and one outside of a delivery gets none. The key is its text for people,
    which quotes no value of a ``sensitive`` argument.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true: it only adds the fields."""
        attempt = active()
        fields = _of_delivery() if attempt is None else fields_of(attempt.claim)
        for name, value in fields.items():
            record.__dict__.setdefault(name, value)
        return True


def fields_of(claim: Claim) -> dict[str, object]:
    """What a log record says of an attempt, for ``extra``."""
    return {**_of_call(claim.call), "token": claim.token, "attempt": claim.grant.attempts}


def _of_call(call: Call) -> dict[str, object]:
    return _named(call.identity, call.task_id)


def _of_delivery() -> dict[str, object]:
    """The call whose message this process handles now."""
    request: Any = getattr(current_task, "request", None)
    if request is None or not isinstance(request.id, str):
        return {}
    own = carried(vars(request), task_name=str(current_task.name), task_id=request.id)
    return {} if own is None else _named(own.identity, request.id)


def _named(identity: Identity, task_id: str) -> dict[str, object]:
    return {"idempotency.key": identity.key_text, "task_id": harmless(task_id)}


#: One, so that it is added once.
_fields = KeyFields()


def connect() -> None:
    """Write what happens to keys to the logger ``django_idempotent_tasks``, with the fields of the key."""
    logger.addFilter(_fields)
    signals.key_taken_over.connect(_taken_over, dispatch_uid=_UID)
    signals.key_failed.connect(_failed, dispatch_uid=_UID)
    signals.dead_lettered.connect(_dead_lettered, dispatch_uid=_UID)
    signals.lease_lost.connect(_lost, dispatch_uid=_UID)
    signals.duplicate_detected.connect(_duplicate, dispatch_uid=_UID)
    signals.would_refuse.connect(_would_refuse, dispatch_uid=_UID)
    signals.leader_changed.connect(_leads, dispatch_uid=_UID)


def _taken_over(claim: Claim, **_kwargs: object) -> None:
    logger.warning(
        "%s %r was taken over: attempt %d, token %d",
        harmless(claim.call.task),
        claim.call.identity.key_text,
        claim.grant.attempts,
        claim.token,
        extra=fields_of(claim),
    )


def _dead_lettered(call: Call, state: State, failure: Failure, **_kwargs: object) -> None:
    """One line at ERROR for each signature and hour: a gateway that is down fails a thousand keys alike."""
    level = logging.ERROR if _signatures.is_new(failure.signature) else logging.INFO
    logger.log(
        level,
        "%s %r is a dead letter (%s, signature %s): %s",
        harmless(call.task),
        call.identity.key_text,
        state.name,
        failure.signature,
        harmless(failure.error),
        extra=_of_call(call),
    )


def _failed(claim: Claim, failure: Failure, **_kwargs: object) -> None:
    """One line for an expected end; every other end has its line as a dead letter."""
    if failure.category is Category.EXPECTED:
        logger.info(
            "%s %r ended as expected (signature %s): %s",
            harmless(claim.call.task),
            claim.call.identity.key_text,
            failure.signature,
            harmless(failure.error),
        )


class _Seen:
    """The signatures that this process has logged lately."""

    def __init__(self, *, seconds: float, most: int) -> None:
        self.seconds = seconds
        self.most = most
        self.logged: dict[str, float] = {}

    def is_new(self, signature: str) -> bool:
        """Whether ``seconds`` have passed since this signature was last logged; notes it as logged."""
        now = time.monotonic()
        if now - self.logged.get(signature, -self.seconds) < self.seconds:
            return False
        if len(self.logged) >= self.most:
            self.logged.clear()
        self.logged[signature] = now
        return True


_signatures = _Seen(seconds=3600, most=1000)


def _lost(claim: Claim, **_kwargs: object) -> None:
    logger.warning(
        "%s %r lost its lease (token %d): its completion is refused",
        harmless(claim.call.task),
        claim.call.identity.key_text,
        claim.token,
        extra=fields_of(claim),
    )


def _duplicate(call: Call, reason: str, holder: str, **_kwargs: object) -> None:
    logger.info(
        "%s %r was refused as a duplicate (%s): call %s has the key",
        harmless(call.task),
        call.identity.key_text,
        reason,
        harmless(holder),
        extra=_of_call(call),
    )


def _would_refuse(call: Call, reason: str, holder: str, **_kwargs: object) -> None:
    logger.info(
        "%s %r runs in shadow mode; the guard would not run it (%s): call %s has the key",
        harmless(call.task),
        call.identity.key_text,
        reason,
        harmless(holder) or "(none)",
        extra=_of_call(call),
    )


def _leads(name: str, holder: str, **_kwargs: object) -> None:
    logger.info("%s now leads the %s", holder, name)
