"""Log lines: one more listener on the signals."""

from __future__ import annotations

import logging
from typing import Any

from . import signals
from .outcomes import Call, Claim

logger = logging.getLogger("django_idempotent_tasks")

_UID = "django_idempotent_tasks.log"


def connect() -> None:
    """Write what happens to keys to the logger ``django_idempotent_tasks``."""
    signals.key_taken_over.connect(_taken_over, dispatch_uid=_UID)
    signals.key_failed.connect(_failed, dispatch_uid=_UID)
    signals.lease_lost.connect(_lost, dispatch_uid=_UID)
    signals.duplicate_detected.connect(_duplicate, dispatch_uid=_UID)
    signals.leader_changed.connect(_leads, dispatch_uid=_UID)


def _taken_over(claim: Claim, **_kwargs: object) -> None:
    logger.warning(
        "%s %r was taken over: attempt %d, token %d",
        claim.call.task,
        claim.call.identity.key_text,
        claim.grant.attempts,
        claim.token,
    )


def _failed(claim: Claim, state: Any, **_kwargs: object) -> None:
    logger.error("%s %r ended in %s", claim.call.task, claim.call.identity.key_text, state.name)


def _lost(claim: Claim, **_kwargs: object) -> None:
    logger.warning(
        "%s %r lost its lease (token %d): its completion is refused",
        claim.call.task,
        claim.call.identity.key_text,
        claim.token,
    )


def _duplicate(call: Call, reason: str, holder: str, **_kwargs: object) -> None:
    logger.info(
        "%s %r was refused as a duplicate (%s): call %s has the key",
        call.task,
        call.identity.key_text,
        reason,
        holder,
    )


def _leads(name: str, holder: str, **_kwargs: object) -> None:
    logger.info("%s now leads the %s", holder, name)
