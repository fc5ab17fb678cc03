"""The settings of worker processes, with django-tenants: a PostgreSQL schema for each tenant."""

from __future__ import annotations

from tests.interop.tenancy import app
from tests.proj.settings import *  # noqa: F403
from tests.proj.settings import DATABASES, IDEMPOTENT_TASKS, INSTALLED_APPS

app.set_default()

DATABASES["default"]["ENGINE"] = "django_tenants.postgresql_backend"
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
TENANT_MODEL, TENANT_DOMAIN_MODEL = "customers.Client", "customers.Domain"
INSTALLED_APPS = SHARED_APPS = ["django_tenants", "tests.interop.customers", *INSTALLED_APPS]
TENANT_APPS = ["django.contrib.contenttypes"]
IDEMPOTENT_TASKS = {"SCHEMA": "public", **IDEMPOTENT_TASKS}
