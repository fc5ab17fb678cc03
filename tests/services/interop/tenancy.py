"""A project with django-tenants and tenant-schemas-celery: its app, its task, and a request of a tenant."""

from __future__ import annotations

from typing import Any

from django.db import connection
from tenant_schemas_celery.app import CeleryApp
from tenant_schemas_celery.task import TenantTask

from django_idempotent_tasks import IdempotentTaskMixin, PermanentError

TENANT = "acme"

app = CeleryApp("tests.services.interop.tenancy", set_as_current=False)
app.config_from_object("tests.sample.celery_config")


class GuardedTenantTask(IdempotentTaskMixin, TenantTask):  # type: ignore[misc]  # it ships no types
    """As the documentation says: the mixin first."""

    abstract = True


@app.task(  # type: ignore[untyped-decorator]  # of an app that ships no types
    base=GuardedTenantTask, name="tenancy.serve", key="key", bind=True, reserve=True, lease=20
)
def serve(self: Any, key: str, *, fails: bool = False) -> None:  # noqa: ARG001
    """Say in which schema it runs; ``fails``: the first time for good."""
    from tests.sample.tasks import journal  # noqa: PLC0415  it has models

    runs = journal().starts(key)
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_schema()")
        journal().write("started", key, attempt=runs + 1, schema=cursor.fetchone()[0])
    if fails and runs == 0:
        raise PermanentError(key)


def open_schema() -> None:
    """Make the tenant and its schema."""
    from tests.services.interop.customers.models import Client  # noqa: PLC0415  it has models

    with connection.schema_editor() as editor:
        editor.create_model(Client)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {TENANT}")
    Client.objects.create(schema_name=TENANT, name=TENANT)


def request(lost: str, submitted: str, dead: str) -> None:
    """Serve a request of the tenant."""
    from django_tenants.utils import schema_context  # noqa: PLC0415  it has models

    with schema_context(TENANT):
        serve.delay(lost)
        serve.submit((submitted,))
        serve.delay(dead, fails=True)
