"""Configuration of the tests' Celery app; what differs between workers comes from the environment."""

from __future__ import annotations

import os

_prefix = os.environ.get("PROJ_PREFIX", "proj:")

broker_url = os.environ.get("CELERY_BROKER_URL", "memory://")
broker_transport_options = {
    "global_keyprefix": _prefix,
    "visibility_timeout": int(os.environ.get("PROJ_VISIBILITY_TIMEOUT", "3600")),
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
    "socket_connect_timeout": 2,
    # As many as a pool of greenlets or threads may need that gives all its messages back at once.
    "max_connections": 100,
}
broker_connection_timeout = 1
broker_connection_retry_on_startup = True
broker_connection_max_retries = None

result_backend = os.environ.get("PROJ_RESULT_BACKEND", broker_url)
# The same for all workers: task ids are unique, and the tests read results with one app.
result_backend_transport_options = {
    "global_keyprefix": "proj-results:",
    "retry_policy": {"max_retries": 1, "timeout": 1.0},
}

task_serializer = result_serializer = "json"
accept_content = result_accept_content = ["json"]
task_acks_late = True
task_reject_on_worker_lost = True
task_publish_retry_policy = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1}
worker_prefetch_multiplier = 1
worker_enable_remote_control = False
worker_send_task_events = False
worker_hijack_root_logger = True
enable_utc = True
timezone = "UTC"
