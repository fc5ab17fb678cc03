"""Shows stored JSON to people; a text that cannot be read is shown as such, and raises nothing."""

from __future__ import annotations

import json
from typing import Any

#: A page, a report or a document puts a value a few levels deeper than it was stored.
_LEVELS = 64

#: Characters of a value that people are shown.
LONGEST = 256 * 1024

_ENCODER = json.JSONEncoder(indent=2, ensure_ascii=False, default=str)


class Unreadable(ValueError):
    """A stored text cannot be read; the message says so in words for people."""


def unreadable(error: BaseException) -> str:
    """What people see instead of an unreadable text: the kind of the error, nothing of the text."""
    return f"not readable ({type(error).__name__})"


def parsed(text: str, **how: Any) -> Any:
    """The value of a stored JSON text, which can be written as JSON again; else raises Unreadable.

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


def indented(value: object) -> str:
    """JSON over several lines, up to 256 KiB, or words that it cannot be shown. Never raises.

    Written piece by piece, since indentation makes 30 MB of 100 kB that are nested deeply.
    """
    parts, room = list[str](), LONGEST
    try:
        for part in _ENCODER.iterencode(value):
            parts.append(part[:room])
            room -= len(part)
            if room < 0:
                return f"{''.join(parts)}\n... cut here: it is too long to be shown."
    except Exception as error:  # noqa: BLE001  a project's classes may raise anything
        return unreadable(error)
    return "".join(parts)
