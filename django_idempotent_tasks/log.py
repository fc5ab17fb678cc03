"""Writes log lines: a receiver of the package's signals."""

from __future__ import annotations

import logging
import time

from . import signals
from .identity.text import harmless
from .ledger.values import Call, Claim, Failure
from .states import State

logger = logging.getLogger("django_idempotent_tasks")

_UID = "django_idempotent_tasks.log"


def connect() -> None:
    """Write what happens to keys to the logger ``django_idempotent_tasks``."""
    signals.key_taken_over.connect(_taken_over, dispatch_uid=_UID)
    signals.dead_lettered.connect(_dead_lettered, dispatch_uid=_UID)
    signals.lease_lost.connect(_lost, dispatch_uid=_UID)
    signals.duplicate_detected.connect(_duplicate, dispatch_uid=_UID)
    signals.leader_changed.connect(_leads, dispatch_uid=_UID)


def _taken_over(claim: Claim, **_kwargs: object) -> None:
    logger.warning(
        "%s %r was taken over: attempt %d, token %d",
        harmless(claim.call.task),
        claim.call.identity.key_text,
        claim.grant.attempts,
        claim.token,
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
    )


def _duplicate(call: Call, reason: str, holder: str, **_kwargs: object) -> None:
    logger.info(
        "%s %r was refused as a duplicate (%s): call %s has the key",
        harmless(call.task),
        call.identity.key_text,
        reason,
        harmless(holder),
    )


def _leads(name: str, holder: str, **_kwargs: object) -> None:
    logger.info("%s now leads the %s", holder, name)
