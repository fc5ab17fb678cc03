"""Celery in production on Redis or Valkey, each with its reason. Copy it and adapt the figures."""

from __future__ import annotations

import os

from celery.schedules import crontab
from kombu import Exchange, Queue

# The broker, without a default password: credentials belong in the environment.
broker_url = os.environ.get("CELERY_BROKER_URL", "redis://127.0.0.1:6379/0")

# --- What a message may contain ---------------------------------------------------------------------
# JSON only: pickle lets anybody who can write to the broker run code in the worker.
task_serializer = "json"
accept_content = ["json"]
result_serializer = "json"
result_accept_content = ["json"]

# --- When a message is acknowledged -----------------------------------------------------------------
# After the task, so that a killed worker's work is delivered again (IdempotentTask sets both itself;
# here they cover plain tasks as well).
task_acks_late = True
task_reject_on_worker_lost = True
# A child holds one message at a time: nothing waits behind a slow task, a crash returns few messages, and
# the worker's memory does not grow with the queue.
worker_prefetch_multiplier = 1
# When the broker connection breaks, the broker delivers again what is unacknowledged. Stop the copy that
# runs here, so that it does not work beside its successor (its completion would be refused anyway).
worker_cancel_long_running_tasks_on_connection_loss = True

# --- How long a task may take -----------------------------------------------------------------------
# The soft limit raises an exception that the task can clean up after; the hard limit kills the child.
# Both are far above the gateway's timeout, so they only end what hangs. A chunk of an upload, which asks the
# gateway 50 times, has longer ones of its own.
task_soft_time_limit = 60
task_time_limit = 90

# --- Redis / Valkey transport -----------------------------------------------------------------------
broker_transport_options = {
    # An unacknowledged message is delivered again after this many seconds. It must be longer than the
    # hard time limit and than the longest countdown, or a second copy starts while the first still runs.
    "visibility_timeout": int(os.environ.get("CELERY_VISIBILITY_TIMEOUT", "3600")),
    # How often a worker looks for such messages: every interval x throttle seconds.
    "unacked_restore_interval": int(os.environ.get("CELERY_RESTORE_INTERVAL", "10")),
    "unacked_restore_throttle": int(os.environ.get("CELERY_RESTORE_THROTTLE", "10")),
    # A broker that vanishes or says nothing is noticed, instead of being waited for without end: a web
    # request that publishes hangs no longer than this. Workers wait for messages in turns of a second.
    "socket_connect_timeout": 2,
    "socket_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 25,
}
# Also wait for a broker that is not up yet when the worker starts.
broker_connection_retry_on_startup = True
# And never give up on one that went away: the process manager would only restart the worker.
broker_connection_max_retries = None

# --- Publishing -------------------------------------------------------------------------------------
# Few tries: a web request must not hang on the broker. The webhook then answers 503, and the provider
# sends the event again.
broker_connection_timeout = 2
# Nor for a connection of the pool that no other thread gives back (from Celery 5.7 on).
broker_pool_acquire_timeout = 5
task_publish_retry = True
task_publish_retry_policy = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}

# --- Results ----------------------------------------------------------------------------------------
# No result backend: outcomes are in the ledger, in the same database as the payments, and a second
# copy would cost a write for each task and could disagree.
result_backend = None
task_ignore_result = True
# So that beat has no nightly clean-up of results to send.
result_expires = None

# --- Queues -----------------------------------------------------------------------------------------
# A flood of notifications must not delay payments, nor an upload of 100,000 rows anything else, so each has
# its own queue; a worker serves all here, in production give them workers of their own
# (celery worker -Q payments).
task_default_queue = "default"
# Exchange and key are stated because Celery binds a queue without them to the default queue's key.
task_queues = tuple(
    Queue(name, Exchange(name), routing_key=name)
    for name in ("default", "payments", "notifications", "registrations", "badges")
)
task_routes = {
    "example_project.payments.tasks.handle_event": {"queue": "payments"},
    "example_project.payments.tasks.notify": {"queue": "notifications"},
    "example_project.registrations.tasks.register": {"queue": "registrations"},
    # Not behind the chunks of an upload: the first badges are printed while the last rows are registered.
    "example_project.registrations.tasks.print_badge": {"queue": "badges"},
    # Somebody's money, like any other payment.
    "example_project.registrations.tasks.take_payment": {"queue": "payments"},
    "example_project.registrations.tasks.ask_again": {"queue": "payments"},
}
# A misspelt queue name is an error at send instead of a queue that nobody reads.
task_create_missing_queues = False

# --- How much memory a worker may take --------------------------------------------------------------
# A child that has held more than this (KiB, its peak, with what it shares with its parent) is replaced when
# its task has ended, never in the middle of one. Far above the parent's own size, or each task costs a fork;
# times the number of children below what the host has.
worker_max_memory_per_child = 400_000
# Python gives memory back late and fragments it, and libraries leak a little with each call: a child that
# stays small at its peak is replaced as well, before that adds up.
worker_max_tasks_per_child = 1000
# Neither stops one task that grows without end. The limits of time above end it if it is slow; if it is
# quick, the host's limit must: MemoryMax= of the unit, the limit of the container. A child that is killed so
# is a crash like any other: its work is taken over, and after max_crashes it is a dead letter. Against it at
# the source: a chunk has 50 rows, a row at most 1,000 characters, and no upload is read whole.

# --- The worker process -----------------------------------------------------------------------------
# At a deployment, give running tasks this long to finish before they are stopped and handed back.
worker_soft_shutdown_timeout = 20.0
# Django's LOGGING decides the format, not Celery.
worker_hijack_root_logger = False
# Events cost broker traffic for each task; switch them on when a monitor listens.
worker_send_task_events = False
task_send_sent_event = False

# Countdowns and schedules are computed in UTC, so that no clock change runs them twice.
enable_utc = True
timezone = "UTC"

# --- Beat -------------------------------------------------------------------------------------------
# Start two (celery beat, or manage.py idem beat): one leads, and each time is sent once.
beat_scheduler = "django_idempotent_tasks.schedulers:SingleInstanceDatabaseScheduler"
# The demonstration cannot wait for a night: there every entry comes after so many seconds.
_quickly = float(os.environ.get("PERIODIC_SECONDS", "0"))
# Set up in the database by the first beat that leads, and read again from here at each start: change
# these here, and what is a matter of data (what runs once) in the admin.
beat_schedule = {
    "Reconcile the books": {
        "task": "example_project.books.tasks.reconcile_all",
        "schedule": _quickly or crontab(minute="30", hour="3"),
    },
    "Remind of pending payments": {
        "task": "example_project.books.tasks.remind",
        "schedule": _quickly or crontab(minute="0", hour="9", day_of_week="mon-fri"),
    },
    "Tidy up": {
        "task": "example_project.books.tasks.tidy",
        "schedule": _quickly or crontab(minute="15", hour="4"),
    },
}
