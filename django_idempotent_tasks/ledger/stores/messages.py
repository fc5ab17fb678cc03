"""Reads stored messages from the ledger: their sizes first, then a bounded part at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from .reading import Row, to_digest
from .sql import SqlStore

MESSAGES = "SELECT digest, token, message FROM {key} WHERE digest IN (DIGESTS) AND message IS NOT NULL"
SIZES = "SELECT digest, {size} FROM {key} WHERE digest IN (DIGESTS) AND message IS NOT NULL"


class Messages(SqlStore):
    """Adds what is read of the rows that a sweep or a redrive takes."""

    def messages(self, tokens: Mapping[UUID, int]) -> dict[UUID, str]:
        found = ((to_digest(key), token, text) for key, token, text in self._of_many(MESSAGES, tokens))
        return {digest: text for digest, token, text in found if tokens[digest] == token}

    def sizes(self, digests: Sequence[UUID]) -> dict[UUID, int]:
        return {to_digest(key): size for key, size in self._of_many(SIZES, digests)}

    def _of_many(self, template: str, digests: Iterable[UUID]) -> list[Row]:
        listed = {f"digest_{number}": self.dialect.uuid(digest) for number, digest in enumerate(digests)}
        names = ", ".join(f"%({name})s" for name in listed)
        return self._rows(self.dialect.sql(template).replace("DIGESTS", names), listed) if listed else []
