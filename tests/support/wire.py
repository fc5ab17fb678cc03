"""What an app without a broker is given to publish, as its own ``send_task`` would have been told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kombu import Producer

from django_idempotent_tasks.messages.places import place

#: Headers of Celery's protocol that are an option of the same name.
_SAME = ("eta", "expires", "retries", "root_id", "parent_id")
_NOT_OF_THE_USER = {*_SAME, "lang", "task", "id", "shadow", "group", "group_index", "timelimit", "argsrepr"}
_NOT_OF_THE_USER |= {"kwargsrepr", "origin", "ignore_result", "replaced_task_nesting", "stamped_headers"}
_NOT_OF_THE_USER |= {"stamps"}


class Wire:
    """In the place of kombu's producer; also the connection that Celery asks it for."""

    def __init__(self, tell: Callable[..., Any]) -> None:
        self._tell = tell
        self.connection = self

    @contextmanager
    def _reraise_as_library_errors(self) -> Iterator[None]:
        yield

    def publish(self, body: Any, *, headers: dict[str, Any], **_sending: Any) -> None:
        """Tell of one message: name, arguments and options.

        Not of one with places in it, which shows the form of its kind and would reach no broker either.
        """
        if headers["id"] == place("id"):
            return
        args, kwargs, _embedded = body
        options = {name: headers[name] for name in _SAME if headers[name] is not None}
        options["task_id"] = headers["id"]
        options["headers"] = {name: value for name, value in headers.items() if name not in _NOT_OF_THE_USER}
        self._tell(headers["task"], args, kwargs, **options)


def is_stamped(options: dict[str, Any]) -> bool:
    """Whether the call is only stamped now, by a producer of ours, and published later by one of kombu's."""
    producer = options.get("producer")
    return producer is not None and not isinstance(producer, Producer)
