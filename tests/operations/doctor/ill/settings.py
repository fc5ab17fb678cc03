"""Its Django settings."""

from __future__ import annotations

import os
from typing import Any

from tests.operations.doctor.ill.app import app as celery_app

__all__ = ["celery_app"]

ILL = os.environ.get("ILL", "redis")

DEBUG = True
USE_TZ = False
SECRET_KEY = "django-insecure-ill"
INSTALLED_APPS = ["django_idempotent_tasks", *(["django_celery_beat"] if ILL != "redis" else [])]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASE_ROUTERS = ["tests.operations.doctor.ill.router.Elsewhere"]
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://redis.internal/0",
    }
}
LOGGING = {"version": 1, "loggers": {"django_idempotent_tasks": {"level": "CRITICAL"}}}

_DATABASES: dict[str, dict[str, Any]] = {
    "redis": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    "postgresql": {"ENGINE": "django.db.backends.postgresql", "OPTIONS": {"isolation_level": 4}},
    "mysql": {
        "ENGINE": "django.db.backends.mysql",
        "OPTIONS": {
            "isolation_level": "repeatable read",
            "init_command": "SET default_storage_engine=MyISAM",
        },
    },
}
DATABASES = {"default": {"CONN_MAX_AGE": None, "ATOMIC_REQUESTS": True, **_DATABASES[ILL]}}
