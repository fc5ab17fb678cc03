"""Sends a canary: a message that goes through one queue to one worker, to see whether it takes messages.

Any worker of the queue may get it; one that is not meant sends it on through the same queue. It needs no
result backend and no table. Nobody runs it after ``LIFE``, and who sent it in vain takes it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery import Celery
from kombu import Connection

#: The task's name, and the remote control command that tells what became of canaries.
NAME = "django_idempotent_tasks.canary"
COMMAND = "idempotent_canary"
#: Seconds; hosts' clocks may differ by less.
LIFE = 60
#: How often a canary is sent on. Brokers serve idle workers in turn, so that the canaries of one probe
#: together reach many more workers; those for a worker that is ill go round until they are used up.
HOPS = 30
#: How many of the newest messages of a queue are searched for a canary of ours.
SEARCHED = 500


@dataclass(frozen=True, slots=True)
class Canary:
    """One canary. Its ``id`` is the message's task id, and stays the same when it is sent on."""

    id: str
    worker: str
    queue: str
    hops: int = HOPS


def send(app: Celery, connection: Connection, canary: Canary, *, expires: datetime | None = None) -> None:
    """Put a canary into its queue, whatever exchange the queue has. Raises what the transport raises."""
    facts = {"worker": canary.worker, "queue": canary.queue, "hops": canary.hops}
    until = expires or app.now() + timedelta(seconds=LIFE)
    message: Any = app.amqp.create_task_message(
        canary.id, NAME, args=(), kwargs=facts, expires=until, ignore_result=True
    )
    headers, properties, body, _event = message
    with app.amqp.Producer(connection) as producer:
        producer.publish(
            body,
            exchange="",
            routing_key=canary.queue,
            serializer=app.conf.task_serializer,
            delivery_mode=1,
            expiration=LIFE,
            headers=headers,
            **properties,
        )


def take_back(connection: Connection, canary: Canary) -> None:
    """Take a canary out of its queue where Redis keeps it; RabbitMQ itself deletes one after ``LIFE``.

    Raises what the transport raises.
    """
    if connection.transport.driver_type != "redis":
        return
    with connection.channel() as channel:
        client: Any = channel.client  # type: ignore[attr-defined]
        name = f"{getattr(channel, 'global_keyprefix', '')}{canary.queue}"
        mark = canary.id.encode()
        for raw in client.lrange(name, 0, SEARCHED - 1):
            if mark in raw:
                client.lrem(name, 1, raw)
