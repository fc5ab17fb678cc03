"""Checks of what the workers answered, and of what did not answer at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...identity.text import harmless
from ..text import listed
from .check import Catalogue, Severity

workers = Catalogue("Workers")
answers = Catalogue("Answers")


@dataclass(frozen=True, slots=True)
class Workers:
    """What each worker answered, by its name.

    ``routed`` are the queues that the project's tasks go to, each with the names of those tasks.
    """

    queues: Mapping[str, list[str]] = field(default_factory=dict)
    tasks: Mapping[str, set[str]] = field(default_factory=dict)
    pools: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    routed: Mapping[str, list[str]] = field(default_factory=dict)
    has_limits: bool = False


@answers.check(
    "D001",
    Severity.ERROR,
    finds="a broker that does not answer (live)",
    why="Nothing can be sent or received.",
    remedy="Check that the broker runs, and that this host reaches it with the user of broker_url.",
)
def _has_no_broker(silent: Mapping[str, str]) -> Iterator[str]:
    if "broker" in silent:
        yield silent["broker"]


@answers.check(
    "D002",
    Severity.ERROR,
    finds="a database of the ledger that does not answer (live)",
    why="No guarded task can begin or end.",
    remedy="Check that the database runs, that this host reaches it, and that 'manage.py migrate' was run.",
)
def _has_no_database(silent: Mapping[str, str]) -> Iterator[str]:
    if "database" in silent:
        yield silent["database"]


@answers.check(
    "D003",
    Severity.WARNING,
    finds="something else that could not be asked (live)",
    why="The doctor cannot judge what it cannot see.",
    remedy="Ask again when the machine is less busy; check that remote control of the workers is on.",
)
def _was_not_asked(silent: Mapping[str, str]) -> Iterator[str]:
    for name, problem in silent.items():
        if name not in {"broker", "database"}:
            yield f"{name}: {problem}"


@workers.check(
    "D011",
    Severity.ERROR,
    finds="no worker that answers",
    why="Nothing runs, or remote control is off (worker_enable_remote_control), so that nobody can look.",
    remedy="Start workers; 'celery inspect ping' asks the same.",
)
def _is_nobody(seen: Workers) -> Iterator[str]:
    if not seen.queues:
        yield "No worker answered."


@workers.check(
    "D012",
    Severity.ERROR,
    finds="a queue that tasks are routed to and no worker consumes",
    why="Their messages wait for ever.",
    remedy="Start a worker with -Q for the queue, or route the tasks elsewhere.",
)
def _is_not_consumed(seen: Workers) -> Iterator[str]:
    consumed = {name for queues in seen.queues.values() for name in queues}
    for queue, tasks in sorted(seen.routed.items()):
        if seen.queues and queue not in consumed:
            yield f"{harmless(queue)!r} has no consumer, for {listed(tasks)}."


@workers.check(
    "D013",
    Severity.ERROR,
    finds="a worker that answers and consumes no queue",
    why="It looks alive to every probe that pings, and takes no message: after a lost connection, or because"
    " somebody took its queues away.",
    remedy="Restart it, and let 'idem health worker' watch it.",
)
def _takes_nothing(seen: Workers) -> Iterator[str]:
    for name, queues in sorted(seen.queues.items()):
        if not queues:
            yield f"{harmless(name)} consumes nothing."


@workers.check(
    "D014",
    Severity.ERROR,
    finds="a task that a worker of its queue does not know",
    why="The worker ends its messages without running them: a deployment is half done, or a module is not"
    " imported there. Guarded ones end as dead letters.",
    remedy="Deploy the same version everywhere, or name the module in imports.",
)
def _is_not_known(seen: Workers) -> Iterator[str]:
    for name, queues in sorted(seen.queues.items()):
        due = {task for queue in queues for task in seen.routed.get(queue, ())}
        missing = sorted(due - seen.tasks[name]) if name in seen.tasks else []
        if missing:
            yield f"{harmless(name)} does not know {listed(missing)}."


@workers.check(
    "D015",
    Severity.WARNING,
    finds="workers with different versions of Celery, kombu or Python",
    why="A deployment is half done, or an old worker was forgotten.",
    remedy="Restart the workers that are behind.",
)
def _differ(seen: Workers) -> Iterator[str]:
    if len(set(seen.versions.values())) > 1:
        told = (f"{harmless(name)}: {harmless(text)}" for name, text in sorted(seen.versions.items()))
        yield f"{'; '.join(told)}."


@workers.check(
    "D016",
    Severity.WARNING,
    finds="time limits with a pool that does not keep them (threads, solo, gevent)",
    why="A body that hangs holds its key and its thread for ever.",
    remedy="Use the prefork pool for tasks that may hang, or give each call inside the body a timeout.",
)
def _keeps_no_limit(seen: Workers) -> Iterator[str]:
    for name, pool in sorted(seen.pools.items()):
        if seen.has_limits and "prefork" not in pool:
            yield f"{harmless(name)} runs {harmless(pool)}."
