"""Keeps the values of steps in SQL, for the owner of the key only, and deletes them with the key's work."""

from __future__ import annotations

from ..values import Claim
from . import claiming, statements
from .sql import SqlStore

#: The lock on the key's row: who takes the key over waits for the end of this transaction, or is seen here.
KEEP = f"""
INSERT INTO {{step}} (digest, generation, name, token, attempt, started_at, finished_at, value)
SELECT k.digest, k.generation, %(name)s, k.token, k.attempts, {{elapsed_ago}}, {{now}}, %(value)s
  FROM {{key}} k WHERE {statements.OWNED} AND {{bounded}} {{locked}}
"""

VALUES = "SELECT name, value FROM {step} WHERE digest = %(digest)s AND generation = %(generation)s"

FORGET = f"""
DELETE FROM {{step}} WHERE digest = %(digest)s
   AND EXISTS (SELECT 1 FROM {{key}} k WHERE {claiming.FINISHED} AND {claiming.OTHER_WORK})
"""


class Steps(SqlStore):
    """Adds what is kept of steps."""

    def keep_step(self, claim: Claim, name: str, *, value: str | None, elapsed: float) -> bool:
        return self._settle_last(KEEP, claim, name=name, value=value, elapsed=max(elapsed, 0.0))

    def step_values(self, claim: Claim) -> dict[str, str | None]:
        named = {"digest": self.dialect.uuid(claim.digest), "generation": claim.grant.generation}
        return dict(self._rows(VALUES, named))
