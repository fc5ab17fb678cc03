"""Calls sent to the broker, and the queue to look into."""

from __future__ import annotations

from queue import Empty
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from kombu.utils import json as wire

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.relay import relay


class Post:
    """An app on a broker of its own, and what has arrived there."""

    def __init__(self) -> None:
        self.queue = f"q{uuid4().hex}"
        self.app = Celery(f"sending-{self.queue}", set_as_current=False)
        self.app.conf.update(task_default_queue=self.queue, result_backend=None)

    def task(self, function: Any = None, **options: Any) -> Any:
        """A reserving task of this app."""
        defaults = {
            "base": IdempotentTask,
            "reserve": True,
            "key": "order_id",
            "name": "shop.charge",
            "shared": False,
        }

        def run(order_id: int, amount: str = "1") -> int:  # noqa: ARG001
            return order_id

        return self.app.task(**{**defaults, **options})(function or run)

    def arrived(self, queue: str | None = None) -> list[Any]:
        """Take the messages that wait; their headers, with the arguments under ``args`` and ``kwargs``."""
        found = []
        with (
            self.app.connection_for_read() as connection,
            connection.SimpleQueue(queue or self.queue) as simple,
        ):
            while (message := _next(simple)) is not None:
                message.ack()
                args, kwargs, embed = wire.loads(message.body)
                found.append(
                    {
                        **message.headers,
                        "args": args,
                        "kwargs": kwargs,
                        "embed": embed,
                        "properties": message.properties,
                        "info": message.delivery_info,
                    }
                )
        return found


def _next(simple: Any) -> Any:
    try:
        return simple.get_nowait()
    except Empty:
        return None


@pytest.fixture
def post() -> Post:
    """An app whose relay has not failed lately."""
    relay._closed_until = 0.0
    return Post()
