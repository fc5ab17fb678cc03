"""The settings of worker processes, with the apps of django-guid and django-structlog."""

from __future__ import annotations

from django_guid.integrations import CeleryIntegration

from tests.sample.settings import *  # noqa: F403
from tests.sample.settings import INSTALLED_APPS
from tests.services.interop.instruments import app

app.set_default()

INSTALLED_APPS = ["django_guid", "django_structlog", *INSTALLED_APPS]
DJANGO_STRUCTLOG_CELERY_ENABLED = True
DJANGO_GUID = {"INTEGRATIONS": [CeleryIntegration()]}
