"""Celery apps as the doctor meets them: a healthy one for each kind of broker, and what makes it ill."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Queue

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.operations.doctor.project import Project

#: Settings of which no check says anything, beside those of the broker.
HEALTHY: dict[str, Any] = {
    "worker_prefetch_multiplier": 1,
    "worker_cancel_long_running_tasks_on_connection_loss": True,
    "worker_soft_shutdown_timeout": 20.0,
    "task_time_limit": 90,
    "task_soft_time_limit": 60,
    "broker_pool_acquire_timeout": 5,
    "broker_connection_max_retries": None,
    "beat_scheduler": "django_idempotent",
    "timezone": "UTC",
    "task_queues": [Queue("celery", queue_arguments={"x-dead-letter-exchange": "dead"})],
    "task_default_queue_type": "quorum",
}
REDIS: dict[str, Any] = HEALTHY | {
    "broker_url": "rediss://:pass-word@redis.internal:6379/0",
    "broker_transport_options": {
        "visibility_timeout": 3600,
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
    },
}
AMQP: dict[str, Any] = HEALTHY | {
    "broker_url": "amqps://shop:pass-word@rabbit.internal:5671/shop",
    "broker_transport_options": {"confirm_publish": True},
    "control_queue_exclusive": False,
    "control_queue_durable": True,
}

#: A ledger's entry of ``DATABASES`` of which no check says anything.
DATABASE: dict[str, Any] = {
    "CONN_MAX_AGE": 60,
    "CONN_HEALTH_CHECKS": True,
    "OPTIONS": {"connect_timeout": 5},
}


def project(conf: dict[str, Any], *, guarded: dict[str, Any], plain: dict[str, Any] | None = None) -> Project:
    """A project with one guarded task, ``shop.charge``, and one plain one, ``shop.mail``."""
    app = Celery("shop", set_as_current=False, fixups=[])
    app.conf.update(conf)

    def charge(order_id: int) -> None: ...

    def mail(address: str) -> None: ...

    declare: Any = app.task
    declare(charge, base=IdempotentTask, shared=False, name="shop.charge", **guarded)
    declare(mail, shared=False, name="shop.mail", **(plain or {}))
    app.finalize(auto=True)
    for other in [name for name in app.tasks if not name.startswith(("shop.", "celery."))]:
        del app.tasks[other]  # a shared task of another test of this process
    return Project(app)


def on(vendor: str, found: Project, ledger: dict[str, Any] | None = None) -> Project:
    """The same project with its ledger on another kind of database."""
    vars(found).update(vendor=vendor, alias="default", ledger=DATABASE | (ledger or {}))
    return found
