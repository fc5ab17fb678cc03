"""Checks of the settings of beat, and of the entries of ``beat_schedule``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings

from ...beat.checks import BEAT_APP
from ...identity.text import harmless
from .check import Catalogue, Severity
from .project import Project

beat = Catalogue("Beat")

#: The scheduler of this package, by its entry point and by its class.
_OURS = ("django_idempotent", "django_idempotent_tasks.schedulers")


@beat.check(
    "D901",
    Severity.WARNING,
    finds="a `beat_scheduler` that does not keep a second beat from sending, though django-celery-beat is"
    " installed",
    why="Two beats, as there are at each deployment, send every occurrence twice; Celery's default scheduler"
    " does not even read the periodic tasks of the admin.",
    remedy="Set beat_scheduler = \"django_idempotent\" (set it even if you start 'manage.py idem beat').",
)
def _is_ordinary(project: Project) -> Iterator[str]:
    scheduler = str(project.conf.beat_scheduler)
    if apps.is_installed(BEAT_APP) and not scheduler.startswith(_OURS):
        yield f"beat_scheduler is {harmless(scheduler)}."


@beat.check(
    "D902",
    Severity.WARNING,
    finds="entries in `beat_schedule`, without django-celery-beat",
    why="Celery's own scheduler keeps its state in a file: a second beat, or one that moved to another host,"
    " sends everything again.",
    remedy="Install this package with its extra [beat], add django_celery_beat to INSTALLED_APPS, and use our"
    " scheduler.",
)
def _is_in_a_file(project: Project) -> Iterator[str]:
    if project.conf.beat_schedule and not apps.is_installed(BEAT_APP):
        yield f"beat_schedule has {len(project.conf.beat_schedule)} entries."


@beat.check(
    "D903",
    Severity.ERROR,
    finds="an entry of `beat_schedule` whose task no worker knows",
    why="Beat sends it, no worker can run it, and the work is not done.",
    remedy="Correct the name, or delete the entry.",
)
def _is_unknown(project: Project) -> Iterator[str]:
    known = project.app.tasks
    for name, entry in (project.conf.beat_schedule or {}).items():
        task = entry.get("task") if isinstance(entry, Mapping) else getattr(entry, "task", None)
        if task not in known:
            yield f"{harmless(name)!r} names {harmless(task)!r}."


@beat.check(
    "D904",
    Severity.WARNING,
    finds="another `timezone` for Celery than Django's `TIME_ZONE`, or `enable_utc = False`",
    why="A crontab of 03:30 in the settings runs at another hour than the admin shows; without UTC an hour"
    " comes twice when the clocks go back.",
    remedy="Set Celery's timezone to Django's TIME_ZONE, and leave enable_utc at True.",
)
def _has_two_zones(project: Project) -> Iterator[str]:
    if not project.conf.enable_utc:
        yield "enable_utc is False."
    zone: Any = project.conf.timezone
    name = str(getattr(zone, "key", zone)) if isinstance(zone, tzinfo) else str(zone or "")
    scheduled = project.conf.beat_schedule or apps.is_installed(BEAT_APP)
    if scheduled and name and name != django_settings.TIME_ZONE:
        yield f"timezone is {harmless(name)}, TIME_ZONE is {django_settings.TIME_ZONE}."
