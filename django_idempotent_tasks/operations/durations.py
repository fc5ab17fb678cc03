"""Sums runs, failures, duplicates and durations by task, from hourly counts and the keys made since then."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any, TypeAlias

from django.db.models import Max, QuerySet, Sum

from ..ledger.moments import database_now, shifted
from ..ledger.stores import LedgerStore
from ..ledger.values import TaskTotals, Times
from ..models import BOUNDS, COUNTED, HourlyCount
from .counts import CAP, Count

HOUR = timedelta(hours=1)
#: What one may look at.
SPANS = {"hour": HOUR, "day": timedelta(days=1), "week": timedelta(days=7)}
#: How many tasks are read, those with the most keys.
BUSIEST = 100

Buckets: TypeAlias = tuple[int, ...]

_ENDS = ("created", "succeeded", "failed", "duplicates", "crashes", "would_refuse")
_SUMMED = (*_ENDS, "run_count", "run_seconds", "wait_count", "wait_seconds")
_LATEST = ("run_max", "wait_max", "last_failure_at")


@dataclass(frozen=True, slots=True)
class Spread:
    """How long runs took or calls waited, in seconds; None where nothing was measured.

    ``p50`` and ``p95`` are estimated within a bucket of ``BOUNDS``; ``mean`` and ``longest`` are exact.
    """

    count: int
    p50: float | None
    p95: float | None
    mean: float | None
    longest: float | None

    def facts(self) -> dict[str, object]:
        """For JSON, times in seconds to the thousandth."""
        times = {"p50": self.p50, "p95": self.p95, "mean": self.mean, "max": self.longest}
        rounded = {name: None if value is None else round(value, 3) for name, value in times.items()}
        return {"count": self.count, **rounded}


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task over a span: ``runs`` are keys that ended with a result, as expected or as a dead letter.

    ``would_refuse`` are calls that ran in shadow mode, and are not among the ``duplicates``.
    """

    task: str
    runs: Count
    failed: Count
    duplicates: Count
    would_refuse: Count
    run: Spread
    wait: Spread
    last_failure_at: datetime | None


def by_task(store: LedgerStore, span: timedelta) -> list[TaskLine]:
    """The tasks with the most keys made within ``span``, the busiest first; five bounded statements at most.

    The last hour is read from the keys themselves, of which the newest 10,000: above that, counts say "at
    least", and times are those of these keys. A longer span adds the counted hours, and begins with a full
    one.
    """
    alias, now = store.connection.alias, database_now(store)
    since = shifted(now if span <= HOUR else floor(now), -span)
    found: dict[str, TaskTotals] = {}
    if span > HOUR:
        found = {totals.task: totals for totals in _counted(alias, since)}
        since = _counted_until(alias, since)
    present = store.totals_since(since, most=CAP + 1)
    for totals in present:
        known = found.get(totals.task)
        found[totals.task] = _sum(known, totals) if known else totals
    is_bound = sum(totals.created for totals in present) > CAP
    busiest = sorted(found.values(), key=lambda totals: (-totals.created, totals.task))
    return [_line(totals, is_bound=is_bound) for totals in busiest[:BUSIEST]]


def quantile(times: Times, part: float) -> float | None:
    """The seconds within which this part of all lies, from 0 to 1: estimated in a bucket; None of nothing."""
    rank, below = part * sum(times.buckets), 0
    if not rank:
        return None
    for lower, upper, count in zip((0.0, *BOUNDS), (*BOUNDS, times.longest), times.buckets, strict=True):
        if count and below + count >= rank:
            top = max(min(upper, times.longest), lower)
            return lower + (top - lower) * (rank - below) / count
        below += count
    return None


def floor(moment: datetime) -> datetime:
    """The full hour in which a moment is."""
    return moment.replace(minute=0, second=0, microsecond=0)


def _rows(alias: str, since: datetime) -> QuerySet[HourlyCount]:
    return HourlyCount.objects.using(alias).filter(hour__gte=since).exclude(task=COUNTED).order_by()


def _counted(alias: str, since: datetime) -> list[TaskTotals]:
    """The sums of the counted hours: of the busiest tasks, with their buckets."""
    totals: dict[str, Any] = {f"all_{name}": Sum(name) for name in _SUMMED}
    totals |= {f"all_{name}": Max(name) for name in _LATEST}
    rows: Any = _rows(alias, since)
    sums = rows.values("task").annotate(**totals).order_by("-all_created")[:BUSIEST]
    found = {row["task"]: {name: row[f"all_{name}"] for name in (*_SUMMED, *_LATEST)} for row in sums}
    buckets = _buckets(_rows(alias, since).filter(task__in=list(found)))
    return [_totals(task, columns, *buckets[task]) for task, columns in found.items()]


def _buckets(rows: QuerySet[HourlyCount]) -> dict[str, tuple[Buckets, Buckets]]:
    """The buckets of runs and of waits by task, summed; what an older version counted has none."""
    found: dict[str, tuple[Buckets, Buckets]] = defaultdict(lambda: ((), ()))
    for task, run, wait in rows.values_list("task", "run_buckets", "wait_buckets"):
        runs, waits = found[task]
        found[task] = (_beside(runs, _read(run)), _beside(waits, _read(wait)))
    return found


def _read(buckets: str | None) -> Buckets:
    """The counts of one column; none where it holds something else."""
    try:
        found = json.loads(buckets or "[]")
    except ValueError:
        return ()
    is_ours = isinstance(found, list) and len(found) == len(BOUNDS) + 1
    return tuple(found) if is_ours and all(isinstance(each, int) for each in found) else ()


def _beside(one: Buckets, other: Buckets) -> Buckets:
    return tuple(map(sum, zip_longest(one, other, fillvalue=0)))


def _totals(task: str, columns: dict[str, Any], run: Buckets, wait: Buckets) -> TaskTotals:
    times = [
        Times(columns[f"{kind}_count"], columns[f"{kind}_seconds"], columns[f"{kind}_max"], buckets)
        for kind, buckets in (("run", run), ("wait", wait))
    ]
    ends = {name: columns[name] for name in (*_ENDS, "last_failure_at")}
    return TaskTotals(task=task, run=times[0], wait=times[1], **ends)


def _counted_until(alias: str, since: datetime) -> datetime:
    """The end of the last counted hour, or ``since`` where none is counted."""
    marks = HourlyCount.objects.using(alias).filter(task=COUNTED, hour__gte=since)
    last = marks.aggregate(last=Max("hour"))["last"]
    return since if last is None else shifted(last, HOUR)


def _sum(one: TaskTotals, other: TaskTotals) -> TaskTotals:
    ends = {name: getattr(one, name) + getattr(other, name) for name in _ENDS}
    moments = [each.last_failure_at for each in (one, other) if each.last_failure_at]
    run, wait = _times(one.run, other.run), _times(one.wait, other.wait)
    return replace(one, **ends, run=run, wait=wait, last_failure_at=max(moments, default=None))


def _times(one: Times, other: Times) -> Times:
    return Times(
        one.count + other.count,
        one.seconds + other.seconds,
        max(one.longest, other.longest),
        _beside(one.buckets, other.buckets),
    )


def _line(totals: TaskTotals, *, is_bound: bool) -> TaskLine:
    return TaskLine(
        task=totals.task,
        runs=Count(totals.succeeded + totals.failed, is_bound),
        failed=Count(totals.failed, is_bound),
        duplicates=Count(totals.duplicates, is_bound),
        would_refuse=Count(totals.would_refuse, is_bound),
        run=_spread(totals.run),
        wait=_spread(totals.wait),
        last_failure_at=totals.last_failure_at,
    )


def _spread(times: Times) -> Spread:
    if not times.count:
        return Spread(0, None, None, None, None)
    mean = times.seconds / times.count
    return Spread(times.count, quantile(times, 0.5), quantile(times, 0.95), mean, times.longest)
