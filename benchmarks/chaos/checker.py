"""Reads what a run has left, by SQL alone: it knows tables and the plan, and nothing of the package."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection

#: The tables of the ledger, and states by their stored numbers.
KEYS = "django_idempotent_tasks_idempotencykey"
FOLLOW_UPS = "django_idempotent_tasks_followup"
BATCHES = "django_idempotent_tasks_batch"
LIVE = {1: "pending", 2: "running", 3: "retry"}
STATES = {**LIVE, 4: "review", 5: "failed", 6: "cancelled", 7: "succeeded"}
BATCH_STATES = {1: "submitting", 2: "running", 3: "needs attention", 4: "finished", 5: "cancelled"}

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Key:
    """What the ledger says of one key."""

    state: str
    token: int
    attempts: int
    crashes: int
    duplicates: int


@dataclass(frozen=True)
class Found:
    """What was found of a run."""

    keys: dict[str, Key]
    #: Of each key how often each part was written.
    effects: dict[str, Counter[str]]
    #: Effects that were written under another fencing token than the one that completed their key.
    unfenced: dict[str, int]
    #: Of each key how many different charges a provider has made, and how often it was asked.
    charges: dict[str, tuple[int, int]]
    changes: dict[str, int]
    seen: dict[str, int]
    batches: dict[str, str]
    sent: dict[str, int]
    #: Keys of any task, batches and follow-ups that still wait.
    waiting: tuple[str, ...]
    ticks: dict[str, list[datetime]] = field(default_factory=dict)


def read(prefix: str) -> Found:
    """Read everything about the keys that begin so."""
    like = [f"{prefix}%"]
    return Found(
        keys=dict(_keys(prefix)),
        effects=_effects(like),
        unfenced=dict(_rows(_UNFENCED, like)),
        charges={
            key: (distinct, asked)
            for key, distinct, asked in _rows(
                "SELECT work, count(DISTINCT downstream), count(*) FROM chaos_charge"
                " WHERE work LIKE %s GROUP BY work",
                like,
            )
        },
        changes=dict(_rows("SELECT work, count(*) FROM chaos_change WHERE work LIKE %s GROUP BY work", like)),
        seen=dict(_rows("SELECT work, changes FROM chaos_seen WHERE work LIKE %s", like)),
        batches={
            key: BATCH_STATES[state]
            for key, state in _rows(f"SELECT key_text, state FROM {BATCHES} WHERE key_text LIKE %s", like)
        },
        sent=dict(_rows("SELECT name, times FROM chaos_sent WHERE name LIKE %s", [f"{prefix[:-1]}/%"])),
        waiting=waiting(),
        ticks=_ticks(),
    )


def waiting() -> tuple[str, ...]:
    """What is not at its end: keys of any task, follow-ups and batches."""
    live = ", ".join(map(str, LIVE))
    keys = _rows(f"SELECT task, key_text, state FROM {KEYS} WHERE state IN ({live})", [])
    follow_ups = _rows(f"SELECT digest FROM {FOLLOW_UPS}", [])
    batches = _rows(f"SELECT key_text, state FROM {BATCHES} WHERE state IN (1, 2, 3)", [])
    return (
        *(f"{task} {key} is {STATES[state]}" for task, key, state in keys),
        *(f"the follow-up of {digest} waits" for (digest,) in follow_ups),
        *(f"batch {key} is {BATCH_STATES[state]}" for key, state in batches),
    )


#: The keys of a run's calls: by a task's own ``key``, or named by the view that submits them.
_OF_CALLS = "(key_text LIKE %s OR (task = 'benchmarks.chaos.tasks.submitted' AND key_text LIKE %s))"


def ended(prefix: str) -> int:
    """How many keys that begin so are at their end."""
    live = ", ".join(map(str, LIVE))
    sql = f"SELECT count(*) FROM {KEYS} WHERE state NOT IN ({live}) AND {_OF_CALLS}"
    return int(_rows(sql, [f"key={prefix}%", f"{prefix}%"])[0][0])


def under_way(prefix: str) -> int:
    """How many calls of this run alone are sent and not at their end; at least how many keys are live.

    Keys of an earlier run may be pruned by now.
    """
    live = ", ".join(map(str, LIVE))
    unfinished = _rows(f"SELECT count(*) FROM {KEYS} WHERE state IN ({live})", [])[0][0]
    sent = _rows("SELECT count(DISTINCT work) FROM chaos_sent WHERE work LIKE %s", [f"{prefix}%"])[0][0]
    batches = f"SELECT count(*) FROM {BATCHES} WHERE state NOT IN (1, 2, 3) AND key_text LIKE %s"
    return max(int(unfinished), int(sent) - ended(prefix) - int(_rows(batches, [f"{prefix}%"])[0][0]))


def _keys(prefix: str) -> Iterator[tuple[str, Key]]:
    sql = f"SELECT key_text, state, token, attempts, crashes, duplicates FROM {KEYS} WHERE {_OF_CALLS}"
    for text, state, *figures in _rows(sql, [f"key={prefix}%", f"{prefix}%"]):
        yield text.removeprefix("key="), Key(STATES[state], *figures)


def _effects(like: list[str]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    sql = "SELECT work, part, count(*) FROM chaos_effect WHERE work LIKE %s GROUP BY work, part"
    for key, part, number in _rows(sql, like):
        found[key][part] = number
    return dict(found)


#: Of effects that were written in the transaction that completes their key.
_UNFENCED = (
    "SELECT e.work, e.token FROM chaos_effect e"
    f" JOIN {KEYS} k ON substr(k.key_text, {len('key=') + 1}) = e.work"
    " WHERE e.part = '' AND e.token <> k.token AND e.work LIKE %s"
)


def _ticks() -> dict[str, list[datetime]]:
    """The times that each periodic task has run for."""
    found: dict[str, list[datetime]] = defaultdict(list)
    for key, part in _rows("SELECT work, part FROM chaos_effect WHERE work LIKE %s", ["every %"]):
        found[key].append(datetime.fromisoformat(part))
    return {key: sorted(times) for key, times in found.items()}


def _rows(sql: str, parameters: list[str]) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [tuple(row) for row in cursor.fetchall()]
