"""``idem beat run-now``: runs a periodic task once now, beside its schedule."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...beat.checks import beat_problem
from ...beat.overview import entries
from ...beat.shown import periodic_tasks
from ...conf import settings
from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import BeatCursor, IdempotencyKey
from ...operations.tasks import known_task
from ...operations.text import since
from ...operations.workers import holder
from ...states import State
from ..cli.project import project_app
from ..cli.reason import who
from ..cli.report import FINDINGS, FINE, Options, Report, Say, could_not_run


def run_periodic(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Send an occurrence, unless another one waits or runs."""
    require_beat(store)
    from ...beat.asked import run_now, unfinished  # noqa: PLC0415  it needs django-celery-beat

    name, alias = options["name"], store.connection.alias
    found = periodic_tasks(entries(alias).filter(name=name), alias)
    if not found:
        msg = f"No periodic task {harmless(name)!r}; the admin of django-celery-beat lists them."
        raise could_not_run(msg)
    (task,) = found
    if not options["yes"]:
        cursor = BeatCursor.objects.using(alias).filter(pk=task.pk).first()
        busy = unfinished(cursor, alias=alias) if cursor else None
        return _busy(task, busy, store) if busy else _planned(task)
    app = project_app()
    known_task(task.task)  # imports the tasks: a guarded task is sent otherwise than a plain one
    busy = run_now(task, by=who(), app=app, store=store, reason=options["reason"] or "")
    if busy is not None:
        return _busy(task, busy, store)
    return Report(
        {"name": name, "outcome": "sent"}, [f"{harmless(name)} is sent; 'idem keys list' shows its key."]
    )


def require_beat(store: LedgerStore) -> None:
    """Raises CommandError where beat cannot run on this ledger."""
    problem = beat_problem()
    if problem is not None:
        raise could_not_run(problem)
    if store.connection.alias != settings().database:
        msg = f"Beat works on the database of the settings, {settings().database!r}: leave --database out."
        raise could_not_run(msg)


def _planned(task: Any) -> Report:
    lines = [
        f"Dry run: would run {harmless(task.name)} ({harmless(task.task)}) now. Its schedule does not move.",
        "Say --yes to do it.",
    ]
    return Report({"name": task.name, "outcome": "dry run"}, lines, FINE)


def _busy(task: Any, key: IdempotencyKey, store: LedgerStore) -> Report:
    lines = [f"{harmless(task.name)} was not run. {_words(key, database_now(store))}"]
    state = State(key.state).name.lower()
    facts = {"name": task.name, "outcome": "busy", "digest": key.digest, "state": state}
    return Report(facts, lines, FINDINGS)


def _words(key: IdempotencyKey, now: datetime) -> str:
    """Which occurrence keeps the task from running, since when, and who has it."""
    age = since(key.started_at or key.created_at, now)
    match State(key.state):
        case State.RUNNING:
            return f"It is running for {age}, by {holder(key, now).who}: wait for it, or cancel its key."
        case State.RETRY:
            return (
                f"Its last run began {age} ago, failed, and is tried again: wait for it, or cancel its key."
            )
        case _:
            return f"It waits for a worker for {age}: does one consume its queue?"
