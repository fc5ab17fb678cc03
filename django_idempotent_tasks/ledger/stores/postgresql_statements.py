"""The statements that PostgreSQL has in its own form."""

from __future__ import annotations

import re
from functools import lru_cache

from ...states import State
from . import claiming, statements
from .atomic import ATOMIC_ANEW

#: A condition on a key's state, and what tells that a statement names the keys that it wants.
_STATE = re.compile(r"((?:AND|OR|WHERE) |\()((?:[kh]\.)?state) (=|IN)")
_NAMED = re.compile(r"%\(digests?\)s|(?:digest|task_id) IN \((?!SELECT)")


@lru_cache(maxsize=256)
def by_name(template: str) -> str:
    """Let no index by state serve a statement that names its keys.

    Among millions of completed keys the server's statistics know of no other state. It takes a state for one
    row, as it takes a digest, and looks keys up by either: it would read each key that runs to end one.
    """
    return _STATE.sub(r"\1\2 + 0 \3", template) if _NAMED.search(template) else template


def seconds_of(number: str) -> str:
    """So many seconds, for a statement that is planned anew each time.

    Most of what a statement costs is that. ``make_interval`` would add a sixth to a claim, for its defaults.
    """
    return f"({number}) * interval '1 second'"


# The call that was accepted and the one that had taken it over are both answered later.
_REPLACE = """
WITH old AS (
  SELECT digest, task_id, runner_task_id, generation, state, reason, result, fingerprint,
         finished_at + %(window)s * interval '1 second' AS due_at
    FROM {key} WHERE FINISHED
), past AS (
  INSERT INTO {answered} (digest, task_id, generation, state, reason, result, due_at)
  SELECT digest, replaced.task_id, generation, state, reason, result, due_at
    FROM old, LATERAL (VALUES (old.task_id), (old.runner_task_id)) AS replaced(task_id)
   WHERE replaced.task_id IS NOT NULL AND due_at > {now}
  ON CONFLICT (task_id, digest) DO NOTHING
), forgotten AS (
  DELETE FROM {step} WHERE digest = %(digest)s AND EXISTS (SELECT 1 FROM old WHERE OTHER_WORK)
)
UPDATE {key} k ANEW FROM old WHERE k.digest = old.digest
RETURNING k.token, k.generation, k.attempts, k.crashes, k.reason
"""


def _replace(anew: str, *, lock: str) -> str:
    """One statement: lock the finished key, remember the replaced call, give the key to the new one."""
    found = _REPLACE.replace("FINISHED", f"{claiming.FINISHED} {lock}").replace("ANEW", anew)
    return found.replace("OTHER_WORK", claiming.OTHER_WORK.replace("k.", "old."))


CLAIM_FINISHED = _replace(claiming.ANEW, lock="FOR UPDATE")

ATOMIC_FINISHED = _replace(ATOMIC_ANEW, lock="AND {unheld} AND {bounded} FOR UPDATE")

# SKIP LOCKED: two producers with crossed keys neither wait for each other nor deadlock. The key's lock: an
# atomic claim does not wait for the producer's end.
RESERVE_FINISHED = _replace(claiming.RESERVED_ANEW, lock="AND {unheld} FOR UPDATE SKIP LOCKED")
RESERVE_FINISHED_UNLOCKED = _replace(claiming.RESERVED_ANEW, lock="FOR UPDATE SKIP LOCKED")

# The lock is taken in the inner query with SKIP LOCKED: a row that a completion holds is passed over.
RENEW = f"""
UPDATE {{key}} k SET open_at = {{now}} + {seconds_of("k.lease_seconds")},
       due_at = {{now}} + {seconds_of("k.lease_seconds")}
  FROM (SELECT h.digest
          FROM unnest(%(digests)s::uuid[], %(tokens)s::integer[], %(owners)s::text[])
               AS held(digest, token, owner)
          JOIN {{key}} h ON h.digest = held.digest AND h.token = held.token AND h.owner = held.owner
         WHERE h.state = {State.RUNNING} FOR UPDATE OF h SKIP LOCKED) AS mine
 WHERE k.digest = mine.digest RETURNING k.digest
"""


def cancel(which: str) -> str:
    """Cancel what the condition ``which`` names, and pass over rows that are locked."""
    update = statements.CANCEL.replace("{key}", "{key} k").replace("token + 1", "k.token + 1")
    found = f"SELECT digest FROM {{key}} WHERE {which} FOR UPDATE SKIP LOCKED"
    return f"{update} FROM ({found}) AS live WHERE k.digest = live.digest"


PRUNE = f"""
WITH gone AS (
  DELETE FROM {{key}} WHERE digest = ANY (ARRAY({statements.PRUNABLE} FOR UPDATE SKIP LOCKED))
  RETURNING digest
), steps AS (DELETE FROM {{step}} WHERE digest IN (SELECT digest FROM gone))
SELECT count(*) FROM gone
"""


def _due_in(state: State) -> str:
    return (
        f"SELECT digest FROM (SELECT digest FROM {{key}} WHERE {statements.due_in(state)}"
        f" ORDER BY due_at LIMIT %(bite)s FOR UPDATE SKIP LOCKED) s{state}"
    )


SWEEP = f"""
WITH due AS MATERIALIZED ({" UNION ALL ".join(_due_in(state) for state in statements.DUE_STATES)}),
told AS ({statements.RECORD_FREED} JOIN due ON k.digest = due.digest AND {statements.FREED})
UPDATE {{key}} k {statements.SWEEP} FROM due WHERE k.digest = due.digest RETURNING {statements.SWEPT}
"""

SUM_DUPLICATES = """
WITH bite AS MATERIALIZED (
  SELECT id, digest FROM {duplicate} WHERE NOT summed ORDER BY id LIMIT %(bite)s FOR UPDATE SKIP LOCKED
), summed AS (
  UPDATE {duplicate} d SET summed = true FROM bite WHERE d.id = bite.id RETURNING d.digest
), counted AS (
  SELECT digest, count(*) AS n FROM summed GROUP BY digest
), added AS (
  UPDATE {key} k SET duplicates = k.duplicates + counted.n FROM counted WHERE k.digest = counted.digest
)
SELECT count(*) FROM summed
"""


#: Lets the commit of the statement in which it stands wait for no disk; always true.
UNFLUSHED = "pg_catalog.set_config('synchronous_commit', 'off', true) IS NOT NULL"

# An audit row may be lost with the server, a key may not.
RECORD_DUPLICATE = f"""
INSERT INTO {{duplicate}} (digest, scope, task_id, place, reason, at, summed)
SELECT %(digest)s::uuid, %(scope)s::text, %(task_id)s, %(place)s, %(reason)s, {{now}}, {{false}}
 WHERE {UNFLUSHED}
"""

#: Another call has completed the key, whose retention lasts; or it waits to be run, or runs.
_DONE = f"(k.state = {State.SUCCEEDED} AND {claiming.IS_OPEN} IS NOT TRUE)"
_UNDONE = (
    f"(k.state = {State.PENDING} OR (k.state = {State.RUNNING} AND k.open_at > {{now}})"
    f" OR (k.state = {State.RETRY} AND k.message IS NOT NULL))"
)


_REASON = f"CASE WHEN k.state = {State.SUCCEEDED} THEN %(completed)s ELSE %(in_progress)s END"


def _surely(refused: str) -> str:
    """Whether the state of a key, ``refused``, keeps a call from it: as :func:`~..rules.decide` says.

    What needs a decision in Python is not in it, nor what is rare. It stands among the columns that are read:
    as a condition it would have the server estimate how many rows meet each part of it.
    """
    return f"""({refused}
     AND k.task = %(task)s AND k.scope {{same}} %(scope)s
     AND k.task_id <> %(task_id)s AND k.runner_task_id IS DISTINCT FROM %(task_id)s
     AND (k.fingerprint = CAST(%(fingerprint)s AS {{uuid}})) IS NOT FALSE
     AND NOT {claiming.WAS_ANSWERED})"""


#: What READ reads, in its order.
_READ = (
    "state, reason, token, generation, attempts, crashes, task, scope, task_id, runner_task_id, owner,"
    " fingerprint, result, is_open, opens_in, was_answered, no_message, is_discarded, in_external,"
    " answered_for, note_lasts, head, lease"
)


def _note(seen: str) -> str:
    """Write the audit row of a refused call, from what was ``seen`` of its key."""
    return f"""
  INSERT INTO {{duplicate}} (digest, scope, task_id, place, reason, at, summed)
  SELECT %(digest)s, %(scope)s, %(known_id)s, %(place)s, {_REASON}, {{now}}, {{false}}
    FROM seen k WHERE {seen}"""


def _read_noting(refused: str, unflushed: str) -> str:
    """Read the key's row, and write the audit row with the read where the call is surely ``refused``.

    ``unflushed`` is asked only where a row was written: else the transaction may go on to a claim.
    """
    read = claiming.READ.strip().replace("k.lease_seconds", f"k.lease_seconds, {_surely(refused)}")
    return f"""
WITH seen ({_READ}, is_refused) AS MATERIALIZED ({read}), noted AS ({_note("is_refused")}
  RETURNING 1)
SELECT seen.*, EXISTS (SELECT 1 FROM noted WHERE {unflushed}) FROM seen
"""


READ_NOTING = _read_noting(_DONE, UNFLUSHED)
# A sender's own transaction, which may hold anything, waits for the disk in any case.
READ_REFUSING = _read_noting(f"({_DONE} OR {_UNDONE})", UNFLUSHED)
READ_REFUSING_AMONG = _read_noting(f"({_DONE} OR {_UNDONE})", "true")


def _refuse(refused: str, unflushed: str) -> str:
    """Refuse a call and record that, or find no row; what comes back is all that a refusal tells.

    Most of what a statement costs is to be read and planned by the server: this one is half of the above.
    """
    return f"""
WITH seen AS MATERIALIZED (
  SELECT k.state, k.reason, k.task_id, k.result, {{opens_in}} AS opens_in, {_surely(refused)} AS is_refused
    FROM {{key}} k WHERE k.digest = %(digest)s
), noted AS ({_note(f"is_refused AND {unflushed}")}
)
SELECT state, reason, task_id, result, opens_in FROM seen WHERE is_refused
"""


#: By whether also what is not done is refused, and whether the statement's commit may wait for no disk.
REFUSE = {
    (undone, is_alone): _refuse(
        f"({_DONE} OR {_UNDONE})" if undone else _DONE, UNFLUSHED if is_alone else "true"
    )
    for undone in (False, True)
    for is_alone in (False, True)
}

#: Claims that may be lost with the server. The log is one sequence: whatever is flushed later, a completion
#: or anybody's commit, flushes them as well.
UNFLUSHED_CLAIMS = {
    claiming.CLAIM_NEW: claiming.CLAIM_UNNAMED.replace(claiming.UNKNOWN, UNFLUSHED),
    claiming.CLAIM_UNNAMED: claiming.CLAIM_UNNAMED.replace(
        claiming.UNKNOWN, f"{claiming.UNKNOWN} AND {UNFLUSHED}"
    ),
    claiming.CLAIM_RESERVED: claiming.CLAIM_RESERVED.replace("RETURNING", f"  AND {UNFLUSHED}\nRETURNING"),
}

#: A tenant's schema, to which the search path leads, may have periodic tasks of its own.
BESIDE = """
SELECT EXISTS (
  SELECT 1 FROM pg_class e JOIN pg_class c ON c.relnamespace = e.relnamespace
   WHERE e.oid = to_regclass(%(entries)s) AND c.oid = '{cursor}'::regclass)
"""

#: The lock that a transaction shares while it holds keys without a lock for each.
MANY = int.from_bytes(b"idemmany")


def _may_lock(lock: object) -> str:
    """Whether nobody holds this lock now; it is given back within the expression."""
    return f"CASE WHEN pg_try_advisory_lock({lock}) THEN pg_advisory_unlock({lock}) ELSE false END"


#: What a reservation found of its key: somebody has it; or nobody, but a transaction that tells nobody which
#: keys it has is open; or nobody at all.
HELD, AMONG_MANY, FREE = 0, 1, 2


def _reserve(unheld: str, alone: str) -> str:
    """Insert if the key has no row and is ``unheld``, and then if the transaction is ``alone``.

    Without the look an INSERT would wait for who settles or prunes the row in an open transaction.
    """
    insert = claiming.RESERVE_NEW.replace("WHERE true", f"FROM door WHERE way = {FREE}")
    return f"""
WITH door AS MATERIALIZED (
  SELECT CASE WHEN EXISTS (SELECT 1 FROM {{key}} WHERE digest = %(digest)s) THEN {HELD}
              WHEN {unheld} THEN CASE WHEN {alone} THEN {FREE} ELSE {AMONG_MANY} END
              ELSE {HELD} END AS way
), made AS ({insert})
SELECT (SELECT token FROM made), way FROM door
"""


# Not waiting, so no deadlock on crossed keys. The lock is held until the transaction ends, as is the key.
LOCKED = "pg_try_advisory_xact_lock(%(lock)s)"
RESERVE_NEW = _reserve(LOCKED, _may_lock(MANY))

# One that finds such a transaction open may have to wait for its key, and one that is such a transaction
# for another's. That one has told that it is, before it asks for a key's lock: neither overlooks the other.
RESERVE_AMONG_MANY = _reserve(LOCKED, "true")
RESERVE_UNLOCKED = _reserve(_may_lock("%(lock)s"), "true")
SHARE_MANY = f"SELECT pg_advisory_xact_lock_shared({MANY})"
LOCK = f"SELECT {LOCKED}"


def _at_most(name: str, bound: int, smaller: str) -> str:
    """Lower a limit of the connection's socket until the transaction ends, unless it is ``smaller`` already.

    Compared as a text, which the server reads and plans sooner than a cast to a number and back.
    """
    lowered = f"pg_catalog.set_config('{name}', '{bound}', true)"
    return f"(current_setting('{name}') ~ '^{smaller}$' OR {lowered} IS NOT NULL)"


#: A host that vanishes closes no connection: the server asks it for a sign of life, in vain for at most
#: 20 s, in a statement as well as between two, and then rolls back what it has open. The server's own
#: defaults are those of its system, 2 h 11 min; a limit of 0 is none, or a Unix socket. Every role may set
#: them; a server that is not on Linux may refuse the last one.
BOUNDED = f"""
({_at_most("tcp_keepalives_idle", 8, "[1-7]")} AND {_at_most("tcp_keepalives_interval", 3, "[12]")}
 AND {_at_most("tcp_keepalives_count", 3, "[12]")}
 AND {_at_most("tcp_user_timeout", 17_000, "([1-9][0-9]{0,3}|1[0-6][0-9]{3})")}
 AND CASE WHEN current_setting('client_connection_check_interval') = '0' AND version() LIKE '%%linux%%'
          THEN pg_catalog.set_config('client_connection_check_interval', '2s', true) IS NOT NULL
          ELSE true END)
"""
