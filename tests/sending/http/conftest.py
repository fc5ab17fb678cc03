"""A signed-in client of a project whose views submit a task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.sending.http import urls
from tests.support.post import Post


class Visitor:
    """Somebody with a browser."""

    def __init__(self, name: str | None = None) -> None:
        self.client = Client(raise_request_exception=False)
        if name is not None:
            self.client.force_login(User.objects.get_or_create(username=name)[0])

    def submit(self, key: str | None = '"k1"', *, path: str = "/plans/", **kwargs: Any) -> Any:
        """POST the arguments, under this header."""
        headers = {} if key is None else {"Idempotency-Key": key}
        body = json.dumps(kwargs or {"order_id": 7})
        return self.client.post(path, body, content_type="application/json", headers=headers)

    def get(self, url: str) -> Any:
        """GET."""
        return self.client.get(url)

    def post(self, url: str) -> Any:
        """POST nothing."""
        return self.client.post(url)


@pytest.fixture(name="post")
def _post() -> Post:
    return Post()


@pytest.fixture(name="task")
def _task(post: Post, settings: Any) -> Iterator[Any]:
    settings.ROOT_URLCONF = "tests.sending.http.urls"
    task = post.task(name="plans.generate", max_retries=0)
    urls.TASK.append(task)
    yield task
    urls.TASK.pop()
    urls.STATED.clear()


@pytest.fixture(name="ann")
def _ann(task: Any) -> Visitor:  # noqa: ARG001  whose URLs are asked
    return Visitor("ann")
