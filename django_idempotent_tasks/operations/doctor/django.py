"""Checks of Django's own settings, as far as workers depend on them."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings as django_settings

from ...conf import settings
from ..text import listed
from .check import Catalogue, Severity
from .project import Project

django = Catalogue("Django")

#: How ``startproject`` marks the key that it writes.
_INSECURE = "django-insecure-"


@django.check(
    "D801",
    Severity.ERROR,
    finds="`DEBUG`",
    why="Django keeps the last 9,000 queries of each connection in memory, and error pages show settings.",
    remedy="Set DEBUG = False in production. The doctor is for the settings of production.",
)
def _is_debugging(_project: Project) -> Iterator[str]:
    if django_settings.DEBUG:
        yield "DEBUG is True."


@django.check(
    "D802",
    Severity.WARNING,
    finds="a `SECRET_KEY` of `startproject`, where sensitive arguments are part of keys",
    why="Somebody who knows the key can find sensitive arguments by trying values.",
    remedy="Set IDEMPOTENT_TASKS['HMAC_KEY'], or a SECRET_KEY of your own, from the environment.",
)
def _is_guessable(project: Project) -> Iterator[str]:
    if project.alias is None or settings().hmac_key:
        return
    sensitive = [str(task.name) for task in project.guarded if task.idempotency_policy.sensitive]
    if sensitive and str(django_settings.SECRET_KEY).startswith(_INSECURE):
        yield f"SECRET_KEY begins with {_INSECURE!r}, and signs keys of {listed(sensitive)}."


@django.check(
    "D803",
    Severity.ADVICE,
    finds="`USE_TZ = False`",
    why="In the hour that a clock change repeats, times that people see are ambiguous. The ledger itself"
    " counts in UTC.",
    remedy="Set USE_TZ = True.",
)
def _has_no_zones(_project: Project) -> Iterator[str]:
    if not django_settings.USE_TZ:
        yield "USE_TZ is False."


@django.check(
    "D804",
    Severity.ADVICE,
    finds="`LOGGING` that silences the warnings of this package",
    why="The log tells of dead letters, refused messages and a sweeper in trouble.",
    remedy="Let the logger 'django_idempotent_tasks' write WARNING at least.",
)
def _is_silent(_project: Project) -> Iterator[str]:
    given = (django_settings.LOGGING or {}).get("loggers", {}).get("django_idempotent_tasks", {})
    if str(given.get("level", "")).upper() in {"ERROR", "CRITICAL"} or given.get("handlers") == ["null"]:
        yield "The logger django_idempotent_tasks writes no warnings."
