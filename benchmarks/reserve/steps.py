"""Takes a send apart, step by step: a plain one, one with ``reserve=True``, and a refused duplicate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from statistics import median
from time import perf_counter_ns, thread_time_ns
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from kombu.messaging import Producer
from psycopg import Connection
from redis.connection import AbstractConnection

from benchmarks.figures.arithmetic import alternating
from benchmarks.figures.table import figure, render
from benchmarks.profiling.steps import timed
from benchmarks.profiling.stopwatch import Stopwatch
from benchmarks.reserve import producers
from benchmarks.reserve.producers import DUPLICATE, PLAIN, RESERVED, Send
from django_idempotent_tasks.ledger import following
from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.messages.relay import Relay
from django_idempotent_tasks.sending import send

#: In the order of a send. The first is what no other step is: Celery's `apply_async` and Django's `atomic()`.
REST = "the rest: Celery, Django"
LABELS = (
    REST,
    "business row",
    "business row, statement",
    "BEGIN",
    "preparation",
    "reservation",
    "reservation, statement",
    "audit row",
    "audit row, statement",
    "COMMIT",
    "publish",
    "publish, Redis",
)
PLACES: tuple[tuple[Any, str, str], ...] = (
    (producers, "write_row", "business row"),
    (send, "prepared", "preparation"),
    (following, "accept", "reservation"),
    (Ledger, "refuse", "audit row"),
    (Relay, "send", "publish"),
    (Producer, "publish", "publish"),
    (CursorWrapper, "execute", ", statement"),
    (BaseDatabaseWrapper, "commit", "COMMIT"),
    (Connection, "_start_query", "BEGIN"),  # psycopg's own, see profiling/steps.py
    (AbstractConnection, "send_packed_command", ", Redis"),
    (AbstractConnection, "read_response", ", Redis"),
)
SHOWN = (PLAIN, RESERVED, DUPLICATE)
CLOCKS = {"by the clock": perf_counter_ns, "of this process's processor time": thread_time_ns}
#: Calls of one way in a row that are timed, after so many that are not: the package expects of a task's next
#: call what the last ones were, a new key or a duplicate.
LEAD_IN, IN_A_ROW = 5, 10
WARM_UP = 2

#: For each way the median of each step in microseconds.
Steps = dict[str, dict[str, float]]


def steps_of(sends: Mapping[str, Send], calls: int) -> dict[str, Steps]:
    """What the steps of a send take, in microseconds by both clocks: medians of as many calls of each way."""
    numbers = count(10_000_000)  # new ones for each clock: a number that was sent before is a duplicate
    return {title: _taken(sends, calls, clock, numbers) for title, clock in CLOCKS.items()}


def _taken(sends: Mapping[str, Send], calls: int, clock: Callable[[], int], numbers: Iterator[int]) -> Steps:
    stopwatch = Stopwatch(clock)
    taken: dict[str, list[dict[str, int]]] = defaultdict(list)
    with timed(stopwatch, PLACES):
        ways = {name: stopwatch.timed(sends[name], REST) for name in SHOWN}
        for order in alternating(list(SHOWN), WARM_UP + calls // IN_A_ROW):
            for name in order:
                for call in range(LEAD_IN + IN_A_ROW):
                    stopwatch.take()
                    ways[name](next(numbers))
                    if call >= LEAD_IN:
                        taken[name].append(dict(stopwatch.take()))
    return {name: _medians(each[WARM_UP * IN_A_ROW :]) for name, each in taken.items()}


def _medians(calls: list[dict[str, int]]) -> dict[str, float]:
    steps = {label: median(call.get(label, 0) for call in calls) / 1000 for label in LABELS}
    return steps | {"all": median(sum(call.values()) for call in calls) / 1000}


def tables(found: Mapping[str, Steps]) -> str:
    """One table for each clock."""
    return "\n\n".join(
        f"One send, step by step, us {title}\n\n{_table(steps)}" for title, steps in found.items()
    )


def _table(steps: Steps) -> str:
    rows = [
        [label, *(figure(steps[name][label]) if steps[name][label] else "" for name in SHOWN)]
        for label in (*LABELS, "all")
    ]
    return render(("step", *SHOWN), rows)
