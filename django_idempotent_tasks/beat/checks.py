"""Checks whether beat can run here, and the words of ``beat_schedule``; reads no database."""

from __future__ import annotations

from collections.abc import Mapping

from celery import current_app
from django.apps import apps
from django.core import checks
from django.db import router

from ..conf import settings
from ..exceptions import ConfigurationError
from . import words

ID = "django_idempotent_tasks"
BEAT_APP = "django_celery_beat"


def check_beat(**_kwargs: object) -> list[checks.CheckMessage]:
    """E004: periodic tasks are in another database than the ledger, so beat cannot send them once."""
    if not apps.is_installed(BEAT_APP) or not _are_settings_read():
        return []
    problem = beat_problem()
    return [] if problem is None else [checks.Error(problem, id=f"{ID}.E004")]


def check_schedule(**_kwargs: object) -> list[checks.CheckMessage]:
    """W008: an entry of ``beat_schedule`` has words for our scheduler where nobody reads them."""
    if not apps.is_installed(BEAT_APP):
        return []
    return [
        checks.Warning(f"Entry {name!r} of beat_schedule: {problem}", id=f"{ID}.W008")
        for name, entry in (current_app.conf.beat_schedule or {}).items()
        if isinstance(entry, Mapping)
        for problem in words.unread(entry)
    ]


def beat_problem() -> str | None:
    """Why the beat of this package cannot run here, with the remedy; None when it can."""
    if not apps.is_installed(BEAT_APP):
        return (
            "Beat needs django-celery-beat: install this package with its extra [beat], add"
            f" {BEAT_APP!r} to INSTALLED_APPS and migrate."
        )
    periodic = router.db_for_write(apps.get_model(BEAT_APP, "PeriodicTask"))
    if periodic == settings().database:
        return None
    return (
        f"Periodic tasks are in the database {periodic!r} and the ledger in {settings().database!r}; one"
        " transaction must hold both. Route django_celery_beat to the ledger's database, or set"
        f" IDEMPOTENT_TASKS['DATABASE'] to {periodic!r}."
    )


def _are_settings_read() -> bool:
    try:
        settings()
    except ConfigurationError:
        return False
    return True
