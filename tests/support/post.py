"""Calls sent to the broker, and the queue to look into."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from django.db import transaction
from kombu.utils import json as wire

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.sweeper.sweep import sweep_once


class Post:
    """An app on a broker of its own, and what has arrived there."""

    def __init__(self) -> None:
        self.queue = f"q{uuid4().hex}"
        self.app: Any = Celery(f"sending-{self.queue}", set_as_current=False)
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
        name = queue or self.queue
        with self.app.connection_for_read() as connection, connection.SimpleQueue(name) as simple:
            while (message := _next(simple)) is not None:
                message.ack()
                found.append({**message.headers, **_body(message), "properties": message.properties})
        return found

    def sweep(self, after: int = 400) -> None:
        """Sweep as if so many seconds had passed."""
        with shifted(after):
            sweep_once(self.app, get_store())

    def work(self, *tasks: Any) -> list[Any]:
        """Take the messages that wait and run them here, as they say; their results."""
        known = {task.name: task for task in tasks}
        return [
            known[message["task"]].apply(
                message["args"], message["kwargs"], task_id=message["id"],
                headers={"idempotency": message["idempotency"]},
            )
            for message in self.arrived()
        ]  # fmt: skip


def _body(message: Any) -> dict[str, Any]:
    is_json = message.content_type == "application/json"
    args, kwargs, embed = wire.loads(message.body) if is_json else (None, None, None)
    return {"args": args, "kwargs": kwargs, "embed": embed, "content_type": message.content_type}


def _next(simple: Any) -> Any:
    try:
        return simple.get_nowait()
    except Empty:
        return None


@pytest.fixture
def post() -> Post:
    """An app whose relay has not failed lately."""
    relay.forget()
    return Post()


@contextmanager
def _broker_at(post: Post, port: int) -> Iterator[None]:
    relay.forget()
    post.app.conf.broker_write_url = f"redis://127.0.0.1:{port}/0"
    yield
    post.app.conf.broker_write_url = None
    relay.forget()


@contextmanager
def no_broker(post: Post) -> Iterator[None]:
    """A broker that is down."""
    with _broker_at(post, 9):
        yield


@contextmanager
def silent_broker(post: Post) -> Iterator[Callable[[], float]]:
    """A broker that takes connections and never says a word; gives how long was spent with it."""
    with socket.create_server(("127.0.0.1", 0)) as server, _broker_at(post, server.getsockname()[1]):
        began = time.monotonic()
        yield lambda: time.monotonic() - began


class _Rollback(Exception):
    pass


@contextmanager
def rolled_back(using: str = "default") -> Iterator[None]:
    """A transaction that ends without its work, as when a view raises."""
    with suppress(_Rollback), transaction.atomic(using=using):
        yield
        raise _Rollback


def only_row() -> IdempotencyKey:
    """The one row of the ledger."""
    return IdempotencyKey.objects.get()
