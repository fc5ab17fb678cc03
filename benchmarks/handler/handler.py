"""What a task costs in the process that runs it: Celery's own tracer, call after call, without a queue."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any
from uuid import uuid4

from celery.app.trace import build_tracer
from celery.utils import uuid

from benchmarks.figures.arithmetic import alternating
from benchmarks.machine.celery import app
from benchmarks.throughput.fleet import BrokenBenchmark
from benchmarks.throughput.rounds import NOTE
from django_idempotent_tasks.identity.key import identify
from django_idempotent_tasks.messages.header import to_header
from django_idempotent_tasks.messages.message import HEADER

COMPLETES = "benchmarks.throughput.guarded.completes"
ATOMIC = "benchmarks.throughput.guarded.atomic"
WARM_UP = 20
#: Calls of one kind in a row that are timed, after so many that are not: the package expects of a task's next
#: call what the last two were, a duplicate or a new key, and pays a statement where it expects the wrong one.
LEAD_IN = 2
IN_A_ROW = 3

Tracer = Callable[..., Any]


@dataclass(frozen=True)
class Handler:
    """One way to call a task: a known key is completed, a known id is that of the call that completed it."""

    label: str
    title: str
    task: str
    #: The label of the run of a new key that a duplicate is compared with.
    fresh: str = ""
    known_key: bool = False
    known_id: bool = False
    redelivered: bool = False


PLAIN = Handler("plain", "plain", "benchmarks.throughput.plain.write")


def _duplicates(mode: str, task: str, fresh: str) -> tuple[Handler, ...]:
    def known(label: str, title: str, *, known_id: bool = False, redelivered: bool = True) -> Handler:
        return Handler(
            f"{label}-{mode}",
            f"{mode}, {title}",
            task,
            fresh,
            known_key=True,
            known_id=known_id,
            redelivered=redelivered,
        )

    return (
        known("dup", "duplicate", redelivered=False),
        known("dup-redelivered", "duplicate, redelivered"),
        known("again", "the same task id, redelivered", known_id=True),
    )


HANDLERS = (
    PLAIN,
    Handler("atomic", "atomic", ATOMIC),
    Handler("atomic-result", "atomic, a small result", "benchmarks.throughput.guarded.atomic_result"),
    Handler("atomic-redelivered", "atomic, a new key, redelivered", ATOMIC, redelivered=True),
    Handler("complete", "leased, .complete()", COMPLETES),
    Handler("return", "leased, returns", "benchmarks.throughput.guarded.returns"),
    Handler("result", "leased, returns a small result", "benchmarks.throughput.guarded.returns_result"),
    *_duplicates("atomic", ATOMIC, "atomic"),
    *_duplicates("leased", COMPLETES, "complete"),
)


class Bench:
    """Calls tasks in this process, on its own connection, which stays open.

    ``around`` may put something around each of Celery's tracers.
    """

    def __init__(self, around: Callable[[Tracer], Tracer] = lambda tracer: tracer) -> None:
        self._around = around
        self._tracers: dict[str, Tracer] = {}
        self._batch = f"handler-{uuid4().hex[:8]}"
        # A redelivered new key is told as taken over: here there are hundreds.
        logging.getLogger("django_idempotent_tasks").setLevel(logging.ERROR)
        self._known_id = uuid()
        self._number = 0
        for task in (COMPLETES, ATOMIC):
            self._trace(task, 0, self._known_id, redelivered=False)

    def call(self, handler: Handler) -> int:
        """Call once; the nanoseconds that it took. Raises BrokenBenchmark when the task fails."""
        self._number += 1
        number = 0 if handler.known_key else self._number
        task_id = self._known_id if handler.known_id else uuid()
        return self._trace(handler.task, number, task_id, redelivered=handler.redelivered)

    def timed(self, rounds: int) -> dict[str, list[int]]:
        """Call every handler some times a round, in a row; the nanoseconds of each call, by label."""
        taken: dict[str, list[int]] = {handler.label: [] for handler in HANDLERS}
        by_label = {handler.label: handler for handler in HANDLERS}
        for order in alternating(list(by_label), (WARM_UP + rounds) // IN_A_ROW):
            for label in order:
                self.lead_in(by_label[label])
                taken[label] += [self.call(by_label[label]) for _ in range(IN_A_ROW)]
        return {label: times[WARM_UP:] for label, times in taken.items()}

    def lead_in(self, handler: Handler) -> None:
        """Call some times, so that the next calls are in a row of their kind."""
        for _ in range(LEAD_IN):
            self.call(handler)

    def stored_message(self) -> int:
        """How many characters of message are stored with a claim of these tasks."""
        return int(self._traced("benchmarks.throughput.guarded.weighs", 1, uuid(), redelivered=False)[0])

    def _trace(self, name: str, number: int, task_id: str, *, redelivered: bool) -> int:
        return self._traced(name, number, task_id, redelivered=redelivered)[1]

    def _traced(self, name: str, number: int, task_id: str, *, redelivered: bool) -> tuple[Any, int]:
        arguments = {"batch": self._batch, "number": number, "note": NOTE}
        request = _request(name, arguments, task_id, redelivered=redelivered)
        tracer = self._tracer(name)
        began = perf_counter_ns()
        traced = tracer(task_id, (), arguments, request)
        taken = perf_counter_ns() - began
        if traced.info is not None:
            raise BrokenBenchmark(f"{name} ended with {traced.retval!r}")
        return traced.retval, taken

    def _tracer(self, name: str) -> Tracer:
        if name not in self._tracers:
            self._tracers[name] = self._around(build_tracer(name, app.tasks[name], app=app))
        return self._tracers[name]


def _request(name: str, arguments: dict[str, Any], task_id: str, *, redelivered: bool) -> dict[str, Any]:
    """What a worker makes of a message: its headers, the arguments, and where it came from."""
    message = app.amqp.create_task_message(task_id, name, (), arguments)
    request = {**message.headers, "args": [], "kwargs": arguments, "hostname": "handler@benchmarks"}
    request["delivery_info"] = {
        "exchange": "",
        "routing_key": "benchmarks",
        "priority": 0,
        "redelivered": redelivered,
    }
    policy = getattr(app.tasks[name], "idempotency_policy", None)
    if policy is not None:
        identity = identify(name, policy.key_rules, (), arguments, task_id=task_id)
        request[HEADER] = to_header(identity, task_name=name, task_id=task_id)
    return request
