"""Asks the broker, the ledger's database and the workers of a project, for a few seconds at most."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from celery import Celery

from ...ledger import constraints
from ...ledger.stores import get_store
from ...messages.relay import bounded_connection, collapse
from .bounded import Answers, ask_all, secrets_of
from .check import Catalogue, Finding
from .database_server import mysql_server, postgresql_server
from .examine import in_order, of_system
from .ledger_state import beat_state, ledger_state
from .project import Project
from .rabbitmq import rabbitmq_server
from .reading import ledger_read, server_of
from .redis_server import redis_server
from .tasks import queue_of
from .workers import Workers, answers, workers

#: Seconds for all questions together.
WITHIN = 6.0
#: Seconds in which workers answer one question.
PATIENCE = 1.0

#: What is read of each worker's answer to ``report``.
_VERSIONS = re.compile(r"(?:celery|kombu|py):\S+")


def ask(app: Celery, database: str | None = None, *, within: float = WITHIN) -> list[Finding]:
    """What is wrong with the servers, worst first; who does not answer in time is a finding too.

    ``database``: the ledger's alias, by default the one in the settings.
    """
    project = Project(app)
    alias = database or project.alias
    questions: dict[str, Callable[[], list[Finding]]] = {
        "broker": partial(_broker, project),
        "workers": partial(_workers, project),
    }
    if alias is not None:
        questions["database"] = partial(_database, project, alias)
    got = ask_all(questions, within=within, secrets=secrets_of(project.conf))
    found = [each for findings in got.given.values() for each in findings]
    return in_order([*found, *_judged(answers, _explained(got))])


def _explained(got: Answers) -> dict[str, str]:
    """Who did not answer; workers that cannot answer for want of a broker are not named as well."""
    silent = dict(got.silent)
    if "broker" in silent:
        silent.pop("workers", None)
    return silent


def _judged(catalogue: Catalogue, read: Any) -> Iterator[Finding]:
    for check in catalogue.checks:
        yield from check.findings(read)


def _broker(project: Project) -> list[Finding]:
    """Connect, and judge what the server says of itself; transports of other kinds only have to answer."""
    connection = bounded_connection(project.app)
    try:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=1)
        if project.is_on_redis:
            with connection.channel() as channel:
                return list(_judged(redis_server, channel.client.info()))  # type: ignore[attr-defined]
        if project.is_on_amqp:
            properties = getattr(connection.connection, "server_properties", {})
            return list(_judged(rabbitmq_server, properties))
    finally:
        collapse(connection)
    return []


def _database(project: Project, alias: str) -> list[Finding]:
    store = get_store(alias)
    found = [of_system(each) for each in constraints.check_constraints(databases=[alias])]
    state = ledger_read(store, project.app)
    found += [*_judged(ledger_state, state), *_judged(beat_state, state)]
    for vendor, catalogue in (("postgresql", postgresql_server), ("mysql", mysql_server)):
        if store.connection.vendor == vendor:
            found += _judged(catalogue, server_of(store))
    return found


def _workers(project: Project) -> list[Finding]:
    """Ask every worker that answers a ping; one that is slower than ``PATIENCE`` is not seen."""
    control = project.app.control
    names = sorted(name for pong in control.ping(timeout=PATIENCE) or () for name in pong)
    seen = Workers()
    if names:
        inspect = control.inspect(destination=names, timeout=PATIENCE, limit=len(names))
        seen = Workers(
            queues={name: [] for name in names} | _queues(inspect.active_queues()),
            tasks=_tasks(inspect.registered()),
            pools={
                name: str(each.get("pool", {}).get("implementation", ""))
                for name, each in _each(inspect.stats())
            },
            versions={name: " ".join(_VERSIONS.findall(str(each))) for name, each in _each(inspect.report())},
            routed=_routed(project),
            has_limits=any(task.time_limit or task.soft_time_limit for task in project.guarded),
        )
    return list(_judged(workers, seen))


def _each(reply: Any) -> Iterable[tuple[str, Any]]:
    """The answers of workers by name; a worker may answer with an error."""
    return [(name, each) for name, each in (reply or {}).items() if not _is_error(each)]


def _is_error(answer: Any) -> bool:
    return isinstance(answer, dict) and set(answer) == {"error"}


def _queues(reply: Any) -> dict[str, list[str]]:
    return {name: [str(queue["name"]) for queue in each or ()] for name, each in _each(reply)}


def _tasks(reply: Any) -> dict[str, set[str]]:
    """The tasks that each worker knows; Celery writes attributes behind a name."""
    return {name: {str(task).partition(" [")[0] for task in each or ()} for name, each in _each(reply)}


def _routed(project: Project) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task in project.tasks:
        queue, _error = queue_of(project, task)
        if queue:
            found.setdefault(queue, []).append(str(task.name))
    return found
