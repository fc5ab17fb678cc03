"""Sentry, OpenTelemetry, structlog and django-guid around one app, a request that they watch, and beat."""

from __future__ import annotations

import json
import time
from typing import Any

import sentry_sdk
import structlog
from celery import Celery
from django_structlog.celery.steps import DjangoStructLogInitStep
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sentry_sdk.integrations.celery import CeleryIntegration
from sentry_sdk.transport import Transport

from django_idempotent_tasks import IdempotentTask

app = Celery("tests.services.interop.instruments", set_as_current=False)
app.config_from_object("tests.sample.celery_config")
app.steps["worker"].add(DjangoStructLogInitStep)

spans = InMemorySpanExporter()
ENTRY = "every-minute"


class Noted(Transport):  # type: ignore[misc]  # taken for Any
    """Sends nothing; check-ins are noted."""

    def capture_envelope(self, envelope: Any) -> None:
        from tests.sample.tasks import journal  # noqa: PLC0415  it has models

        for item in envelope.items:
            if item.type == "check_in":
                said = item.payload.json
                journal().write(
                    "check-in", said["monitor_slug"], id=said["check_in_id"], status=said["status"]
                )


def instrument() -> None:
    """As a project does when it starts."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument()
    integration = CeleryIntegration(monitor_beat_tasks=True)
    sentry_sdk.init(
        "http://key@127.0.0.1:9/1", transport=Noted, traces_sample_rate=1, integrations=[integration]
    )


instrument()


@app.task(base=IdempotentTask, name="instruments.serve", key="key", bind=True, reserve=True, lease=20)
def serve(self: Any, key: str) -> None:  # noqa: ARG001
    """Say to which trace and request the run belongs."""
    from django_guid import get_guid  # noqa: PLC0415  it has settings

    from tests.sample.tasks import journal  # noqa: PLC0415  it has models

    journal().write(
        "started",
        key,
        attempt=1,
        sentry=sentry_sdk.get_current_span().trace_id,
        opentelemetry=format(trace.get_current_span().get_span_context().trace_id, "032x"),
        structlog=structlog.contextvars.get_contextvars().get("request_id"),
        guid=get_guid(),
    )


def request(*keys: str) -> None:
    """Serve a request, and print its traces and ids, and what OpenTelemetry has seen of the calls."""
    from django_guid import get_guid, set_guid  # noqa: PLC0415  it has settings

    set_guid("guid-of-the-request")
    structlog.contextvars.bind_contextvars(request_id="request-7")
    tracer = trace.get_tracer(__name__)
    with (
        sentry_sdk.start_transaction(name="request") as watched,
        tracer.start_as_current_span("request") as span,
    ):
        for key in keys:
            serve.delay(key)
        said = {
            "sentry": watched.trace_id,
            "opentelemetry": format(span.get_span_context().trace_id, "032x"),
            "structlog": "request-7",
            "guid": get_guid(),
        }
        assert trace.get_current_span() is span
    sent = [each.name for each in spans.get_finished_spans() if each.name.startswith("apply_async/")]
    print(json.dumps({"said": said, "sent": len(sent)}))


def beat(key: str) -> None:
    """Let beat send one occurrence of an entry, as its own process does."""
    from django_celery_beat.models import IntervalSchedule, PeriodicTask  # noqa: PLC0415  it has models

    from django_idempotent_tasks.schedulers import SingleInstanceDatabaseScheduler  # noqa: PLC0415  the same

    minute, _ = IntervalSchedule.objects.get_or_create(every=60, period="seconds")
    entry = PeriodicTask.objects.create(
        name=ENTRY, task=serve.name, args=json.dumps([key]), interval=minute, one_off=True,
        start_time="2026-01-01T00:00:00Z",
    )  # fmt: skip
    scheduler, until = SingleInstanceDatabaseScheduler(app=app), time.monotonic() + 30
    while PeriodicTask.objects.get(pk=entry.pk).total_run_count == 0:
        assert time.monotonic() < until, "beat sends nothing"
        scheduler.tick()
        time.sleep(0.1)
    scheduler.close()
