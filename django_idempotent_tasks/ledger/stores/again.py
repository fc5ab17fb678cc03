"""Repeats a statement of one claim, as the UPDATE of a chunk's outcomes, with the text and cursor it had.

Django and the driver take as long to make a cursor and to put parameters into a text as the server takes for
a small statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ..values import Claim
from .dialect import OurText
from .sql import SqlStore

#: On both sides of the name of a text that differs each time.
_PLACE = "\x1f"


class Again:
    """A statement of a claim, which has known parameters but for some texts."""

    def __init__(self, connection: BaseDatabaseWrapper, template: str, claim: Claim, text: str) -> None:
        self._connection = connection
        self._template = template
        self._claim = claim
        self._pieces = text.split(_PLACE)
        self._names = self._pieces[1::2]
        self._cursor: Any = None
        #: The driver's connection that the cursor is of: Django may have connected anew since.
        self._raw: Any = None

    def is_of(self, template: str, claim: Claim) -> bool:
        """Whether it is this statement of this claim."""
        return self._claim is claim and self._template == template

    def count(self, own: Mapping[str, str]) -> int:
        """Run it with these texts, which need no quoting; how many rows it has changed."""
        connection = self._connection
        # A cursor knows from its beginning whether its statements are logged.
        if self._raw is not connection.connection or self._cursor is None or connection.queries_logged:
            self._cursor = connection.cursor()
            self._raw = connection.connection
        pieces = [*self._pieces]
        pieces[1::2] = [own[name] for name in self._names]
        self._cursor.execute(OurText("".join(pieces)))
        return int(self._cursor.rowcount)


class Repeated(SqlStore):
    """Adds a statement that is run again and again."""

    _again: Again | None = None

    def _count_again(self, template: str, claim: Claim, **own: str) -> int:
        """As ``_count``, with the claim's digest and token, and texts of letters that need no quoting."""
        again = self._again
        if again is None or not again.is_of(template, claim):
            known = {"digest": f"'{self.dialect.uuid(claim.digest)}'", "token": int(claim.token)}
            places = {name: f"'{_PLACE}{name}{_PLACE}'" for name in own}
            whole = self.dialect.sql(template) % (known | places)
            again = self._again = Again(self.connection, template, claim, whole)
        return again.count(own)

    def _count_last(self, template: str, claim: Claim, **own: str) -> int:
        """As ``_count_again``, for the last statement of a transaction."""
        return self._count_again(template, claim, **own)
