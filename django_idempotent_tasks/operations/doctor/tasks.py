"""Checks of what tasks say to Celery: acknowledgement, limits, retries and routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...identity.text import harmless
from ..text import listed
from .check import Catalogue, Severity
from .project import Project

tasks = Catalogue("Tasks")


def names(tasks: Iterable[Any]) -> Iterator[str]:
    """The names of tasks as one text; nothing without any."""
    found = [str(task.name) for task in tasks]
    if found:
        yield listed(found)


@tasks.check(
    "D201",
    Severity.ERROR,
    finds="a guarded task with `acks_late = False`",
    why="Its message is gone before its body runs: nothing brings back the work of a worker that dies.",
    remedy="Take acks_late off the task and off task_annotations; IdempotentTask sets it.",
)
def _acks_early(project: Project) -> Iterator[str]:
    for text in names(task for task in project.guarded if not task.acks_late):
        yield f"acks_late is False on {text}."


@tasks.check(
    "D202",
    Severity.ERROR,
    finds="a guarded task with `reject_on_worker_lost = False`",
    why="Celery acknowledges the message of a pool child that was killed, and the work is not delivered"
    " again.",
    remedy="Take reject_on_worker_lost off the task and off task_annotations; IdempotentTask sets it.",
)
def _keeps_no_message(project: Project) -> Iterator[str]:
    lost = (task for task in project.guarded if not (task.reject_on_worker_lost or _retries_lost(task)))
    for text in names(lost):
        yield f"reject_on_worker_lost is False on {text}."


@tasks.check(
    "D203",
    Severity.WARNING,
    finds="a plain task whose message comes back for ever when its child is killed or reaches its limit",
    why="A body that kills its child (out of memory) is run again without end: nothing counts its deaths.",
    remedy="Give it base=IdempotentTask, which counts them, or set task_retry_on_worker_lost (Celery 5.7), or"
    " take task_reject_on_worker_lost off it; leave acks_on_timeout at True.",
)
def _comes_back(project: Project) -> Iterator[str]:
    guarded = {task.name for task in project.guarded}
    plain = (task for task in project.tasks if task.name not in guarded and task.acks_late)
    endless = (
        task
        for task in plain
        if (task.reject_on_worker_lost and not _retries_lost(task))
        or getattr(task, "acks_on_timeout", True) is False
    )
    for text in names(endless):
        yield f"{text}: late acknowledgement, and its message goes back whenever its child is lost."


@tasks.check(
    "D204",
    Severity.WARNING,
    finds="a guarded task without a hard time limit",
    why="A body that hangs keeps its key for ever: heartbeats renew its lease, and all its duplicates are"
    " refused.",
    remedy="Set task_time_limit, or time_limit on the task, well above what the body takes.",
)
def _has_no_limit(project: Project) -> Iterator[str]:
    for text in names(task for task in project.guarded if not task.time_limit):
        yield f"No time_limit on {text}."


@tasks.check(
    "D205",
    Severity.WARNING,
    finds="a soft time limit that is not below the hard one",
    why="The child is killed before the body can clean up.",
    remedy="Set soft_time_limit below time_limit by what cleaning up takes.",
)
def _soft_is_late(project: Project) -> Iterator[str]:
    for text in names(
        task
        for task in project.tasks
        if task.time_limit and task.soft_time_limit and task.soft_time_limit >= task.time_limit
    ):
        yield f"soft_time_limit is not below time_limit on {text}."


@tasks.check(
    "D206",
    Severity.WARNING,
    finds="`autoretry_for` on a guarded task without a bound (`max_retries = None`)",
    why="Celery tries it again for ever, so it never becomes a dead letter that a person sees.",
    remedy="Give it max_retries.",
)
def _retries_for_ever(project: Project) -> Iterator[str]:
    for text in names(t for t in project.guarded if _autoretries(t) and t.max_retries is None):
        yield f"max_retries is None on {text}."


@tasks.check(
    "D207",
    Severity.WARNING,
    finds="`autoretry_for` of every exception on a guarded task that names no permanent error",
    why="Celery tries again after a bug, or an answer that will never change, as after an outage.",
    remedy="Name the errors of outages in autoretry_for, or give the task permanent_errors, classify or"
    " dont_autoretry_for.",
)
def _retries_everything(project: Project) -> Iterator[str]:
    for text in names(
        task
        for task in project.guarded
        if {Exception, BaseException} & set(_autoretries(task)) and not _knows_ends(task)
    ):
        yield f"autoretry_for has Exception on {text}."


@tasks.check(
    "D208",
    Severity.ERROR,
    finds="a route to a queue that is not declared, while `task_create_missing_queues` is off",
    why="Each send of the task raises, and a reserved call ends as a dead letter.",
    remedy="Add the queue to task_queues, or correct the name in task_routes or on the task.",
)
def _is_routed_nowhere(project: Project) -> Iterator[str]:
    if project.conf.task_create_missing_queues:
        return
    for task in project.tasks:
        queue, error = queue_of(project, task)
        if error:
            yield f"The route of {harmless(task.name)} fails: {harmless(error)[:120]}."
        elif queue not in project.app.amqp.queues:
            yield f"{harmless(task.name)} goes to {harmless(queue)!r}, which task_queues does not have."


def queue_of(project: Project, task: Any) -> tuple[str, str]:
    """The queue that a task's calls go to, by its own option and the routers; or why that fails."""
    own = getattr(task, "queue", None)
    if own:
        return str(getattr(own, "name", own)), ""
    try:
        options = project.app.amqp.router.route({}, task.name, (), {}, task)
    except Exception as error:  # noqa: BLE001  a router is the project's own
        return "", f"{type(error).__name__}: {error}"
    queue: Any = options.get("queue")
    return str(getattr(queue, "name", queue) or project.conf.task_default_queue), ""


def _retries_lost(task: Any) -> bool:
    return bool(getattr(task, "retry_on_worker_lost", False))  # of Celery 5.7


def _autoretries(task: Any) -> tuple[Any, ...]:
    given = getattr(task, "autoretry_for", ())
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _knows_ends(task: Any) -> bool:
    policy = task.idempotency_policy
    return bool(
        policy.permanent_errors
        or policy.review_errors
        or policy.classify
        or getattr(task, "dont_autoretry_for", ())
    )
