"""Reads stored messages from the ledger: their sizes first, then a bounded part at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from ...models.fields import MOMENT
from .reading import Parameters, Row
from .sql import SqlStore

MESSAGES = "SELECT digest, token, message FROM {key} WHERE digest IN (DIGESTS) AND message IS NOT NULL"
SIZES = "SELECT digest, {size} FROM {key} WHERE digest IN (DIGESTS) AND message IS NOT NULL"


class MessageSqlStore(SqlStore):
    """Adds what is read of the rows that a sweep or a redrive takes, and what is asked of many calls."""

    def messages(self, tokens: Mapping[UUID, int]) -> dict[UUID, str]:
        found = ((UUID(str(key)), token, text) for key, token, text in self._of_many(MESSAGES, tokens))
        return {digest: text for digest, token, text in found if tokens[digest] == token}

    def sizes(self, digests: Sequence[UUID]) -> dict[UUID, int]:
        return {UUID(str(key)): size for key, size in self._of_many(SIZES, digests)}

    def cancel_waiting(self, task_ids: Sequence[str], *, window: int) -> int:
        named = {f"task_id_{number}": task_id for number, task_id in enumerate(task_ids)}
        listed = ", ".join(f"%({name})s" for name in named)
        return self._cancel_waiting(listed, named, window) if named else 0

    @abstractmethod
    def _cancel_waiting(self, listed: str, named: Parameters, window: int) -> int:
        """Cancel what waits of the calls whose parameters are listed."""

    def _of_many(self, template: str, digests: Iterable[UUID]) -> list[Row]:
        listed = {f"digest_{number}": self.dialect.uuid(digest) for number, digest in enumerate(digests)}
        names = ", ".join(f"%({name})s" for name in listed)
        return self._rows(template.replace("DIGESTS", names), listed) if listed else []

    def _sweep_parameters(self, bite: int, republish: int, calm: int, until: datetime | None) -> Parameters:
        moment = MOMENT.get_db_prep_value(until, self.connection)
        return {"bite": bite, "republish": republish, "calm": calm, "until": moment}
