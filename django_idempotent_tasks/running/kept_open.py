"""Notices that a body ends a transaction of ours by hand, in ``complete()``, a step or a record's block.

Neither Django nor the completion sees a COMMIT or a ROLLBACK that the body sends in a cursor, and what comes
after it would be committed without what came before. The driver tells of it without a round trip. That of
MariaDB and MySQL does not, so there the statements themselves are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from ..exceptions import PermanentError
from ..ledger.stores import LedgerStore
from ..ledger.stores.session import Session, session_of

#: What ends a transaction, and does not only go back to a savepoint.
_ENDING = re.compile(
    r"\s*(?:COMMIT\b|ROLLBACK\b(?!\s+(?:WORK\s+)?TO\b)|BEGIN\b|START\s+TRANSACTION\b)", re.IGNORECASE
)


@contextmanager
def kept_open(store: LedgerStore, name: str) -> Iterator[None]:
    """A transaction on the store's connection. Raises :class:`PermanentError` where its body ends it."""
    with transaction.atomic(using=store.connection.alias, durable=True):
        watch = _Watch(store, name)
        with store.connection.execute_wrapper(watch.execute):
            yield
        watch.check()


class _Watch:
    """Looks before each statement whether the transaction is the one that was begun."""

    def __init__(self, store: LedgerStore, name: str) -> None:
        self._store = store
        self._name = name
        self._reads = store.connection.vendor == "mysql"
        #: Whether the driver has begun it: on PostgreSQL it does so with the first statement.
        self._has_begun = self._is_open()
        self._has_ended = False

    def execute(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        """Run a statement, unless the transaction of those before it is over."""
        self.check()
        self._has_ended = self._reads and isinstance(sql, str) and _ENDING.match(sql) is not None
        try:
            return execute(sql, params, many, context)
        finally:
            self._has_begun = self._has_begun or self._is_open()

    def check(self) -> None:
        """Raise where the transaction was ended by hand; a broken connection says so by itself."""
        connection = self._store.connection
        is_over = self._has_ended or (self._has_begun and not self._is_open())
        if not is_over or connection.connection is None or not connection.is_usable():
            return
        self._has_ended = True
        msg = (
            f"The body of {self._name} has sent COMMIT or ROLLBACK in the transaction of complete(), of a"
            " step or of a record: what it writes no longer commits with that. Leave it out: an error that"
            " is raised there undoes all writes, and one in an atomic() of your own those in that."
        )
        raise PermanentError(msg)

    def _is_open(self) -> bool:
        return session_of(self._store.connection, at_any_cost=False) is Session.OPEN
