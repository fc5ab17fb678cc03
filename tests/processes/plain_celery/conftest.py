"""An app of Celery's own, without Django and without this package, and what a message of it looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import celery
import pytest
from celery import Celery
from celery.app.trace import build_tracer

#: The version that runs, to name what differs between versions.
VERSION = ".".join(celery.__version__.split(".")[:2])

Tracer = Callable[..., Any]
#: Takes the messages of a queue. Not typed further, as ``app``: the stubs know less of both than Celery does.
Queued = Callable[[], list[Any]]


def define(app: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a task of this app alone."""
    decorate: Callable[[Callable[..., Any]], Any] = app.task(shared=False, **options)
    return decorate


@pytest.fixture
def app() -> Iterator[Any]:
    """An app with a queue of its own in memory."""
    app: Any
    with Celery("contract", broker="memory://", set_as_current=False, fixups=[]) as app:
        app.conf.task_default_queue = uuid4().hex
        # Else it would adopt the shared tasks of every module that this process has imported.
        app.finalized = True
        yield app


@pytest.fixture
def queued(app: Any) -> Queued:
    """Takes every message that waits in the app's queue."""

    def take() -> list[Any]:
        with app.connection_for_read() as connection, connection.channel() as channel:
            app.amqp.queues[app.conf.task_default_queue](channel).declare()
            messages = iter(lambda: channel.basic_get(app.conf.task_default_queue, no_ack=True), None)
            return [message for message in messages if message is not None]

    return take


@pytest.fixture
def trace(app: Any) -> Tracer:
    """Runs a task as a worker's child does, with what a message's header says as ``request``."""

    def run(task: Any, /, *args: Any, **request: Any) -> Any:
        tracer = build_tracer(task.name, task, app=app)
        known = {"id": uuid4().hex, "delivery_info": {}, "retries": 0, **request}
        return tracer(known["id"], list(args), {}, known)

    return run
