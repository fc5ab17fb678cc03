"""Answers the health probe: which queues this worker takes messages from, and which canaries it has run.

A worker whose parent answers a ping may still take nothing: its consumer is gone after a lost connection,
somebody cancelled it, or the pool is stuck. Only a message that goes all the way shows that it works.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime
from typing import Any

from celery import Task, shared_task, signals
from celery.worker import state as worker_state
from celery.worker.control import inspect_command

from ..errors.stopping import is_consuming, is_stopping
from ..messages.address import address_of
from ..messages.canary import COMMAND, NAME, Canary, send
from ..messages.relay import bounded_connection, collapse

_UID = "django_idempotent_tasks.worker.canary"
#: Seconds after a probe's last question for which messages are counted; a probe asks every 2 seconds.
COUNTED = 60.0

#: Messages that this worker has received, by queue, without canaries; "" is a queue that is not known.
_received: Counter[str] = Counter()
#: When a probe last asked, in seconds of the monotonic clock.
_asked_at = 0.0
#: The queues with which the worker began.
_began_with: list[str] = []


@shared_task(base=Task, bind=True, name=NAME, acks_late=False, ignore_result=True, send_events=False)
def canary(self: Any, worker: str, queue: str, hops: int) -> None:
    """Do nothing in the worker that is meant; in any other send the canary on."""
    request = self.request
    if request.hostname == worker or hops <= 0:
        return
    connection = bounded_connection(self.app)
    # The probe sends another one where this cannot be sent on.
    with suppress(Exception):
        until = datetime.fromisoformat(request.expires) if request.expires else None
        send(self.app, connection, Canary(request.id, worker, queue, hops - 1), expires=until)
    collapse(connection)


def begin(consumer: Any) -> None:
    """Note the queues of a worker that is ready."""
    _began_with[:] = queues_of(consumer)


def count_received() -> None:
    """Count the messages that this worker receives from now on, as long as a probe asks."""
    global _asked_at  # noqa: PLW0603  one worker a process
    _asked_at = time.monotonic()
    signals.task_received.connect(note_received, dispatch_uid=_UID)


def note_received(sender: Any = None, request: Any = None, **_kwargs: object) -> None:
    """Count a message that this worker has received; no more once no probe asks: Celery's signal costs."""
    if time.monotonic() - _asked_at > COUNTED:
        signals.task_received.disconnect(dispatch_uid=_UID)
    if request.name != NAME:
        info = request.delivery_info or {}
        _received[str(address_of(sender.app, info).get("queue") or "")] += 1


@inspect_command(name=COMMAND, visible=False)
def answer(state: Any, ids: Any = ()) -> dict[str, Any]:
    """What a probe wants to know; ``ids`` are its canaries. The first question begins the count."""
    count_received()
    consumer = state.consumer
    pool, qos = getattr(consumer, "pool", None), getattr(consumer, "qos", None)
    return {
        "pid": os.getpid(),
        "stopping": is_stopping(),
        "consuming": is_consuming(),
        "queues": queues_of(consumer),
        "began_with": list(_began_with),
        "received": dict(_received),
        "ran": [each for each in ids if each in worker_state.successful_requests],
        "waiting": [each for each in ids if each in worker_state.requests],
        "active": len(worker_state.active_requests),
        "reserved": len(worker_state.reserved_requests),
        "slots": int(getattr(pool, "num_processes", 0) or 0),
        "prefetch": int(getattr(qos, "value", 0) or 0),
        "oldest": _oldest(),
    }


def queues_of(consumer: Any) -> list[str]:
    """The queues that the worker consumes, without broadcasts, which each worker gets a copy of."""
    consumed = getattr(consumer, "task_consumer", None)
    return [str(queue.name) for queue in getattr(consumed, "queues", ()) if queue.exchange.type != "fanout"]


def _oldest() -> float:
    """For how many seconds the oldest running body has run."""
    began = [each.time_start for each in list(worker_state.active_requests) if each.time_start]
    return round(time.time() - min(began), 1) if began else 0.0
