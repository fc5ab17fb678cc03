"""The tables of the dashboard: by task, workers, queues, and the keys that run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...models import IdempotencyKey
from ...operations.durations import SPANS, TaskLine, by_task
from ...operations.queues import QueueLine, queues
from ...operations.sentences import lease
from ...operations.text import brief, since
from ...operations.workers import Overview, Working, pid_of, silence
from ..words.badges import BAD, GOOD, QUIET, badge
from ..words.cells import near, task_cell
from ..words.ledger import alias, store
from ..words.progress import bar
from ..words.visible import key_of
from ..words.wording import cell
from .needs import list_of

#: How many rows each table has, and how many running keys are named of one worker.
TASKS, WORKERS, RUNNING, OF_ONE = 15, 50, 20, 3


def tasks(request: HttpRequest, now: datetime) -> list[dict[str, Any]]:
    """The tasks with the most keys in 24 hours."""
    dead = list_of(request, "deadletter", {})
    return [_task(line, now, dead) for line in by_task(store(), SPANS["day"])[:TASKS]]


def workers(request: HttpRequest, seen: Overview) -> list[dict[str, Any]]:
    """The workers that live, or were seen within an hour, and what each runs now."""
    return [_worker(request, each, seen.now) for each in seen.workers[:WORKERS]]


def queue_lines(seen: Overview) -> list[dict[str, Any]]:
    """The queues in which calls wait, or from which workers take calls."""
    has_workers = bool(seen.workers)
    return [_queue(each, seen.now, is_known=has_workers) for each in queues(alias(), seen.workers, seen.now)]


def running(request: HttpRequest, seen: Overview) -> list[dict[str, Any]]:
    """The running keys whose leases end first."""
    far = datetime.max.replace(tzinfo=seen.now.tzinfo)
    rows = sorted(_held(seen), key=lambda pair: pair[1].due_at or far)
    return [_running(request, holder, row, seen.now) for holder, row in rows[:RUNNING]]


def _task(line: TaskLine, now: datetime, dead: str) -> dict[str, Any]:
    return {
        "task": task_cell(line.task),
        "runs": line.runs,
        "failed": line.failed,
        "duplicates": _duplicates(line),
        "run": _spread(line.run.p50, line.run.p95),
        "wait": _spread(line.wait.p50, line.wait.p95),
        "last": near(line.last_failure_at, now),
        "dead_url": dead if line.failed.number else "",
    }


def _duplicates(line: TaskLine) -> str:
    """Those that were refused, and those that would be, were the task not in shadow mode."""
    if not line.would_refuse.number:
        return str(line.duplicates)
    words = _("%(refused)s refused, %(ran)s ran in shadow mode")
    return words % {"refused": line.duplicates, "ran": line.would_refuse}


def _spread(usual: float | None, slow: float | None) -> str:
    return "-" if usual is None else f"{brief(usual)} / {brief(slow)}"


def _worker(request: HttpRequest, each: Working, now: datetime) -> dict[str, Any]:
    worker, runs = each.worker, each.runs
    if each.is_alive:
        state = badge(_("lives"), GOOD)
    else:
        state = badge(_("silent") if worker.stopped_at is None else _("ended"), BAD if runs else QUIET)
    return {
        "name": cell(worker.name),
        "pid": str(worker.pid),
        "state": state,
        "silence": silence(worker, now),
        "queues": cell(", ".join(each.queues)),
        "since": near(worker.started_at, now),
        "runs": [_run(request, row, now) for row in runs[:OF_ONE]],
        "more": len(runs) - OF_ONE if len(runs) > OF_ONE else 0,
    }


def _run(request: HttpRequest, row: IdempotencyKey, now: datetime) -> dict[str, Any]:
    words = _("%(key)s for %(span)s")
    return {
        "url": _key_url(row),
        "text": words % {"key": cell(key_of(request, row)), "span": since(row.started_at, now)},
        "task": cell(row.task.rpartition(".")[2]),
    }


def _queue(each: QueueLine, now: datetime, *, is_known: bool) -> dict[str, Any]:
    if not is_known:
        takes = badge(_("not known"), QUIET)
    elif each.workers:
        words = ngettext("%(count)s worker", "%(count)s workers", each.workers)
        takes = badge(words % {"count": each.workers}, GOOD)
    else:
        takes = badge(_("no worker"), BAD if each.waiting.number else QUIET)
    return {
        "name": cell(each.name),
        "waiting": each.waiting,
        "oldest": since(each.oldest, now) if each.oldest else "-",
        "takes": takes,
    }


def _held(seen: Overview) -> Iterator[tuple[str, IdempotencyKey]]:
    for each in seen.workers:
        for row in each.runs:
            words = _("%(name)s, pid %(pid)s") % {"name": cell(each.worker.name), "pid": pid_of(row.owner)}
            yield f"{words} {silence(each.worker, seen.now)}".rstrip(), row
    for row in seen.strangers:
        yield _("a process of an unknown worker (pid %(pid)s)") % {"pid": pid_of(row.owner)}, row


def _running(request: HttpRequest, holder: str, row: IdempotencyKey, now: datetime) -> dict[str, Any]:
    return {
        "url": _key_url(row),
        "key": cell(key_of(request, row)),
        "task": task_cell(row.task),
        "holder": holder,
        "attempt": str(row.attempts),
        "elapsed": since(row.started_at, now),
        "lease": lease(row, now),
        "progress": bar(row) if row.progress else "-",
    }


def _key_url(row: IdempotencyKey) -> str:
    return reverse("admin:django_idempotent_tasks_idempotencykey_change", args=[row.pk])
