"""PostgreSQL: READ COMMITTED, one statement a transition, SKIP LOCKED where several may sweep."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from ..conf import settings
from ..outcomes import Call, Claim, Due, Grant
from ..states import State
from . import clock, statements
from .atomic import ATOMIC_ANEW, AtomicSqlStore
from .dialect import Dialect
from .limits import limited
from .locks import NOT_GRANTED, short_wait, taken_by
from .sql import Parameters, Row, due

# The call that was accepted and the one that had taken it over are both answered later.
_REPLACE = """
WITH old AS (
  SELECT digest, task_id, runner_task_id, generation, state, reason, result,
         finished_at + make_interval(secs => %(window)s) AS due_at
    FROM {key} WHERE FINISHED
), past AS (
  INSERT INTO {answered} (digest, task_id, generation, state, reason, result, due_at)
  SELECT digest, replaced.task_id, generation, state, reason, result, due_at
    FROM old, LATERAL (VALUES (old.task_id), (old.runner_task_id)) AS replaced(task_id)
   WHERE replaced.task_id IS NOT NULL AND due_at > {now}
  ON CONFLICT (task_id, digest) DO NOTHING
)
UPDATE {key} k ANEW FROM old WHERE k.digest = old.digest
RETURNING k.token, k.generation, k.attempts, k.crashes, k.reason
"""


def _replace(anew: str, *, lock: str) -> str:
    """One statement: lock the finished key, remember the replaced call, give the key to the new one."""
    return _REPLACE.replace("FINISHED", f"{statements.FINISHED} {lock}").replace("ANEW", anew)


CLAIM_FINISHED = _replace(statements.ANEW, lock="FOR UPDATE")

ATOMIC_FINISHED = _replace(ATOMIC_ANEW, lock="AND {unheld} FOR UPDATE")

# SKIP LOCKED: two producers with crossed keys neither wait for each other nor deadlock. The key's lock: an
# atomic claim does not wait for the producer's end.
RESERVE_FINISHED = _replace(statements.RESERVED_ANEW, lock="AND {unheld} FOR UPDATE SKIP LOCKED")
RESERVE_FINISHED_UNLOCKED = _replace(statements.RESERVED_ANEW, lock="FOR UPDATE SKIP LOCKED")

# The lock is taken in the inner query with SKIP LOCKED: a row that a completion holds is passed over.
RENEW = """
UPDATE {key} k SET open_at = {now} + make_interval(secs => k.lease_seconds),
       due_at = {now} + make_interval(secs => k.lease_seconds)
  FROM (SELECT h.digest FROM unnest(%(digests)s::uuid[], %(tokens)s::integer[]) AS held(digest, token)
          JOIN {key} h ON h.digest = held.digest AND h.token = held.token
         WHERE h.state = 2 AND h.open_at > {now} FOR UPDATE OF h SKIP LOCKED) AS mine
 WHERE k.digest = mine.digest RETURNING k.digest
"""


def _cancel(which: str) -> str:
    update = statements.CANCEL.replace("{key}", "{key} k").replace("token + 1", "k.token + 1")
    found = f"SELECT digest FROM {{key}} WHERE {which} FOR UPDATE SKIP LOCKED"
    return f"{update} FROM ({found}) AS live WHERE k.digest = live.digest"


CANCEL = _cancel(statements.LIVE)
CANCEL_WAITING = _cancel(statements.WAITING)
EXPIRE = _cancel(statements.UNSTARTED)

PRUNE = f"""
DELETE FROM {{key}} WHERE digest = ANY (ARRAY({statements.PRUNABLE} FOR UPDATE SKIP LOCKED))
"""


def _due_in(state: int) -> str:
    return (
        f"SELECT digest FROM (SELECT digest FROM {{key}} WHERE state = {state} AND due_at <= {{now}}"
        f" ORDER BY due_at LIMIT %(bite)s FOR UPDATE SKIP LOCKED) s{state}"
    )


SWEEP = f"""
WITH due AS MATERIALIZED ({" UNION ALL ".join(_due_in(state) for state in (2, 3, 1))}),
told AS ({statements.RECORD_FREED} JOIN due ON k.digest = due.digest AND {statements.FREED})
UPDATE {{key}} k {statements.SWEEP} FROM due WHERE k.digest = due.digest RETURNING {statements.SWEPT}
"""

SUM_DUPLICATES = """
WITH bite AS MATERIALIZED (
  SELECT id, digest FROM {duplicate} WHERE NOT summed ORDER BY id LIMIT %(bite)s FOR UPDATE SKIP LOCKED
), summed AS (
  UPDATE {duplicate} d SET summed = true FROM bite WHERE d.id = bite.id RETURNING d.digest
), counted AS (
  SELECT digest, count(*) AS n FROM summed GROUP BY digest
), added AS (
  UPDATE {key} k SET duplicates = k.duplicates + counted.n FROM counted WHERE k.digest = counted.digest
)
SELECT count(*) FROM summed
"""


# One statement whose commit waits for no disk: an audit row may be lost with the server, a key may not.
RECORD_DUPLICATE = """
INSERT INTO {duplicate} (digest, scope, task_id, place, reason, at, summed)
SELECT %(digest)s::uuid, %(scope)s::text, %(task_id)s, %(place)s, %(reason)s, {now}, {false}
 WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL
"""

_INTRANS, _INERROR = 2, 3

#: The lock that a transaction shares while it holds keys without a lock for each.
MANY = int.from_bytes(b"idemmany")


def _may_lock(lock: object) -> str:
    """Whether nobody holds this lock now; it is given back within the expression."""
    return f"CASE WHEN pg_try_advisory_lock({lock}) THEN pg_advisory_unlock({lock}) ELSE false END"


def _reserve(unheld: str, alone: str) -> str:
    """Insert if the key has no row and is ``unheld``, and then if the transaction is ``alone``.

    Without the look an INSERT would wait for who settles or prunes the row in an open transaction.
    """
    insert = statements.RESERVE_NEW.replace("WHERE true", "FROM door WHERE alone")
    return f"""
WITH door AS MATERIALIZED (
  SELECT unheld, CASE WHEN unheld THEN {alone} ELSE false END AS alone FROM (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM {{key}} WHERE digest = %(digest)s) THEN false
                ELSE {unheld} END AS unheld) asked
), made AS ({insert})
SELECT made.token, door.unheld, door.alone FROM door LEFT JOIN made ON true
"""


# Not waiting, so no deadlock on crossed keys. The lock is held until the transaction ends, as is the key.
_LOCKED = "pg_try_advisory_xact_lock(%(lock)s)"
RESERVE_NEW = _reserve(_LOCKED, _may_lock(MANY))

# One that finds such a transaction open may have to wait for its key, and one that is such a transaction
# for another's. That one has told that it is, before it asks for a key's lock: neither overlooks the other.
RESERVE_AMONG_MANY = _reserve(_LOCKED, "true")
RESERVE_UNLOCKED = _reserve(_may_lock("%(lock)s"), "true")
SHARE_MANY = f"SELECT pg_advisory_xact_lock_shared({MANY})"
LOCK = f"SELECT {_LOCKED}"


class PostgresDialect(Dialect):
    """``statement_timestamp()``: usable in an index condition, and not the transaction's start."""

    true = "true"
    false = "false"
    least = "least"
    uuid_type = "uuid"
    unheld = _LOCKED

    def table(self, model: type[Model]) -> str:
        """With its schema where the settings name one: a body may point the search path elsewhere."""
        schema, table = settings().schema, super().table(model)
        return f'"{schema}".{table}' if schema else table

    def now(self) -> str:
        offset = clock.offset()
        shift = f" + make_interval(secs => {offset})" if offset else ""
        return f"(statement_timestamp(){shift})"

    def after(self, seconds: str) -> str:
        return f"{self.now()} + make_interval(secs => {seconds})"

    def until(self, column: str) -> str:
        return f"extract(epoch FROM {column} - {self.now()})"

    def uuid(self, value: UUID | None) -> object:
        return value


class PostgresStore(AtomicSqlStore):
    """The first-class store."""

    dialect = PostgresDialect()

    def _claim_finished(self, parameters: Parameters) -> Row | None:
        return self._row(CLAIM_FINISHED, parameters)

    def _atomic_finished(self, parameters: Parameters) -> Row | None:
        return self._row(ATOMIC_FINISHED, parameters)

    def _hold(self, call: Call) -> bool:
        return bool(self._one(LOCK, self._call_parameters(call))[0])

    def _has_failed(self) -> bool | None:
        status = int(self.connection.connection.info.transaction_status)  # libpq's PGTransactionStatusType
        return {_INTRANS: False, _INERROR: True}.get(status)

    def _call_parameters(self, call: Call) -> Parameters:
        lock = int.from_bytes(call.identity.digest.bytes[:8], signed=True)
        return super()._call_parameters(call) | {"lock": lock}

    def claim_new(self, call: Call, *, owner: str, lease: int) -> Grant | None:
        if self.connection.in_atomic_block:
            self._tell_senders(call)
        return super().claim_new(call, owner=owner, lease=lease)

    def _tell_senders(self, call: Call) -> None:
        """Lock the key, so that no reservation waits for the end of this claim's transaction."""
        taken = taken_by(self.connection)
        if taken.is_used_up:
            self._one(SHARE_MANY, {})
        else:
            taken.count += self._one(LOCK, self._call_parameters(call))[0]

    def reserve_new(self, call: Call, *, wait: int, sends: int) -> int | None:
        parameters = self._call_parameters(call) | {"wait": wait, "sends": sends}
        taken = taken_by(self.connection)
        if taken.is_used_up:
            return self._reserve_slowly(parameters, locked=False)
        token, unheld, alone = self._one(RESERVE_NEW, parameters)
        taken.count += unheld
        return self._reserve_slowly(parameters, locked=True) if unheld and not alone else token

    def _reserve_slowly(self, parameters: Parameters, *, locked: bool) -> int | None:
        """Wait for a moment for a key that somebody may hold without a lock, behind a savepoint."""
        try:
            with transaction.atomic(using=self.connection.alias), short_wait(self.connection):
                if not locked:
                    self._one(SHARE_MANY, {})
                template = RESERVE_AMONG_MANY if locked else RESERVE_UNLOCKED
                token: int | None = self._one(template, parameters)[0]
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) not in NOT_GRANTED:
                raise
            return None
        return token

    def _one(self, template: str, parameters: Parameters) -> Row:
        row = self._row(template, parameters)
        assert row is not None  # noqa: S101  a SELECT without a condition
        return row

    def _reserve_finished(self, parameters: Parameters) -> Row | None:
        taken = taken_by(self.connection)
        if taken.is_used_up:
            return self._row(RESERVE_FINISHED_UNLOCKED, parameters)
        taken.count += 1  # the lock may be taken also where the row has changed
        return self._row(RESERVE_FINISHED, parameters)

    def cancel_waiting(self, task_id: str, *, window: int) -> int:
        return self._count(CANCEL_WAITING, {"task_id": task_id, "window": window})

    def expire(self, digest: UUID, *, task_id: str, window: int) -> bool:
        return self._count(EXPIRE, {"digest": digest, "task_id": task_id, "window": window}) == 1

    def prune(self, state: State, *, bite: int) -> int:
        return self._count(PRUNE, {"state": int(state), "bite": bite})

    def renew(self, held: Sequence[Claim]) -> set[UUID]:
        parameters: Parameters = {
            "digests": [str(claim.digest) for claim in held],
            "tokens": [claim.token for claim in held],
        }
        return {UUID(str(digest)) for (digest,) in self._rows(RENEW, parameters)}

    def _record_duplicate_statement(self) -> str:
        connection = self.connection
        if connection.in_atomic_block or not connection.get_autocommit():
            return super()._record_duplicate_statement()  # the other would loosen the caller's own commit
        return RECORD_DUPLICATE

    def cancel(self, digest: UUID, *, window: int, task_id: str | None = None) -> bool:
        return self._count(CANCEL, {"digest": digest, "window": window, "task_id": task_id}) == 1

    def sweep(self, *, bite: int, republish: int) -> list[Due]:
        return [due(row) for row in self._rows(SWEEP, {"bite": bite, "republish": republish})]

    def sum_duplicates(self, *, bite: int) -> int:
        row = self._row(SUM_DUPLICATES, {"bite": bite})
        return int(row[0]) if row else 0

    def shorten_timeouts(self, connection: BaseDatabaseWrapper) -> None:
        options = connection.settings_dict.setdefault("OPTIONS", {})
        options.pop("pool", None)
        options["connect_timeout"] = 2
        options["application_name"] = "idempotent-tasks"

    def limited(self, connection: BaseDatabaseWrapper, sql: str) -> AbstractContextManager[str]:
        return limited(connection, sql)

    def cut(self, connection: BaseDatabaseWrapper) -> None:
        # A copy of the descriptor: closing it leaves the driver's own one open, for the driver to close.
        with (
            suppress(Exception),  # not connected yet, or closed meanwhile
            socket.socket(fileno=os.dup(connection.connection.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)
