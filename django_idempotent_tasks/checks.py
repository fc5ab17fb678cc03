"""System checks, which read no database: E001 to E003 what is wrong, W001 to W003 what costs or loses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import current_app
from django.apps import apps
from django.core import checks
from django.db import Error as DatabaseError
from django.db import connections, router

from .conf import settings
from .exceptions import ConfigurationError
from .models import IdempotencyKey
from .stores import get_store

ID = "django_idempotent_tasks"

#: The app with the periodic tasks.
BEAT = "django_celery_beat"

#: Brokers that notice a dead consumer by a timeout only.
_SLOW_TO_REDELIVER = ("redis", "sentinel", "sqs")

#: Seconds after which such a broker delivers again what nobody acknowledged, where nothing else is set.
VISIBILITY_TIMEOUT = 3600

_reading = False


def register() -> None:
    """Add the checks to ``manage.py check``."""
    checks.register(check_settings, "idempotent_tasks")
    checks.register(check_tasks, "idempotent_tasks")
    checks.register(check_beat, "idempotent_tasks")
    checks.register(check_connections, "idempotent_tasks")
    checks.register(check_redelivery, "idempotent_tasks")


def problems(app: Any) -> list[str]:
    """What is wrong with the settings and with the options of the app's tasks."""
    return [*_setting_problems(), *_task_problems(app)]


def missing_tables(app: Any) -> list[str]:
    """What to do when the ledger's tables are not there; nothing while its database does not answer.

    Nor for an app without guarded tasks, which needs none.
    """
    if _setting_problems() or not _guarded(app):
        return []
    try:
        with get_store().side_connection() as store:
            tables = store.connection.introspection.table_names()
    except DatabaseError:
        return []
    if IdempotencyKey._meta.db_table in tables:
        return []
    alias = settings().database
    return [
        f"The ledger's tables are not in the database {alias!r}. Run 'manage.py migrate --database {alias}'."
    ]


def check_settings(**_kwargs: object) -> list[checks.CheckMessage]:
    """E002: ``IDEMPOTENT_TASKS`` has an unknown name or a wrong value."""
    return [checks.Error(text, id=f"{ID}.E002") for text in _setting_problems()]


def check_tasks(**_kwargs: object) -> list[checks.CheckMessage]:
    """E001: a task has a wrong option; it cannot be sent or run until it is mended."""
    with _reading_tasks() as first:
        if not first:
            return []
        current_app.loader.import_default_modules()
        wrong = [checks.Error(text, id=f"{ID}.E001") for text in _task_problems(current_app)]
        return [*wrong, *_unreserved(current_app)]


def check_beat(**_kwargs: object) -> list[checks.CheckMessage]:
    """E003: periodic tasks are in another database than the ledger, so that beat cannot send them once."""
    if not apps.is_installed(BEAT) or _setting_problems():
        return []
    problem = beat_problem()
    return [] if problem is None else [checks.Error(problem, id=f"{ID}.E003")]


def beat_problem() -> str | None:
    """Why our beat cannot run here, and the remedy; None when it can."""
    if not apps.is_installed(BEAT):
        return (
            "Beat needs django-celery-beat: pip install 'django-idempotent-tasks[beat]', add"
            f" {BEAT!r} to INSTALLED_APPS and migrate."
        )
    periodic = router.db_for_write(apps.get_model(BEAT, "PeriodicTask"))
    if periodic == settings().database:
        return None
    return (
        f"Periodic tasks are in the database {periodic!r} and the ledger in {settings().database!r}; one"
        " transaction must hold both. Route django_celery_beat to the ledger's database, or set"
        f" IDEMPOTENT_TASKS['DATABASE'] to {periodic!r}."
    )


def check_connections(**_kwargs: object) -> list[checks.CheckMessage]:
    """W002: a database connection is opened and closed for every task."""
    if _setting_problems():
        return []
    alias = settings().database
    connection = connections[alias]
    if connection.vendor == "sqlite":
        return []
    if not settings().keep_connections:
        text = "Celery closes the database connection before and after every task, whatever CONN_MAX_AGE is."
        hint = f"Set IDEMPOTENT_TASKS['KEEP_CONNECTIONS'] to True, and CONN_MAX_AGE of {alias!r} to 60 or so."
    elif connection.settings_dict["CONN_MAX_AGE"] == 0:
        text = f"KEEP_CONNECTIONS keeps nothing while CONN_MAX_AGE of {alias!r} is 0."
        hint = "Set it to 60 or so, and CONN_HEALTH_CHECKS to True."
    else:
        return []
    return [checks.Warning(text, hint=hint, id=f"{ID}.W002")]


def check_redelivery(**_kwargs: object) -> list[checks.CheckMessage]:
    """W003: the broker may deliver a message again after the ledger has forgotten its call."""
    if _setting_problems() or not _redelivers_late(current_app):
        return []
    options = current_app.conf.broker_transport_options or {}
    timeout, window = options.get("visibility_timeout", VISIBILITY_TIMEOUT), settings().redelivery_window
    if timeout <= window:
        return []
    text = f"REDELIVERY_WINDOW ({window} s) is shorter than the broker's visibility_timeout ({timeout} s)."
    hint = "Make it longer: a message that is delivered again later than that is not recognised."
    return [checks.Warning(text, hint=hint, id=f"{ID}.W003")]


def _redelivers_late(app: Any) -> bool:
    return str(app.conf.broker_url or "").startswith(_SLOW_TO_REDELIVER)


def _unreserved(app: Any) -> list[checks.CheckMessage]:
    """W001: an atomic run leaves no row when its whole worker dies; then only the broker's copy is left."""
    if not _redelivers_late(app):
        return []
    return [
        checks.Warning(
            f"Task {task.name} is atomic without reserve: when its whole worker dies, it runs again only"
            " once the broker delivers its message again, after visibility_timeout (1 h by default).",
            hint="Set reserve=True, and the sweeper brings it back after REPUBLISH_AFTER.",
            id=f"{ID}.W001",
        )
        for task in _guarded(app)
        if task.idempotency_policy.mode == "atomic" and not task.idempotency_policy.reserve
    ]


def _guarded(app: Any) -> list[Any]:
    tasks = sorted(app.tasks.values(), key=lambda task: str(task.name))
    return [task for task in tasks if hasattr(task, "idempotency_policy")]


@contextmanager
def _reading_tasks() -> Iterator[bool]:
    """Importing the task modules makes Celery run the checks again: the inner run finds nothing to do."""
    global _reading  # noqa: PLW0603  one import of the task modules a process
    first, _reading = not _reading, True
    try:
        yield first
    finally:
        if first:
            _reading = False


def _setting_problems() -> list[str]:
    try:
        settings()
    except ConfigurationError as error:
        return [str(error)]
    return []


def _task_problems(app: Any) -> list[str]:
    """A wrong setting stops every task from being read; it is reported once, as what it is."""
    errors = (getattr(task, "idempotency_error", None) for task in app.tasks.values())
    settings_are_wrong = set(_setting_problems())
    return [str(error) for error in errors if error is not None and str(error) not in settings_are_wrong]
