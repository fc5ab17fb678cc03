"""Which turn of a call a message is: of two messages of one call that of the earlier turn is out of date."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: The redrive that sent it, by the token of the row then; how often a task has left its place; the retries.
Turn = tuple[int, int, int]

FIRST: Turn = (0, 0, 0)
#: Says in the identity's header which redrive sent the message, or one that it follows.
REDRIVEN = "redriven"
#: So much of a stored message tells its turn.
HEAD = 64

_OPENING = '{"v": 1, "turn": ['
_WRITTEN = re.compile(re.escape(_OPENING) + r"(\d+), (\d+), (\d+)\]")


def redrive_of(header: object) -> int:
    """The redrive that a message's identity tells of; 0 for none."""
    value = header.get(REDRIVEN) if isinstance(header, dict) else None
    return value if type(value) is int and 0 < value < 2**31 else 0


def turn_of(header: object, details: Mapping[str, Any]) -> Turn:
    """The turn of a message with this identity; ``details`` are its options, or those of its request."""
    return redrive_of(header), _count(details.get("replaced_task_nesting")), _count(details.get("retries"))


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def stored(turn: Turn) -> dict[str, object]:
    """What the stored text says of a turn behind its version; nothing of a first one."""
    return {} if turn == FIRST else {"turn": list(turn)}


def read(head: str | None) -> Turn | None:
    """The turn of a stored message that begins with ``head``; None where none is stored."""
    if head is None:
        return None
    found = _WRITTEN.match(head)
    return (int(found[1]), int(found[2]), int(found[3])) if found else FIRST


def patterns(turn: Turn | None) -> dict[str, str]:
    """What the head of a row's message is LIKE, and NOT LIKE, where it is of this turn; None: of any."""
    if turn is None:
        return {"turn": "%", "other_turn": ""}
    if turn == FIRST:
        return {"turn": "%", "other_turn": f"{_OPENING}%"}
    numbers = ", ".join(map(str, turn))
    return {"turn": f"{_OPENING}{numbers}]%", "other_turn": ""}


#: The same of a message that a redrive sent, or one that follows it.
OF_A_REDRIVE = {"redriven": f"{_OPENING}%", "never_redriven": f"{_OPENING}0,%"}
