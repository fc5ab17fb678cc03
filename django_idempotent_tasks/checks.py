"""System checks of settings, tasks and beat. None reads a database, but for those of ``ledger.constraints``.

E001 wrong options, E002 wrong settings, E003 classes that skip the guard, E004 beat's database (in
``beat.checks``), W001 to W005 settings that cost time or lose work, W006 options without effect, W007 one
ledger for each tenant, W008 entries with words that beat does not read (in ``beat.checks``), W009 options
of another package, W011 options that an atomic task does not use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import current_app
from celery.local import maybe_evaluate
from django.conf import settings as django_settings
from django.core import checks
from django.db import Error as DatabaseError
from django.db import connections

from .beat import checks as beat_checks
from .conf import settings
from .conf.near_misses import meant_setting
from .conf.options import NAMES
from .conf.project import NAME
from .exceptions import ConfigurationError
from .ledger import constraints
from .ledger.stores import get_store
from .models import IdempotencyKey
from .task.guard import UNREAD, left_out
from .task.option_checks import of_options

ID = "django_idempotent_tasks"

#: Brokers that notice a dead consumer by a timeout only.
_SLOW_TO_REDELIVER = ("redis", "sentinel", "sqs")

#: Result backends that count a chord's part twice when it is reported twice.
_MISCOUNTING = ("django-db", "django_celery_results")

#: Seconds after which such a broker delivers an unacknowledged message again, by default.
VISIBILITY_TIMEOUT = 3600

#: Seconds that RabbitMQ waits for an acknowledgement by default.
CONSUMER_TIMEOUT = 1800

_reading = False


def register() -> None:
    """Add the checks to ``manage.py check``."""
    checks.register(check_settings, "idempotent_tasks")
    checks.register(check_tasks, "idempotent_tasks")
    checks.register(beat_checks.check_beat, "idempotent_tasks")
    checks.register(beat_checks.check_schedule, "idempotent_tasks")
    checks.register(check_connections, "idempotent_tasks")
    checks.register(check_redelivery, "idempotent_tasks")
    checks.register(check_tenants, "idempotent_tasks")
    checks.register(constraints.check_constraints, checks.Tags.database)


def problems(app: Any) -> list[str]:
    """The problems of the settings and of the options of the app's tasks."""
    return [*_setting_problems(), *_task_problems(app)]


def missing_tables(app: Any) -> list[str]:
    """The remedy where the ledger's tables are missing; nothing while its database does not answer.

    Nothing for an app without guarded tasks either, which needs no tables.
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


def missing_constraints(app: Any) -> list[constraints.Missing]:
    """The constraints that the ledger's tables lack; nothing for an app without guarded tasks."""
    return constraints.missing_in(get_store()) if _guarded(app) else []


def check_settings(**_kwargs: object) -> list[checks.CheckMessage]:
    """E002: ``IDEMPOTENT_TASKS`` is misspelt or has a wrong value, or the ledger has no autocommit."""
    return [checks.Error(text, id=f"{ID}.E002") for text in _setting_problems()]


def check_tasks(**_kwargs: object) -> list[checks.CheckMessage]:
    """E001: a task has a wrong option and cannot be sent or run. Also E003, W001, W004-6, W009, W011."""
    with _reading_tasks() as first:
        if not first:
            return []
        current_app.loader.import_default_modules()
        wrong: list[checks.CheckMessage] = [
            checks.Error(text, id=f"{ID}.E001") for text in _task_problems(current_app)
        ]
        wrong += [*_left_out(current_app), *of_options(_tasks(current_app), current_app)]
        return [*wrong, *_unreserved(current_app), *_miscounting(current_app), *_outlasting(current_app)]


def check_connections(**_kwargs: object) -> list[checks.CheckMessage]:
    """W002: Celery opens and closes a database connection for every task."""
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
    hint = "Make it longer: the ledger does not recognise a message that is delivered again later."
    return [checks.Warning(text, hint=hint, id=f"{ID}.W003")]


def check_tenants(**_kwargs: object) -> list[checks.CheckMessage]:
    """W007: the ledger is among the apps whose tables each tenant's schema has."""
    apps = getattr(django_settings, "TENANT_APPS", ())
    if _setting_problems() or settings().schema or not any(app.startswith(ID) for app in apps):
        return []
    text = (
        "Each tenant's schema has a ledger of its own; a sweeper sees only that of its connection's schema."
    )
    hint = (
        "Move django_idempotent_tasks from TENANT_APPS to SHARED_APPS, and set"
        " IDEMPOTENT_TASKS['SCHEMA'] to 'public'."
    )
    return [checks.Warning(text, hint=hint, id=f"{ID}.W007")]


def _redelivers_late(app: Any) -> bool:
    return str(app.conf.broker_url or "").startswith(_SLOW_TO_REDELIVER)


def _unreserved(app: Any) -> list[checks.CheckMessage]:
    """W001: an atomic run leaves no row when its whole worker dies; only the broker's copy is left then."""
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
        if task.idempotency_guarded
        and task.idempotency_policy.mode == "atomic"
        and not task.idempotency_policy.reserve
    ]


def _miscounting(app: Any) -> list[checks.CheckMessage]:
    """W004: with this result backend a chord of guarded tasks may never end."""
    backend = str(app.conf.result_backend or "")
    if not backend.startswith(_MISCOUNTING) or not _guarded(app):
        return []
    text = f"With {backend} a chord never ends if one of its parts is delivered twice."
    hint = f"Set the result backend to {ID}.results:DatabaseBackend; it uses the same tables."
    return [checks.Warning(text, hint=hint, id=f"{ID}.W004")]


def _outlasting(app: Any) -> list[checks.CheckMessage]:
    """W005: RabbitMQ closes a worker's channel under a task that may run for longer than it waits."""
    if not str(app.conf.broker_url or "").startswith(("amqp", "pyamqp")):
        return []
    return [
        checks.Warning(
            f"Task {task.name} may run for {limit} s, and RabbitMQ waits {CONSUMER_TIMEOUT} s for an"
            " acknowledgement by default. Then it closes the channel, and Celery's worker ends.",
            hint=f"Set RabbitMQ's consumer_timeout above {limit} s and silence this, or lower the limit.",
            id=f"{ID}.W005",
        )
        for task in _guarded(app)
        if (limit := task.time_limit or app.conf.task_time_limit or 0) >= CONSUMER_TIMEOUT and task.acks_late
    ]


def _left_out(app: Any) -> list[checks.CheckMessage]:
    """E003: a class comes before the mixin and does not call it: the task runs without the guard."""
    return [
        checks.Error(
            f"Task {task.name}: {kind.__qualname__}.{method}() comes before that of IdempotentTaskMixin and"
            " never calls it, so the mixin cannot guard the task.",
            hint=f"Call super().{method}(...) in it, or name IdempotentTaskMixin as the first base.",
            id=f"{ID}.E003",
        )
        for task in _tasks(app)
        if getattr(task, "idempotency_guarded", False)
        for kind, method in left_out(type(task))
    ]


def _guarded(app: Any) -> list[Any]:
    return [task for task in _tasks(app) if hasattr(task, "idempotency_policy")]


def _tasks(app: Any) -> list[Any]:
    return sorted(set(map(maybe_evaluate, app.tasks.values())), key=lambda task: str(task.name))


@contextmanager
def _reading_tasks() -> Iterator[bool]:
    """Whether this run is the first: importing the task modules makes Celery run the checks once more."""
    global _reading  # noqa: PLW0603  one import of the task modules a process
    first, _reading = not _reading, True
    try:
        yield first
    finally:
        if first:
            _reading = False


def _setting_problems() -> list[str]:
    try:
        alias = settings().database
    except ConfigurationError as error:
        return [str(error)]
    return [*_misspelt(), *_uncommitted(alias)]


def _misspelt() -> Iterator[str]:
    """A dict of settings under a name that nothing reads."""
    for name in dir(django_settings):
        if meant_setting(name, NAME) and isinstance(getattr(django_settings, name), dict):
            yield f"The settings have {name}, which nothing reads. Did you mean {NAME}?"


def _uncommitted(alias: str) -> Iterator[str]:
    if not connections.settings.get(alias, {}).get("AUTOCOMMIT", True):
        yield (
            f"DATABASES[{alias!r}] says AUTOCOMMIT: False, and the ledger is there: no claim, no completion"
            " and no atomic() would be committed. Leave it out, or give the ledger a DATABASE of its own."
        )


def _task_problems(app: Any) -> list[str]:
    """The problems of the tasks, without those of the settings, which every task would repeat."""
    settings_are_wrong = set(_setting_problems())
    found = [problem for task in _tasks(app) for problem in _problems_with(task)]
    return [problem for problem in found if problem not in settings_are_wrong]


def _problems_with(task: Any) -> Iterator[str]:
    error = getattr(task, "idempotency_error", None)
    if error is not None:
        yield f"Task {task.name}: {error}" if error is UNREAD else str(error)
    elif getattr(task, "idempotency_guarded", False):
        for name in NAMES:
            if name in vars(task):
                yield f"Task {task.name}: option {name!r} is set on an instance; set it on the class."
