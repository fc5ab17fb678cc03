"""Asks a broker how deep a queue is: work that still waits there is not sent again."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Connection

from .message import Message


class Depths:
    """The number of messages in each queue of one broker connection; each queue is asked once."""

    def __init__(self, app: Celery, connection: Connection) -> None:
        self._app = app
        self._connection = connection
        self._known: dict[str, int] = {}

    def of(self, message: Message) -> int:
        """How many messages wait where this one would go; 0 for a queue that does not exist or answer.

        Raises what the transport raises when the broker is away, but asks no queue a second time.
        """
        try:
            name = queue_of(self._app, message)
        except Exception:  # noqa: BLE001  a router is the project's own
            return 0
        return self.of_queue(name)

    def of_queue(self, name: str) -> int:
        """The same for a queue by its name."""
        if name not in self._known:
            self._known[name] = 0
            self._known[name] = self._ask(name)
        return self._known[name]

    def _ask(self, name: str) -> int:
        # Passive: a queue that does not exist is not created. On Redis nothing is created anyway, and the
        # passive form asks for the key without kombu's global_keyprefix (kombu 5.7).
        passive = self._connection.transport.driver_type != "redis"
        try:
            # On a channel of its own: AMQP closes a channel that asks for a queue that does not exist.
            with self._connection.channel() as channel:
                declared = channel.queue_declare(queue=name, passive=passive)  # type: ignore[attr-defined]
                return int(declared.message_count)
        except self._connection.connection_errors:
            raise
        except Exception:  # noqa: BLE001  every transport has its own errors
            return 0


def queue_of(app: Celery, message: Message) -> str:
    """The name of the queue in the message's options, else the one that the routers give.

    Raises what a router of the project raises.
    """
    stated = dict(message.addressed(app))
    if isinstance(stated.get("queue"), str):
        return str(stated["queue"])
    route: Any = app.amqp.router.route
    task = app.tasks.get(message.task)
    options = route(stated, message.task, list(message.args), dict(message.kwargs), task)
    queue = options.get("queue")
    return str(getattr(queue, "name", queue) or app.conf.task_default_queue)
