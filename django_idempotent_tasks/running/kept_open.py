"""Notices that a body ends a transaction of ours by hand, in ``complete()``, a step or a record's block.

Neither Django nor the completion sees a COMMIT or a ROLLBACK that the body sends in a cursor, and what comes
after it would be committed without what came before. The driver tells of it without a round trip. That of
MariaDB and MySQL does not, so there the statements themselves are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from ..exceptions import LeaseLost, PermanentError
from ..ledger.stores import LedgerStore
from ..ledger.stores.connection import wrapped
from ..ledger.stores.session import is_seen_open
from ..ledger.values import Claim

#: What ends a transaction, and does not only go back to a savepoint.
_ENDING = re.compile(
    r"\s*(?:COMMIT\b|ROLLBACK\b(?!\s+(?:WORK\s+)?TO\b)|BEGIN\b|START\s+TRANSACTION\b)", re.IGNORECASE
)


@contextmanager
def kept_open(store: LedgerStore, name: str, claim: Claim, lost: Callable[[], LeaseLost]) -> Iterator[None]:
    """A transaction on the store's connection, in which the claim is settled last.

    Raises :class:`PermanentError` where its body ends it, and what ``lost`` makes where COMMIT finds that
    another attempt has the key.
    """
    with store.carrying(claim, lost), transaction.atomic(using=store.connection.alias, durable=True):
        watch = _Watch(store, name)
        with wrapped(store.connection, watch.execute):
            yield
        watch.check()


class _Watch:
    """Looks before each statement whether the transaction is the one that was begun."""

    def __init__(self, store: LedgerStore, name: str) -> None:
        self._store = store
        self._connection = store.connection
        self._name = name
        self._reads = self._connection.vendor == "mysql"
        #: Whether the driver has begun it: on PostgreSQL it does so with the first statement.
        self._has_begun = is_seen_open(self._connection)
        self._has_ended = False

    def execute(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        """Run a statement, unless the transaction of those before it is over."""
        if self._has_ended or self._has_begun:
            self.check()
        self._has_ended = self._reads and isinstance(sql, str) and _ENDING.match(sql) is not None
        try:
            # A wrapper that the body has put behind this one is to see its statements as they are.
            if self._has_begun or self._connection.execute_wrappers[-1:] != [self.execute]:
                return execute(sql, params, many, context)
            return self._store.with_begin(execute, sql, params, many, context)
        finally:
            self._has_begun = self._has_begun or is_seen_open(self._connection)

    def check(self) -> None:
        """Raise where the transaction was ended by hand; a broken connection says so by itself."""
        connection = self._connection
        is_over = self._has_ended or (self._has_begun and not is_seen_open(connection))
        if not is_over or connection.connection is None or not connection.is_usable():
            return
        self._has_ended = True
        msg = (
            f"The body of {self._name} has sent COMMIT or ROLLBACK in the transaction of complete(), of a"
            " step or of a record: what it writes no longer commits with that. Leave it out: an error that"
            " is raised there undoes all writes, and one in an atomic() of your own those in that."
        )
        raise PermanentError(msg)
