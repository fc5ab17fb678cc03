"""Django settings of the benchmarks; servers and connection handling come from the environment."""

from __future__ import annotations

import os

from django.core.management.utils import get_random_secret_key

from benchmarks.machine.celery import app as celery_app
from benchmarks.machine.environment import has_beat, is_checked, is_fast, is_guarded, is_kept
from example_project.database_url import database_from_url

__all__ = ["celery_app"]

SECRET_KEY = get_random_secret_key()
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# A plain worker does not even import the package.
INSTALLED_APPS = [
    *(["django_idempotent_tasks"] if is_guarded() else []),
    *(["django_celery_beat"] if has_beat() else []),
    "benchmarks",
]

DATABASES = {"default": database_from_url(os.environ["DATABASE_URL"])}
if is_kept():
    DATABASES["default"]["CONN_MAX_AGE"] = 600
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = is_checked()

IDEMPOTENT_TASKS = {"KEEP_CONNECTIONS": is_kept(), **({"CLAIM_DURABILITY": "fast"} if is_fast() else {})}
