"""Claims of atomic runs in SQL: the row says completed from the start, and the commit makes it true."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from ...states import Reason, State
from ..values import Call, Claim, Entry, Grant
from . import claiming
from .reading import Parameters, Row, seen_as, to_grant
from .sql import SqlStore

# ``{unheld}`` is in every claim: INSERT ... ON CONFLICT DO NOTHING waits for an uncommitted row, and for an
# uncommitted UPDATE of one.
ATOMIC_NEW = (
    f"INSERT INTO {{key}} ({claiming.KEY_COLUMNS})"
    " SELECT %(digest)s, {after[kept]}, {after[retention]}, {now}, {now}, {now}, 1, 1, 0,"
    f" 0, {State.SUCCEEDED}, {Reason.DONE}, 1, 0, 0,"
    " {false}, %(task)s, %(scope)s, %(key_text)s, %(task_id)s,"
    " %(owner)s, CAST(%(fingerprint)s AS {uuid}), NULL WHERE {unheld} AND {bounded}"
    " ON CONFLICT (digest) DO NOTHING RETURNING token, generation, attempts, crashes, reason"
)

ATOMIC_UNNAMED = ATOMIC_NEW.replace(
    " WHERE {unheld}", f" FROM (SELECT 1 AS one) AS always WHERE {claiming.UNKNOWN} AND {{unheld}}"
)

# The reason "owner died" stays until the completion: the body may ask whether it was so.
_COMPLETED = f"""
UPDATE {{key}} SET token = token + 1, attempts = {{least}}(attempts + 1 - %(uncount)s, 32767),
       crashes = crashes + CASE WHEN state = {State.RUNNING} THEN 1 ELSE 0 END - %(uncount)s,
       reason = CASE WHEN state = {State.RUNNING} OR reason = {Reason.OWNER_DIED}
                     THEN {Reason.OWNER_DIED} ELSE {Reason.DONE} END,
       owner = %(owner)s, runner_task_id = NULLIF(%(task_id)s, task_id), lease_seconds = 0, sends = 0,
       message = NULL, started_at = {{now}}, finished_at = {{now}}, open_at = {{after[retention]}},
       due_at = {{after[kept]}}, state = {State.SUCCEEDED}
"""
_GRANTED = "RETURNING token, generation, attempts, crashes, reason"

ATOMIC_RESERVED = f"""{_COMPLETED}
 WHERE {claiming.OWN}
   AND {claiming.RUNNABLE} AND {claiming.OF_THIS_TURN}
   AND {{unheld}} AND {{bounded}}
{_GRANTED}"""

ATOMIC_OPEN = f"{_COMPLETED} WHERE {claiming.OPEN} AND {{unheld}} AND {{bounded}} {_GRANTED}"

ATOMIC_ANEW = f"""
SET token = k.token + 1, generation = k.generation + CASE WHEN {claiming.OTHER_WORK} THEN 1 ELSE 0 END,
       reason = {Reason.DONE}, attempts = 1, crashes = 0, sends = 0, duplicates = 0, in_external = {{false}},
       task_id = %(task_id)s, runner_task_id = NULL, owner = %(owner)s, lease_seconds = 0,
       fingerprint = %(fingerprint)s, message = NULL, result = NULL, category = NULL,
       signature = NULL, discarded_at = NULL, progress = NULL, created_at = {{now}}, started_at = {{now}},
       finished_at = {{now}}, open_at = {{after[retention]}},
       due_at = {{after[kept]}}, state = {State.SUCCEEDED}
"""

ATOMIC_RESULT = f"""
UPDATE {{key}} SET reason = %(reason)s, result = %(result)s
 WHERE digest = %(digest)s AND token = %(token)s AND owner = %(owner)s AND state = {State.SUCCEEDED}
"""

TAKE_BACK = f"""
UPDATE {{key}} SET lease_seconds = %(lease)s, finished_at = NULL, open_at = {{after[lease]}},
       due_at = {{after[lease]}}, state = {State.RUNNING}
 WHERE digest = %(digest)s AND token = %(token)s AND owner = %(owner)s AND state = {State.SUCCEEDED}
"""

_FAILED = "a statement failed in it, and the error was caught outside an atomic() block of its own"
_ENDED = "it was committed or rolled back by the body itself"
_MARKED = "it was marked for rollback, by set_rollback() or by an error caught inside it"


class AtomicClaims(SqlStore):
    """Adds what atomic runs need."""

    def atomic_new(self, call: Call, *, owner: str, retention: int, window: int) -> Grant | None:
        template = ATOMIC_UNNAMED if call.named_here else ATOMIC_NEW
        return to_grant(self._first_row(template, self._atomic(call, owner, retention, window)))

    def atomic_reserved(self, call: Call, *, owner: str, retention: int, window: int) -> Grant | None:
        parameters = self._atomic(call, owner, retention, window) | {"uncount": 0}
        return to_grant(self._first_row(ATOMIC_RESERVED, parameters))

    def atomic_open(
        self, call: Call, *, owner: str, retention: int, window: int, seen: Entry, counted: bool
    ) -> Grant | None:
        parameters = self._atomic(call, owner, retention, window) | seen_as(seen) | {"uncount": int(counted)}
        return to_grant(self._row(ATOMIC_OPEN, parameters))

    def atomic_finished(
        self, call: Call, *, owner: str, retention: int, window: int, seen: Entry
    ) -> Grant | None:
        return to_grant(self._atomic_finished(self._atomic(call, owner, retention, window) | seen_as(seen)))

    def atomic_result(self, claim: Claim, *, result: str | None, reason: Reason) -> bool:
        return self._settle(ATOMIC_RESULT, claim, result=result, reason=int(reason))

    def take_back(self, claim: Claim) -> bool:
        return self._settle(TAKE_BACK, claim, lease=claim.lease)

    @contextmanager
    def holding(self, call: Call) -> Iterator[bool]:
        with self.together():
            yield self._hold(call)

    def transaction_problem(self) -> str | None:
        failed = self._has_failed()
        if failed is None:
            return _ENDED
        if failed:
            return _FAILED
        return _MARKED if self.connection.needs_rollback else None

    def has_ended(self) -> bool:
        return self._has_failed() is None

    @abstractmethod
    def _atomic_finished(self, parameters: Parameters) -> Row | None:
        """Remember the replaced call and take the key, in the open transaction."""

    @abstractmethod
    def _hold(self, call: Call) -> bool:
        """Lock the key until the transaction ends; False when another transaction has it."""

    @abstractmethod
    def _has_failed(self) -> bool | None:
        """Whether the server will refuse to commit the open transaction; None when none is open."""

    def _atomic(self, call: Call, owner: str, retention: int, window: int) -> Parameters:
        kept = max(retention, window)
        values = {"owner": owner, "retention": retention, "kept": kept, "window": window}
        return self._call_parameters(call) | values
