"""``idem tasks``: prints each task's runs, failures, duplicates, and how long its runs and waits took."""

from __future__ import annotations

from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...operations.durations import SPANS, Spread, TaskLine, by_task
from ...operations.text import brief, since, table
from ..cli.report import Options, Report, Say

_HEAD = (
    "task",
    "runs",
    "failed",
    "duplicates",
    "would refuse",
    "run p50",
    "run p95",
    "run max",
    "wait p50",
    "wait p95",
    "failed last, ago",
)


def tasks(store: LedgerStore, options: Options, _say: Say) -> Report:
    """The busiest tasks of an hour, a day or a week; exit code 0."""
    over = options["over"]
    now, lines = database_now(store), by_task(store, SPANS[over])
    shown = table([_HEAD, *((*_row(line), since(line.last_failure_at, now)) for line in lines)])
    empty = [f"No key was made in the last {over}."]
    return Report({"over": over, "tasks": [_facts(line) for line in lines]}, shown if lines else empty)


def _row(line: TaskLine) -> tuple[object, ...]:
    times = (line.run.p50, line.run.p95, line.run.longest, line.wait.p50, line.wait.p95)
    return (line.task, line.runs, line.failed, line.duplicates, line.would_refuse, *map(brief, times))


def _facts(line: TaskLine) -> dict[str, object]:
    counts = {"runs": line.runs, "failed": line.failed, "duplicates": line.duplicates}
    counts["would_refuse"] = line.would_refuse
    spreads: dict[str, Spread] = {"run_seconds": line.run, "wait_seconds": line.wait}
    return {
        "task": line.task,
        **{name: count.facts() for name, count in counts.items()},
        **{name: spread.facts() for name, spread in spreads.items()},
        "last_failure_at": line.last_failure_at,
    }
