"""Counts the calls that wait in each queue, by a bounded look at their keys, and who takes them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..ledger.moments import exact
from ..models import IdempotencyKey
from ..states import State
from .counts import Count
from .waiting import FIRST, MESSAGES, TASKS, queue_of_key
from .workers import Working

#: How many queues are shown.
SHOWN = 50


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue: how many calls wait in it, the first since when, and how many living workers take it."""

    name: str
    waiting: Count
    oldest: datetime | None
    workers: int


class _Call(NamedTuple):
    digest: UUID
    task: str
    since: datetime


def queues(alias: str, working: Iterable[Working], now: datetime) -> list[QueueLine]:
    """The queues with waiting calls, the longest first, then those that only have workers; three statements.

    A call waits whose message is out, and whose time has come. The queue of each is told from a few
    messages of its task.
    """
    consumers = Counter(name for each in working if each.is_alive for name in each.queues)
    calls, is_part = _waiting(alias, now)
    numbers, oldest = Counter[str](), dict[str, datetime]()
    for name, found in _by_queue(alias, calls):
        numbers[name] += len(found)
        first = min((each.since for each in found), key=exact)
        oldest[name] = min(oldest.get(name, first), first, key=exact)
    names = sorted({*numbers, *consumers}, key=lambda name: (-numbers[name], name))
    return [
        QueueLine(name, Count(numbers[name], is_part and name in numbers), oldest.get(name), consumers[name])
        for name in names[:SHOWN]
    ]


def _waiting(alias: str, now: datetime) -> tuple[list[_Call], bool]:
    """The calls that wait, of those that are due first, and whether there may be more."""
    calls, is_part = list[_Call](), False
    for state in (State.PENDING, State.RETRY):
        rows = IdempotencyKey.objects.using(alias).filter(state=state).order_by("due_at")
        found = list(rows.values_list("digest", "task", "created_at", "open_at", "sends")[:FIRST])
        is_part |= len(found) == FIRST
        for digest, task, created, opens, sends in found:
            since = created if state is State.PENDING else opens
            if sends >= 0 and since is not None and exact(since) <= exact(now):
                calls.append(_Call(digest, task, since))
    return calls, is_part


def _by_queue(alias: str, calls: Sequence[_Call]) -> Iterator[tuple[str, list[_Call]]]:
    """The calls of each task with their queue: where a task uses several, only those that were read."""
    by_task = defaultdict(list)
    for call in calls:
        by_task[call.task].append(call)
    tasks = sorted(by_task, key=lambda task: -len(by_task[task]))[:TASKS]
    sampled = {call.digest: call for task in tasks for call in by_task[task][:MESSAGES]}
    rows = IdempotencyKey.objects.using(alias).filter(digest__in=list(sampled)).only("task", "message")
    named = {row.pk: queue_of_key(row) for row in (rows if sampled else ())}
    for task in tasks:
        seen = {call: named.get(call.digest) for call in by_task[task][:MESSAGES]}
        for name in {*seen.values()} - {None}:
            is_only = len({*seen.values()}) == 1
            yield str(name), by_task[task] if is_only else [call for call in seen if seen[call] == name]
