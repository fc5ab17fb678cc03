"""Does something after a commit, where somebody would report that commit."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from .session import Session, session_of


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
    transaction.on_commit(work, using=connection.alias, robust=True)
    return True


def check_reported(task: str, connection: BaseDatabaseWrapper) -> None:
    """Raise TransactionManagementError where no commit is reported, after which a message would go out."""
    if not are_reported(connection):
        raise TransactionManagementError(
            f"{task} cannot be sent after the commit in manual transaction management, where Django reports"
            " no commit. Use transaction.atomic()."
        )
