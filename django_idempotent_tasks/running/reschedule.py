"""Brings a message back later: a copy is published first, only then is this delivery acknowledged."""

from __future__ import annotations

import logging
import random
import time
from typing import Any, NoReturn

from celery.exceptions import Ignore, Reject

from ..messages.message import Message
from ..messages.relay import relay

logger = logging.getLogger("django_idempotent_tasks")

#: A copy comes back after at most this many seconds: Redis keeps it unacknowledged in a worker meanwhile.
LONGEST_WAIT = 30.0
#: The header in which a RabbitMQ quorum queue counts how often it has delivered a message again. Above the
#: queue's limit (20 by default in RabbitMQ 4) it drops the message.
DELIVERY_COUNT = "x-delivery-count"


def come_back(task: Any, *, seconds: float) -> NoReturn:
    """Send a copy (same id, same retries, no ``expires``) and end this delivery with ``Ignore``.

    When the copy cannot be sent the delivered message goes back to its queue instead.
    """
    countdown = min(seconds, LONGEST_WAIT) + random.uniform(0.05, 0.5)
    try:
        _send_copy(task, countdown=countdown)
    except Exception as error:
        time.sleep(random.uniform(0.2, 1.0))
        raise Reject(f"not rescheduled: {error!r}", requeue=True) from error
    raise Ignore


def give_back(task: Any, reason: str) -> NoReturn:
    """Put the delivered message back on its queue, to be delivered again at once.

    A queue that counts deliveries would drop the message in the end: there a copy is sent instead.
    """
    if vars(task.request).get(DELIVERY_COUNT):
        try:
            _send_copy(task)
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            logger.warning("%s: no copy of its message was sent (%r)", task.name, error)
        else:
            raise Ignore
    raise Reject(reason, requeue=True)


def _send_copy(task: Any, *, countdown: float = 0) -> None:
    """Send a copy; when this returns, the broker has it, and the delivered message may be acknowledged."""
    relay.replace(task.app, Message.of_request(task, task.request), countdown=countdown)
