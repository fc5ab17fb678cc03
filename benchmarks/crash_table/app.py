"""A subject's Celery app: Celery's defaults but for what the experiments are about."""

from __future__ import annotations

from celery import Celery

from benchmarks.crash_table.deeds import gather
from benchmarks.crash_table.guards import VARIANTS
from benchmarks.crash_table.places import redis_url
from benchmarks.crash_table.subjects import Subject

GATHER = "crash.gather"


def make_app(subject: Subject, transport: dict[str, int] | None = None) -> Celery:
    """Make the app with every variant of the subject's task, on the Redis database that is its own."""
    url = redis_url(subject)
    app = Celery("crash", broker=url, backend=url, set_as_current=False)
    app.conf.update(
        broker_transport_options=transport or {},
        broker_connection_retry_on_startup=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        timezone="UTC",
        ONCE={"backend": "celery_once.backends.Redis", "settings": {"url": url}},
    )
    for variant in VARIANTS:
        subject.guard(app, variant)
    app.task(name=GATHER, shared=False)(gather)
    app.finalize()
    return app
