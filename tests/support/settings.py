"""Django settings of the tests: ``default`` is what DATABASE_URL names, ``sqlite`` is a SQLite file."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from example_project.database_url import database_from_url

SECRET_KEY = "tests"
#: Half a second for each password that is set or checked is for attackers.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"

SQLITE_PATH = Path(os.environ.get("SQLITE_PATH", ":memory:"))

DATABASES = {
    "default": database_from_url(os.environ.get("DATABASE_URL", "sqlite:///:memory:")),
    "sqlite": {
        **database_from_url(f"sqlite:///{SQLITE_PATH}"),
        # Without a name the test database is in memory, where connections lock differently than in a file.
        "TEST": {"NAME": str(SQLITE_PATH.with_name(f"test_{SQLITE_PATH.name}")), "DEPENDENCIES": []},
    },
}

if os.environ.get("MYSQL_URL"):
    DATABASES["mysql"] = {**database_from_url(os.environ["MYSQL_URL"]), "TEST": {"DEPENDENCIES": []}}

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.admin",
    "django_celery_results",
    "django_idempotent_tasks",
    "example_project.payments",
    "example_project.books",
    "example_project.study_plans",
    "example_project.registrations",
    *(["django_celery_beat"] if importlib.util.find_spec("django_celery_beat") else []),
    *(["tests.sample"] if importlib.util.find_spec("tests.sample") else []),
]

#: The tables of others' apps are made from their models: dozens of migrations take longer than all of ours.
MIGRATION_MODULES: dict[str, str | None] = dict.fromkeys(
    (
        "admin",
        "auth",
        "contenttypes",
        "django_celery_beat",
        "django_celery_results",
        "sessions",
    )
)

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

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

#: Read by Django 6.0, and by the package django-tasks.
TASKS = {
    "default": {
        "BACKEND": "django_idempotent_tasks.backend.CeleryBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"CELERY_APP": "tests.sample.celery.app"},
    },
}

REST_FRAMEWORK: dict[str, list[str] | str] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tests.drf.tokens.TokenOfName",
        "rest_framework.authentication.SessionAuthentication",
    ],
}

if importlib.util.find_spec("drf_spectacular"):
    REST_FRAMEWORK["DEFAULT_SCHEMA_CLASS"] = "drf_spectacular.openapi.AutoSchema"

ROOT_URLCONF = "tests.support.urls"

CELERY_BROKER_URL = os.environ.get("CELERY_BROKER_URL", "memory://")
