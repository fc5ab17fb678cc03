"""The SQL that every dialect shares: one statement a transition.

States and reasons stand in it by name: an f-string puts their stored numbers in when it is imported.
Templates: ``{now}`` is the statement's time on the database's clock, ``{after[name]}`` that time
plus the parameter ``name`` in seconds, ``{key}`` and the other names are tables. In each UPDATE
what depends on the old row stands before the column it reads, and ``state`` comes last: MariaDB
and MySQL assign from left to right and read the new value.
"""

from __future__ import annotations

from ...messages.turns import HEAD
from ...states import Category, Reason, State
from ..encoding import error_text

OWNED = f"digest = %(digest)s AND token = %(token)s AND owner = %(owner)s AND state = {State.RUNNING}"

COMPLETE = f"""
UPDATE {{key}} SET reason = %(reason)s, result = %(result)s, message = NULL, in_external = {{false}},
       finished_at = {{now}}, open_at = {{after[retention]}},
       due_at = {{after[kept]}}, state = {State.SUCCEEDED}
 WHERE {OWNED}
"""

#: What a completion and a progress report end with where their COMMIT is a message of its own: a host that
#: vanishes before it does not hold the row for long.
BOUNDED = " AND {bounded}"

#: An owner that gives its claim back stays named: its parent may know that nobody stopped the worker.
RETRY = f"""
UPDATE {{key}} SET reason = %(reason)s, message = NULLIF(COALESCE(%(message)s, message), ''),
       owner = CASE WHEN %(reason)s = {Reason.RELEASED} THEN owner ELSE NULL END,
       in_external = {{false}}, open_at = {{after[wait]}}, due_at = {{after[republish]}},
       state = {State.RETRY}
 WHERE {OWNED}
"""

FAIL = f"""
UPDATE {{key}} SET reason = %(reason)s, category = %(category)s, signature = %(signature)s,
       result = %(error)s, owner = NULL, in_external = {{false}}, finished_at = {{now}}, open_at = NULL,
       due_at = CASE WHEN %(state)s = {State.REVIEW} THEN NULL ELSE {{after[retention]}} END,
       state = %(state)s
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
DOUBTED = f"""category = CASE WHEN k.in_external THEN {Category.MANUAL_REVIEW} ELSE k.category END,
       result = CASE WHEN k.in_external THEN '{{interrupted}}' ELSE k.result END,
       signature = CASE WHEN k.in_external THEN '{{died}}' ELSE k.signature END,
       finished_at = CASE WHEN k.in_external THEN {{now}} ELSE k.finished_at END"""

#: Seconds that a key waits after a crash: none after the first, then 2, 4, 8 ... at most 60.
CRASH_WAIT = "CASE WHEN k.crashes = 0 THEN 0 WHEN k.crashes < 6 THEN (1 << k.crashes) ELSE 60 END"

#: The claims of one process, by the owner's name up to its last part; it holds no wildcard.
OF_THE_DEAD = f"k.digest = %(digest)s AND k.state = {State.RUNNING} AND k.owner LIKE %(owner)s"

#: The same, and what the process gave back when it was told to end.
LEFT_BY_THE_DEAD = f"""
k.digest = %(digest)s
   AND (k.state = {State.RUNNING} OR (k.state = {State.RETRY} AND k.reason = {Reason.RELEASED}))
   AND k.owner LIKE %(owner)s
"""

FREE_DEAD = f"""
UPDATE {{key}} AS k SET reason = {Reason.OWNER_DIED}, token = token + 1, owner = NULL,
       attempts = attempts + %(unseen)s,
       {{doubted}},
       open_at = CASE WHEN in_external THEN NULL ELSE {{after_crash}} END,
       due_at = CASE WHEN in_external THEN NULL ELSE {{after_crash_republish}} END,
       crashes = crashes + 1, state = CASE WHEN in_external THEN {State.REVIEW} ELSE {State.RETRY} END
 WHERE {LEFT_BY_THE_DEAD}
"""

FAIL_DEAD = f"""
UPDATE {{key}} AS k SET reason = %(reason)s, result = %(error)s, owner = NULL, finished_at = {{now}},
       open_at = NULL, category = CASE WHEN in_external THEN {Category.MANUAL_REVIEW} ELSE %(category)s END,
       signature = %(signature)s, due_at = CASE WHEN in_external THEN NULL ELSE {{after[retention]}} END,
       state = CASE WHEN in_external THEN {State.REVIEW} ELSE {State.FAILED} END
 WHERE {OF_THE_DEAD}
"""

#: Work of tasks that are not ours: the broker has it, and nobody will claim it.
SENT = f"""
UPDATE {{key}} SET reason = {Reason.SENT}, token = token + 1, message = NULL, finished_at = {{now}},
       open_at = {{after[retention]}}, due_at = {{after[retention]}}, state = {State.SUCCEEDED}
 WHERE digest IN (DIGESTS) AND token = %(token)s AND state = {State.PENDING}
"""

#: What waits to be run.
UNCLAIMED = f"state IN ({State.PENDING}, {State.RETRY})"

#: The key's row, if no atomic run has it: the sweeper does not wait for the end of one.
UNLOCKED = """
digest IN (SELECT digest FROM (
  SELECT digest FROM {key} WHERE digest = %(digest)s {skip_locked}) AS unlocked)
"""

#: Not how long the lease is: that is for the heartbeat to say.
PROGRESS = f"""
UPDATE {{key}} SET progress = %(progress)s
 WHERE {UNLOCKED} AND token = %(token)s AND owner = %(owner)s AND state = {State.RUNNING}
"""

SEND_FAILED = f"""
UPDATE {{key}} SET sends = -1, due_at = CASE WHEN open_at > {{now}} THEN open_at ELSE {{now}} END
 WHERE {UNLOCKED} AND token = %(token)s AND {UNCLAIMED}
"""

#: A message is out, and most likely lost: the sweeper sends the next one before its time.
HASTEN = f"""
UPDATE {{key}} SET due_at = {{now}}
 WHERE {UNLOCKED} AND token = %(token)s AND {UNCLAIMED} AND sends >= 0 AND due_at > {{now}}
"""

#: Whether a person has redriven it: it was a dead letter before.
REDRIVEN = (
    f"SUBSTR(message, 1, {HEAD}) LIKE %(redriven)s AND SUBSTR(message, 1, {HEAD}) NOT LIKE %(never_redriven)s"
)

#: What was a dead letter before keeps its message for as long as one.
CANCEL = f"""
UPDATE {{key}} SET reason = {Reason.CANCELLED}, token = token + 1, owner = NULL, in_external = {{false}},
       due_at = CASE WHEN {REDRIVEN} THEN {{after[kept]}} ELSE {{after[window]}} END,
       message = CASE WHEN {REDRIVEN} THEN message ELSE NULL END,
       finished_at = {{now}}, open_at = NULL, state = {State.CANCELLED}
"""

#: What can be cancelled: by key, and where a task id is given only what that call has or runs. Also the
#: call that took over: its message is what would be sent again, and it is revoked.
LIVE = f"""
digest = %(digest)s AND state IN ({State.PENDING}, {State.RUNNING}, {State.RETRY})
   AND (task_id = COALESCE(%(task_id)s, task_id) OR runner_task_id = %(task_id)s)
"""

#: What a revoked or expired message ends: a call that waits to be run; one that runs is another matter.
WAITING = f"task_id IN (TASK_IDS) AND {UNCLAIMED}"
UNSTARTED = f"task_id = %(task_id)s AND digest = %(digest)s AND state = {State.PENDING}"

#: An operator takes the key from its holder, whose completion is refused from now on. As after a death,
#: what may have happened inside ``external()`` is for a person to say.
RELEASE = f"""
UPDATE {{key}} AS k SET reason = {Reason.OWNER_DIED}, token = token + 1, owner = NULL, sends = -1,
       {{doubted}},
       open_at = CASE WHEN in_external THEN NULL ELSE {{now}} END,
       due_at = CASE WHEN in_external THEN NULL ELSE {{now}} END,
       state = CASE WHEN in_external THEN {State.REVIEW} ELSE {State.RETRY} END
 WHERE digest = %(digest)s AND token = %(token)s AND state = {State.RUNNING}
"""

#: A person does not wait for the time of the retry. Attempts and crashes stay counted.
RETRY_NOW = f"""
UPDATE {{key}} SET token = token + 1, sends = -1, open_at = {{now}}, due_at = {{now}}
 WHERE digest = %(digest)s AND token = %(token)s AND state = {State.RETRY} AND message IS NOT NULL
"""

#: After so many sendings no worker has known the task's name.
FAIL_UNKNOWN = f"""
UPDATE {{key}} SET reason = {Reason.PERMANENT}, category = %(category)s, signature = %(signature)s,
       result = %(error)s, token = token + 1, finished_at = {{now}}, open_at = NULL,
       due_at = {{after[retention]}}, state = {State.FAILED}
 WHERE {UNLOCKED} AND task_id = %(task_id)s AND {UNCLAIMED} AND sends >= %(sends)s
"""

#: Past their time: by the index, oldest first, a bite at a time. Never what is live or in review.
PRUNABLE = f"""
SELECT digest FROM {{key}} WHERE state = %(state)s AND %(state)s >= {State.FAILED} AND due_at <= {{now}}
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
FREED = f"(k.state = {State.RUNNING} AND (k.message IS NOT NULL OR k.in_external))"

#: One row for each owner that a sweep finds gone, before it is freed.
RECORD_FREED = f"""
INSERT INTO {{failed}} (digest, token, at, attempt, state, category, signature, task, scope, key_text,
                      task_id, worker, error, description, traceback, message, started_at)
SELECT k.digest, k.token, {{now}}, k.attempts,
       CASE WHEN k.in_external THEN {State.REVIEW} ELSE {State.RETRY} END,
       CASE WHEN k.in_external THEN {Category.MANUAL_REVIEW} ELSE {Category.RETRYABLE} END,
       '{DIED}', k.task, k.scope, k.key_text, COALESCE(k.runner_task_id, k.task_id),
       COALESCE((SELECT w.name FROM {{worker}} w WHERE w.instance = substr(k.owner, 1, 32)), k.owner, ''),
       '{OWNER_DIED}', '{SILENT}', '', NULL, k.started_at
  FROM {{key}} k
"""


#: What a sweep looks at, in this order.
DUE_STATES = (State.RUNNING, State.RETRY, State.PENDING)


def due_in(state: State) -> str:
    """What the sweeper looks at in a state, of what was due at ``until``; leases no longer than ``calm``."""
    short = " AND lease_seconds <= %(calm)s" if state == State.RUNNING else ""
    return f"state = {state} AND due_at <= {{now}} AND due_at <= COALESCE(%(until)s, due_at){short}"


SWEEP = f"""
SET reason = CASE WHEN {FREED} THEN {Reason.OWNER_DIED} ELSE k.reason END, {{doubted}},
       token = k.token + CASE WHEN {FREED} THEN 1 ELSE 0 END,
       owner = CASE WHEN {FREED} THEN NULL ELSE k.owner END,
       open_at = CASE WHEN NOT {FREED} THEN k.open_at WHEN k.in_external THEN NULL
                      ELSE {{after_crash}} END,
       due_at = CASE WHEN {FREED} AND k.in_external THEN NULL
                     WHEN {FREED} AND k.crashes > 0 THEN {{after_crash}}
                     ELSE {{after_send}} END,
       sends = CASE WHEN NOT {FREED} THEN {{least}}(k.sends + 1, 32767) WHEN k.crashes > 0 THEN -1 ELSE 0 END,
       crashes = k.crashes + CASE WHEN {FREED} THEN 1 ELSE 0 END,
       state = CASE WHEN NOT {FREED} THEN k.state
                    WHEN k.in_external THEN {State.REVIEW} ELSE {State.RETRY} END
"""

#: No NULL tests here: in RETURNING, SQLite 3.40 answers them wrongly behind a NOT NULL column.
SWEPT = "k.digest, k.token, k.state, k.crashes, k.task, {size}, k.open_at <= {now}, k.sends"

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

LED_FOR = "SELECT {led_for} FROM {leader} l WHERE l.name = %(name)s"

RESIGN = "UPDATE {leader} SET expires_at = {now} WHERE name = %(name)s AND holder = %(holder)s"
