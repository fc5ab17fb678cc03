"""Says why a program ended by itself, from the end of its log."""

from __future__ import annotations

import re
from itertools import takewhile

#: The last line of a traceback: a class with its module, and mostly what it says.
RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?:: .*)?$|^[A-Z]\w*(?:Error|Exception): .*$")
#: Celery's own word before the traceback of what ends its parent; a line of its log begins with a time.
FATAL = re.compile(r"^\[.*\] Unrecoverable error: ")
LOGGED = re.compile(r"^\[\d{4}-\d\d-\d\d ")
LONGEST = 200
#: What a broker says where it refuses a command, which Celery's consumer does not take for a lost connection.
OF_REDIS = ("MISCONF", "maxmemory", "READONLY")
OF_RABBITMQ = ("RESOURCE_LOCKED", "PRECONDITION_FAILED", "ACCESS_REFUSED")
REFUSALS = (*OF_REDIS, *OF_RABBITMQ)
CELERYS = "Celery ends a worker whose broker refuses a command; a supervisor has to begin another one"


def reason_of(log: str) -> str:
    """Why it ended, as far as its log says; empty where the log says nothing."""
    said = next((line for line in reversed(_last_words(log.splitlines())) if RAISED.match(line)), "")[
        :LONGEST
    ]
    return f"{said}; {CELERYS}" if any(word in said for word in REFUSALS) else said


def _last_words(lines: list[str]) -> list[str]:
    """The lines that tell of the end: a child may log an error of its task after the parent's last one."""
    fatal = max((number for number, line in enumerate(lines) if FATAL.match(line)), default=None)
    if fatal is None:
        return lines
    return [lines[fatal], *takewhile(lambda line: not LOGGED.match(line), lines[fatal + 1 :])]
