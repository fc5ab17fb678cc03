"""Shows arguments to people: by the names of the task's parameters, without what ``REDACT`` removes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from django.utils.functional import Promise

from ..conf import settings
from ..exceptions import ConfigurationError
from ..identity.arguments import Binder
from ..messages.message import Message
from ..messages.unreadable import indented
from .tasks import known_task

#: Types of arguments that JSON does not have: their values are shown as text.
_TEXTS = (datetime, date, time, Decimal, UUID, bytes, Promise)

#: Options of a message that are shown: how it is sent, nothing of other calls.
_OPTIONS = ("queue", "exchange", "routing_key", "priority", "eta", "expires", "retries", "time_limit")


def arguments_of(task: str, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments by name, as JSON; an argument without a known parameter by its place, from ``"0"``.

    ``REDACT(task, arguments)`` returns what is shown. Where it raises, no argument is shown; nor is a
    returned value that JSON cannot hold.
    """
    found = _named(task, list(args)) | dict(kwargs)
    redact = settings().redact
    if redact is None:
        return {name: _plain(value) for name, value in found.items()}
    try:
        given: Any = redact(task, found)
    except Exception as error:  # noqa: BLE001  a project's function may raise anything
        return {"not shown": f"REDACT raised {type(error).__name__}"}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        return {"not shown": "REDACT must return a dict of arguments by their names"}
    return {name: _plain(value) for name, value in given.items()}


def _plain(value: object) -> Any:
    """The value as JSON gives it back; for a value that JSON cannot hold, its type."""
    try:
        return json.loads(json.dumps(value, default=_text), parse_constant=str)
    except Exception:  # noqa: BLE001  a project's classes may raise anything
        return f"not shown: {type(value).__name__}, which JSON cannot hold"


def _text(value: object) -> str:
    if isinstance(value, _TEXTS):
        return str(value)
    raise TypeError


def call_of(task: str, text: str | None) -> dict[str, Any] | None:
    """The arguments and options of a stored message, for people; None without a readable one."""
    if text is None:
        return None
    try:
        message = Message.decode(task, text)
    except ValueError:
        return None
    options = {name: message.options[name] for name in _OPTIONS if message.options.get(name) is not None}
    return {"arguments": arguments_of(task, message.args, message.kwargs), "options": options}


def call_text(task: str, text: str | None) -> str:
    """The same as JSON text over several lines, with every number exact."""
    if text is None:
        return "none"
    found = call_of(task, text)
    return "not readable" if found is None else indented(found)


def _named(task: str, args: list[Any]) -> dict[str, Any]:
    binder, named = binder_of(task), dict[str, Any]()
    for place, value in enumerate(args):
        name = None if binder is None else binder.name_at(place)
        named[str(place) if name is None or name in named else name] = value
    return named


def binder_of(task: str) -> Binder | None:
    """The parameters of a task; None where this process does not know the task."""
    found: Any = known_task(task)
    policy = getattr(found, "idempotency_policy", None)
    if policy is not None:
        return cast("Binder", policy.key_rules.binder)
    try:
        return None if found is None else Binder(found.run, skip_first=False)
    except ConfigurationError:
        return None
