"""Settings of the benchmarks, with an admin."""

from __future__ import annotations

from benchmarks.machine.settings import (  # noqa: F401
    DATABASES,
    DEFAULT_AUTO_FIELD,
    IDEMPOTENT_TASKS,
    SECRET_KEY,
    USE_TZ,
    celery_app,
)
from benchmarks.machine.settings import INSTALLED_APPS as OURS
from tests.support.settings import MIDDLEWARE, TEMPLATES  # noqa: F401

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.admin",
    *OURS,
]
ALLOWED_HOSTS = ["testserver"]
ROOT_URLCONF = "benchmarks.admin_volume.urls"
STATIC_URL = "static/"
