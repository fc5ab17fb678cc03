"""Sends the first statement of a transaction in one message with its BEGIN, which saves a round trip."""

from __future__ import annotations

from typing import Any

from .connection import binds_here, is_outermost
from .reading import Parameters, Row
from .session import is_idle
from .sql import SqlStore


class Begun(SqlStore):
    """Adds statements that begin the transaction in which they are the first."""

    def _first_row(self, template: str, parameters: Parameters) -> Row | None:
        if self._is_to_begin():
            with self.connection.cursor() as cursor:
                if self._is_to_begin():  # a backend may say something of its own for a new cursor
                    return self._begin_with(cursor, template, parameters)
        return super()._first_row(template, parameters)

    def _is_to_begin(self) -> bool:
        """Whether Django has opened a plain transaction, of which the server has not heard."""
        raw = self.connection.connection
        if not is_outermost(self.connection) or not binds_here(self.connection) or not is_idle(raw):
            return False
        is_plain = raw.isolation_level is None and raw.read_only is None and raw.deferrable is None
        return is_plain and not getattr(raw, "_autocommit", True)

    def _begin_with(self, cursor: Any, template: str, parameters: Parameters) -> Row | None:
        """Let psycopg 3 send no BEGIN of its own, which it would wait for.

        Its public property would have to stay set until the transaction ends, and Django would hold the
        cursors of ``.iterator()`` over its end, which no ``FOR UPDATE`` may be.
        """
        raw: Any = self.connection.connection
        try:
            raw._autocommit = True  # noqa: SLF001
            self._execute(cursor, f"BEGIN; {template}", parameters)
        finally:
            raw._autocommit = False  # noqa: SLF001
        cursor.nextset()
        row: Row | None = cursor.fetchone()
        return row
