"""Django settings of a chaos run; servers, queue and paces come from the environment."""

from __future__ import annotations

import os

from benchmarks.chaos.app import app as celery_app
from example_project.database_url import database_from_url

__all__ = ["celery_app"]

SECRET_KEY = os.environ.setdefault("SECRET_KEY", os.urandom(24).hex())
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "benchmarks.chaos.urls"
INSTALLED_APPS = ["django_celery_beat", "django_idempotent_tasks", "benchmarks.chaos"]
MIDDLEWARE: list[str] = []

DATABASES = {"default": database_from_url(os.environ["DATABASE_URL"])}
DATABASES["default"]["CONN_MAX_AGE"] = 600
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True

#: In seconds. A key that is past it may be pruned: longer than a run, so that its checker finds every key.
RETENTION = 1800

IDEMPOTENT_TASKS = {
    "KEEP_CONNECTIONS": True,
    "LEASE": 4,
    "SWEEPER": "off" if os.environ.get("CHAOS_BREAK") == "sweeper" else "thread",
    "REPUBLISH_AFTER": 5,
    "RETENTION": RETENTION,
    "REDELIVERY_WINDOW": RETENTION,
    "DEAD_LETTER_RETENTION": RETENTION,
    # A time that was missed is run later, one by one: the checker looks for each.
    "MISFIRE": "all",
    # Kills strike at random: no call is to blame for three of them.
    "MAX_CRASHES": 1000,
}
