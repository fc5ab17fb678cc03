"""Sends the first statement of a transaction in one message with its BEGIN, which saves a round trip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .connection import binds_here, is_outermost
from .reading import Parameters, Row
from .session import is_idle
from .sql import SqlStore


class Begun(SqlStore):
    """Adds statements that begin the transaction in which they are the first."""

    def _first_row(self, template: str, parameters: Parameters) -> Row | None:
        if not _is_to_begin(self.connection):
            return super()._first_row(template, parameters)
        with self.connection.cursor() as cursor:
            self.with_begin(cursor, template, lambda text: self._execute(cursor, text, parameters))
            row: Row | None = cursor.fetchone()
        return row

    def with_begin(self, cursor: Any, statement: str, execute: Callable[[str], Any]) -> Any:
        # Looks when there is a cursor: a backend may have said something of its own for it. A named one
        # wraps its statement into another.
        if not _is_to_begin(self.connection) or getattr(cursor.cursor, "name", None) is not None:
            return execute(statement)
        raw: Any = self.connection.connection
        try:
            # Lets psycopg 3 send no BEGIN of its own, which it would wait for. Its public property would
            # have to stay set until the transaction ends, and Django would hold the cursors of `.iterator()`
            # over its end, which no FOR UPDATE may be.
            raw._autocommit = True  # noqa: SLF001
            found = execute(f"BEGIN; {statement}")
        finally:
            raw._autocommit = False  # noqa: SLF001
        cursor.nextset()
        return found


def _is_to_begin(connection: Any) -> bool:
    """Whether Django has opened a plain transaction, of which the server has not heard."""
    raw = connection.connection
    if not is_outermost(connection) or not binds_here(connection) or not is_idle(raw):
        return False
    is_plain = raw.isolation_level is None and raw.read_only is None and raw.deferrable is None
    return is_plain and not getattr(raw, "_autocommit", True)
