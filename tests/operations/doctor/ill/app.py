"""Its Celery app and its tasks; ILL chooses the broker and the database."""

from __future__ import annotations

import os

from celery import Celery
from kombu import Exchange, Queue

from django_idempotent_tasks import IdempotentTask

ON_REDIS = os.environ.get("ILL", "redis") == "redis"

app = Celery("ill")
app.conf.update(
    broker_url="redis://:pass-word@redis.internal/0"
    if ON_REDIS
    else "amqp://guest:pass-word@rabbit.internal//",
    broker_write_url="memory://" if ON_REDIS else "rabbit://rabbit.internal",
    broker_transport_options={"visibility_timeout": 60} if ON_REDIS else {},
    broker_use_ssl={"ssl_cert_reqs": "none"},
    broker_heartbeat=0,
    accept_content=["pickle"],
    task_serializer="pickle",
    task_always_eager=True,
    task_time_limit=None,
    task_soft_time_limit=60,
    task_publish_retry_policy={"max_retries": None},
    task_default_delivery_mode="transient",
    task_create_missing_queues=False,
    task_queues=[
        Queue("celery", Exchange("celery"), queue_arguments={"x-queue-type": "quorum"}),
        Queue("classic", Exchange("classic"), durable=False),
    ],
    task_routes={"ill.route": {"queue": "nowhere"}},
    worker_detect_quorum_queues=False,
    result_backend="redis://redis.internal/1",
    result_backend_transport_options={"visibility_timeout": 61},
    result_expires=None,
    enable_utc=False,
    timezone="Asia/Tokyo",
    beat_schedule={"Gone": {"task": "ill.gone", "schedule": 60}},
)


@app.task(
    base=IdempotentTask, name="ill.early", acks_late=False, reject_on_worker_lost=False, sensitive=("card",)
)
def early(card: str) -> None:
    """Acknowledges before it runs, and has no limit."""


@app.task(
    base=IdempotentTask,
    name="ill.stubborn",
    autoretry_for=(Exception,),
    max_retries=None,
    time_limit=60,
    default_retry_delay=600,
)
def stubborn(order_id: int) -> None:
    """Is tried for ever, whatever went wrong."""


@app.task(base=IdempotentTask, name="ill.route")
def route(order_id: int) -> None:
    """Goes to a queue that is not declared."""


@app.task(name="ill.poison", acks_late=True, reject_on_worker_lost=True)
def poison() -> None:
    """Comes back for ever."""
