"""Ends claims with a failure in SQL: the key's row and the failed job are written in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from uuid import UUID

from django.db import DataError, IntegrityError, InternalError, NotSupportedError, ProgrammingError

from ...states import Category, Reason, State
from ..encoding import error_text
from ..failures import NAME_LIMIT
from ..values import Call, Claim, Entry, Failure, Grant
from . import statements
from .reading import Parameters
from .sql import SqlStore

#: The row of an attempt that has just ended; the key's own row tells whose it was, when it began and where it
#: went. An atomic run that failed has left no time: its row was made after its end.
RECORD = f"""
INSERT INTO {{failed}} (digest, token, at, attempt, state, category, signature, task, scope, key_text,
                      task_id, worker, error, description, traceback, message, started_at)
SELECT k.digest, k.token - %(shift)s, {{now}}, k.attempts, k.state,
       CASE WHEN k.state = {State.REVIEW} THEN {Category.MANUAL_REVIEW} ELSE %(category)s END,
       %(signature)s, k.task, k.scope, k.key_text, COALESCE(k.runner_task_id, k.task_id), %(worker)s,
       %(error)s, %(description)s, %(traceback)s, NULL,
       CASE WHEN k.lease_seconds > 0 THEN k.started_at END
  FROM {{key}} k WHERE k.digest = %(digest)s
"""

#: The row of an attempt whose owner ended without a word, as it was before it was taken over.
RECORD_DEATH = f"""
INSERT INTO {{failed}} (digest, token, at, attempt, state, category, signature, task, scope, key_text,
                      task_id, worker, error, description, traceback, message)
SELECT k.digest, %(token)s, {{now}}, %(attempt)s, k.state, {Category.RETRYABLE}, '{statements.DIED}',
       k.task, k.scope, k.key_text, %(runner)s,
       COALESCE((SELECT w.name FROM {{worker}} w WHERE w.instance = %(instance)s), %(worker)s),
       '{statements.OWNER_DIED}', '{statements.SILENT}', '', NULL
  FROM {{key}} k WHERE k.digest = %(digest)s
"""

#: The same, of a row that tells of the death, where nobody could record it then.
RECORD_UNTOLD_DEATH = f"""{RECORD_DEATH}
   AND NOT EXISTS (SELECT 1 FROM {{failed}} f WHERE f.digest = k.digest AND f.token = %(token)s)
"""

RECORD_PLAIN = """
INSERT INTO {failed} (digest, token, at, attempt, state, category, signature, task, scope, key_text,
                      task_id, worker, error, description, traceback, message)
VALUES (NULL, NULL, {now}, %(attempt)s, %(state)s, %(category)s, %(signature)s, %(task)s, NULL, NULL,
        %(task_id)s, %(worker)s, %(error)s, %(description)s, %(traceback)s, %(message)s)
"""

PRUNE = """
DELETE FROM {failed} WHERE id IN (SELECT id FROM (
  SELECT id FROM {failed} WHERE at <= {before[keep]} ORDER BY at LIMIT %(bite)s) oldest)
"""

ENTER_EXTERNAL = f"UPDATE {{key}} SET in_external = {{true}} WHERE {statements.OWNED}"

#: What a database says of a value that it does not take; the others are for the caller to try again.
_UNSTORABLE = (DataError, IntegrityError, InternalError, NotSupportedError, ProgrammingError, ValueError)


class Failures(SqlStore):
    """Adds how claims fail, and what is recorded of it."""

    def retry(
        self,
        claim: Claim,
        *,
        message: str | None,
        reason: Reason,
        wait: int,
        republish: int,
        failure: Failure | None = None,
    ) -> bool:
        values = {"message": message, "reason": int(reason), "wait": wait, "republish": wait + republish}
        if failure is None:
            return self._settle(statements.RETRY, claim, **values)
        return self._failing(lambda: self._settle(statements.RETRY, claim, **values), claim.digest, failure)

    def fail(self, claim: Claim, *, state: State, reason: Reason, failure: Failure, retention: int) -> bool:
        values = _of_failure(failure) | {"state": int(state), "reason": int(reason), "retention": retention}
        return self._failing(lambda: self._settle(statements.FAIL, claim, **values), claim.digest, failure)

    def free_dead(
        self,
        digest: UUID,
        *,
        owner_prefix: str,
        republish: int,
        unseen: int = 0,
        failure: Failure | None = None,
    ) -> bool:
        named = self._of_the_dead(digest, owner_prefix) | {"republish": republish, "unseen": unseen}

        def free() -> bool:
            return self._count(statements.FREE_DEAD, named) == 1

        return free() if failure is None else self._failing(free, digest, failure, shift=1)

    def fail_dead(
        self, digest: UUID, *, owner_prefix: str, reason: Reason, failure: Failure, retention: int
    ) -> bool:
        values = _of_failure(failure) | {"reason": int(reason), "retention": retention}
        named = self._of_the_dead(digest, owner_prefix) | values
        return self._failing(lambda: self._count(statements.FAIL_DEAD, named) == 1, digest, failure)

    def fail_unknown(
        self, digest: UUID, *, task_id: str, sends: int, failure: Failure, retention: int
    ) -> bool:
        values = _of_failure(failure) | {"task_id": task_id, "sends": sends, "retention": retention}
        named = {"digest": self.dialect.uuid(digest)} | values
        return self._failing(lambda: self._count(statements.FAIL_UNKNOWN, named) == 1, digest, failure)

    def claim_open(
        self, call: Call, *, owner: str, lease: int, seen: Entry, counted: bool = False
    ) -> Grant | None:
        """A takeover tells of the attempt that it ends; a due retry has told of its own."""
        claim = partial(super().claim_open, call, owner=owner, lease=lease, seen=seen, counted=counted)
        if seen.state is not State.RUNNING:
            return claim()
        with self.together():
            grant = claim()
            if grant is not None:
                self._count(RECORD_DEATH, self._death(call.identity.digest, seen, token=seen.token))
            return grant

    def record_death(self, digest: UUID, *, seen: Entry) -> None:
        self._count(RECORD_UNTOLD_DEATH, self._death(digest, seen, token=seen.token - 1))

    def _death(self, digest: UUID, seen: Entry, *, token: int) -> Parameters:
        return {
            "digest": self.dialect.uuid(digest),
            "token": token,
            "attempt": seen.attempts,
            "runner": seen.runner_task_id or seen.task_id,
            "worker": seen.owner or "",
            "instance": (seen.owner or "").partition(":")[0],
        }

    def enter_external(self, claim: Claim) -> bool:
        return self._settle(ENTER_EXTERNAL, claim)

    def record_plain(
        self, task: str, task_id: str, *, attempt: int, state: State, failure: Failure, message: str | None
    ) -> None:
        named = {
            "task": task[:NAME_LIMIT],  # of the project's own making, and of any length
            "task_id": task_id[:NAME_LIMIT],
            "attempt": attempt,
            "state": int(state),
            "message": message,
        }
        self._count(RECORD_PLAIN, named | _of_job(failure))

    def prune_failed(self, *, keep: int, bite: int) -> int:
        return self._count(PRUNE, {"keep": keep, "bite": bite})

    def _of_the_dead(self, digest: UUID, owner_prefix: str) -> Parameters:
        return {"digest": self.dialect.uuid(digest), "owner": f"{owner_prefix}%"}

    def _failing(self, settle: Callable[[], bool], digest: UUID, failure: Failure, *, shift: int = 0) -> bool:
        """Settle and record as one; a record that the database does not take never costs the settlement."""
        for record in (failure, _shortened(failure)):
            try:
                with self.together():
                    if not settle():
                        return False
                    self._record(digest, record, shift)
                    return True
            except _UNSTORABLE:
                continue
        return settle()

    def _record(self, digest: UUID, failure: Failure, shift: int) -> None:
        named = {"digest": self.dialect.uuid(digest), "shift": shift}
        self._count(RECORD, named | _of_job(failure))


def _of_failure(failure: Failure) -> Parameters:
    """What the key's own row keeps of it."""
    return {
        "category": int(failure.category),
        "signature": failure.signature,
        "error": error_text(failure.error, failure.description),
    }


def _of_job(failure: Failure) -> Parameters:
    return {
        "category": int(failure.category),
        "signature": failure.signature,
        "worker": failure.worker,
        "error": failure.error,
        "description": failure.description,
        "traceback": failure.traceback,
    }


def _shortened(failure: Failure) -> Failure:
    return replace(failure, description="(could not be stored)", traceback="", worker="")
