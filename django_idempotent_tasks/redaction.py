"""Arguments for people: under the names of the task's parameters, without what ``REDACT`` takes away."""

from __future__ import annotations

import json
from typing import Any, cast

from celery import current_app

from .binding import Binder
from .conf import settings
from .exceptions import ConfigurationError
from .message import Message

#: Options of a message that say how it is sent, and nothing of other calls.
_OPTIONS = ("queue", "exchange", "routing_key", "priority", "eta", "expires", "retries", "time_limit")


def arguments_of(task: str, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments by name; those that no parameter is known for by their position, from ``"0"``.

    ``REDACT(task, arguments)`` says what is shown. Where it raises nothing is.
    """
    found = _named(task, list(args)) | dict(kwargs)
    redact = settings().redact
    if redact is None:
        return found
    try:
        return dict(redact(task, found))
    except Exception as error:  # noqa: BLE001  a project's function may raise anything
        return {"not shown": f"REDACT raised {type(error).__name__}"}


def call_of(task: str, text: str | None) -> dict[str, Any] | None:
    """A stored message for people; None without one, or with one that cannot be read."""
    if text is None:
        return None
    try:
        message = Message.decode(task, text)
    except ValueError:
        return None
    options = {name: message.options[name] for name in _OPTIONS if message.options.get(name) is not None}
    return {"arguments": arguments_of(task, message.args, message.kwargs), "options": options}


def call_text(task: str, text: str | None) -> str:
    """The same as JSON over several lines; every number exact."""
    if text is None:
        return "none"
    found = call_of(task, text)
    return "not readable" if found is None else json.dumps(found, indent=2, ensure_ascii=False, default=str)


def _named(task: str, args: list[Any]) -> dict[str, Any]:
    binder, named = _binder(task), dict[str, Any]()
    for place, value in enumerate(args):
        name = None if binder is None else binder.name_at(place)
        named[str(place) if name is None or name in named else name] = value
    return named


def _binder(task: str) -> Binder | None:
    """The parameters of a task that this process knows."""
    found: Any = current_app.tasks.get(task)
    policy = getattr(found, "idempotency_policy", None)
    if policy is not None:
        return cast("Binder", policy.key_rules.binder)
    try:
        return None if found is None else Binder(found.run, skip_first=False)
    except ConfigurationError:
        return None
