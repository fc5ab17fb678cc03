"""A backend whose messages are kept, and delivered when a test says so; on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from django_idempotent_tasks.messages.relay import relay
from tests.support.deliveries import alias, careless_sqlite, shop, till  # noqa: F401
from tests.support.till import End, Till

if TYPE_CHECKING:
    from pytest_django import Settings

pytest.importorskip("django_idempotent_tasks.backend", exc_type=ImportError)

#: The Celery app that the backend finds by its path.
app: Any = None


class Place:
    """The backend's side of a test: what it has sent, and the worker that takes it."""

    def __init__(self, till: Till) -> None:  # noqa: F811
        self.till = till

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The options of the messages that wait."""
        return [each.options for each in self.till.sent]

    def deliver(self) -> End:
        """Deliver the oldest message."""
        return self.till.deliver_sent(self.till.tasks[self.till.sent[0].name])


@pytest.fixture
def place(till: Till, alias: str, settings: Settings) -> Iterator[Place]:  # noqa: ARG001, F811
    """A backend on an app of this test."""
    relay.forget()
    globals()["app"] = till
    settings.TASKS = {
        "default": {**settings.TASKS["default"], "OPTIONS": {"CELERY_APP": f"{__name__}.app"}},
    }
    yield Place(till)
    globals()["app"] = None
