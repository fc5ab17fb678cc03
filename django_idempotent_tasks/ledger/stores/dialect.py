"""Renders statements for one database: its words for time, its constants, its table names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

from django.db.models import Model

from ...conf import settings
from ...models import (
    AnsweredCall,
    BeatCursor,
    DuplicateAttempt,
    FailedJob,
    HourlyCount,
    IdempotencyKey,
    Leader,
    RedriveOperation,
    Step,
)
from . import clock
from .statements import CRASH_WAIT, DIED, DOUBTED, INTERRUPTED


class _After:
    """``{after[name]}``: the statement's time plus the parameter ``name``."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def __getitem__(self, parameter: str) -> str:
        return self.dialect.after(f"%({parameter})s")


class _Before(_After):
    """``{before[name]}``: the statement's time less the parameter ``name``."""

    def __getitem__(self, parameter: str) -> str:
        return self.dialect.after(f"-%({parameter})s")


class Dialect(ABC):
    """The vendor's words. Times are those of the statement, never of the transaction's start."""

    true: str
    false: str
    least: str
    #: The type of a digest, for a parameter whose place does not tell it.
    uuid_type: str
    #: Takes the key's lock until the transaction ends, if nobody has it; never waits.
    unheld: str
    #: The octets of a stored message, without reading it where the database can tell.
    size = "octet_length(message)"
    #: Compares two values of which either may be NULL.
    same: str
    #: Bounds how long the server holds the transaction of a host that has vanished; always true.
    bounded = "1 = 1"
    #: Locks what a query finds and passes over what others have locked.
    skip_locked = "FOR UPDATE SKIP LOCKED"
    #: Locks what a query finds until the transaction ends, and waits for who has it.
    locked = "FOR UPDATE"

    @abstractmethod
    def now(self) -> str:
        """The statement's time."""

    @abstractmethod
    def after(self, seconds: str) -> str:
        """The statement's time plus an SQL expression in seconds."""

    def ago(self, seconds: str) -> str:
        """The statement's time less an SQL expression in seconds, which may have a fraction."""
        return self.after(f"-{seconds}")

    @abstractmethod
    def until(self, column: str) -> str:
        """Seconds from the statement's time until a time column."""

    def upsert(self, conflict: Sequence[str], columns: Sequence[str]) -> str:
        """The end of an INSERT that replaces these columns of a row that is there already."""
        values = ", ".join(f"{column} = excluded.{column}" for column in columns)
        return f"ON CONFLICT ({', '.join(conflict)}) DO UPDATE SET {values}"

    @abstractmethod
    def uuid(self, value: UUID | None) -> object:
        """A UUID as a parameter."""

    def table(self, model: type[Model]) -> str:
        """A table's name in a statement."""
        return model._meta.db_table

    def sql(self, template: str) -> str:
        """The statement's text in this dialect; one without braces is rendered already."""
        if "{" not in template:
            return template
        return _render(self, template, clock.offset(), settings().schema)


@lru_cache(maxsize=256)
def _render(dialect: Dialect, template: str, _offset: int, _schema: str | None) -> str:
    send_wait = (
        f"CASE WHEN k.sends < 0 THEN %(republish)s WHEN k.sends < 12"
        f" THEN {dialect.least}(%(republish)s * (1 << k.sends), 3600) ELSE 3600 END"
    )
    return template.format(
        key=dialect.table(IdempotencyKey),
        answered=dialect.table(AnsweredCall),
        duplicate=dialect.table(DuplicateAttempt),
        failed=dialect.table(FailedJob),
        hourly=dialect.table(HourlyCount),
        redrive=dialect.table(RedriveOperation),
        cursor=dialect.table(BeatCursor),
        leader=dialect.table(Leader),
        step=dialect.table(Step),
        now=dialect.now(),
        after=_After(dialect),
        before=_Before(dialect),
        uuid=dialect.uuid_type,
        unheld=dialect.unheld,
        same=dialect.same,
        size=dialect.size,
        bounded=dialect.bounded,
        skip_locked=dialect.skip_locked,
        locked=dialect.locked,
        elapsed_ago=dialect.ago("%(elapsed)s"),
        doubted=DOUBTED.format(now=dialect.now(), interrupted=INTERRUPTED, died=DIED),
        after_crash=dialect.after(CRASH_WAIT),
        after_crash_republish=dialect.after(f"%(republish)s + {CRASH_WAIT}"),
        after_send=dialect.after(send_wait),
        opens_in=dialect.until("k.open_at"),
        led_for=f"-{dialect.until('l.since')}",
        true=dialect.true,
        false=dialect.false,
        least=dialect.least,
    )
