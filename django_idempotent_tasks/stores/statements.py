"""The SQL that every dialect shares: one statement a transition.

Templates: ``{now}`` is the statement's time on the database's clock, ``{after[name]}`` that time
plus the parameter ``name`` in seconds, ``{key}`` and the other names are tables. In each UPDATE
what depends on the old row stands before the column it reads, and ``state`` comes last: MariaDB
and MySQL assign from left to right and read the new value.
"""

from __future__ import annotations

from ..encoding import error_text

KEY_COLUMNS = (
    "digest, due_at, open_at, created_at, started_at, finished_at, token, generation, lease_seconds,"
    " duplicates, state, reason, attempts, crashes, sends, in_external, task, scope, key_text, task_id,"
    " owner, fingerprint, message"
)

CLAIM_NEW = (
    f"INSERT INTO {{key}} ({KEY_COLUMNS})"
    " VALUES (%(digest)s, {after[lease]}, {after[lease]}, {now}, {now}, NULL, 1, 1, %(lease)s,"
    " 0, 2, 0, 1, 0, 0, {false}, %(task)s, %(scope)s, %(key_text)s, %(task_id)s,"
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
    " 0, 2, 0, 1, 0, 0, {false}, %(task)s, %(scope)s, %(key_text)s, %(task_id)s,"
    " %(owner)s, CAST(%(fingerprint)s AS {uuid}), %(message)s"
    f" FROM (SELECT 1 AS one) AS always WHERE {UNKNOWN}"
    " ON CONFLICT (digest) DO NOTHING RETURNING token, generation, attempts, crashes, reason"
)

#: A call that went on under another key, by ``self.replace()``, has two rows: the other one is live.
NAMED = f"""
SELECT digest, scope, key_text, fingerprint FROM {{key}} WHERE {KNOWN}
 ORDER BY CASE WHEN reason = 12 THEN 1 ELSE 0 END, created_at DESC LIMIT 1
"""

#: A reservation: ``sends`` is -1 while no message of it is known to be with the broker.
RESERVE_NEW = (
    f"INSERT INTO {{key}} ({KEY_COLUMNS})"
    " SELECT %(digest)s, {after[wait]}, NULL, {now}, NULL, NULL, 0, 1, 0,"
    " 0, 1, 0, 0, 0, %(sends)s, {false}, %(task)s, %(scope)s, %(key_text)s, %(task_id)s,"
    " NULL, CAST(%(fingerprint)s AS {uuid}), %(message)s WHERE true"
    " ON CONFLICT (digest) DO NOTHING RETURNING token"
)

#: The row of this very call. Of its task and scope, too: a header may claim any digest.
OWN = "digest = %(digest)s AND task_id = %(task_id)s AND task = %(task)s AND scope {same} %(scope)s"

CLAIM_RESERVED = f"""
UPDATE {{key}} SET token = token + 1, attempts = {{least}}(attempts + 1, 32767), sends = 0,
       owner = %(owner)s, runner_task_id = NULL, lease_seconds = %(lease)s, progress = NULL,
       started_at = {{now}}, open_at = {{after[lease]}}, due_at = {{after[lease]}}, state = 2
 WHERE {OWN} AND (state = 1 OR (state = 3 AND open_at <= {{now}}))
RETURNING token, generation, attempts, crashes, reason
"""

READ = """
SELECT k.state, k.reason, k.token, k.generation, k.attempts, k.crashes, k.task, k.scope, k.task_id,
       k.runner_task_id, k.owner, k.fingerprint, k.result, k.open_at <= {now} AS is_open, {opens_in},
       EXISTS (SELECT 1 FROM {answered} p WHERE p.digest = k.digest AND p.task_id = %(task_id)s),
       k.message IS NULL, k.discarded_at IS NOT NULL, k.in_external
  FROM {key} k WHERE k.digest = %(digest)s
"""

#: ``uncount`` 1: this start was counted as a crash before it began, and the row waits for nobody else.
#: What ended inside ``external()`` is nobody's to run: the sweeper leaves it to a person.
OPEN = """
digest = %(digest)s AND token = %(seen)s AND state = %(seen_state)s
   AND (state = 1 OR (state IN (2, 3) AND (open_at <= {now} OR %(uncount)s = 1) AND NOT in_external))
"""

CLAIM_OPEN = f"""
UPDATE {{key}} SET token = token + 1, attempts = {{least}}(attempts + 1 - %(uncount)s, 32767),
       crashes = crashes + CASE WHEN state = 2 THEN 1 ELSE 0 END - %(uncount)s,
       reason = CASE WHEN state = 2 THEN 9 ELSE reason END,
       owner = %(owner)s, runner_task_id = NULLIF(%(task_id)s, task_id), lease_seconds = %(lease)s,
       sends = 0, message = COALESCE(%(message)s, message), progress = NULL, started_at = {{now}},
       open_at = {{after[lease]}}, due_at = {{after[lease]}}, state = 2
 WHERE {OPEN}
RETURNING token, generation, attempts, crashes, reason
"""

#: What a later call may take: a finished key of another id, its retention over where it succeeded.
FINISHED = """
digest = %(digest)s AND token = %(seen)s AND state = %(seen_state)s AND task_id <> %(task_id)s
   AND (state IN (5, 6) OR (state = 7 AND open_at <= {now}))
"""

ANEW = """
SET token = k.token + 1, generation = k.generation + CASE WHEN k.state = 7 THEN 1 ELSE 0 END,
       reason = 0, attempts = 1, crashes = 0, sends = 0, duplicates = 0, in_external = {false},
       task_id = %(task_id)s, runner_task_id = NULL, owner = %(owner)s, lease_seconds = %(lease)s,
       fingerprint = %(fingerprint)s, message = %(message)s, result = NULL, category = NULL,
       signature = NULL, discarded_at = NULL, progress = NULL, created_at = {now}, started_at = {now},
       finished_at = NULL, open_at = {after[lease]}, due_at = {after[lease]}, state = 2
"""

RESERVED_ANEW = """
SET token = k.token + 1, generation = k.generation + CASE WHEN k.state = 7 THEN 1 ELSE 0 END,
       reason = 0, attempts = 0, crashes = 0, sends = %(sends)s, duplicates = 0, in_external = {false},
       task_id = %(task_id)s, runner_task_id = NULL, owner = NULL, lease_seconds = 0,
       fingerprint = %(fingerprint)s, message = %(message)s, result = NULL, category = NULL,
       signature = NULL, discarded_at = NULL, progress = NULL, created_at = {now}, started_at = NULL,
       finished_at = NULL, open_at = NULL, due_at = {after[wait]}, state = 1
"""

ANSWER = "SELECT state, reason, result FROM {answered} WHERE digest = %(digest)s AND task_id = %(task_id)s"

OWNED = "digest = %(digest)s AND token = %(token)s AND owner = %(owner)s AND state = 2"

COMPLETE = f"""
UPDATE {{key}} SET reason = %(reason)s, result = %(result)s, message = NULL, in_external = {{false}},
       finished_at = {{now}}, open_at = {{after[retention]}}, due_at = {{after[kept]}}, state = 7
 WHERE {OWNED}
"""

RETRY = f"""
UPDATE {{key}} SET reason = %(reason)s, message = NULLIF(COALESCE(%(message)s, message), ''), owner = NULL,
       in_external = {{false}}, open_at = {{after[wait]}}, due_at = {{after[republish]}}, state = 3
 WHERE {OWNED}
"""

FAIL = f"""
UPDATE {{key}} SET reason = %(reason)s, category = %(category)s, signature = %(signature)s,
       result = %(error)s, owner = NULL, in_external = {{false}}, finished_at = {{now}}, open_at = NULL,
       due_at = CASE WHEN %(state)s = 4 THEN NULL ELSE {{after[retention]}} END, state = %(state)s
 WHERE {OWNED}
"""

#: What is recorded of an attempt whose owner ended without a word.
OWNER_DIED = "django_idempotent_tasks.exceptions.OwnerDied"
SILENT = "Its worker ended without a word, or stood still for a whole lease."
DIED = "interrupted"
INTERRUPTED = error_text(
    OWNER_DIED, "The attempt ended inside external(): nobody knows whether its effect has happened."
)

#: Whose owner is gone while it was inside ``external()``: a dead letter, for a person to say what happened.
DOUBTED = """category = CASE WHEN k.in_external THEN 3 ELSE k.category END,
       result = CASE WHEN k.in_external THEN '{interrupted}' ELSE k.result END,
       signature = CASE WHEN k.in_external THEN '{died}' ELSE k.signature END,
       finished_at = CASE WHEN k.in_external THEN {now} ELSE k.finished_at END"""

#: Seconds that a key waits after a crash: none after the first, then 2, 4, 8 ... at most 60.
CRASH_WAIT = "CASE WHEN k.crashes = 0 THEN 0 WHEN k.crashes < 6 THEN (1 << k.crashes) ELSE 60 END"

#: The claims of one process, by the owner's name up to its last part; it holds no wildcard.
OF_THE_DEAD = "k.digest = %(digest)s AND k.state = 2 AND k.owner LIKE %(owner)s"

FREE_DEAD = f"""
UPDATE {{key}} AS k SET reason = 9, token = token + 1, owner = NULL, attempts = attempts + %(unseen)s,
       {{doubted}},
       open_at = CASE WHEN in_external THEN NULL ELSE {{after_crash}} END,
       due_at = CASE WHEN in_external THEN NULL ELSE {{after_crash_republish}} END,
       crashes = crashes + 1, state = CASE WHEN in_external THEN 4 ELSE 3 END
 WHERE {OF_THE_DEAD}
"""

FAIL_DEAD = f"""
UPDATE {{key}} AS k SET reason = %(reason)s, result = %(error)s, owner = NULL, finished_at = {{now}},
       open_at = NULL, category = CASE WHEN in_external THEN 3 ELSE %(category)s END,
       signature = %(signature)s, due_at = CASE WHEN in_external THEN NULL ELSE {{after[retention]}} END,
       state = CASE WHEN in_external THEN 4 ELSE 5 END
 WHERE {OF_THE_DEAD}
"""

#: Work of tasks that are not ours: the broker has it, and nobody will claim it.
SENT = """
UPDATE {key} SET reason = 11, token = token + 1, message = NULL, finished_at = {now},
       open_at = {after[retention]}, due_at = {after[retention]}, state = 7
 WHERE digest IN (DIGESTS) AND token = %(token)s AND state = 1
"""

#: The key's row, if no atomic run has it: the sweeper does not wait for the end of one.
UNLOCKED = """
digest IN (SELECT digest FROM (
  SELECT digest FROM {key} WHERE digest = %(digest)s {skip_locked}) AS unlocked)
"""

#: Not how long the lease is: that is for the heartbeat to say.
PROGRESS = f"""
UPDATE {{key}} SET progress = %(progress)s
 WHERE {UNLOCKED} AND token = %(token)s AND owner = %(owner)s AND state = 2
"""

SEND_FAILED = f"""
UPDATE {{key}} SET sends = -1, due_at = CASE WHEN open_at > {{now}} THEN open_at ELSE {{now}} END
 WHERE {UNLOCKED} AND token = %(token)s AND state IN (1, 3)
"""

CANCEL = """
UPDATE {key} SET reason = 4, token = token + 1, owner = NULL, message = NULL, in_external = {false},
       finished_at = {now}, open_at = NULL, due_at = {after[window]}, state = 6
"""

#: What can be cancelled: by key, and where a task id is given only what that call has or runs. Also the
#: call that took over: its message is what would be sent again, and it is revoked.
LIVE = """
digest = %(digest)s AND state IN (1, 2, 3)
   AND (task_id = COALESCE(%(task_id)s, task_id) OR runner_task_id = %(task_id)s)
"""

#: What a revoked or expired message ends: a call that waits to be run; one that runs is another matter.
WAITING = "task_id = %(task_id)s AND state IN (1, 3)"
UNSTARTED = "task_id = %(task_id)s AND digest = %(digest)s AND state = 1"

#: An operator takes the key from its holder, whose completion is refused from now on. As after a death,
#: what may have happened inside ``external()`` is for a person to say.
RELEASE = """
UPDATE {key} AS k SET reason = 9, token = token + 1, owner = NULL, sends = -1, {doubted},
       open_at = CASE WHEN in_external THEN NULL ELSE {now} END,
       due_at = CASE WHEN in_external THEN NULL ELSE {now} END,
       state = CASE WHEN in_external THEN 4 ELSE 3 END
 WHERE digest = %(digest)s AND token = %(token)s AND state = 2
"""

#: After so many sendings no worker has known the task's name.
FAIL_UNKNOWN = f"""
UPDATE {{key}} SET reason = 6, category = %(category)s, signature = %(signature)s, result = %(error)s,
       token = token + 1, finished_at = {{now}}, open_at = NULL, due_at = {{after[retention]}}, state = 5
 WHERE {UNLOCKED} AND task_id = %(task_id)s AND state IN (1, 3) AND sends >= %(sends)s
"""

#: Past their time: by the index, oldest first, a bite at a time. Never what is live or in review.
PRUNABLE = """
SELECT digest FROM {key} WHERE state = %(state)s AND %(state)s >= 5 AND due_at <= {now}
 ORDER BY due_at LIMIT %(bite)s
"""
PRUNE_ANSWERED = """
DELETE FROM {answered} WHERE id IN (
  SELECT id FROM {answered} WHERE due_at <= {now} ORDER BY due_at LIMIT %(bite)s)
"""
#: Ids grow with time, so a bite of the oldest tells whether any is old enough.
PRUNE_DUPLICATES = """
DELETE FROM {duplicate} WHERE id IN (
  SELECT id FROM (SELECT id, at FROM {duplicate} WHERE summed = {true} ORDER BY id LIMIT %(bite)s) oldest
   WHERE at <= {before[keep]})
"""

RECORD_DUPLICATE = """
INSERT INTO {duplicate} (digest, scope, task_id, place, reason, at, summed)
VALUES (%(digest)s, %(scope)s, %(task_id)s, %(place)s, %(reason)s, {now}, {false})
"""

#: A row that the sweeper may free. Without a stored message nobody could be sent to run it, so it
#: stays RUNNING with its lease over, open to whichever copy or call arrives next.
FREED = "(k.state = 2 AND (k.message IS NOT NULL OR k.in_external))"

#: One row for each owner that a sweep finds gone, before it is freed.
RECORD_FREED = f"""
INSERT INTO {{failed}} (digest, token, at, attempt, state, category, signature, task, scope, key_text,
                      task_id, worker, error, description, traceback, message)
SELECT k.digest, k.token, {{now}}, k.attempts, CASE WHEN k.in_external THEN 4 ELSE 3 END,
       CASE WHEN k.in_external THEN 3 ELSE 2 END, '{DIED}', k.task, k.scope, k.key_text,
       COALESCE(k.runner_task_id, k.task_id), COALESCE(k.owner, ''), '{OWNER_DIED}', '{SILENT}', '', NULL
  FROM {{key}} k
"""

SWEEP = f"""
SET reason = CASE WHEN {FREED} THEN 9 ELSE k.reason END, {{doubted}},
       token = k.token + CASE WHEN {FREED} THEN 1 ELSE 0 END,
       owner = CASE WHEN {FREED} THEN NULL ELSE k.owner END,
       open_at = CASE WHEN NOT {FREED} THEN k.open_at WHEN k.in_external THEN NULL
                      ELSE {{after_crash}} END,
       due_at = CASE WHEN {FREED} AND k.in_external THEN NULL
                     WHEN {FREED} AND k.crashes > 0 THEN {{after_crash}}
                     ELSE {{after_send}} END,
       sends = CASE WHEN NOT {FREED} THEN {{least}}(k.sends + 1, 32767) WHEN k.crashes > 0 THEN -1 ELSE 0 END,
       crashes = k.crashes + CASE WHEN {FREED} THEN 1 ELSE 0 END,
       state = CASE WHEN NOT {FREED} THEN k.state WHEN k.in_external THEN 4 ELSE 3 END
"""

#: No NULL tests here: in RETURNING, SQLite 3.40 answers them wrongly behind a NOT NULL column.
SWEPT = "k.digest, k.token, k.state, k.crashes, k.task, k.message, k.open_at <= {now}, k.sends"

LEAD = """
INSERT INTO {leader} AS l (name, holder, token, since, expires_at)
VALUES (%(name)s, %(holder)s, 1, {now}, {after[lease]})
ON CONFLICT (name) DO UPDATE
   SET since = CASE WHEN l.holder = excluded.holder AND l.expires_at > {now} THEN l.since ELSE {now} END,
       token = l.token + CASE WHEN l.holder = excluded.holder AND l.expires_at > {now} THEN 0 ELSE 1 END,
       holder = excluded.holder, expires_at = excluded.expires_at
 WHERE l.holder = excluded.holder OR l.expires_at <= {now}
RETURNING token
"""

RESIGN = "UPDATE {leader} SET expires_at = {now} WHERE name = %(name)s AND holder = %(holder)s"
