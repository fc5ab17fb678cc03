"""What a task or a person wrote, for a log, a terminal or a page."""

from __future__ import annotations

import json
from typing import Any

#: Characters of a value that people are shown.
LONGEST = 256 * 1024

_ENCODER = json.JSONEncoder(indent=2, ensure_ascii=False, default=str)


def harmless(text: object) -> str:
    """The text on one line, with what a terminal would act on written as an escape."""
    return "".join(char if char.isprintable() else _escaped(char) for char in str(text))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def indented(value: Any) -> str:
    """A value as JSON over several lines, up to 256 KiB.

    Written piece by piece, since indentation makes 30 MB of 100 kB that are nested deeply.
    """
    parts, room = list[str](), LONGEST
    for part in _ENCODER.iterencode(value):
        parts.append(part[:room])
        room -= len(part)
        if room < 0:
            return f"{''.join(parts)}\n... cut here: it is too long to be shown."
    return "".join(parts)
