"""Orders the messages of one call by turns: a message of an earlier turn than the row's is out of date."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: Which redrive sent the message (the row's token then), how often a task replaced itself, which retry it is.
Turn = tuple[int, int, int]

FIRST: Turn = (0, 0, 0)
#: Mark in the identity's header: the redrive that sent the message, or an earlier message of its line.
REDRIVEN = "redriven"
#: Characters at the head of a stored message in which its turn stands.
HEAD = 64

_OPENING = '{"v": 1, "turn": ['
_WRITTEN = re.compile(re.escape(_OPENING) + r"(\d+), (\d+), (\d+)\]")


def redrive_of(header: object) -> int:
    """The redrive in a message's identity; 0 for none."""
    value = header.get(REDRIVEN) if isinstance(header, dict) else None
    return value if type(value) is int and 0 < value < 2**31 else 0


def turn_of(header: object, details: Mapping[str, Any]) -> Turn:
    """The turn of a message with this identity; ``details`` are its options, or those of its request."""
    return redrive_of(header), _count(details.get("replaced_task_nesting")), _count(details.get("retries"))


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def stored(turn: Turn) -> dict[str, object]:
    """The part of the stored text that names a turn; empty for a first turn."""
    return {} if turn == FIRST else {"turn": list(turn)}


def read(head: str | None) -> Turn | None:
    """The turn of a stored message that begins with ``head``; None where none is stored."""
    if head is None:
        return None
    found = _WRITTEN.match(head)
    return (int(found[1]), int(found[2]), int(found[3])) if found else FIRST


def patterns(turn: Turn | None) -> dict[str, str]:
    """Patterns that a message's head of this turn is LIKE and NOT LIKE; None matches any turn."""
    if turn is None:
        return {"turn": "%", "other_turn": ""}
    if turn == FIRST:
        return {"turn": "%", "other_turn": f"{_OPENING}%"}
    numbers = ", ".join(map(str, turn))
    return {"turn": f"{_OPENING}{numbers}]%", "other_turn": ""}


#: The same patterns for a message that a redrive sent, or that follows such a message.
OF_A_REDRIVE = {"redriven": f"{_OPENING}%", "never_redriven": f"{_OPENING}0,%"}
