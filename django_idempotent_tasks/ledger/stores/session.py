"""Asks the database driver, not Django, whether a transaction is open on a connection.

Django's flags follow what Django was asked to do. A ``BEGIN`` in a cursor is not among that, nor is what
the driver had done already when a signal struck inside Django.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

#: libpq's PGTransactionStatusType: nothing open, a statement that has not ended, a transaction (also one
#: that failed). What is left is a broken connection, with which nothing is open any more.
_IDLE, _ACTIVE, _OPEN = 0, 1, frozenset({2, 3})

#: MySQL has no variable for it, but refuses this inside a transaction; outside, Django asks for the same.
_ASK_MYSQL = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
IS_OPEN = "SELECT @@in_transaction"
_IN_PROGRESS = 1568


class Session(Enum):
    """Whether the next statement of a connection is committed by itself."""

    IDLE = "idle"
    #: Nothing was written that is not committed, but the next statement would not be committed.
    UNREADY = "unready"
    #: A transaction is open: what was written in it is lost unless somebody commits it.
    OPEN = "open"


def session_of(connection: BaseDatabaseWrapper, *, at_any_cost: bool = True) -> Session:
    """What the driver says; one that is not known says what Django believes.

    Costs a round trip on MariaDB and MySQL, whose driver does not tell, unless ``at_any_cost`` is false:
    then a BEGIN is not seen there. Elsewhere, and where no connection is open, it costs none.
    """
    if connection.connection is not None:
        ask = _ASKED[at_any_cost].get(connection.vendor)
        told = Session.IDLE if ask is None else _asked(ask, connection)
        if told is not Session.IDLE:
            return told
    is_sound = connection.connection is None or connection.autocommit
    return Session.IDLE if is_sound and not connection.in_atomic_block else Session.UNREADY


def is_seen_open(connection: Any) -> bool:
    """Whether :func:`session_of` says OPEN at no cost, for whoever asks at each statement."""
    raw, ask = connection.connection, _SEEN_OPEN.get(connection.vendor)
    try:
        return raw is not None and ask is not None and ask(raw)
    except connection.Database.Error:  # closed or broken: the server has rolled back
        return False


def _asked(ask: Any, connection: Any) -> Session:
    try:
        told: Session = ask(connection)
    except connection.Database.Error:  # closed or broken: the server has rolled back
        return Session.IDLE
    return told


def is_idle(raw: Any) -> bool:
    """Whether nothing is open on a connection to PostgreSQL."""
    return status_of(raw) == _IDLE


def status_of(raw: Any) -> int:
    """The status that libpq tells (its PGTransactionStatusType).

    psycopg 3 makes an object for ``info`` each time; psycopg2 has no ``pgconn``.
    """
    pgconn = getattr(raw, "pgconn", None)
    return int((raw.info if pgconn is None else pgconn).transaction_status)


def _postgresql(connection: BaseDatabaseWrapper) -> Session:
    raw = connection.connection
    status = status_of(raw)
    if status in _OPEN:
        return Session.OPEN
    return Session.UNREADY if status == _ACTIVE or (status == _IDLE and not raw.autocommit) else Session.IDLE


def _sqlite(connection: BaseDatabaseWrapper) -> Session:
    raw = connection.connection
    if raw.in_transaction:
        return Session.OPEN
    return Session.IDLE if raw.isolation_level is None else Session.UNREADY


def _mysql(connection: BaseDatabaseWrapper) -> Session:
    return Session.OPEN if _is_in_transaction(connection) else _mysql_for_free(connection)


def _mysql_for_free(connection: BaseDatabaseWrapper) -> Session:
    return Session.IDLE if connection.connection.get_autocommit() else Session.UNREADY


def _is_in_transaction(connection: Any) -> bool:
    """By the driver's own cursor: Django would have it wrapped, and counted."""
    with connection.connection.cursor() as cursor:
        if connection.mysql_is_mariadb:
            cursor.execute(IS_OPEN)
            return bool(cursor.fetchone()[0])
        try:
            cursor.execute(_ASK_MYSQL)
        except connection.Database.OperationalError as error:
            if error.args[0] != _IN_PROGRESS:
                raise
            return True
    return False


#: The driver of MySQL and MariaDB does not tell.
_SEEN_OPEN: dict[str, Callable[[Any], bool]] = {
    "postgresql": lambda raw: status_of(raw) in _OPEN,
    "sqlite": lambda raw: bool(raw.in_transaction),
}
_FREE = {"mysql": _mysql_for_free, "postgresql": _postgresql, "sqlite": _sqlite}
_ASKED = {True: {**_FREE, "mysql": _mysql}, False: _FREE}
