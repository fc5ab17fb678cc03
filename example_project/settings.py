"""Django settings of the example project; what differs between machines comes from the environment."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.management.utils import get_random_secret_key

# Every process that has these settings sends through this app, whichever way it was started.
from example_project.celery import app as celery_app
from example_project.database_url import database_from_url

__all__ = ["celery_app"]

BASE_DIR = Path(__file__).resolve().parent.parent

# A generated key serves one process; with several web processes state SECRET_KEY.
SECRET_KEY = os.environ.get("SECRET_KEY") or get_random_secret_key()
DEBUG = False
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "django_idempotent_tasks",
    "example_project.payments",
    "example_project.books",
    "example_project.study_plans",
    "example_project.registrations",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
# On loopback there is no TLS; a browser would send secure cookies nowhere.
IS_LOOPBACK = {*ALLOWED_HOSTS} <= {"127.0.0.1", "localhost", "[::1]"}
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not IS_LOOPBACK

ROOT_URLCONF = "example_project.urls"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {
    "default": database_from_url(os.environ.get("DATABASE_URL", f"sqlite:///{BASE_DIR / 'example.sqlite3'}"))
}
# Opening a connection costs more than a guarded task; a kept one is tested before it is used again.
DATABASES["default"]["CONN_MAX_AGE"] = 600
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True

IDEMPOTENT_TASKS = {
    # Celery closes Django's connections around each task; keep them, as CONN_MAX_AGE asks.
    "KEEP_CONNECTIONS": True,
    # How long the work of a vanished owner waits. Heartbeats keep it, so it need not cover the task.
    "LEASE": int(os.environ.get("IDEMPOTENCY_LEASE", "60")),
    # How long a reserved call may wait in the queue before the sweeper sends it again.
    "REPUBLISH_AFTER": int(os.environ.get("IDEMPOTENCY_REPUBLISH_AFTER", "300")),
    # While the broker is out for good: set it for the web servers, and what is sent is done where it is sent,
    # an upload in the organiser's request. A short outage needs nothing: the sweeper sends later.
    "SYNC_FALLBACK": os.environ.get("SYNC_FALLBACK") == "1",
}

GATEWAY_URL = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8900")
GATEWAY_TIMEOUT = 5.0
# The longest wait in seconds between two tries of a charge; the gateway's Retry-After may be longer.
PAYMENTS_LONGEST_BACKOFF = int(os.environ.get("PAYMENTS_LONGEST_BACKOFF", "600"))
PRINTER_URL = os.environ.get("PRINTER_URL", "http://127.0.0.1:8901")
PRINTER_TIMEOUT = 5.0
WEBHOOK_MAX_BYTES = 64 * 1024
# An older event is refused, however well it is signed.
WEBHOOK_MAX_AGE = 3 * 24 * 60 * 60

# An organiser's file of 100,000 rows has about 10 MB.
REGISTRATIONS_MAX_BYTES = 32 * 1024 * 1024

# How long one paid step of a study plan takes.
STUDY_PLAN_SECONDS = float(os.environ.get("STUDY_PLAN_SECONDS", "2"))
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "study_plans:index"
LOGOUT_REDIRECT_URL = "login"

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": os.environ.get("LOG_LEVEL", "INFO")},
}
