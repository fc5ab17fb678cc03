"""A table on which so many tasks a second are claimed and completed, and as many old keys deleted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.claims.tables import FEW, SIZES, TABLE, execute
from benchmarks.reserve.pruned import p99
from benchmarks.rows.verbs import PRUNED, claim, complete, prune, sweep
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.states import Reason, State
from tests.support.ledger.statements import postgresql_pages

#: Tasks a second: a second's claims are one statement, and so are its completions.
RATE = 2_000
#: Single claims with their completions that are timed in each second.
TIMED = 20

#: Parameters of the table by what is tried.
WAYS: dict[str, dict[str, str]] = {
    "the server's defaults": {},
    "fillfactor 80": {"fillfactor": "80"},
    "vacuum at 1 %": {"autovacuum_vacuum_scale_factor": "0.01"},
    "vacuum at 1 %, with its indexes": {
        "autovacuum_vacuum_scale_factor": "0.01",
        "vacuum_index_cleanup": "on",
    },
}

#: By the clock, so that no two keys are due at one moment: an index would store them as one.
CLAIM = f"""
INSERT INTO {TABLE} (digest, due_at, open_at, created_at, started_at, token, generation, lease_seconds,
  duplicates, state, reason, attempts, crashes, sends, in_external, task, key_text, task_id, owner, message)
SELECT gen_random_uuid(), at + interval '60 s', at + interval '60 s', at, at, 1, 1, 60,
  0, {State.RUNNING}, 0, 1, 0, 0, false, 'shop.tasks.charge', 'order_id=' || n, gen_random_uuid()::text,
  md5('worker') || ':4242:' || substr(md5(n::text), 1, 16), repeat('m', 600)
  FROM (SELECT n, clock_timestamp() AS at FROM generate_series(1, %(rate)s) AS n) AS numbered RETURNING digest
"""  # noqa: S608  our own names

COMPLETE = f"""
UPDATE {TABLE} SET reason = {Reason.DONE}, message = NULL, finished_at = clock_timestamp(),
       open_at = clock_timestamp() + interval '7 days', due_at = clock_timestamp() + interval '7 days',
       state = {State.SUCCEEDED}
 WHERE digest = ANY(%(digests)s)
"""  # noqa: S608

COUNTERS = """
SELECT n_tup_upd, n_tup_hot_upd, n_dead_tup, autovacuum_count FROM pg_stat_user_tables
 WHERE relname = %(table)s
"""


@dataclass
class Lasted:
    """Milliseconds of each look of the sweeper, each prune and each timed task, in their order."""

    sweeps: list[float] = field(default_factory=list)
    prunes: list[float] = field(default_factory=list)
    tasks: list[float] = field(default_factory=list)


def steady(parameters: dict[str, str], seconds: int) -> dict[str, Any]:
    """Run with these parameters, from a vacuumed table without live keys on; what it shows."""
    execute(FEW, f"DELETE FROM {TABLE} WHERE state <> {State.SUCCEEDED}")  # noqa: S608  our own names
    set_parameters(parameters)
    execute(FEW, f"VACUUM (INDEX_CLEANUP ON, ANALYZE) {TABLE}")
    pages = postgresql_pages(sweep), postgresql_pages(prune)
    sizes, (updates, hot, _dead, vacuums) = megabytes(), _counters()
    lasted = _run(seconds)
    grown, counters = megabytes(), _counters()
    return {
        "tasks": seconds * RATE,
        "updates in place, %": round(100 * (counters[1] - hot) / max(counters[0] - updates, 1), 1),
        "dead rows at the end": counters[2],
        "vacuums": counters[3] - vacuums,
        "table grew, MB": round(grown[TABLE] - sizes[TABLE]),
        "indexes grew, MB": round(sum(grown.values()) - sum(sizes.values()) - grown[TABLE] + sizes[TABLE]),
        "pages of an idle sweep": f"{pages[0]} -> {postgresql_pages(sweep)}",
        f"pages of a prune of {PRUNED}": f"{pages[1]} -> {postgresql_pages(prune)}",
        "idle sweep, ms": _thirds(lasted.sweeps),
        f"prune of {PRUNED}, ms": _thirds(lasted.prunes),
        "task, median ms": round(median(lasted.tasks), 2),
        "task, p99 ms": round(p99(lasted.tasks), 2),
    }


def set_parameters(parameters: dict[str, str]) -> None:
    """Give the table these parameters and no others."""
    names = sorted({name for way in WAYS.values() for name in way})
    execute(FEW, f"ALTER TABLE {TABLE} RESET ({', '.join(names)})")
    if parameters:
        wanted = ", ".join(f"{name} = {value}" for name, value in parameters.items())
        execute(FEW, f"ALTER TABLE {TABLE} SET ({wanted})")


def megabytes() -> dict[str, float]:
    """The size of the table and of each of its indexes."""
    return {name: float(size) for name, size in execute(FEW, SIZES, table=TABLE)}


def _run(seconds: int) -> Lasted:
    lasted, running, began = Lasted(), _claimed(), time.perf_counter()
    for second in range(seconds):
        claimed = _claimed()
        _with_digests(COMPLETE, running)
        running = claimed
        for _ in range(RATE // PRUNED):
            lasted.prunes.append(_milliseconds(lambda: prune(get_store())))
        lasted.sweeps.append(_milliseconds(lambda: sweep(get_store())))
        lasted.tasks += [_milliseconds(lambda: complete(claim(get_store()))) for _ in range(TIMED)]
        time.sleep(max(began + second + 1 - time.perf_counter(), 0.0))
    _with_digests(COMPLETE, running)
    return lasted


def _claimed() -> list[Any]:
    return [digest for (digest,) in execute(FEW, CLAIM, rate=RATE)]


def _with_digests(statement: str, digests: list[Any]) -> None:
    execute(FEW, statement, digests=digests)


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - began)


def _counters() -> tuple[int, ...]:
    execute(FEW, "SELECT pg_stat_force_next_flush()")
    return tuple(execute(FEW, COUNTERS, table=TABLE)[0])


def _thirds(values: list[float]) -> str:
    """The medians of the first and of the last third."""
    third = max(len(values) // 3, 1)
    return f"{median(values[:third]):.2f} -> {median(values[-third:]):.2f}"
