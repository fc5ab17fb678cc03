"""Settings of the benchmarks, with the apps of the alternatives that are installed."""

from __future__ import annotations

from benchmarks.alternatives.peers import INSTALLED
from benchmarks.machine.settings import (  # noqa: F401
    DATABASES,
    DEFAULT_AUTO_FIELD,
    IDEMPOTENT_TASKS,
    SECRET_KEY,
    USE_TZ,
    celery_app,
)
from benchmarks.machine.settings import INSTALLED_APPS as OURS

INSTALLED_APPS = [*OURS, *(app for peer in INSTALLED for app in peer.apps)]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
