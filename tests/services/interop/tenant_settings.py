"""The settings of worker processes, with django-tenants: a PostgreSQL schema for each tenant."""

from __future__ import annotations

from tests.sample.settings import *  # noqa: F403
from tests.sample.settings import DATABASES, IDEMPOTENT_TASKS, INSTALLED_APPS
from tests.services.interop.tenancy import app

app.set_default()

DATABASES["default"]["ENGINE"] = "django_tenants.postgresql_backend"
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
TENANT_MODEL, TENANT_DOMAIN_MODEL = "customers.Client", "customers.Domain"
INSTALLED_APPS = SHARED_APPS = ["django_tenants", "tests.services.interop.customers", *INSTALLED_APPS]
TENANT_APPS = ["django.contrib.contenttypes"]
IDEMPOTENT_TASKS = {"SCHEMA": "public", **IDEMPOTENT_TASKS}
