"""Says why a program ended by itself, from the end of its log."""

from __future__ import annotations

import re

#: The last line of a traceback: a class with its module, and mostly what it says.
RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?:: .*)?$|^[A-Z]\w*(?:Error|Exception): .*$")
LONGEST = 200
#: What a broker says where it refuses a command, which Celery's consumer does not take for a lost connection.
OF_REDIS = ("MISCONF", "maxmemory", "READONLY")
OF_RABBITMQ = ("RESOURCE_LOCKED", "PRECONDITION_FAILED", "ACCESS_REFUSED")
REFUSALS = (*OF_REDIS, *OF_RABBITMQ)
CELERYS = "Celery ends a worker whose broker refuses a command; a supervisor has to begin another one"


def reason_of(log: str) -> str:
    """Why it ended, as far as its log says; empty where the log says nothing."""
    said = next((line for line in reversed(log.splitlines()) if RAISED.match(line)), "")[:LONGEST]
    return f"{said}; {CELERYS}" if any(word in said for word in REFUSALS) else said
