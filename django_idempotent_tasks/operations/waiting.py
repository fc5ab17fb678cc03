"""Finds work that waits for no living worker: in queues that nobody consumes, or for unknown tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from celery import current_app

from ..ledger.moments import exact, shifted
from ..messages.message import Message
from ..messages.queues import queue_of
from ..models import IdempotencyKey, Pause, Worker
from ..states import State
from .counts import Count
from .sentences import waits_for_its_eta
from .tasks import known_task
from .workers import LOOKED_AT, SILENT_AFTER, instance_of, names_in

#: For how long a call waits whose message is out, before it is asked who would take it.
LATE = timedelta(minutes=1)
#: How many waiting keys are looked at: those whose look by the sweeper is due first, and last.
FIRST, LAST = 2000, 500
#: How many tasks are looked at, and of how many calls of each the message is read.
TASKS, MESSAGES = 20, 5
_COLUMNS = ("digest", "task", "scope", "created_at", "open_at", "sends")


@dataclass(frozen=True, slots=True)
class Workforce:
    """What the living workers consume and know, together.

    Not ``is_whole``: not every worker writes of itself, for one holds a lease that no written row explains,
    what one has written cannot be read, or none has ever written. Then nobody can say what no worker does.
    """

    is_whole: bool
    lives: bool = False
    queues: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()

    def knows(self, task: str) -> bool:
        """Whether a living worker knows the task, or may."""
        return not self.is_whole or not self.lives or task in self.tasks

    def consumes(self, queue: str) -> bool:
        """Whether a living worker takes messages from the queue, or may."""
        return not self.is_whole or not self.lives or queue in self.queues


@dataclass(frozen=True, slots=True)
class Unserved:
    """Keys that wait in vain: for a worker that knows the task ``name``, or consumes the queue ``name``."""

    name: str
    tasks: tuple[str, ...]
    count: Count
    since: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits in vain; ``nobody`` are keys that wait while no worker lives at all."""

    queues: list[Unserved] = field(default_factory=list)
    tasks: list[Unserved] = field(default_factory=list)
    nobody: Count = field(default_factory=lambda: Count(0))


@dataclass(frozen=True, slots=True)
class _Paused:
    """The tasks that are paused, each for a scope or "" for all, and when the first of what waits is due."""

    tasks: frozenset[tuple[str, str]]
    held_at: datetime | None

    @classmethod
    def of(cls, rows: Sequence[Pause], now: datetime) -> _Paused:
        active = [row for row in rows if row.resumed_at is None and exact(row.until) > exact(now)]
        tasks = frozenset((row.task, row.scope) for row in active)
        return cls(tasks, min((row.held_at for row in rows), key=exact, default=None))

    def has(self, task: str, scope: str | None) -> bool:
        return not self.tasks.isdisjoint({(task, ""), (task, scope or "")})


class _Late(NamedTuple):
    digest: UUID
    task: str
    since: datetime
    sends: int


def workforce(alias: str, now: datetime) -> Workforce:
    """What the living workers consume and know, by at most three queries of bounded size."""
    rows = Worker.objects.using(alias)
    if not rows.exists() or _has_strangers(alias, now):
        return Workforce(is_whole=False)
    alive = rows.filter(seen_at__gt=shifted(now, -SILENT_AFTER), stopped_at__isnull=True)
    told = list(alive.values_list("queues", "tasks").distinct()[:LOOKED_AT])
    queues, tasks = ([names_in(row[place]) for row in told] for place in (0, 1))
    if None in queues or None in tasks:
        return Workforce(is_whole=False)
    return Workforce(is_whole=True, lives=bool(told), queues=_all(queues), tasks=_all(tasks))


def _all(lists: Iterable[Iterable[str] | None]) -> frozenset[str]:
    return frozenset(chain.from_iterable(each or () for each in lists))


def waiting(alias: str, now: datetime, paused: Sequence[Pause] = ()) -> Waiting:
    """What waits for over a minute for no living worker; nothing where that cannot be known.

    Calls of a task that is ``paused``, or that wait for the end of a pause, wait for no worker.
    """
    force = workforce(alias, now)
    late = _late(alias, now, _Paused.of(paused, now)) if force.is_whole else {}
    if not late:
        return Waiting()
    if not force.lives:
        return Waiting(nobody=Count(sum(map(len, late.values()))))
    unknown, unserved = list[Unserved](), defaultdict[str, list[Unserved]](list)
    for task, rows in late.items():
        seen = _sampled(alias, task, rows, now)
        if not seen:
            continue
        if not force.knows(task):
            unknown.append(_unserved(task, task, rows, len(seen)))
            continue
        for queue in {queue for queue in seen if queue is not None and not force.consumes(queue)}:
            unserved[queue].append(_unserved(queue, task, rows, seen.count(queue)))
    return Waiting([_together(name, found) for name, found in sorted(unserved.items())], unknown)


def queue_of_key(row: IdempotencyKey) -> str | None:
    """The queue to which the call of a key was, or would be sent; None where only the broker knows."""
    try:
        message = Message.decode(row.task, row.message or "")
    except ValueError:
        message = Message(row.task, (), {}, {})
    if message.options.get("queue") is None and message.options.get("exchange"):
        return None
    known_task(row.task)  # imports the tasks, as their workers did: they may name a queue
    try:
        return queue_of(current_app, message)
    except Exception:  # noqa: BLE001  a router is the project's own
        return None


def is_sent_only(row: IdempotencyKey) -> bool:
    """Whether the task is not ours, so that no worker claims the key."""
    try:
        return Message.decode(row.task, row.message or "").is_sent_only
    except ValueError:
        return False


def _has_strangers(alias: str, now: datetime) -> bool:
    """Whether a living process holds a key whose worker has never written: one of an older version."""
    held = IdempotencyKey.objects.using(alias).filter(state=State.RUNNING, due_at__gt=now).order_by("due_at")
    owners = held.values_list("owner", flat=True)[:LOOKED_AT]
    instances = {instance_of(owner) for owner in owners if owner}
    if not instances:
        return False
    known = Worker.objects.using(alias).filter(instance__in=instances).values_list("instance", flat=True)
    return bool(instances - set(known))


def _late(alias: str, now: datetime, paused: _Paused) -> dict[str, list[_Late]]:
    """The keys whose message has been out for over a minute and was taken by nobody, by their task."""
    late, found = shifted(now, -LATE), dict[UUID, _Late]()
    for state in (State.PENDING, State.RETRY):
        for digest, task, scope, created, opens, sends in _looked_at(alias, state, paused):
            since = created if state is State.PENDING else opens
            if (
                sends >= 0
                and not paused.has(task, scope)
                and since is not None
                and exact(since) <= exact(late)
            ):
                found[digest] = _Late(digest, task, since, sends)
    by_task = defaultdict(list)
    for each in sorted(found.values(), key=lambda each: (-each.sends, exact(each.since))):
        by_task[each.task].append(each)
    return dict(list(by_task.items())[:TASKS])


def _looked_at(alias: str, state: State, paused: _Paused) -> Iterator[tuple[Any, ...]]:
    """The keys that are due first, and those that are due last before what waits for the end of a pause."""
    rows = IdempotencyKey.objects.using(alias).filter(state=state).values_list(*_COLUMNS)
    first = list(rows.order_by("due_at")[:FIRST])
    yield from first
    if len(first) == FIRST:
        last = rows.filter(due_at__lt=paused.held_at) if paused.held_at else rows.filter(due_at__isnull=False)
        yield from last.order_by("-due_at")[:LAST]


def _sampled(alias: str, task: str, rows: list[_Late], now: datetime) -> list[str | None]:
    """The queues of a few of these keys, without those that wait for their ETA or for no worker."""
    digests = [each.digest for each in rows[:MESSAGES]]
    keys = IdempotencyKey.objects.using(alias).filter(digest__in=digests).only("task", "message")
    seen = [row for row in keys if not waits_for_its_eta(row, now) and not is_sent_only(row)]
    return [queue_of_key(row) for row in seen if row.task == task]


def _unserved(name: str, task: str, rows: list[_Late], seen: int) -> Unserved:
    """So many of the rows that were read are such keys: all are where all that were read are."""
    is_all = seen == min(len(rows), MESSAGES)
    count = Count(len(rows)) if is_all else Count(seen, is_bound=len(rows) > MESSAGES)
    return Unserved(name, (task,), count, min((each.since for each in rows), key=exact))


def _together(name: str, found: list[Unserved]) -> Unserved:
    tasks = tuple(sorted({task for each in found for task in each.tasks}))
    number = sum(each.count.number for each in found)
    count = Count(number, is_bound=any(each.count.is_bound for each in found))
    return Unserved(name, tasks, count, min((each.since for each in found), key=exact))
