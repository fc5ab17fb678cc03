"""Examines a project: every check of settings and tasks, and this package's own system checks."""

from __future__ import annotations

from celery import Celery
from django.conf import settings as django_settings
from django.core import checks as system

from .beat import beat
from .celery import celery
from .check import Catalogue, Check, Finding, Severity
from .database import ledger, mysql, postgresql
from .database_server import mysql_server, postgresql_server
from .django import django
from .ledger_state import beat_state, ledger_state
from .project import Project
from .rabbitmq import rabbitmq, rabbitmq_server
from .redis import redis
from .redis_server import redis_server
from .tasks import tasks
from .workers import answers, workers

#: What reads settings and tasks only.
STATIC: tuple[Catalogue, ...] = (
    celery, tasks, redis, rabbitmq, postgresql, mysql, ledger, django, beat,
)  # fmt: skip

#: What judges the answers of servers (``--live``).
LIVE: tuple[Catalogue, ...] = (
    answers, workers, redis_server, rabbitmq_server, postgresql_server, mysql_server,
    ledger_state, beat_state,
)  # fmt: skip

OURS = "django_idempotent_tasks."
#: The subject of this package's system checks, and the page that has them.
SYSTEM, CHECKS_PAGE = "System checks", "docs/reference/checks.md"


def examine(app: Celery) -> list[Finding]:
    """Everything that is wrong in settings and tasks, worst first; asks no server.

    Raises what an import of the project's task modules raises.
    """
    app.loader.import_default_modules()
    project = Project(app)
    messages = system.run_checks(tags=["idempotent_tasks"])
    found = [of_system(each) for each in messages if str(each.id).startswith(OURS)]
    for catalogue in STATIC:
        for check in catalogue.checks:
            found += check.findings(project)
    return in_order(found)


def in_order(found: list[Finding]) -> list[Finding]:
    """The findings that ``SILENCED_SYSTEM_CHECKS`` does not name, errors first, then by id."""
    silenced = set(django_settings.SILENCED_SYSTEM_CHECKS)
    told = [each for each in found if f"{OURS}{each.id}" not in silenced]
    return sorted(told, key=lambda each: (-each.severity, each.id))


def of_system(message: system.CheckMessage) -> Finding:
    """What ``manage.py check`` says of this package, as a finding; its text also says why it matters."""
    severity = Severity.ERROR if message.level >= system.ERROR else Severity.WARNING
    name = str(message.id).removeprefix(OURS)
    return Finding(name, severity, SYSTEM, str(message.msg), "", str(message.hint or ""), CHECKS_PAGE)


def all_checks() -> list[Check]:
    """Every check of the doctor by id."""
    return sorted((check for each in (*STATIC, *LIVE) for check in each.checks), key=lambda check: check.id)
