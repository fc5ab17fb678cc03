"""An app whose messages a test takes from the queue and ends as a worker does, as often as it wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any
from uuid import uuid4

from celery import Celery, current_app
from celery.app.trace import build_tracer
from django_celery_results.models import ChordCounter, TaskResult  # type: ignore[attr-defined]  # old stubs
from kombu.utils import json as wire

from django_idempotent_tasks import IdempotentTask

BACKEND = "django_idempotent_tasks.results:DatabaseBackend"


class Router:
    """Sends the results' tables, and no others, to one database."""

    alias = "default"

    def db_for_read(self, model: Any, **_hints: Any) -> str | None:
        return self.alias if model in {ChordCounter, TaskResult} else None

    db_for_write = db_for_read


class Desk:
    """Plain tasks ``part``, ``collect`` and ``last``, a guarded ``kept``; queue and results are its own."""

    def __init__(self, backend: str = BACKEND) -> None:
        self.queue = f"q{uuid4().hex}"
        self.app: Any = Celery(f"desk-{self.queue}", set_as_current=False)
        self.app.conf.update(task_default_queue=self.queue, result_backend=backend, result_extended=True)
        self.part = self.task("part", _part)
        self.collect = self.task("collect", _same)
        self.last = self.task("last", _same)
        self.heard = self.task("heard", _same)
        self.kept = self.task("kept", _part, base=IdempotentTask, key="value")

    def task(self, name: str, function: Callable[..., Any], **options: Any) -> Any:
        """Add a task."""
        return self.app.task(function, name=f"desk.{name}", shared=False, **options)

    def messages(self, name: str = "") -> list[Any]:
        """Take the messages that wait; those of one task or of all."""
        found = list(self._taken())
        return [message for message in found if name in {"", message["task"].removeprefix("desk.")}]

    def end(self, message: Any, **more: Any) -> Any:
        """Run a message as a worker's child does, and report its end to the backend."""
        task = self.app.tasks[message["task"]]
        args, kwargs, embed = message["body"]
        request = {**message, **embed, "delivery_info": {}, "is_eager": False, **more}
        request.pop("body")
        tracer: Any = build_tracer(task.name, task, app=self.app)
        return tracer(message["id"], args, kwargs, request)

    def finish(self) -> dict[str, Any]:
        """End every message until none is left; what each task was called with first, by its id."""
        seen: dict[str, Any] = {}
        while messages := self.messages():
            for message in messages:
                seen.setdefault(message["id"], (message["task"], message["body"][0]))
                self.end(message)
        return seen

    def _taken(self) -> Iterator[Any]:
        with self.app.connection_for_read() as connection, connection.SimpleQueue(self.queue) as simple:
            while True:
                try:
                    message = simple.get(block=False)
                except Empty:
                    return
                message.ack()
                yield {**message.headers, "body": wire.loads(message.body)}

    @contextmanager
    def open(self) -> Iterator[Desk]:
        """Be the current app, as in a worker; let its connections go at the end."""
        before = current_app._get_current_object()  # type: ignore[attr-defined]  # a proxy's
        self.app.set_current()
        try:
            yield self
        finally:
            before.set_current()
            self.app.close()


def _part(value: Any) -> Any:
    if value == "fails":
        raise ValueError(value)
    return value


def _same(value: Any) -> Any:
    return value


def counters() -> int:
    """How many chords wait."""
    return int(ChordCounter.objects.count())
