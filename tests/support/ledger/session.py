"""A second client of the database, and whether it has to wait for the first."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from tests.support.waiting import PATIENCE, eventually

T = TypeVar("T")
Work = Callable[[LedgerStore], T]


class Session:
    """A thread with a connection of its own."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="session")
        self._transaction: transaction.Atomic | None = None

    def start(self, work: Work[T]) -> Future[T]:
        """Begin to do something; it may have to wait for another session."""
        return self._thread.submit(lambda: work(get_store(self.alias)))

    def do(self, work: Work[T]) -> T:
        """Do something that must not have to wait for long."""
        return self.start(work).result(PATIENCE)

    def sql(self, statement: str) -> object:
        """Run one statement; the first value of its first row, if it has rows."""

        def run(store: LedgerStore) -> object:
            with store.connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchone()[0] if cursor.description else None

        return self.do(run)

    def begin(self, isolation: str = "") -> None:
        """Open a transaction, as ``atomic()`` around a claim does."""
        self._transaction = transaction.atomic(using=self.alias)
        self.do(lambda _: self._open.__enter__())
        if isolation:
            self.sql(f"SET TRANSACTION ISOLATION LEVEL {isolation}")

    def commit(self) -> None:
        """Commit it."""
        self.do(lambda _: self._open.__exit__(None, None, None))

    def rollback(self) -> None:
        """Roll it back, as an error does that leaves the ``atomic()`` block."""
        error = DatabaseError("rolled back")
        self.do(lambda _: self._open.__exit__(DatabaseError, error, None))

    @property
    def _open(self) -> transaction.Atomic:
        assert self._transaction is not None, "no transaction was begun"
        return self._transaction

    @property
    def pid(self) -> int:
        """The server's process for this connection (PostgreSQL)."""
        pid = self.sql("SELECT pg_backend_pid()")
        assert isinstance(pid, int)
        return pid

    def close(self) -> None:
        """Give the connection and the thread up."""
        self.do(lambda store: _abandon(store.connection))
        self._thread.shutdown()


def _abandon(connection: BaseDatabaseWrapper) -> None:
    """Close it whatever state it is in; the server rolls back."""
    if connection.connection is not None:
        connection.connection.close()
    connection.connection = None
    connections[connection.alias].close()
    del connections[connection.alias]


def wait_until_blocked(pid: int, *, by: int) -> None:
    """Wait until one of PostgreSQL's processes waits for a lock that another holds."""

    def blockers() -> bool:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT %s = ANY (pg_blocking_pids(%s))", [by, pid])
            return bool(cursor.fetchone()[0])

    eventually(blockers, f"{pid} waits for {by}", every=0.005)
