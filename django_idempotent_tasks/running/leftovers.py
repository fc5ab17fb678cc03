"""Closes connections on which a body has left a transaction open, so that it rolls back."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from django.db import Error as DatabaseError
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..exceptions import TransactionLeftOpen
from ..ledger.stores.connection import in_the_callers
from ..ledger.stores.session import Session, session_of
from .altered import any_altered, is_altered

logger = logging.getLogger("django_idempotent_tasks")


class Watch:
    """Asks the drivers of this thread's connections which transactions a body has left open.

    A transaction that was open before the body is the caller's, and is left alone. But in a worker only
    ``atomic()`` opens a transaction around a claim: one that is open by hand on the ledger's connection was
    left there by an earlier task, nobody would commit the claim in it, and the connection is closed.
    """

    def __init__(self, ledger: BaseDatabaseWrapper, *, is_eager: bool) -> None:
        self._ledger = ledger
        self._is_eager = is_eager
        self._before: set[str] = set()
        #: Whether an eager caller has begun a transaction on the ledger's connection by hand.
        self.is_begun_by_hand = is_eager and self.is_by_hand(at_any_cost=True)

    def as_the_callers(self) -> AbstractContextManager[None]:
        """Inside, our transactions are savepoints of one that an eager caller has begun by hand."""
        return in_the_callers(self._ledger, at_any_cost=True) if self.is_begun_by_hand else nullcontext()

    def begin(self) -> None:
        """Note, before the claim, on which connections a transaction is open."""
        for connection in self._watched():
            session = session_of(connection)
            if session is Session.IDLE:
                continue
            if connection is self._ledger and not self._is_eager and not connection.in_atomic_block:
                logger.warning("A transaction was left open on the ledger's connection, which is closed")
                let_go(connection, session)
            else:
                self._before.add(connection.alias)

    def is_by_hand(self, *, at_any_cost: bool = False) -> bool:
        """Whether a transaction was begun on the ledger's connection by hand, since :meth:`begin`.

        ``atomic()`` commits nothing then. On MariaDB and MySQL it does after a BEGIN, which is seen only
        ``at_any_cost``: a round trip.
        """
        connection = self._ledger
        if connection.alias in self._before or connection.in_atomic_block:
            return False
        return session_of(connection, at_any_cost=at_any_cost) is not Session.IDLE

    def leave(self, alias: str) -> None:
        """Leave this database alone from now on: the body runs in a transaction that we open there."""
        self._before.add(alias)

    def close(self) -> list[str]:
        """Close each connection with an open transaction or an altered session; aliases of the former."""
        left = []
        for connection in self._watched():
            if connection.alias in self._before:
                continue
            session = session_of(connection)
            if session is not Session.IDLE or (is_altered(connection) and not self._is_eager):
                let_go(connection, session)
            if session is Session.OPEN:
                left.append(connection.alias)
        return left

    def _watched(self) -> list[BaseDatabaseWrapper]:
        """Every connection of this thread; in eager mode the ledger's only, the others are the caller's."""
        if self._is_eager or len(connections.settings) == 1:
            return [self._ledger]
        return in_use()


def in_use() -> list[BaseDatabaseWrapper]:
    """Every connection of this thread, at less cost where the project has one database alone."""
    if len(connections.settings) == 1:
        return [connections[alias] for alias in connections.settings]
    return list(connections.all(initialized_only=True))


def refuse(name: str, left: list[str]) -> None:
    """Raise :class:`TransactionLeftOpen` where the body of the task ``name`` has left a transaction open."""
    if left:
        raise TransactionLeftOpen(
            f"The body of {name} ended with a transaction open on the database {', '.join(map(repr, left))}:"
            " nobody would commit it, and what was written in it is rolled back. Write in"
            " transaction.atomic(), or COMMIT what your own BEGIN or set_autocommit(False) began, also where"
            " an error or a time limit is caught."
        )


def let_go(connection: BaseDatabaseWrapper, session: Session) -> None:
    """Roll back and close a connection, and let Django forget its ``atomic()`` block. Never raises.

    Django's ``connect()`` forgets the block, before it connects, which may fail.
    """
    with suppress(Exception):  # of the driver: the server rolls back a closed connection a little later
        if session is Session.OPEN:
            connection.connection.rollback()
        if is_altered(connection) and connection.vendor == "postgresql":
            connection.connection.close()  # or a pool would give the altered session to others
    drivers: Any = connection
    with suppress(DatabaseError, drivers.Database.Error):  # connect() raises the driver's own
        connection.close()
        if connection.in_atomic_block:
            connection.connection = None  # it is closed, and mysqlclient fails on a second close
            connection.connect()


def close_left_open(name: str) -> None:
    """After a worker's task close each connection whose next statement would not be committed."""
    for connection in in_use():
        session = session_of(connection)
        if session is not Session.IDLE or is_altered(connection):
            _let_go_of(name, connection, session)


def close_altered() -> None:
    """Close each connection that a task has altered, so that no pool gives it to others."""
    for connection in in_use() if any_altered() else ():
        if is_altered(connection):
            _let_go_of("A task", connection, session_of(connection, at_any_cost=False))


def _let_go_of(name: str, connection: BaseDatabaseWrapper, session: Session) -> None:
    if session is Session.OPEN:
        logger.warning(
            "%s ended with a transaction open on the database %r: it is rolled back, and the connection"
            " is closed. Write in transaction.atomic(), or COMMIT what was begun by hand.",
            name,
            connection.alias,
        )
    let_go(connection, session)
