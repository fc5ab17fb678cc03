"""Recognises serialization failures and deadlocks, after which a worker runs the body again.

PostgreSQL's serialization failure and deadlock, and the deadlock of MariaDB and MySQL. A lock that was not
granted in time is none: the transaction is still open, and how long to wait was the task's to say.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded

from ..errors.raised import args_of, cause_of, context_of, guarded, is_a, module_of_class, mro_of
from ..exceptions import LeaseLost, ManualReview, PermanentError
from ..messages.message import CONFLICTS

#: How often a message comes back for a conflict; then the task's retry policy decides, and ends it one day.
LIMIT = 10
#: Seconds until it does, doubled each time, at most the last: rivals that meet again get out of step.
FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0

_SQLSTATES = frozenset({"40001", "40P01"})
_DEADLOCK = 1213
#: An error's chain is looked at no further.
_LINKS = 50

#: What a body raises to say itself what becomes of its work, whatever it was raised for.
_DECIDED = (Ignore, Reject, Retry, LeaseLost, ManualReview, PermanentError, SoftTimeLimitExceeded)


def conflict_behind(error: BaseException) -> BaseException | None:
    """The driver's conflict that an error was raised for, or while it was handled; None without one."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _LINKS:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        if _is_conflict(link):
            return link
        waiting += [each for each in (cause_of(link), context_of(link)) if each is not None]
    return None


def is_decided(error: BaseException) -> bool:
    """Whether a body has said by its error what becomes of its work, or was told to stop."""
    return not is_a(error, Exception) or is_a(error, *_DECIDED)


def times_met(header: Mapping[str, Any]) -> int:
    """How often a message has come back for a conflict, as the header of its identity says."""
    number = header.get(CONFLICTS)
    return number if type(number) is int and number > 0 else 0


def met_once_more(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header of the message that takes the place of one with this."""
    return {**header, CONFLICTS: times_met(header) + 1}


def wait_after(times: int) -> float:
    """Seconds until a message comes back that has met so many conflicts before."""
    longest: float = min(FIRST_WAIT * 2 ** min(times, LIMIT), LONGEST_WAIT)
    return random.uniform(longest / 2, longest)


def _is_conflict(error: BaseException) -> bool:
    """By the driver's own word; Django's error has it as its cause. A class may only say that it is one."""
    homes = {module_of_class(kind).partition(".")[0] for kind in mro_of(error)}
    if homes & {"psycopg", "psycopg2"}:
        return guarded(lambda: _sqlstate(error), "") in _SQLSTATES
    code = next(iter(args_of(error)), None)
    return bool(homes & {"MySQLdb", "pymysql"}) and type(code) is int and code == _DEADLOCK


def _sqlstate(error: Any) -> str:
    said: str = getattr(error, "sqlstate", None) or error.pgcode
    return said
