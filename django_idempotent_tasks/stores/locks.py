"""Advisory locks of one transaction: each takes a slot of the server's lock table until it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

#: Reservations of one transaction that take a lock each; the server's default table has some 14,000 slots.
LOCK_LIMIT = 1000
#: Seconds that a reservation waits for another transaction that holds its key.
LONGEST_WAIT = 2
#: SQLSTATE of a statement that ``lock_timeout`` ended.
LOCK_NOT_AVAILABLE = "55P03"


class _Taken:
    """The count of one transaction; Django forgets it, as a commit hook, when the transaction ends."""

    count = 0

    def __call__(self) -> None:
        """Do nothing: being registered is what tells that the transaction is still the same."""


_latest: WeakKeyDictionary[BaseDatabaseWrapper, _Taken] = WeakKeyDictionary()


def many_locks(connection: BaseDatabaseWrapper) -> bool:
    """Count one more reservation; whether this transaction has used up its share of locks."""
    if not connection.in_atomic_block:
        return False
    taken = _latest.get(connection)
    if taken is None or not any(hook[1] is taken for hook in connection.run_on_commit):
        taken = _latest[connection] = _Taken()
        transaction.on_commit(taken, using=connection.alias, robust=True)
    taken.count += 1
    return taken.count > LOCK_LIMIT


@contextmanager
def limited_wait(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let the statements inside wait for a lock no longer than :data:`LONGEST_WAIT`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        before = cursor.fetchone()[0]
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LONGEST_WAIT}s"])
        yield
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [before])
