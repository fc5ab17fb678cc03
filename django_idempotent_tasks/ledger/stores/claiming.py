"""Holds the SQL of claims and reservations that every database shares; templates as in ``statements``."""

from __future__ import annotations

from ...messages.turns import HEAD
from ...states import Reason, State

KEY_COLUMNS = (
    "digest, due_at, open_at, created_at, started_at, finished_at, token, generation, lease_seconds,"
    " duplicates, state, reason, attempts, crashes, sends, in_external, task, scope, key_text, task_id,"
    " owner, fingerprint, message"
)

CLAIM_NEW = (
    f"INSERT INTO {{key}} ({KEY_COLUMNS})"
    " VALUES (%(digest)s, {after[lease]}, {after[lease]}, {now}, {now}, NULL, 1, 1, %(lease)s,"
    f" 0, {State.RUNNING}, {Reason.NONE}, 1, 0, 0,"
    " {false}, %(task)s, %(scope)s, %(key_text)s, %(task_id)s,"
    " %(owner)s, %(fingerprint)s, %(message)s)"
    " ON CONFLICT (digest) DO NOTHING RETURNING token, generation, attempts, crashes, reason"
)

#: Calls that the ledger knew before they arrived (reserved, by beat, or retried), by their task id. What
#: was claimed on arrival tells nothing: projects give one task id to several calls.
KNOWN = "task_id = %(known_id)s AND task = %(known_task)s AND (started_at IS NULL OR started_at > created_at)"

#: Of a message without an identity: not where its call has a row under another key.
UNKNOWN = f"NOT EXISTS (SELECT 1 FROM {{key}} WHERE {KNOWN})"

CLAIM_UNNAMED = (
    f"INSERT INTO {{key}} ({KEY_COLUMNS})"
    " SELECT %(digest)s, {after[lease]}, {after[lease]}, {now}, {now}, NULL, 1, 1, %(lease)s,"
    f" 0, {State.RUNNING}, {Reason.NONE}, 1, 0, 0,"
    " {false}, %(task)s, %(scope)s, %(key_text)s, %(task_id)s,"
    " %(owner)s, CAST(%(fingerprint)s AS {uuid}), %(message)s"
    f" FROM (SELECT 1 AS one) AS always WHERE {UNKNOWN}"
    " ON CONFLICT (digest) DO NOTHING RETURNING token, generation, attempts, crashes, reason"
)

#: A call that went on under another key, by ``self.replace()``, has two rows: the other one is live.
NAMED = f"""
SELECT digest, scope, key_text, fingerprint FROM {{key}} WHERE {KNOWN}
 ORDER BY CASE WHEN reason = {Reason.REPLACED} THEN 1 ELSE 0 END, created_at DESC LIMIT 1
"""

#: A reservation: ``sends`` is -1 while no message of it is known to be with the broker.
RESERVED = (
    "%(digest)s, {after[wait]}, NULL, {now}, NULL, NULL, 0, 1, 0,"
    f" 0, {State.PENDING}, {Reason.NONE}, 0, 0, %(sends)s,"
    " {false}, %(task)s, %(scope)s, %(key_text)s, %(task_id)s,"
    " NULL, CAST(%(fingerprint)s AS {uuid}), %(message)s"
)
RESERVE_NEW = (
    f"INSERT INTO {{key}} ({KEY_COLUMNS}) SELECT {RESERVED} WHERE true"
    " ON CONFLICT (digest) DO NOTHING RETURNING token"
)

#: The row of this very call. Of its task and scope, too: a header may claim any digest.
OWN = "digest = %(digest)s AND task_id = %(task_id)s AND task = %(task)s AND scope {same} %(scope)s"
#: What waits to be run, and may be now.
RUNNABLE = f"(state = {State.PENDING} OR (state = {State.RETRY} AND open_at <= {{now}}))"
#: Whether the stored message is of the same turn as the delivered one: an earlier copy is not to run.
OF_THIS_TURN = (
    f"(message IS NULL OR (SUBSTR(message, 1, {HEAD}) LIKE %(turn)s"
    f" AND SUBSTR(message, 1, {HEAD}) NOT LIKE %(other_turn)s))"
)

CLAIM_RESERVED = f"""
UPDATE {{key}} SET token = token + 1, attempts = {{least}}(attempts + 1, 32767), sends = 0,
       owner = %(owner)s, runner_task_id = NULL, lease_seconds = %(lease)s, progress = NULL,
       started_at = {{now}}, open_at = {{after[lease]}}, due_at = {{after[lease]}}, state = {State.RUNNING}
 WHERE {OWN} AND {RUNNABLE} AND {OF_THIS_TURN}
RETURNING token, generation, attempts, crashes, reason
"""

#: Whether a key's time has come. A server takes the time of a statement before it reads the rows, so that the
#: end that a row tells of may be later: with a retention of 0 such a key is open all the same.
IS_OPEN = "(open_at <= {now} OR (finished_at IS NOT NULL AND open_at <= finished_at))"

#: By the digest that the statement names, not by the row's: PostgreSQL plans that as a look of its own.
WAS_ANSWERED = "EXISTS (SELECT 1 FROM {answered} p WHERE p.digest = %(digest)s AND p.task_id = %(task_id)s)"
READ = f"""
SELECT k.state, k.reason, k.token, k.generation, k.attempts, k.crashes, k.task, k.scope,
       k.task_id, k.runner_task_id, k.owner, k.fingerprint, k.result, {IS_OPEN}, {{opens_in}},
       {WAS_ANSWERED},
       k.message IS NULL, k.discarded_at IS NOT NULL, k.in_external, {{led_for}}, {{note_lasts}},
       SUBSTR(k.message, 1, {HEAD}), k.lease_seconds
  FROM {{key}} k LEFT JOIN {{leader}} l ON l.name = 'ledger' WHERE k.digest = %(digest)s
"""

#: ``uncount`` 1: this start was counted as a crash before it began, and the row waits for nobody else.
#: What ended inside ``external()`` is nobody's to run: the sweeper leaves it to a person.
_OVER = "(open_at <= {now} OR %(uncount)s = 1) AND NOT in_external"

OPEN = f"""
digest = %(digest)s AND token = %(seen)s AND state = %(seen_state)s
   AND (state = {State.PENDING} OR (state IN ({State.RUNNING}, {State.RETRY}) AND {_OVER}))
"""

CLAIM_OPEN = f"""
UPDATE {{key}} SET token = token + 1, attempts = {{least}}(attempts + 1 - %(uncount)s, 32767),
       crashes = crashes + CASE WHEN state = {State.RUNNING} THEN 1 ELSE 0 END - %(uncount)s,
       reason = CASE WHEN state = {State.RUNNING} THEN {Reason.OWNER_DIED} ELSE reason END,
       owner = %(owner)s, runner_task_id = NULLIF(%(task_id)s, task_id), lease_seconds = %(lease)s,
       sends = 0, message = COALESCE(%(message)s, message), progress = NULL, started_at = {{now}},
       open_at = {{after[lease]}}, due_at = {{after[lease]}}, state = {State.RUNNING}
 WHERE {OPEN}
RETURNING token, generation, attempts, crashes, reason
"""

#: What a later call may take: a finished key of another id, its retention over where it succeeded.
FINISHED = f"""
digest = %(digest)s AND token = %(seen)s AND state = %(seen_state)s AND task_id <> %(task_id)s
   AND (state IN ({State.FAILED}, {State.CANCELLED}) OR (state = {State.SUCCEEDED} AND {IS_OPEN}))
"""

#: Whether what takes a finished key does other work: the last one is done, or the arguments are others. Where
#: either call has no fingerprint they are not compared.
OTHER_WORK = f"(k.state = {State.SUCCEEDED} OR k.fingerprint <> CAST(%(fingerprint)s AS {{uuid}}))"

ANEW = f"""
SET token = k.token + 1, generation = k.generation + CASE WHEN {OTHER_WORK} THEN 1 ELSE 0 END,
       reason = {Reason.NONE}, attempts = 1, crashes = 0, sends = 0, duplicates = 0, in_external = {{false}},
       task_id = %(task_id)s, runner_task_id = NULL, owner = %(owner)s, lease_seconds = %(lease)s,
       fingerprint = %(fingerprint)s, message = %(message)s, result = NULL, category = NULL,
       signature = NULL, discarded_at = NULL, progress = NULL, created_at = {{now}}, started_at = {{now}},
       finished_at = NULL, open_at = {{after[lease]}}, due_at = {{after[lease]}}, state = {State.RUNNING}
"""

RESERVED_ANEW = f"""
SET token = k.token + 1, generation = k.generation + CASE WHEN {OTHER_WORK} THEN 1 ELSE 0 END,
       reason = {Reason.NONE}, attempts = 0, crashes = 0, sends = %(sends)s, duplicates = 0,
       in_external = {{false}},
       task_id = %(task_id)s, runner_task_id = NULL, owner = NULL, lease_seconds = 0,
       fingerprint = %(fingerprint)s, message = %(message)s, result = NULL, category = NULL,
       signature = NULL, discarded_at = NULL, progress = NULL, created_at = {{now}}, started_at = NULL,
       finished_at = NULL, open_at = NULL, due_at = {{after[wait]}}, state = {State.PENDING}
"""

ANSWER = "SELECT state, reason, result FROM {answered} WHERE digest = %(digest)s AND task_id = %(task_id)s"
