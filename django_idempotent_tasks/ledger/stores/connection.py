"""``atomic()`` and the rows of a query, also on a side connection, which no alias names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import QuerySet

from .base import LedgerStore
from .session import Session, session_of

#: How many transactions are open of which Django knows nothing, on a side connection or begun by hand: the
#: inner ones are savepoints.
_DEPTH = "idempotent_depth"


@contextmanager
def transaction_on(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """A transaction, or a savepoint inside the open one; an error rolls back what was written in it."""
    depth = getattr(connection, _DEPTH, 0)
    if not depth and connections[connection.alias] is connection:
        with transaction.atomic(using=connection.alias):
            yield
        return
    begin, commit, rollback = _words(depth)
    with connection.cursor() as cursor:
        cursor.execute(begin)
        try:
            setattr(connection, _DEPTH, depth + 1)  # here: a signal may strike at its end
            yield
            cursor.execute(commit)
        except BaseException:
            cursor.execute(rollback)
            raise
        finally:
            setattr(connection, _DEPTH, depth)


@contextmanager
def in_the_callers(connection: BaseDatabaseWrapper, *, at_any_cost: bool) -> Iterator[None]:
    """Inside, our transactions are savepoints of one that a ``BEGIN`` of the caller has begun, if any.

    ``atomic()`` fails there on PostgreSQL and SQLite. On MariaDB and MySQL it commits that transaction,
    which is seen there ``at_any_cost`` alone: a round trip.
    """
    is_djangos = connection.in_atomic_block or not connection.autocommit
    if is_djangos or session_of(connection, at_any_cost=at_any_cost) is not Session.OPEN:
        yield
        return
    depth = getattr(connection, _DEPTH, 0)
    try:
        setattr(connection, _DEPTH, depth + 1)  # as above
        yield
    finally:
        setattr(connection, _DEPTH, depth)


def is_open(connection: BaseDatabaseWrapper) -> bool:
    """Whether what is written now becomes true with the end of a transaction, also of a side connection's."""
    began = connection.in_atomic_block or getattr(connection, _DEPTH, 0) > 0
    return began or not connection.get_autocommit()


def binds_here(connection: Any) -> bool:
    """Whether a cursor of PostgreSQL takes several statements with parameters, and gives the rows of each.

    psycopg2 gives the last one's rows alone; a cursor that binds on the server takes one statement.
    """
    raw = connection.connection
    return hasattr(raw, "pgconn") and hasattr(raw.cursor_factory, "mogrify")


def is_outermost(connection: Any) -> bool:
    """Whether the open block of Django is a whole transaction, which ends with that block."""
    return connection.in_atomic_block and connection.commit_on_exit and not connection.savepoint_ids


@contextmanager
def wrapped(connection: BaseDatabaseWrapper, execute: Any) -> Iterator[None]:
    """Inside, statements pass this wrapper last. Django's own way takes off whichever is the last by then."""
    wrappers = connection.execute_wrappers
    try:
        try:
            wrappers.append(execute)
            yield
        finally:
            _take_off(wrappers, execute)
    finally:
        _take_off(wrappers, execute)  # again, where a signal has struck in the first


def _take_off(wrappers: list[Any], execute: Any) -> None:
    if execute in wrappers:
        wrappers.remove(execute)


def read_on(store: LedgerStore, found: QuerySet[Any], names: tuple[str, ...]) -> Iterator[Any]:
    """The rows of a query on the store's own connection, which no alias names; all are read at once."""
    compiler = found.values_list(*names).query.get_compiler(connection=store.connection)
    for values in list(compiler.results_iter()):
        yield found.model(**dict(zip(names, values, strict=True)))


def _words(depth: int) -> tuple[str, str, str]:
    if not depth:
        return "BEGIN", "COMMIT", "ROLLBACK"
    name = f"idempotent_{depth}"
    return f"SAVEPOINT {name}", f"RELEASE SAVEPOINT {name}", f"ROLLBACK TO SAVEPOINT {name}"
