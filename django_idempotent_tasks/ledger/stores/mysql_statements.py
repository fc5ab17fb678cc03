"""The statements that MariaDB and MySQL have in their own form, and their words for time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ...states import State
from . import claiming, clock, statements
from .atomic import ATOMIC_ANEW
from .dialect import Dialect

# FOUND_ROWS, which Django asks for, counts 1 for an inserted and a duplicate row: the owner tells who won.
# INSERT IGNORE would swallow errors of the data, and deadlocks when the first of two waiters rolls back.
ON_CONFLICT = "ON CONFLICT (digest) DO NOTHING"
ON_DUPLICATE = "ON DUPLICATE KEY UPDATE digest = {key}.digest"
ON_SECOND_FOLLOW_UP = ON_DUPLICATE.replace("{key}", "{follow_up}")

REMEMBER = f"""
INSERT INTO {{answered}} (digest, task_id, generation, state, reason, result, due_at)
SELECT * FROM (
  SELECT digest, CASE replaced.which WHEN 0 THEN task_id ELSE runner_task_id END AS task_id, generation,
         state, reason, result, finished_at + INTERVAL %(window)s SECOND AS due_at
    FROM {{key}} JOIN (SELECT 0 AS which UNION ALL SELECT 1) AS replaced
   WHERE {claiming.FINISHED} AND (replaced.which = 0 OR runner_task_id IS NOT NULL)
     AND finished_at + INTERVAL %(window)s SECOND > {{now}}) AS old
ON DUPLICATE KEY UPDATE task_id = {{answered}}.task_id
"""

GRANTED = """
SELECT token, generation, attempts, crashes, reason FROM {key}
 WHERE digest = %(digest)s AND owner = %(owner)s
"""
CLAIM_FINISHED = f"UPDATE {{key}} AS k {claiming.ANEW} WHERE {claiming.FINISHED}"
ATOMIC_FINISHED = f"UPDATE {{key}} AS k {ATOMIC_ANEW} WHERE {claiming.FINISHED}"
RESERVE_FINISHED = f"UPDATE {{key}} AS k {claiming.RESERVED_ANEW} WHERE {claiming.FINISHED}"

# A reservation has no owner: for a moment it has a name, which tells it from another one of the same call.
RESERVE_NEW = claiming.RESERVE_NEW.replace(" NULL, CAST(", " %(owner)s, CAST(").partition("RETURNING")[0]
RESERVED = "UPDATE {key} SET owner = NULL WHERE digest = %(digest)s AND owner = %(owner)s"

#: MariaDB has no FOR SHARE, and MySQL passes over no locks with this.
SHARED = "LOCK IN SHARE MODE SKIP LOCKED"

LOCK = "SELECT digest FROM {key} WHERE digest = %(digest)s FOR UPDATE NOWAIT"
LOCK_IF_FREE = "SELECT digest FROM {key} WHERE digest = %(digest)s FOR UPDATE SKIP LOCKED"
LOCK_FINISHED = f"SELECT digest FROM {{key}} WHERE {claiming.FINISHED} FOR UPDATE SKIP LOCKED"
RENEWABLE = f"""
SELECT digest FROM {{key}} WHERE state = {State.RUNNING} AND (digest, token, owner) IN (HELD)
   FOR UPDATE SKIP LOCKED
"""


def _doubled(template: str) -> str:
    """The template, where something is put into it before it is rendered."""
    return template.strip().replace("{", "{{").replace("}", "}}")


def _picked(sets: str) -> str:
    """Update the rows of these digests and look at no other.

    Without the hint a short table would be scanned, and a scan stops at each row that somebody has locked.
    """
    return f"UPDATE {{{{key}}}} AS k FORCE INDEX (PRIMARY) {_doubled(sets)} WHERE k.digest IN ({{digests}})"


_RENEWED = "{now} + INTERVAL lease_seconds SECOND"
RENEW = _picked(f"SET open_at = {_RENEWED}, due_at = {_RENEWED}")
CANCEL = _picked(statements.CANCEL.partition("UPDATE {key}")[2])
SWEEP = _picked(statements.SWEEP)
RECORD_FREED = f"{_doubled(statements.RECORD_FREED)} WHERE k.digest IN ({{digests}}) AND {statements.FREED}"
SWEPT = f"SELECT {_doubled(statements.SWEPT)} FROM {{{{key}}}} k WHERE k.digest IN ({{digests}})"

# The order of the join does here what the hint alone does above.
DELETE = """
DELETE gone FROM (SELECT {picked}) AS p STRAIGHT_JOIN {table} AS gone FORCE INDEX ({by})
    ON gone.{column} = p.picked
"""

DUE = tuple(
    f"SELECT digest FROM {{key}} WHERE {statements.due_in(state)} ORDER BY due_at LIMIT %(bite)s"
    " FOR UPDATE SKIP LOCKED"
    for state in statements.DUE_STATES
)
PRUNABLE_ANSWERED = """
SELECT id FROM {answered} WHERE due_at <= {now} ORDER BY due_at LIMIT %(bite)s FOR UPDATE SKIP LOCKED
"""
PRUNABLE_FAILED = """
SELECT id FROM {failed} WHERE at <= {before[keep]} ORDER BY at LIMIT %(bite)s FOR UPDATE SKIP LOCKED
"""
OLDEST_DUPLICATES = """
SELECT id, at <= {before[keep]} FROM {duplicate} WHERE summed = 1 ORDER BY id LIMIT %(bite)s
   FOR UPDATE SKIP LOCKED
"""
UNMOVED = """
SELECT periodic_task_id FROM {cursor} FORCE INDEX (PRIMARY)
 WHERE periodic_task_id IN (GONE) AND updated_at <= {before[keep]} FOR UPDATE SKIP LOCKED
"""

# From left to right: what compares the holder stands before it, and then the holder tells who has it.
LEAD = """
INSERT INTO {leader} (name, holder, token, since, expires_at)
VALUES (%(name)s, %(holder)s, 1, {now}, {after[lease]})
ON DUPLICATE KEY UPDATE
  since = CASE WHEN expires_at > {now} THEN since ELSE {now} END,
  token = token + CASE WHEN expires_at > {now} THEN 0 ELSE 1 END,
  holder = CASE WHEN expires_at > {now} THEN holder ELSE %(holder)s END,
  expires_at = CASE WHEN holder = %(holder)s THEN {after[lease]} ELSE expires_at END
"""
LED = "SELECT token FROM {leader} WHERE name = %(name)s AND holder = %(holder)s"

BITE = """
SELECT id FROM {duplicate} WHERE summed = 0 ORDER BY id LIMIT %(bite)s FOR UPDATE SKIP LOCKED
"""
ADD_DUPLICATES = """
UPDATE (SELECT digest, count(*) AS n FROM {{duplicate}} WHERE id IN ({ids}) GROUP BY digest) c
       STRAIGHT_JOIN {{key}} k FORCE INDEX (PRIMARY) ON k.digest = c.digest
   SET k.duplicates = k.duplicates + c.n
"""
MARK_SUMMED = "UPDATE {{duplicate}} FORCE INDEX (PRIMARY) SET summed = 1 WHERE id IN ({ids})"

# How long one statement waits for a lock: a second, where the server's default is 50.
SHORT_WAIT_FOR = "SET STATEMENT innodb_lock_wait_timeout = 1 FOR "
SHORTEN_WAIT = "SET @idem_wait = @@innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = 1"
RESTORE_WAIT = "SET SESSION innodb_lock_wait_timeout = @idem_wait"

LATEST_ERRORS = "SHOW ERRORS"

# Such a server undoes the whole transaction for a lock that it did not grant.
ROLLS_BACK_ON_TIMEOUT = "SELECT 1 FROM DUAL WHERE @@innodb_rollback_on_timeout"


def number_of(error: Exception) -> int:
    """The server's number of an error."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def shorten(options: dict[str, Any]) -> None:
    """Let a connection with these options give up soon."""
    options |= {"connect_timeout": 2, "read_timeout": 2, "write_timeout": 2}
    given = options.get("init_command")
    # Below the time to read: a wait for a lock is an answer, and the connection lives on.
    bound = "SET SESSION innodb_lock_wait_timeout = 1"
    options["init_command"] = f"{given}; {bound}" if given else bound


class MysqlDialect(Dialect):
    """``UTC_TIMESTAMP``: Django stores times in UTC, and it stands still within a statement."""

    true = "1"
    false = "0"
    least = "least"
    #: Asked beforehand: see ``LOCK``.
    unheld = "true"
    same = "<=>"

    def __init__(self, *, uuid_type: str) -> None:
        self.uuid_type = uuid_type

    def now(self) -> str:
        offset = clock.offset()
        return f"(UTC_TIMESTAMP(6) + INTERVAL {offset} SECOND)" if offset else "UTC_TIMESTAMP(6)"

    def after(self, seconds: str) -> str:
        return f"({self.now()} + INTERVAL ({seconds}) SECOND)"

    def later(self, column: str, seconds: str) -> str:
        return f"({column} + INTERVAL ({seconds}) SECOND)"

    def until(self, column: str) -> str:
        return f"(TIMESTAMPDIFF(MICROSECOND, {self.now()}, {column}) / 1000000)"

    def between(self, first: str, last: str) -> str:
        return f"(TIMESTAMPDIFF(MICROSECOND, {first}, {last}) / 1000000)"

    def joined(self, texts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(texts)})"

    def upsert(self, conflict: Sequence[str], columns: Sequence[str]) -> str:  # noqa: ARG002  the server knows
        values = ", ".join(f"{column} = VALUES({column})" for column in columns)
        return f"ON DUPLICATE KEY UPDATE {values}"

    def uuid(self, value: UUID | None) -> object:
        if value is None:
            return None
        return str(value) if self.uuid_type == "char(36)" else value.hex


#: As Django writes UUIDs for a column of the type uuid, which MariaDB has, and for one of text.
DASHED, PLAIN = MysqlDialect(uuid_type="char(36)"), MysqlDialect(uuid_type="char(32)")
