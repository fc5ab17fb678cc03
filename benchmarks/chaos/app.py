"""The Celery app of a chaos run: as in production, with shorter times."""

from __future__ import annotations

import os

from celery import Celery

from benchmarks.chaos.plan import PERIOD, PERIODIC

app = Celery("benchmarks.chaos", include=["benchmarks.chaos.tasks"])
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_connection_timeout=2,
    broker_transport_options=(
        {
            "visibility_timeout": 10,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
            # One that is killed while it restores messages keeps others from it for five minutes otherwise.
            "unacked_mutex_expire": 10,
            "socket_connect_timeout": 2,
            "socket_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 25,
        }
        if os.environ["CELERY_BROKER_URL"].startswith("redis")
        else {"confirm_publish": True}
    ),
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_publish_retry_policy={
        "max_retries": 2,
        "interval_start": 0,
        "interval_step": 0.2,
        "interval_max": 0.5,
    },
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    worker_send_task_events=False,
    result_expires=None,
    beat_schedule={
        f"every {name}": {"task": f"benchmarks.chaos.tasks.{name}", "schedule": float(PERIOD)}
        for name in PERIODIC
    },
    timezone="UTC",
)
if not os.environ["CELERY_BROKER_URL"].startswith("redis"):
    # RabbitMQ may still hold a connection that a worker has lost. An exclusive queue would then be refused to
    # the worker, which ends (D408 of the doctor).
    app.conf.update(control_queue_exclusive=False, control_queue_durable=True)
if os.environ.get("CHAOS_QUEUES") == "quorum":
    app.conf.update(
        task_default_queue_type="quorum",
        task_default_exchange_type="topic",
        task_create_missing_queue_type="quorum",
        task_create_missing_queue_exchange_type="topic",
    )
