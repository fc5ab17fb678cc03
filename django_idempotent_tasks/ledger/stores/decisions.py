"""Redrives, discards and resolves dead letters in SQL."""

from __future__ import annotations

from uuid import UUID

from ...states import Reason, State
from . import statements
from .reading import is_token
from .sql import SqlStore

_DEAD = f"digest = %(digest)s AND token = %(token)s AND state IN ({State.REVIEW}, {State.FAILED})"

REDRIVE = f"""
UPDATE {{key}} SET reason = {Reason.NONE}, token = token + 1, attempts = 0, crashes = 0, sends = -1,
       owner = NULL, in_external = {{false}}, result = NULL, category = NULL,
       signature = NULL, discarded_at = NULL, message = %(message)s, progress = NULL, finished_at = NULL,
       open_at = NULL, due_at = {{now}}, state = {State.PENDING}
 WHERE {_DEAD}
"""

#: For the sweeper: a row that an open transaction has is about to move on.
REDRIVE_UNLOCKED = REDRIVE.replace("digest = %(digest)s", statements.UNLOCKED)

#: A key in review that is given up is a failure from then on, and pruned like one.
DISCARD = f"""
UPDATE {{key}} SET token = token + 1, discarded_at = {{now}}, in_external = {{false}}, due_at =
       CASE WHEN state = {State.REVIEW} THEN {{after[retention]}} ELSE due_at END, state = {State.FAILED}
 WHERE {_DEAD} AND discarded_at IS NULL
"""

RESOLVE = f"""
UPDATE {{key}} SET token = token + 1, reason = %(reason)s, result = %(result)s, message = NULL,
       category = NULL, signature = NULL, discarded_at = NULL, in_external = {{false}}, finished_at = {{now}},
       open_at = {{after[retention]}}, due_at = {{after[kept]}}, state = {State.SUCCEEDED}
 WHERE {_DEAD}
"""


class Decisions(SqlStore):
    """Adds what people decide about dead letters."""

    def redrive(self, digest: UUID, *, token: int, message: str, waits: bool = True) -> bool:
        return self._decide(REDRIVE if waits else REDRIVE_UNLOCKED, digest, token, message=message)

    def discard(self, digest: UUID, *, token: int, retention: int) -> bool:
        return self._decide(DISCARD, digest, token, retention=retention)

    def resolve(
        self, digest: UUID, *, token: int, result: str | None, reason: Reason, retention: int, window: int
    ) -> bool:
        kept = max(retention, window)
        return self._decide(
            RESOLVE, digest, token, result=result, reason=int(reason), retention=retention, kept=kept
        )

    def retry_now(self, digest: UUID, *, token: int) -> bool:
        return self._decide(statements.RETRY_NOW, digest, token)

    def _decide(self, template: str, digest: UUID, token: int, **values: object) -> bool:
        named = {"digest": self.dialect.uuid(digest), "token": token, **values}
        return is_token(token) and self._count(template, named) == 1
