"""``idem workers``: prints the workers that live or were seen lately, and what each runs now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ...ledger.moments import exact
from ...ledger.stores import LedgerStore
from ...models import IdempotencyKey
from ...operations.text import listed, since, table
from ...operations.workers import LOOKED_AT, Overview, Working, overview, pid_of, silence
from ..cli.report import Options, Report, Say

_NONE = (
    "No worker has reported within an hour. A worker reports every 10 seconds; workers of earlier versions"
    " do not."
)


def show_workers(store: LedgerStore, _options: Options, _say: Say) -> Report:
    """Show the workers, at most :data:`LOOKED_AT`, and the keys that their processes hold."""
    seen = overview(store)
    facts = {
        "workers": [_facts(each, seen.now) for each in seen.workers],
        "unknown_workers_run": [_run(row, seen.now) for row in seen.strangers],
        "more": seen.is_part,
    }
    return Report(facts, list(_lines(seen)))


def _facts(each: Working, now: datetime) -> dict[str, object]:
    row = each.worker
    return {
        "name": row.name,
        "alive": each.is_alive,
        "host": row.host,
        "pid": row.pid,
        "pool": row.pool,
        "concurrency": row.concurrency,
        "queues": each.queues,
        "version": row.version,
        "started": row.started_at,
        "seen": row.seen_at,
        "stopped": row.stopped_at,
        "runs": [_run(key, now) for key in each.runs],
    }


def _run(row: IdempotencyKey, now: datetime) -> dict[str, object]:
    began = row.started_at or row.created_at
    return {
        "digest": row.digest,
        "task": row.task,
        "scope": row.scope,
        "key": row.key_text,
        "pid": pid_of(row.owner),
        "attempt": row.attempts,
        "seconds": round((exact(now) - exact(began)).total_seconds(), 1),
    }


def _lines(seen: Overview) -> Iterator[str]:
    head = ("worker", "pid", "pool", "queues", "up for", "runs", "version")
    yield from table([head, *(_worker(each, seen.now) for each in seen.workers)]) if seen.workers else [_NONE]
    runs = [_line(each.worker.name, row, seen.now) for each in seen.workers for row in each.runs]
    runs += [_line("unknown", row, seen.now) for row in seen.strangers]
    if runs:
        yield ""
        yield from table([("runs on", "pid", "for", "attempt", "task", "key", "digest"), *runs])
    if seen.is_part:
        yield f"There are more: {LOOKED_AT:,} workers and running keys are looked at."


def _worker(each: Working, now: datetime) -> tuple[object, ...]:
    row = each.worker
    name = f"{row.name} {silence(row, now)}".rstrip()
    pool = f"{row.pool} {row.concurrency}"
    queues = listed(each.queues) or "none"
    return (name, row.pid, pool, queues, since(row.started_at, now), len(each.runs), row.version)


def _line(name: str, row: IdempotencyKey, now: datetime) -> tuple[object, ...]:
    began = row.started_at or row.created_at
    facts = (row.attempts, row.task, row.key_text, row.digest)
    return (name, pid_of(row.owner) or "-", since(began, now), *facts)
