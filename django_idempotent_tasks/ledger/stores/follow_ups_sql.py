"""Accepts, holds and promotes follow-ups in SQL: locks the follow-up, then the key, and never waits."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from math import ceil
from uuid import UUID

from ...identity.key import Identity
from ...states import Reason, State
from ..values import Call, FollowUpCall, Promoted
from . import statements
from .connection import is_open
from .reading import Parameters, Row, to_uuid
from .sql import SqlStore

#: A cancelled run's body may go on until it is told so: that takes a lease at most.
GOES_ON = f"(k.state = {State.CANCELLED} AND {{finished_plus_lease}} > {{now}})"

#: Only of a key that runs: of one that waits the call is a duplicate, one that has ended it gets itself.
FOLLOW = f"""
INSERT INTO {{follow_up}} (digest, due_at, created_at, task, scope, key_text, task_id, fingerprint, message)
SELECT k.digest, {{after[wait]}}, {{now}}, k.task, k.scope, %(key_text)s, %(task_id)s,
       CAST(%(fingerprint)s AS {{uuid}}), %(message)s
  FROM {{key}} k
 WHERE k.digest = %(digest)s AND k.task = %(task)s AND k.scope {{same}} %(scope)s
   AND (k.state = {State.RUNNING} OR {GOES_ON})
ON CONFLICT (digest) DO NOTHING
"""

FOLLOW_UP = "SELECT task_id, message, {due_in} FROM {follow_up} f WHERE digest = %(digest)s"

#: Shared: several senders hold one key, and only who wants to claim it waits for them.
HOLD = f"""
SELECT digest FROM {{key}} WHERE digest = %(digest)s AND task = %(task)s AND scope {{same}} %(scope)s
   AND state IN ({State.PENDING}, {State.RETRY}) {{shared}}
"""
HOLD_FOLLOW_UP = "SELECT digest FROM {follow_up} WHERE digest = %(digest)s {shared}"
LOCK_FOLLOW_UP = "SELECT digest FROM {follow_up} WHERE digest = %(digest)s {skip_locked}"
CHANGE_FOLLOW_UP = "UPDATE {follow_up} SET message = %(message)s WHERE digest = %(digest)s"

#: What no message was sent of: it waits in the ledger for its time.
UNSENT = f"state = {State.PENDING} AND sends = -1 AND due_at > {{now}}"
WAITS_FOR_ITS_TIME = f"""
SELECT digest FROM {{key}} WHERE digest = %(digest)s AND task_id = %(task_id)s AND {UNSENT}
"""
REWRITE = "UPDATE {key} SET message = %(message)s WHERE digest = %(digest)s"

#: Moves a time on and never back, as far as the one who made the call first may be kept waiting.
_LATER = "{least}({after[wait]}, {created_plus_longest})"
POSTPONE = f"""
UPDATE {{key}} SET due_at = {_LATER} WHERE {statements.UNLOCKED} AND {UNSENT} AND due_at < {_LATER}
"""
UNLOCKED = statements.UNLOCKED.replace("{key}", "{follow_up}")
POSTPONE_FOLLOW_UP = f"UPDATE {{follow_up}} SET due_at = {_LATER} WHERE {UNLOCKED} AND due_at < {_LATER}"

#: No key has this one, nor one that follows it.
_NO_TOKEN = -2

ENDED = f"(k.state >= {State.REVIEW} AND (k.token = %(token)s + 1 OR NOT {GOES_ON}))"
PROMOTABLE = f"""
SELECT f.digest FROM {{follow_up}} f LEFT JOIN {{key}} k ON k.digest = f.digest
 WHERE k.digest IS NULL OR {ENDED} ORDER BY f.created_at LIMIT %(bite)s
"""
IS_PROMOTABLE = f"""
SELECT 1 FROM {{follow_up}} f LEFT JOIN {{key}} k ON k.digest = f.digest
 WHERE f.digest = %(digest)s AND (k.digest IS NULL OR {ENDED})
"""
TAKE = """
SELECT task, scope, key_text, task_id, fingerprint, message, {due_in} FROM {follow_up} f
 WHERE digest = %(digest)s {skip_locked}
"""
LOCK_ENDED = f"""
SELECT k.token, k.task_id, k.runner_task_id FROM {{key}} k
 WHERE k.digest = %(digest)s AND {ENDED} {{skip_locked}}
"""
IS_THERE = "SELECT 1 FROM {key} WHERE digest = %(digest)s"

REMEMBER = """
INSERT INTO {answered} (digest, task_id, generation, state, reason, result, due_at)
SELECT k.digest, %(ended_id)s, k.generation, k.state, k.reason, k.result, {after[window]}
  FROM {key} k WHERE k.digest = %(digest)s
   AND NOT EXISTS (SELECT 1 FROM {answered} a WHERE a.digest = k.digest AND a.task_id = %(known_id)s)
"""
FORGET_STEPS = "DELETE FROM {step} WHERE digest = %(digest)s"
PROMOTE = f"""
UPDATE {{key}} SET token = token + 1, generation = generation + 1, reason = {Reason.NONE}, attempts = 0,
       crashes = 0, sends = %(sends)s, duplicates = 0, in_external = {{false}}, key_text = %(key_text)s,
       task_id = %(task_id)s, runner_task_id = NULL, owner = NULL, lease_seconds = 0,
       fingerprint = CAST(%(fingerprint)s AS {{uuid}}), message = %(message)s, result = NULL, category = NULL,
       signature = NULL, discarded_at = NULL, progress = NULL, started_at = NULL, finished_at = NULL,
       created_at = (SELECT f.created_at FROM {{follow_up}} f WHERE f.digest = %(digest)s),
       open_at = NULL, due_at = {{after[wait]}}, state = {State.PENDING}
 WHERE digest = %(digest)s
"""
REMOVE = "DELETE FROM {follow_up} WHERE digest = %(digest)s"

FIND = "SELECT digest FROM {follow_up} WHERE WHICH {skip_locked}"
REMEMBER_CANCELLED = f"""
INSERT INTO {{answered}} (digest, task_id, generation, state, reason, result, due_at)
SELECT f.digest, f.task_id, 0, {State.CANCELLED}, {Reason.CANCELLED}, NULL, {{after[window]}}
  FROM {{follow_up}} f WHERE f.digest = %(digest)s
   AND NOT EXISTS (SELECT 1 FROM {{answered}} a WHERE a.digest = f.digest AND a.task_id = f.task_id)
"""


class FollowUpCalls(SqlStore):
    """Adds what is done with follow-ups."""

    def follow(self, call: Call, *, wait: int) -> bool:
        with self._as_one():
            return self._may_follow(call) and self._follow(self._call_parameters(call) | {"wait": wait})

    def _may_follow(self, call: Call) -> bool:
        """Lock the key until the transaction ends: nobody reserves it, who has not seen the follow-up."""
        return self._hold(call)

    def _follow(self, parameters: Parameters) -> bool:
        return self._count(FOLLOW, parameters) == 1

    @abstractmethod
    def _hold(self, call: Call) -> bool:
        """Lock the key until the transaction ends; False when another transaction has it."""

    def follow_up(self, digest: UUID) -> FollowUpCall | None:
        row = self._row(FOLLOW_UP, self._of(digest))
        return None if row is None else FollowUpCall(row[0], row[1], float(row[2]))

    def hold(self, call: Call) -> bool:
        self._write_first()
        return bool(self._rows(self._sharing(HOLD), self._call_parameters(call)))

    def hold_follow_up(self, digest: UUID, *, message: str | None = None) -> bool:
        self._write_first()
        if message is None:
            return bool(self._rows(self._sharing(HOLD_FOLLOW_UP), self._of(digest)))
        return self._change(LOCK_FOLLOW_UP, CHANGE_FOLLOW_UP, self._of(digest, message=message))

    def rewrite(self, digest: UUID, *, task_id: str, message: str) -> bool | None:
        named = self._of(digest, task_id=task_id, message=message)
        if self._row(WAITS_FOR_ITS_TIME, named) is None:
            return False
        return self._change(f"{WAITS_FOR_ITS_TIME} {{skip_locked}}", REWRITE, named) or None

    def _change(self, lock: str, change: str, named: Parameters) -> bool:
        with self._as_one():
            self._write_first()
            return bool(self._rows(lock, named)) and self._count(change, named) == 1

    def postpone(self, digest: UUID, *, wait: int, longest: int) -> None:
        named = self._of(digest, wait=wait, longest=longest)
        if not self._count(POSTPONE, named):
            self._count(POSTPONE_FOLLOW_UP, named)

    def promotable(self, *, bite: int) -> list[UUID]:
        return [UUID(str(key)) for (key,) in self._rows(PROMOTABLE, {"bite": bite, "token": _NO_TOKEN})]

    def promote(
        self, digest: UUID, *, window: int, republish: int, token: int | None = None
    ) -> Promoted | None:
        named = self._of(digest, token=_NO_TOKEN if token is None else token, window=window)
        if self._row(IS_PROMOTABLE, named) is None:  # as almost always: without a lock, and one statement
            return None
        with self._as_one():
            self._write_first()
            row = self._row(TAKE, named)
            ended = None if row is None else self._row(LOCK_ENDED, named)
            if row is None or (ended is None and self._row(IS_THERE, named) is not None):
                return None
            task, scope, key_text, task_id, fingerprint, message, due_in = row
            identity = Identity(digest, scope, key_text, to_uuid(fingerprint))
            call = Call(identity, task, task_id, message)
            rest = max(ceil(due_in), 0)
            wait, sends = (rest, -1) if rest or not republish else (republish, 0)
            if ended is None:  # pruned, or deleted
                given = self.reserve_new(call, wait=wait, sends=sends) is not None
            else:
                given = self._give_on(call, ended, named | {"wait": wait, "sends": sends})
            if not given:
                return None
            self._count(REMOVE, named)
            return Promoted(call, 0 if ended is None else ended[0] + 1, is_due=not rest)

    def _give_on(self, call: Call, ended: Row, named: Parameters) -> bool:
        """Remember how the ended call and the one that took it over came out, and give their key on."""
        for task_id in filter(None, ended[1:]):
            self._count(REMEMBER, named | {"ended_id": task_id, "known_id": task_id})
        self._count(FORGET_STEPS, named)
        return self._count(PROMOTE, self._call_parameters(call) | named) == 1

    def cancel_follow_up(
        self, *, window: int, digest: UUID | None = None, task_id: str | None = None
    ) -> bool:
        found = {"digest": digest and self.dialect.uuid(digest), "task_id": task_id}
        named = {name: value for name, value in found.items() if value is not None}
        which = " AND ".join(f"{name} = %({name})s" for name in named)
        with self._as_one():
            self._write_first()
            rows = self._rows(FIND.replace("WHICH", which), named) if named else []
            for (key,) in rows:
                one = {"digest": key, "window": window}
                self._count(REMEMBER_CANCELLED, one)
                self._count(REMOVE, one)
            return bool(rows)

    def _as_one(self) -> AbstractContextManager[None]:
        """The open transaction, or one of its own."""
        return nullcontext() if is_open(self.connection) else self.together()

    def _sharing(self, template: str) -> str:
        """The statement with the database's word for a lock that several may have."""
        return template

    def _of(self, digest: UUID, **values: object) -> Parameters:
        return {"digest": self.dialect.uuid(digest), **values}
