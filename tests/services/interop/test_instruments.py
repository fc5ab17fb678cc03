"""Sentry, OpenTelemetry, structlog and django-guid see a reserved call once, in the process that sends it."""

from __future__ import annotations

import json

import pytest

from tests.services.interop.conftest import Project
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.interop]

NEEDS = (
    "sentry_sdk",
    "opentelemetry.instrumentation.celery",
    "opentelemetry.sdk",
    "django_structlog",
    "django_guid",
    "django_celery_beat",
)
TRACED = "tests.services.interop.instruments"


def test_a_call_that_the_sweeper_publishes_belongs_to_the_trace_and_the_request_of_its_sender(
    own_site: Site, key: str
) -> None:
    """And a check-in of Sentry, opened for an occurrence that beat sends, is closed where that runs."""
    project = Project(own_site, "tests.services.interop.instrument_settings", TRACED)
    lost, periodic = f"{key}-lost", f"{key}-periodic"
    request = json.loads(project.run(TRACED, f"request({lost!r})").splitlines()[-1])
    assert request["sent"] == 1, "the signals are heard once, and OpenTelemetry's span has ended"
    project.run(TRACED, f"beat({periodic!r})")
    journal = own_site.journal
    (opened,) = journal.read("check-in")
    assert opened["status"] == "in_progress"
    assert own_site.broker.waiting() == 2
    own_site.broker.clear()
    with project.working():
        run = journal.started(lost, within=60)
        assert {name: run[name] for name in request["said"]} == request["said"]
        journal.started(periodic, within=60)
        eventually(lambda: len(journal.read("check-in")) == 2, "the check-in is closed", within=30)
    closed = journal.read("check-in")[1]
    assert (closed["id"], closed["status"]) == (opened["id"], "ok")
