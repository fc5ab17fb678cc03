"""Brings a message back later: a copy is published first, only then is this delivery acknowledged."""

from __future__ import annotations

import random
import time
from typing import Any, NoReturn

from celery.exceptions import Ignore, Reject

from .message import Message

#: A copy comes back after at most this many seconds: Redis keeps it unacknowledged in a worker meanwhile.
LONGEST_WAIT = 30.0


def come_back(task: Any, *, seconds: float) -> NoReturn:
    """Send a copy (same id, same retries, no ``expires``) and end this delivery with ``Ignore``.

    When the copy cannot be sent the delivered message goes back to its queue instead.
    """
    countdown = min(seconds, LONGEST_WAIT) + random.uniform(0.05, 0.5)
    try:
        Message.of_request(task, task.request).publish(task.app, countdown=countdown)
    except Exception as error:
        time.sleep(random.uniform(0.2, 1.0))
        raise Reject(f"not rescheduled: {error!r}", requeue=True) from error
    raise Ignore
