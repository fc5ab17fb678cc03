"""Takes advisory locks of one transaction; each needs a slot in the server's lock table until it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

#: Reservations of one transaction that take a lock each; the server's default table has some 14,000 slots.
LOCK_LIMIT = 1000
#: Milliseconds that one attempt waits for another transaction's key; below the server's deadlock_timeout.
SHORT_WAIT = 100
#: SQLSTATE of a statement that ``lock_timeout`` ended, and of one that a deadlock did.
NOT_GRANTED = frozenset({"55P03", "40P01"})


class Taken:
    """The count of one transaction; Django forgets it, as a commit hook, when the transaction ends."""

    count = 0

    def __init__(self) -> None:
        self.__qualname__ = type(self).__qualname__  # Django asks a hook that is struck for its name

    @property
    def is_used_up(self) -> bool:
        """Whether this transaction has had its share of locks."""
        return self.count >= LOCK_LIMIT

    def __call__(self) -> None:
        """Do nothing: being registered is what tells that the transaction is still the same."""


_latest: WeakKeyDictionary[BaseDatabaseWrapper, Taken] = WeakKeyDictionary()


def taken_by(connection: BaseDatabaseWrapper) -> Taken:
    """What the open transaction has taken."""
    if not connection.in_atomic_block:
        return Taken()  # its only statement is its end
    taken = _latest.get(connection)
    if taken is None or not any(hook[1] is taken for hook in connection.run_on_commit):
        taken = _latest[connection] = Taken()
        transaction.on_commit(taken, using=connection.alias, robust=True)
    return taken


@contextmanager
def short_wait(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let the statements inside wait for a lock for a moment only; an error needs a savepoint outside."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('lock_timeout'), pg_catalog.set_config('lock_timeout', %s, true)",
            [f"{SHORT_WAIT}ms"],
        )
        before = cursor.fetchone()[0]
        yield
        cursor.execute("SELECT pg_catalog.set_config('lock_timeout', %s, true)", [before])
