"""Reserves many calls on PostgreSQL with one array parameter a column, whatever the number of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from struct import unpack
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import OperationalError

from ..reservable import Reservable
from . import claiming, locks
from .connection import binds_here
from .many_sql import ANSWERED, ROWS, SENDS_FAILED, WAITING, Many, bites, in_order
from .postgresql_statements import LOCKED, SHARE_MANY, seconds_of
from .reading import Parameters, Row, to_digest

#: The columns of the calls, and their types.
_GIVEN = {
    "digest": "uuid",
    "lock": "bigint",
    "wait": "integer",
    "sends": "integer",
    "task": "text",
    "scope": "text",
    "key_text": "text",
    "task_id": "text",
    "fingerprint": "uuid",
    "message": "text",
}
#: JSON has no such character: an array of texts would have each quote in them escaped.
BETWEEN = "\x1e"
_ARRAYS = ", ".join(f"%({name})s::text::{kind}[]" for name, kind in _GIVEN.items()).replace(
    "%(message)s::text::text[]", "string_to_array(%(message)s::text, chr(30), '')"
)
_ROW = re.sub(
    r"%\((\w+)\)s",
    r"given.\1",
    claiming.RESERVED.replace("{after[wait]}", f"{{now}} + {seconds_of('given.wait')}"),
)


def array(values: Sequence[object]) -> str:
    """An array as PostgreSQL writes one; the driver would look at each value several times."""
    first = values[0]
    is_one = values.count(first) == len(values)
    return f"{{{','.join([_element(first)] * len(values) if is_one else map(_element, values))}}}"


def texts_array(texts: Sequence[str]) -> str:
    """The same for texts, none of which is missing."""
    joined = '","'.join(texts)
    is_plain = "\\" not in joined and joined.count('"') == 2 * (len(texts) - 1)
    return f'{{"{joined}"}}' if is_plain else array(texts)


def digests_array(digests: Sequence[UUID]) -> str:
    """The same for digests, none of which is missing."""
    return f"{{{','.join([digest.hex for digest in digests])}}}"


def _element(value: object) -> str:
    if type(value) is int:
        return str(value)
    if value is None:
        return "NULL"
    text = value.hex if isinstance(value, UUID) else str(value)
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _reserve_many(unheld: str) -> str:
    """Insert the keys that have no row, in their order, up to the first that is not ``unheld``.

    LIMIT ends the look there: no key behind it is locked. It waits for a lock for a moment only: the setting
    is made before the first row is looked at, and taken back once the last one is written.
    """
    unheld = unheld.replace("%(lock)s", "given.lock")
    return f"""
WITH patience AS MATERIALIZED (
  SELECT current_setting('lock_timeout') AS before,
         pg_catalog.set_config('lock_timeout', %(patience)s, true) AS now
), given AS MATERIALIZED (
  SELECT asked.*, EXISTS (SELECT 1 FROM {{key}} k WHERE k.digest = asked.digest) AS is_there
    FROM patience, unnest({_ARRAYS}) WITH ORDINALITY AS asked({", ".join(_GIVEN)}, place)
   WHERE patience.now IS NOT NULL
), held AS MATERIALIZED (
  SELECT place FROM (SELECT place, CASE WHEN is_there THEN true ELSE {unheld} END AS may_go FROM given) looked
   WHERE NOT may_go LIMIT 1
), made AS (
  INSERT INTO {{key}} ({claiming.KEY_COLUMNS}) SELECT {_ROW} FROM given
   WHERE NOT is_there AND place < COALESCE((SELECT place FROM held), place + 1)
  ON CONFLICT (digest) DO NOTHING RETURNING digest
)
SELECT count(*), CASE WHEN count(*) < %(asked)s THEN array_agg(replace(digest::text, '-', '')) END,
       pg_catalog.set_config('lock_timeout', (SELECT before FROM patience), true) FROM made
"""


RESERVE_MANY = _reserve_many(LOCKED)
# As a single reservation does that has had its share of locks: it has told so before it asks for a key's.
RESERVE_MANY_UNLOCKED = _reserve_many(
    "CASE WHEN pg_try_advisory_lock(%(lock)s) THEN pg_advisory_unlock(%(lock)s) ELSE false END"
)

_ANY = "= ANY(%(digests)s::uuid[])"
REPLACED = ANSWERED.replace("IN (IDS)", "= ANY(%(ids)s::text[])")
WAITING_ARRAY = WAITING.replace("IN (DIGESTS)", _ANY)
HURRY_ARRAYS = SENDS_FAILED.replace(
    "digest IN (DIGESTS)", f"digest IN (SELECT digest FROM {{key}} WHERE digest {_ANY} {{skip_locked}})"
)


#: Around a statement that may fail where its transaction is to go on.
_SAVE, _FORGET = "SAVEPOINT idempotent_many", "RELEASE SAVEPOINT idempotent_many"
_UNDO = f"ROLLBACK TO {_SAVE}; {_FORGET}"


def locks_of(digests: Sequence[str]) -> str:
    """An array of the numbers of keys' locks: the first eight bytes of their digests, signed."""
    first = bytes.fromhex("".join([digest[:16] for digest in digests]))
    return f"{{{str(unpack(f'>{len(digests)}q', first))[1:-1].rstrip(',')}}}"


class PostgresMany(Many):
    """Adds what is done with many calls at once."""

    def reserve_many(self, wanted: Sequence[Reservable]) -> set[UUID]:
        left = self.left_of_many(wanted)
        return {UUID(each.hex) for each in wanted if each.hex not in left}

    def left_of_many(self, wanted: Sequence[Reservable]) -> set[str]:
        if not wanted:
            return set()
        taken = locks.taken_by(self.connection)
        is_used_up = taken.count + len(wanted) > locks.LOCK_LIMIT
        rows = in_order(wanted)
        digests = [each.hex for each in rows]
        try:
            written, some = self._reserve_many(self._columns(rows, digests), locked=not is_used_up)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) not in locks.NOT_GRANTED:
                raise
            return set(digests)
        taken.count += 0 if is_used_up else written
        return set() if written == len(rows) else set(digests).difference(some or ())

    def _reserve_many(self, columns: Parameters, *, locked: bool) -> tuple[int, list[str] | None]:
        """How many rows it has written, and which where these are not all."""
        if not locked:
            self._row(SHARE_MANY, {})
        template = RESERVE_MANY if locked else RESERVE_MANY_UNLOCKED
        if self._speaks_simply():
            ((written, some, _),) = self._rows_saved(template, columns)
        else:
            with self.together():
                ((written, some, _),) = self._rows(template, columns)
        return written, some

    def _speaks_simply(self) -> bool:
        """Whether several statements may go in one round trip, of which one has rows."""
        return self.connection.in_atomic_block and binds_here(self.connection)

    def _rows_saved(self, template: str, parameters: Parameters) -> list[Row]:
        """The rows of a statement in a savepoint of its own, in the open transaction."""
        statement = f"{_SAVE}; {self.dialect.sql(template).strip()}; {_FORGET}"
        with self.connection.cursor() as cursor:
            try:
                self._execute(cursor, statement, parameters)
            except DatabaseError:
                with suppress(DatabaseError):
                    cursor.execute(_UNDO)
                raise
            cursor.nextset()
            return list(cursor.fetchall())

    def _columns(self, rows: Sequence[Reservable], digests: Sequence[str]) -> Parameters:
        return {
            "digest": f"{{{','.join(digests)}}}",
            "lock": locks_of(digests),
            "wait": array([each.wait + each.republish for each in rows]),
            "sends": array([each.sends for each in rows]),
            "task": array([each.task for each in rows]),
            "scope": array([each.scope for each in rows]),
            "key_text": texts_array([each.key_text for each in rows]),
            "task_id": texts_array([each.task_id for each in rows]),
            "fingerprint": array([each.fingerprint for each in rows]),
            "message": BETWEEN.join([each.message or "" for each in rows]),
            "asked": len(rows),
            "patience": f"{locks.SHORT_WAIT}ms",
        }

    def all_new_wait(self, digests: Sequence[str]) -> bool:
        parts = bites(digests, ROWS)
        return all(self._waiting_of(f"{{{','.join(part)}}}", 0) == len(part) for part in parts)

    def _waiting(self, digests: list[UUID], token: int) -> int:
        return self._waiting_of(digests_array(digests), token)

    def _waiting_of(self, digests: str, token: int) -> int:
        ((waiting,),) = self._rows(WAITING_ARRAY, {"digests": digests, "token": token})
        return int(waiting)

    def _replaced(self, ids: list[str]) -> set[tuple[UUID, str]]:
        return {(to_digest(digest), task_id) for digest, task_id in self._rows(REPLACED, {"ids": ids})}

    def _hurry(self, digests: list[UUID], token: int) -> None:
        self._count(HURRY_ARRAYS, {"digests": digests, "token": token})
