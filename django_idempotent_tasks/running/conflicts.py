"""Recognises serialization failures and deadlocks, after which a worker runs the body again.

PostgreSQL's serialization failure and deadlock, the deadlock of MariaDB and MySQL, and the loss of a prepared
statement of ours. A lock time-out is no conflict: the transaction is still open, and the task itself has set
how long to wait.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded

from ..errors.raised import args_of, cause_of, context_of, guarded, is_a, module_of_class, mro_of
from ..exceptions import LeaseLost, ManualReview, PermanentError
from ..ledger.stores.prepared import StatementGone
from ..messages.message import CONFLICTS

#: How often a message comes back for a conflict; after that the task's retry policy decides.
LIMIT = 10
#: Seconds until the message comes back, doubled each time up to the second: rivals get out of step.
FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0

_SQLSTATES = frozenset({"40001", "40P01"})
_DEADLOCK = 1213
#: How many errors of a chain are looked at.
_LINKS = 50

#: Errors by which a body itself decides what becomes of its work, whatever caused them.
_DECIDED = (Ignore, Reject, Retry, LeaseLost, ManualReview, PermanentError, SoftTimeLimitExceeded)


def conflict_behind(error: BaseException) -> BaseException | None:
    """The driver's conflict in the chain of an error's causes and contexts; None without one."""
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
    """Whether a body has decided by its error what becomes of its work, or was told to stop."""
    return not is_a(error, Exception) or is_a(error, *_DECIDED)


def times_met(header: Mapping[str, Any]) -> int:
    """How often a message has come back for a conflict, as the header of its identity says."""
    number = header.get(CONFLICTS)
    return number if type(number) is int and number > 0 else 0


def met_once_more(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header of the message that is sent in the place of one with this header."""
    return {**header, CONFLICTS: times_met(header) + 1}


def wait_after(times: int) -> float:
    """Seconds until a message comes back that has come back for ``times`` conflicts before."""
    longest: float = min(FIRST_WAIT * 2 ** min(times, LIMIT), LONGEST_WAIT)
    return random.uniform(longest / 2, longest)


def _is_conflict(error: BaseException) -> bool:
    """Whether an error is a driver's conflict, by its class's module and its code, read without trust."""
    if is_a(error, StatementGone):
        return True
    homes = {module_of_class(kind).partition(".")[0] for kind in mro_of(error)}
    if homes & {"psycopg", "psycopg2"}:
        return guarded(lambda: _sqlstate(error), "") in _SQLSTATES
    code = next(iter(args_of(error)), None)
    return bool(homes & {"MySQLdb", "pymysql"}) and type(code) is int and code == _DEADLOCK


def _sqlstate(error: Any) -> str:
    state: str = getattr(error, "sqlstate", None) or error.pgcode
    return state
