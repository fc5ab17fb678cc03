"""Reserves many calls in SQL: one INSERT of all rows, and one SELECT of the rows that existed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

from ..reservable import Reservable
from ..values import Call, Entry
from . import claiming, statements
from .messages import Messages
from .reading import Parameters, to_digest, to_entry

T = TypeVar("T")

#: Rows of one statement: with their parameters below what SQLite takes, and what a server reads at once.
ROWS = 1000

INSERT = f"INSERT INTO {{key}} ({claiming.KEY_COLUMNS}) VALUES "
#: SQLite takes no source of rows and a conflict without a word between them, but VALUES it does.
ON_CONFLICT = " ON CONFLICT (digest) DO NOTHING RETURNING digest"

READ_MANY = (
    claiming.READ.replace("SELECT k.state", "SELECT k.digest, k.state")
    .replace(claiming.WAS_ANSWERED, "{false}")
    .replace("k.digest = %(digest)s", "k.digest IN (DIGESTS)")
)
ANSWERED = "SELECT digest, task_id FROM {answered} WHERE task_id IN (IDS)"

SENDS_FAILED = (
    statements.SEND_FAILED.partition("WHERE")[0]
    + f"WHERE digest IN (DIGESTS) AND token = %(token)s AND {statements.UNCLAIMED}"
)

WAITING = """
SELECT count(*) FROM {key} WHERE digest IN (DIGESTS) AND token = %(token)s AND message IS NOT NULL
"""

_PARAMETER = re.compile(r"%\((\w+)\)s")


class Many(Messages):
    """Adds what is done with many calls at once."""

    hurry = SENDS_FAILED

    def reserve_many(self, wanted: Sequence[Reservable]) -> set[UUID]:
        rows = (self._wanted_parameters(each) for each in in_order(wanted))
        written: set[UUID] = set()
        for bite in bites(rows, ROWS):
            statement, values = self._inserting(INSERT, f"({claiming.RESERVED})", ON_CONFLICT, bite)
            written |= {to_digest(digest) for (digest,) in self._rows(statement, values)}
        return written

    def read_many(self, calls: Sequence[Call]) -> list[Entry | None]:
        found: list[Entry | None] = []
        for bite in bites(calls, ROWS):
            rows = self._of_many(READ_MANY, {call.identity.digest for call in bite})
            entries = {to_digest(digest): to_entry(tuple(row)) for digest, *row in rows}
            past = self._replaced([call.task_id for call in bite])
            for call in bite:
                entry, was_answered = entries.get(call.identity.digest), _pair(call) in past
                found.append(replace(entry, was_answered=True) if entry and was_answered else entry)
        return found

    def _replaced(self, ids: list[str]) -> set[tuple[UUID, str]]:
        """Which of these calls have an answer of their own, and under which key."""
        listed: Parameters = {f"i{place}": task_id for place, task_id in enumerate(ids)}
        names = ", ".join(f"%({name})s" for name in listed)
        rows = self._rows(self.dialect.sql(ANSWERED).replace("IDS", names), listed)
        return {(to_digest(digest), task_id) for digest, task_id in rows}

    def record_duplicates(self, refused: Sequence[tuple[Call, str]], *, place: str) -> None:
        head, _, row = statements.RECORD_DUPLICATE.partition("VALUES")
        rows = (self._duplicate_parameters(call, place, reason) for call, reason in refused)
        for bite in bites(rows, ROWS):
            self._count(*self._inserting(f"{head} VALUES ", row, "", bite))

    def all_wait(self, tokens: Mapping[UUID, int]) -> bool:
        parts = ((bite, token) for token, digests in by_token(tokens) for bite in bites(digests, ROWS))
        return all(self._waiting(bite, token) == len(bite) for bite, token in parts)

    def _waiting(self, digests: list[UUID], token: int) -> int:
        ((waiting,),) = self._listing(self.dialect.sql(WAITING), digests, {"token": token})
        return int(waiting)

    def sends_failed(self, tokens: Mapping[UUID, int]) -> None:
        for token, digests in by_token(tokens):
            for bite in bites(digests, ROWS):
                self._hurry(bite, token)

    def _hurry(self, digests: list[UUID], token: int) -> None:
        names, listed = self._digests(digests)
        self._count(self.dialect.sql(self.hurry).replace("DIGESTS", names), listed | {"token": token})

    def _inserting(self, head: str, row: str, tail: str, rows: list[Parameters]) -> tuple[str, Any]:
        """The INSERT of these rows, rendered once for all of them, and its parameters by their places."""
        text = self.dialect.sql(row)
        order = _PARAMETER.findall(text)
        listed = ", ".join([_PARAMETER.sub("%s", text)] * len(rows))
        statement = f"{self.dialect.sql(head)}{listed}{self.dialect.sql(tail)}"
        return statement, [each[name] for each in rows for name in order]

    def _listing(self, template: str, digests: list[UUID], parameters: Parameters) -> list[Any]:
        names, listed = self._digests(digests)
        return self._rows(template.replace("DIGESTS", names), listed | parameters)

    def _digests(self, digests: list[UUID]) -> tuple[str, Parameters]:
        listed: Parameters = {f"d{place}": self.dialect.uuid(each) for place, each in enumerate(digests)}
        return ", ".join(f"%({name})s" for name in listed), listed

    def _wanted_parameters(self, wanted: Reservable) -> Parameters:
        return {
            "digest": self.dialect.uuid(UUID(wanted.hex)),
            "wait": wanted.wait + wanted.republish,
            "sends": wanted.sends,
            "task": wanted.task,
            "scope": wanted.scope,
            "key_text": wanted.key_text,
            "task_id": wanted.task_id,
            "fingerprint": self.dialect.uuid(wanted.fingerprint),
            "message": wanted.message,
        }


def _pair(call: Call) -> tuple[UUID, str]:
    return call.identity.digest, call.task_id


def in_order(wanted: Iterable[Reservable]) -> list[Reservable]:
    """By digest: everybody takes keys in this order."""
    return sorted(wanted, key=attrgetter("hex"))


def bites(found: Iterable[T], size: int) -> Iterator[list[T]]:
    """At most so many at a time."""
    rest = iter(found)
    while bite := list(islice(rest, size)):
        yield bite


def by_token(tokens: Mapping[UUID, int]) -> Iterator[tuple[int, list[UUID]]]:
    """The keys that have the same token, in their order; nearly all have that of a new one."""
    of_each: dict[int, list[UUID]] = {}
    for digest, token in tokens.items():
        of_each.setdefault(token, []).append(digest)
    for token, digests in sorted(of_each.items()):
        yield token, sorted(digests, key=lambda each: each.int)
