"""A project for the examples: ``shop``, a Celery app as the current one, and a worker that never waits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from queue import Empty
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery, shared_task
from django.db import transaction
from kombu.utils import json as wire

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.messages.relay import relay
from tests.docs import shop
from tests.docs.pages import Block
from tests.docs.shop import carrier, gateway, models
from tests.support.ledger.quick import emptied_by_delete

__all__ = ["emptied_by_delete"]

#: Where Celery keeps the current app and the shared tasks; the stubs do not know.
celery_state: Any = import_module("celery._state")

#: What an example need not import.
KNOWN = {"IdempotentTask": IdempotentTask, "shared_task": shared_task, "transaction": transaction}


class Example:
    """Runs the blocks of one page, each behind the other, and after each what it has sent."""

    def __init__(self, app: Any, module: ModuleType) -> None:
        self.app, self.module = app, module
        vars(module).update(KNOWN)

    def run(self, block: Block) -> None:
        """A failure is shown at the page's own line."""
        code = "\n" * (block.line - 1) + block.text
        exec(compile(code, str(block.page), "exec", dont_inherit=True), vars(self.module))  # noqa: S102
        self.work()

    def work(self) -> None:
        """Run what was sent, until nothing waits."""
        name = self.app.conf.task_default_queue
        with self.app.connection_for_read() as connection, connection.SimpleQueue(name) as queue:
            while (message := _next(queue)) is not None:
                message.ack()
                self._run(message)

    def _run(self, message: Any) -> None:
        args, kwargs, _embed = wire.loads(message.body)
        headers = {"idempotency": message.headers["idempotency"]}
        self.app.tasks[message.headers["task"]].apply(
            args, kwargs, task_id=message.headers["id"], headers=headers, throw=False
        )


def _next(queue: Any) -> Any:
    try:
        return queue.get_nowait()
    except Empty:
        return None


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[Example]:  # noqa: ARG001
    """A page's own project, of which nothing is left afterwards."""
    tasks = ModuleType("shop.tasks")
    for name, module in {"": shop, ".carrier": carrier, ".gateway": gateway, ".models": models}.items():
        monkeypatch.setitem(sys.modules, f"shop{name}", module)
    for name in ("shop.access", "shop.tasks", "shop.views"):
        monkeypatch.setitem(sys.modules, name, tasks)
    monkeypatch.setattr(celery_state, "_on_app_finalizers", set(celery_state._on_app_finalizers))
    monkeypatch.setattr(celery_state._tls, "current_app", None)
    app = Celery("docs", broker="memory://")
    app.conf.update(task_default_queue=f"docs-{uuid4().hex}", result_backend=None)
    relay.forget()
    yield Example(app, tasks)
    app.close()
    for each in celery_state._get_active_apps():  # Celery adds a shared task to all that are there
        for name in [name for name in each._tasks if name.startswith("shop.")]:
            del each._tasks[name]
