"""With tenant-schemas-celery a call runs in the schema of who made it, whoever publishes it."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.operations import dead_letters
from django_idempotent_tasks.states import State
from tests.services.interop.conftest import Project
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.interop]

NEEDS = ("django_tenants", "tenant_schemas_celery")


def test_lost_and_redriven_calls_run_in_the_schema_of_their_tenant(own_site: Site, key: str) -> None:
    project = Project(own_site, "tests.services.interop.tenant_settings", "tests.services.interop.tenancy")
    lost, submitted, dead = f"{key}-lost", f"{key}-submitted", f"{key}-dead"
    project.run("tests.services.interop.tenancy", "open_schema()")
    project.run("tests.services.interop.tenancy", f"request({lost!r}, {submitted!r}, {dead!r})")
    assert own_site.broker.waiting() == 3
    own_site.broker.clear()
    with project.working():
        for each in (lost, submitted, dead):
            assert own_site.journal.started(each, within=60)["schema"] == "acme"
        failed = IdempotencyKey.objects.using(own_site.rows.alias).filter(state=State.FAILED)
        eventually(failed.exists, "the call has failed", within=60)
        assert dead_letters.redrive(get_store(own_site.rows.alias), failed.get(), by="somebody").done
        assert own_site.journal.started(dead, attempt=2, within=60)["schema"] == "acme"
