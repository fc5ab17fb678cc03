"""Stored JSON for people: what nobody can read any more is an answer too, and never an error."""

from __future__ import annotations

import json
from typing import Any

#: A page, a report or a document puts a value a few levels deeper than it was stored.
_LEVELS = 64


class Unreadable(ValueError):
    """A stored text that cannot be read; its message says so in words for people."""


def unreadable(error: BaseException) -> str:
    """What stands in the place of such a text: the kind of the error, nothing of the text."""
    return f"not readable ({type(error).__name__})"


def parsed(text: str, **how: Any) -> Any:
    """The value of a stored JSON text, which can be written as JSON again. Raises Unreadable.

    ``how`` is for :func:`json.loads`.
    """
    try:
        value = json.loads(text, **how)
        wrapped = value
        for _ in range(_LEVELS):
            wrapped = [wrapped]
        json.dumps(wrapped)
    except Exception as error:
        raise Unreadable(unreadable(error)) from error
    return value


def indented(value: object, **how: Any) -> str:
    """JSON over several lines; in words that it cannot be shown where that raises. Never raises."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, **how)
    except Exception as error:  # noqa: BLE001  a project's classes may raise anything
        return unreadable(error)
