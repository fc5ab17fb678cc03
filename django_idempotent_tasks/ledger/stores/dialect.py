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
    Batch,
    BatchChunk,
    BatchRecord,
    BeatCursor,
    DuplicateAttempt,
    FailedJob,
    FollowUp,
    HourlyCount,
    IdempotencyKey,
    Leader,
    Pause,
    RedriveOperation,
    Step,
    Worker,
)
from . import clock
from .statements import CRASH_WAIT, DIED, DOUBTED, INTERRUPTED


class OurText(str):
    """The text of a statement of ours that needs no reading: it leaves nothing that others would meet."""

    __slots__ = ()


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
    #: Locks what a query finds against changes, together with others, and passes over what is being changed.
    shared = "FOR SHARE SKIP LOCKED"

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
    def later(self, column: str, seconds: str) -> str:
        """A time column plus an SQL expression in seconds."""

    @abstractmethod
    def until(self, column: str) -> str:
        """Seconds from the statement's time until a time column."""

    @abstractmethod
    def between(self, first: str, last: str) -> str:
        """The seconds from one time column to another, with a fraction."""

    def joined(self, texts: Sequence[str]) -> str:
        """SQL expressions as one text."""
        return " || ".join(texts)

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


#: The tables by their names in templates.
_TABLES: dict[str, type[Model]] = {
    "key": IdempotencyKey,
    "answered": AnsweredCall,
    "duplicate": DuplicateAttempt,
    "failed": FailedJob,
    "hourly": HourlyCount,
    "redrive": RedriveOperation,
    "cursor": BeatCursor,
    "leader": Leader,
    "step": Step,
    "batch": Batch,
    "chunk": BatchChunk,
    "record": BatchRecord,
    "follow_up": FollowUp,
    "worker": Worker,
    "pause": Pause,
}


@lru_cache(maxsize=256)
def _render(dialect: Dialect, template: str, _offset: int, _schema: str | None) -> OurText:
    send_wait = (
        f"CASE WHEN k.sends < 0 THEN %(republish)s WHEN k.sends < 12"
        f" THEN {dialect.least}(%(republish)s * (1 << k.sends), 3600) ELSE 3600 END"
    )
    text = template.format(
        **{name: dialect.table(model) for name, model in _TABLES.items()},
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
        shared=dialect.shared,
        ended_for=f"-{dialect.until('COALESCE(p.resumed_at, p.until)')}",
        due_in=dialect.until("f.due_at"),
        created_plus_longest=dialect.later("created_at", "%(longest)s"),
        finished_plus_lease=dialect.later("k.finished_at", "k.lease_seconds"),
        elapsed_ago=dialect.ago("%(elapsed)s"),
        doubted=DOUBTED.format(now=dialect.now(), interrupted=INTERRUPTED, died=DIED),
        after_crash=dialect.after(CRASH_WAIT),
        after_crash_republish=dialect.after(f"%(republish)s + {CRASH_WAIT}"),
        after_send=dialect.after(send_wait),
        opens_in=dialect.until("k.open_at"),
        led_for=f"-{dialect.until('l.since')}",
        note_lasts=dialect.until("l.expires_at"),
        true=dialect.true,
        false=dialect.false,
        least=dialect.least,
    )
    return OurText(text)
