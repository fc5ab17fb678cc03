"""Settings of the hosts: those of the benchmarks, with shorter times, so that a host may be missed soon."""

from __future__ import annotations

from benchmarks.hosts.times import LEASE, visible
from benchmarks.machine.environment import is_guarded
from benchmarks.machine.settings import (  # noqa: F401
    DATABASES,
    DEFAULT_AUTO_FIELD,
    SECRET_KEY,
    USE_TZ,
    celery_app,
)
from benchmarks.machine.settings import IDEMPOTENT_TASKS as USUAL
from benchmarks.machine.settings import INSTALLED_APPS as OURS

TIME_ZONE = "UTC"
INSTALLED_APPS = [*OURS, *(["django_celery_beat", "benchmarks.chaos"] if is_guarded() else [])]
IDEMPOTENT_TASKS = {**USUAL, "LEASE": LEASE, "MAX_CRASHES": 1000}

if is_guarded():
    celery_app.conf.include = [*celery_app.conf.include, "benchmarks.hosts.tasks"]
celery_app.conf.update(
    broker_connection_max_retries=None,
    broker_connection_timeout=2,
    broker_transport_options={
        "visibility_timeout": visible(),
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 10,
        "socket_connect_timeout": 2,
        "socket_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 25,
    },
)
