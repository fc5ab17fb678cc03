"""On PostgreSQL, sends the first statement of a transaction in one message with its BEGIN."""

from __future__ import annotations

from typing import Any

from .connection import binds_here, is_outermost, wrapped
from .reading import Parameters, Row
from .session import is_idle
from .sql import SqlStore


class Begun(SqlStore):
    """Adds statements that begin the transaction in which they are the first."""

    def _first_row(self, template: str, parameters: Parameters) -> Row | None:
        if not _is_to_begin(self.connection):
            return super()._first_row(template, parameters)
        with wrapped(self.connection, self.with_begin):
            return super()._first_row(template, parameters)

    def with_begin(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        # Looks when there is a cursor: a backend may have said something of its own for it, as a wrapper of
        # the project's may before each statement. A named cursor wraps its statement into another.
        cursor = context["cursor"]
        is_plain = isinstance(sql, str) and not many and getattr(cursor.cursor, "name", None) is None
        if not is_plain or not _is_to_begin(self.connection):
            return execute(sql, params, many, context)
        self._keep_up()
        raw: Any = self.connection.connection
        try:
            # Lets psycopg 3 send no BEGIN of its own, which it would wait for. Its public property would
            # have to stay set until the transaction ends, and Django would hold the cursors of `.iterator()`
            # over its end, which no FOR UPDATE may be.
            raw._autocommit = True  # noqa: SLF001
            found = execute(f"BEGIN; {sql}", params, many, context)
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
    # The pool of another package may give something that passes a driver's connection on, and takes no flag.
    is_drivers = isinstance(raw, connection.Database.Connection)
    return is_plain and is_drivers and not getattr(raw, "_autocommit", True)
