"""MariaDB and MySQL: READ COMMITTED; there is no UPDATE ... RETURNING, so a SELECT reads whose row it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from uuid import UUID, uuid4

from django.db import DatabaseError, InterfaceError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from ...exceptions import ConfigurationError
from ..values import Call, Claim, Entry, Grant
from . import mysql_statements as words
from . import statements
from .atomic import AtomicClaims
from .cancelling import Cancelling
from .cursors import Cursors
from .decisions import Decisions
from .failures import Failures
from .follow_ups_sql import FOLLOW, FOLLOW_UP, FollowUpCalls
from .follow_ups_sql import UNLOCKED as UNLOCKED_FOLLOW_UP
from .hourly import Hours
from .messages import Messages
from .mysql_batches import MysqlBatches
from .mysql_many import MysqlMany
from .mysql_sweeps import MysqlSweeps
from .pausing import Pausing
from .reading import Parameters, Row
from .redrives import Redrives
from .session import IS_OPEN
from .sql import SqlStore
from .steps import FORGET, Steps
from .workers import Workers

#: A lock was not granted in time, or not at once (NOWAIT, MySQL only).
NOT_GRANTED = frozenset({1205, 3572})
#: A transaction was rolled back as a whole, so that others can go on; its savepoints are gone.
DEADLOCK, NO_SAVEPOINT = 1213, 1305

#: Django's default on MariaDB and MySQL. Behind a snapshot a claim that lost would see nobody who won and
#: wait for ever; two who look for a missing row would deadlock on its gap; and what is not committed is no
#: answer to a duplicate.
ISOLATION = "read committed"


_LOCKS = {
    statements.UNLOCKED: words.LOCK_IF_FREE,
    UNLOCKED_FOLLOW_UP: words.LOCK_IF_FREE.replace("{key}", "{follow_up}"),
}


class MysqlStore(
    MysqlMany,
    MysqlSweeps,
    AtomicClaims,
    Failures,
    Decisions,
    Redrives,
    Pausing,
    Hours,
    Cursors,
    Workers,
    Cancelling,
    MysqlBatches,
    Messages,
    Steps,
    FollowUpCalls,
    SqlStore,
):
    """The store of MariaDB and MySQL."""

    #: A deadlock rolls the whole transaction back, and what a body does after it goes on in a new one.
    confirms = True

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection)
        isolation = connection.settings_dict["OPTIONS"].get("isolation_level", ISOLATION)
        if isolation is None or isolation.lower() != ISOLATION:
            raise ConfigurationError(
                f"The ledger needs {ISOLATION!r}, Django's default on {connection.display_name}; OPTIONS of"
                f" the database {connection.alias!r} ask for isolation_level {isolation!r}: leave it out."
            )

    @cached_property
    def dialect(self) -> words.MysqlDialect:  # type: ignore[override]
        """Asks the server, which may be down: not before the first statement."""
        return words.DASHED if self.connection.features.has_native_uuid_field else words.PLAIN

    @cached_property
    def _is_mariadb(self) -> bool:
        return bool(self.connection.mysql_is_mariadb)  # type: ignore[attr-defined]

    def _row(self, template: str, parameters: Parameters) -> Row | None:
        statement, returning, _ = template.partition("RETURNING")
        if not returning:
            return super()._row(template, parameters)
        written = self._write(statement.replace(words.ON_CONFLICT, words.ON_DUPLICATE), parameters)
        return self._granted(parameters) if written else None

    def _count(self, template: str, parameters: Parameters) -> int:
        for unlocked, lock in _LOCKS.items():
            if unlocked in template:
                with self._in_transaction():  # an UPDATE with a subquery reads the whole table
                    if not self._rows(lock, parameters):
                        return 0
                    return super()._count(template.replace(unlocked, "digest = %(digest)s"), parameters)
        return super()._count(template, parameters)

    def _write(self, statement: str, parameters: Parameters) -> int:
        """Write a claim; 0 when another transaction has its row for longer than a second.

        Two who wait for an INSERT that is then rolled back deadlock: one of them is refused as well.
        """
        statement = statement.replace(" WHERE true", "").strip()
        try:
            with self._short_wait() as bounded:
                return self._count(f"{bounded}{statement}", parameters)
        except OperationalError as error:
            if not self._is_harmless(error):
                raise
            return 0

    @contextmanager
    def _short_wait(self) -> Iterator[str]:
        """Let the statement inside wait for a lock for a second only; what stands before it there."""
        if self._is_mariadb:
            yield words.SHORT_WAIT_FOR
            return
        self._count(words.SHORTEN_WAIT, {})
        try:
            yield ""
        finally:
            self._count(words.RESTORE_WAIT, {})

    def _is_harmless(self, error: OperationalError) -> bool:
        """Whether a lock was not granted, and all that was written before in the transaction is kept."""
        if not self._is_in_transaction:
            return words.number_of(error) in NOT_GRANTED | {DEADLOCK}
        return words.number_of(error) in NOT_GRANTED and not self._rows(words.ROLLS_BACK_ON_TIMEOUT, {})

    def _look(self, parameters: Parameters) -> bool | None:
        """Lock the key's row for the open transaction; whether there is one, None when another has it."""
        try:
            return bool(self._rows(words.LOCK, parameters))
        except OperationalError as error:
            if not self._is_harmless(error):
                raise
            return None

    def reserve_new(self, call: Call, *, wait: int, sends: int) -> int | None:
        parameters = self._call_parameters(call) | {"wait": wait, "sends": sends, "owner": _reserver()}
        if self._look(parameters) is not False:
            return None
        self._write(words.RESERVE_NEW.replace(words.ON_CONFLICT, words.ON_DUPLICATE), parameters)
        return 0 if self._count(words.RESERVED, parameters) else None

    def _reserve_finished(self, parameters: Parameters) -> Row | None:
        return (parameters["seen"] + 1,) if self._replace(words.RESERVE_FINISHED, parameters) else None

    def _claim_finished(self, parameters: Parameters) -> Row | None:
        return self._granted(parameters) if self._replace(words.CLAIM_FINISHED, parameters) else None

    def _atomic_finished(self, parameters: Parameters) -> Row | None:
        return self._granted(parameters) if self._replace(words.ATOMIC_FINISHED, parameters) else None

    def _replace(self, template: str, parameters: Parameters) -> bool:
        """Remember the replaced call and give its key to the new one."""
        with self._in_transaction():
            if not self._rows(words.LOCK_FINISHED, parameters):
                return False
            self._count(words.REMEMBER, parameters)
            self._count(FORGET, parameters)
            return self._count(template, parameters) == 1

    def _granted(self, parameters: Parameters) -> Row | None:
        return super()._row(words.GRANTED, parameters)

    def _may_follow(self, call: Call) -> bool:  # noqa: ARG002  a lock on the row would hold up the run's end
        return True

    def _follow(self, parameters: Parameters) -> bool:
        self._write(FOLLOW.replace(words.ON_CONFLICT, words.ON_SECOND_FOLLOW_UP), parameters)
        found = self._row(FOLLOW_UP, parameters)
        return found is not None and bool(found[0] == parameters["task_id"])

    def _sharing(self, template: str) -> str:
        return template.replace("{shared}", words.SHARED) if self._is_mariadb else template

    def atomic_new(self, call: Call, *, owner: str, retention: int, window: int) -> Grant | None:
        if self._look(self._call_parameters(call)) is not False:
            return None
        return super().atomic_new(call, owner=owner, retention=retention, window=window)

    def atomic_reserved(self, call: Call, *, owner: str, retention: int, window: int) -> Grant | None:
        if not self._look(self._call_parameters(call)):
            return None
        return super().atomic_reserved(call, owner=owner, retention=retention, window=window)

    def atomic_open(
        self, call: Call, *, owner: str, retention: int, window: int, seen: Entry, counted: bool
    ) -> Grant | None:
        if not self._look(self._call_parameters(call)):
            return None
        times = {"retention": retention, "window": window}
        return super().atomic_open(call, owner=owner, **times, seen=seen, counted=counted)

    @contextmanager
    def holding(self, call: Call) -> Iterator[bool]:
        with self._in_transaction():
            yield self._hold(call)

    def _hold(self, call: Call) -> bool:
        return self._look(self._call_parameters(call)) is not None

    def _has_failed(self) -> bool | None:
        """Asked by the driver, since a wrapper of Django's asks before each statement; MySQL cannot be asked.

        A deadlock ends the transaction and is not the body's doing, which may end by that error.
        """
        if self.connection.closed_in_transaction or self.connection.connection is None:
            return None
        if not self._is_mariadb:
            return False
        try:
            with self.connection.wrap_database_errors, self.connection.connection.cursor() as cursor:
                cursor.execute(IS_OPEN)
                if cursor.fetchone()[0]:
                    return False
                cursor.execute(words.LATEST_ERRORS)
                return True if {row[1] for row in cursor.fetchall()} & {DEADLOCK, NO_SAVEPOINT} else None
        except (DatabaseError, InterfaceError):
            return None  # with its connection

    def renew(self, held: Sequence[Claim]) -> set[UUID]:
        if not held:
            return set()
        named, parameters = self._held(held)
        with self._in_transaction():
            return self._write_locked(words.RENEWABLE.replace("HELD", named), words.RENEW, parameters)

    def _cancel(self, which: str, parameters: Parameters) -> int:
        select = f"SELECT digest FROM {{key}} WHERE {which} FOR UPDATE SKIP LOCKED"
        with self._in_transaction():
            return len(self._write_locked(select, words.CANCEL, parameters))

    def lead(self, name: str, *, holder: str, lease: int) -> bool:
        parameters = {"name": name, "holder": holder, "lease": lease}
        self._count(words.LEAD, parameters)
        return self._row(words.LED, parameters) is not None

    def shorten_timeouts(self, connection: BaseDatabaseWrapper) -> None:
        words.shorten(connection.settings_dict.setdefault("OPTIONS", {}))


def _reserver() -> str:
    """A reservation is nobody's claim: the name only tells it from another one of the same call."""
    return f"reserved:{uuid4().hex}"
