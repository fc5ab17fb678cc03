"""The ways in which others stamp calls: each arrives with a word about its first argument."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Task, signals

from django_idempotent_tasks import IdempotentTask
from tests.support.post import Post


@contextmanager
def receiver(post: Post) -> Iterator[Any]:
    def stamped(headers: Any, body: Any, **_more: Any) -> None:
        headers["trace"] = f"t{body[0][0]}"

    signals.before_task_publish.connect(stamped)
    try:
        yield post.task()
    finally:
        signals.before_task_publish.disconnect(stamped)


@contextmanager
def instrument(post: Post) -> Iterator[Any]:
    """As sentry-sdk and others do."""
    original = Task.apply_async

    @functools.wraps(original)
    def wrapped(self: Any, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        headers = {**(options.pop("headers", None) or {}), "trace": f"t{args[0]}"}
        return original(self, args, kwargs, headers=headers, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "apply_async", wrapped)
        yield post.task()


@contextmanager
def app(post: Post) -> Iterator[Any]:
    original = post.app.send_task

    def send_task(name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        headers = {**(options.pop("headers", None) or {}), "trace": f"t{args[0]}"}
        return original(name, args, kwargs, headers=headers, **options)

    post.app.send_task = send_task
    yield post.task()


@contextmanager
def shadow(post: Post) -> Iterator[Any]:
    class Named(IdempotentTask[Any, Any]):
        abstract = True

        def shadow_name(self, args: Any, kwargs: Any, options: Any) -> Any:  # noqa: ARG002
            return f"t{args[0]}"

    yield post.task(base=Named)
