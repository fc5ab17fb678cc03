"""Does something after a commit, where somebody would report that commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from .session import Session, session_of


class _Around(set[str]):
    """The savepoints in which a hook stands: also those of ``transaction.savepoint()``.

    Django knows the savepoints of ``atomic()`` alone: it would run the hook although ``savepoint_rollback``
    has taken back what was written with it. It numbers both kinds, and each that is older is around the hook.
    """

    def __init__(self, known: Iterable[str], latest: int) -> None:
        super().__init__(known)
        self._latest = latest

    def __contains__(self, name: object) -> bool:
        number = str(name).rpartition("_x")[2]
        return super().__contains__(name) or (number.isdecimal() and int(number) <= self._latest)


def on_commit(connection: BaseDatabaseWrapper, work: Callable[[], None]) -> None:
    """Do ``work`` after the commit, and not where what is written now is taken back, by any savepoint."""
    transaction.on_commit(work, using=connection.alias, robust=True)
    if connection.in_atomic_block:
        hooks: list[Any] = connection.run_on_commit
        known, *hook = hooks[-1]
        hooks[-1] = (_Around(known, connection.savepoint_state), *hook)


def are_reported(connection: BaseDatabaseWrapper) -> bool:
    """Whether what is written now is either committed by itself, or by an ``atomic()`` block.

    Django reports no other commit: not without autocommit, and not after a ``BEGIN`` in a cursor, which is
    not seen on MariaDB and MySQL.
    """
    if connection.in_atomic_block:
        return True
    return connection.get_autocommit() and session_of(connection, at_any_cost=False) is not Session.OPEN


def after_commit(connection: BaseDatabaseWrapper, work: Callable[[], None]) -> bool:
    """Do ``work`` once the open transaction has committed, or now where none is open.

    False, and it is never done, where no commit is reported: the caller has to leave it to the sweeper, or
    to say so. What fails is logged by Django, which asks ``work`` for its name: give a function or a method.
    """
    if not are_reported(connection):
        return False
    on_commit(connection, work)
    return True


def check_reported(task: str, connection: BaseDatabaseWrapper) -> None:
    """Raise TransactionManagementError where no commit is reported, after which a message would go out."""
    if not are_reported(connection):
        raise TransactionManagementError(
            f"{task} cannot be sent after the commit in manual transaction management, where Django reports"
            " no commit. Use transaction.atomic()."
        )
