"""Cancels calls in SQL: a live key, calls that wait, a call whose message has expired."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from uuid import UUID

from ...conf import settings
from ...messages.turns import OF_A_REDRIVE
from . import statements
from .reading import Parameters
from .sql import SqlStore

FOLLOWERS = "SELECT task_id FROM {follow_up} WHERE task_id IN (TASK_IDS)"


class Cancelling(SqlStore):
    """Adds how calls are cancelled; each database has its own way to pass over rows that are locked."""

    def cancel(self, digest: UUID, *, window: int, task_id: str | None = None) -> bool:
        named = {"digest": self.dialect.uuid(digest), "task_id": task_id}
        return self._cancel(statements.LIVE, named | _kept(window)) == 1

    def cancel_waiting(self, task_ids: Sequence[str], *, window: int) -> int:
        named = {f"task_id_{number}": task_id for number, task_id in enumerate(task_ids)}
        listed = ", ".join(f"%({name})s" for name in named)
        if not named:
            return 0
        done = self._cancel(statements.WAITING.replace("TASK_IDS", listed), named | _kept(window))
        found = self._rows(FOLLOWERS.replace("TASK_IDS", listed), named)
        return done + sum(self.cancel_follow_up(window=window, task_id=task_id) for (task_id,) in found)

    def expire(self, digest: UUID, *, task_id: str, window: int) -> bool:
        named = {"digest": self.dialect.uuid(digest), "task_id": task_id}
        return self._cancel(statements.UNSTARTED, named | _kept(window)) == 1

    @abstractmethod
    def _cancel(self, which: str, parameters: Parameters) -> int:
        """Cancel the rows that the condition ``which`` names and nobody has locked; how many."""


def _kept(window: int) -> Parameters:
    """How long a cancelled call is remembered; one that was a dead letter before, for as long as that."""
    kept = max(window, settings().dead_letter_retention)
    return {"window": window, "kept": kept, **OF_A_REDRIVE}
