"""Reserves many calls on PostgreSQL with one array parameter a column, whatever the number of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from django.db import OperationalError

from ..values import Wanted
from . import claiming, locks
from .many_sql import ANSWERED, SENDS_FAILED, WAITING, Many, in_order
from .postgresql_statements import LOCKED, SHARE_MANY, seconds_of
from .reading import Parameters, to_digest

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

    LIMIT ends the look there: no key behind it is locked.
    """
    unheld = unheld.replace("%(lock)s", "given.lock")
    return f"""
WITH given AS MATERIALIZED (
  SELECT asked.*, EXISTS (SELECT 1 FROM {{key}} k WHERE k.digest = asked.digest) AS is_there
    FROM unnest({_ARRAYS}) WITH ORDINALITY AS asked({", ".join(_GIVEN)}, place)
), held AS MATERIALIZED (
  SELECT place FROM (SELECT place, CASE WHEN is_there THEN true ELSE {unheld} END AS may_go FROM given) looked
   WHERE NOT may_go LIMIT 1
), made AS (
  INSERT INTO {{key}} ({claiming.KEY_COLUMNS}) SELECT {_ROW} FROM given
   WHERE NOT is_there AND place < COALESCE((SELECT place FROM held), place + 1)
  ON CONFLICT (digest) DO NOTHING RETURNING digest
)
SELECT count(*), CASE WHEN count(*) < %(asked)s THEN array_agg(digest::text) END FROM made
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


def _lock(digest: UUID) -> int:
    """The number of a key's lock: its first eight bytes, signed."""
    number = digest.int >> 64
    return number - (1 << 64) if number >> 63 else number


class PostgresMany(Many):
    """Adds what is done with many calls at once."""

    def reserve_many(self, wanted: Sequence[Wanted]) -> set[UUID]:
        if not wanted:
            return set()
        taken = locks.taken_by(self.connection)
        is_used_up = taken.count + len(wanted) > locks.LOCK_LIMIT
        try:
            with self.together(), locks.short_wait(self.connection):
                written = self._reserve_many(wanted, locked=not is_used_up)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) not in locks.NOT_GRANTED:
                raise
            return set()
        taken.count += 0 if is_used_up else len(written)
        return written

    def _reserve_many(self, wanted: Sequence[Wanted], *, locked: bool) -> set[UUID]:
        rows = in_order(wanted)
        digests = [each.digest for each in rows]
        columns = self._columns(rows, digests)
        if not locked:
            self._row(SHARE_MANY, {})
        template = RESERVE_MANY if locked else RESERVE_MANY_UNLOCKED
        ((written, some),) = self._rows(template, columns | {"asked": len(rows)})
        return set(digests) if written == len(rows) else {UUID(digest) for digest in some or ()}

    def _columns(self, rows: Sequence[Wanted], digests: Sequence[UUID]) -> Parameters:
        calls = [each.call for each in rows]
        identities = [call.identity for call in calls]
        return {
            "digest": digests_array(digests),
            "lock": array([_lock(digest) for digest in digests]),
            "wait": array([each.wait + each.republish for each in rows]),
            "sends": array([each.sends for each in rows]),
            "task": array([call.task for call in calls]),
            "scope": array([identity.scope for identity in identities]),
            "key_text": texts_array([identity.key_text for identity in identities]),
            "task_id": texts_array([call.task_id for call in calls]),
            "fingerprint": array([identity.fingerprint for identity in identities]),
            "message": BETWEEN.join([call.message or "" for call in calls]),
        }

    def _waiting(self, digests: list[UUID], token: int) -> int:
        ((waiting,),) = self._rows(WAITING_ARRAY, {"digests": digests_array(digests), "token": token})
        return int(waiting)

    def _replaced(self, ids: list[str]) -> set[tuple[UUID, str]]:
        return {(to_digest(digest), task_id) for digest, task_id in self._rows(REPLACED, {"ids": ids})}

    def _hurry(self, digests: list[UUID], token: int) -> None:
        self._count(HURRY_ARRAYS, {"digests": digests, "token": token})
