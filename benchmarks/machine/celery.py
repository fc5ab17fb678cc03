"""The Celery app of the benchmarks: Celery's defaults, but with late acknowledgement and without results."""

from __future__ import annotations

import os

from celery import Celery, signals
from django.db import close_old_connections

from benchmarks.machine.environment import has_peers, is_guarded, is_kept

BROKER = os.environ["CELERY_BROKER_URL"]
#: Seconds that a peer keeps a lock that nobody gives back.
LOCK_SECONDS = 600

app = Celery(
    "benchmarks",
    include=[
        "benchmarks.throughput.plain",
        *(["benchmarks.throughput.guarded"] if is_guarded() else []),
        *(["benchmarks.throughput.peers"] if has_peers() else []),
    ],
)
app.conf.update(
    broker_url=BROKER,
    broker_connection_retry_on_startup=True,
    # IdempotentTask sets both; the plain tasks get the same promise.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    timezone="UTC",
)
if has_peers():
    app.conf.update(
        ONCE={
            "backend": "celery_once.backends.Redis",
            "settings": {"url": BROKER, "default_timeout": LOCK_SECONDS},
        },
        singleton_backend_url=BROKER,
    )


@signals.worker_init.connect
def _keep_connections(**_kwargs: object) -> None:
    """For a plain worker what the package's KEEP_CONNECTIONS does for a guarded one."""
    if is_kept() and not is_guarded():
        for fixup in getattr(app, "_fixups", ()):
            fixup.worker_fixup.close_database = lambda **_kwargs: close_old_connections()
