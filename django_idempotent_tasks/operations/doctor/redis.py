"""Checks of the settings of a broker that is Redis or Valkey."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from django.conf import settings as django_settings

from .check import Catalogue, Severity
from .project import REDIS, Address, Project, addresses
from .tasks import names

redis = Catalogue("Redis and Valkey")

#: Seconds after which kombu delivers an unacknowledged message again, by default.
VISIBILITY_TIMEOUT = 3600
#: The connections that kombu allows a channel by default.
MAX_CONNECTIONS = 10
#: Seconds: Celery's default of ``retry_backoff_max``.
BACKOFF_MAX = 600


@redis.check(
    "D301",
    Severity.ERROR,
    finds="a Redis or Valkey broker without the Python packages `redis` and `packaging`",
    why="kombu cannot load its transport: nothing is sent, and no worker starts.",
    remedy="Install this package with its extra [redis].",
)
def _has_no_client(project: Project) -> Iterator[str]:
    if not project.is_on_redis:
        return
    for module in ("redis", "packaging"):
        if find_spec(module) is None:
            yield f"The package {module} is not installed."


@redis.check(
    "D302",
    Severity.ERROR,
    finds="a `visibility_timeout` that is not above the longest time limit of a task",
    why="The broker delivers the message again while the body still runs. A plain task runs twice at a time;"
    " the copy of a guarded one comes back again and again until the first has ended.",
    remedy="Set broker_transport_options['visibility_timeout'] above the longest time_limit, in every"
    " application that shares the broker: the shortest one counts.",
)
def _is_seen_too_soon(project: Project) -> Iterator[str]:
    timeout = _visibility(project)
    if not project.is_on_redis or timeout is None:
        return
    for text in names(task for task in project.tasks if task.acks_late and (task.time_limit or 0) >= timeout):
        yield f"visibility_timeout is {timeout:g} s, and not above time_limit on {text}."


@redis.check(
    "D303",
    Severity.WARNING,
    finds="a `visibility_timeout` that is not above the longest wait between two tries of a task",
    why="A worker holds a retry until it is due, unacknowledged: the broker delivers it again meanwhile, once"
    " for each visibility_timeout.",
    remedy="Set visibility_timeout above retry_backoff_max and default_retry_delay of the task, or lower"
    " those.",
)
def _waits_longer(project: Project) -> Iterator[str]:
    timeout = _visibility(project)
    if not project.is_on_redis or timeout is None:
        return
    for text in names(task for task in project.tasks if _longest_wait(task) >= timeout):
        yield f"visibility_timeout is {timeout:g} s, and not above the retry delay of {text}."


@redis.check(
    "D304",
    Severity.ERROR,
    finds="a `visibility_timeout` that is no number of seconds above 0",
    why="kombu compares it with the age of each message: the worker fails, or delivers everything again.",
    remedy="Write whole seconds, such as 3600.",
)
def _is_no_timeout(project: Project) -> Iterator[str]:
    given = project.transport.get("visibility_timeout", VISIBILITY_TIMEOUT)
    if project.is_on_redis and _visibility(project) is None:
        yield f"visibility_timeout is a {type(given).__name__}, or not above 0."


@redis.check(
    "D305",
    Severity.WARNING,
    finds="another `visibility_timeout` for results than for messages on Redis",
    why="Celery's documentation asks for the same value in all places; the shortest one counts.",
    remedy="Give result_backend_transport_options the visibility_timeout of broker_transport_options.",
)
def _has_two_timeouts(project: Project) -> Iterator[str]:
    results = (project.conf.result_backend_transport_options or {}).get("visibility_timeout")
    messages = project.transport.get("visibility_timeout", VISIBILITY_TIMEOUT)
    on_redis = str(project.conf.result_backend or "").startswith(("redis", "rediss", "sentinel"))
    if project.is_on_redis and on_redis and results is not None and results != messages:
        yield f"It is {results} s for results and {messages} s for messages."


@redis.check(
    "D306",
    Severity.ERROR,
    finds="the broker's database as a cache of Django",
    why="cache.clear() empties the whole database: all waiting messages are gone.",
    remedy="Give the broker a database of its own, better a server of its own whose maxmemory-policy is"
    " noeviction.",
)
def _is_a_cache(project: Project) -> Iterator[str]:
    brokers = {_place(each) for each in project.brokers_of(REDIS)}
    for alias, cache in django_settings.CACHES.items():
        is_redis = "redis" in str(cache.get("BACKEND", "")).lower()
        if is_redis and brokers & {_place(each) for each in _locations(cache)}:
            yield f"CACHES[{alias!r}] is the broker's database."


@redis.check(
    "D307",
    Severity.WARNING,
    finds="`worker_soft_shutdown_timeout` of 0 on Redis or Valkey",
    why="A worker that is told to stop at once (SIGQUIT, a second SIGTERM) leaves its messages"
    " unacknowledged: plain tasks come back only after visibility_timeout.",
    remedy="Set worker_soft_shutdown_timeout to 20 or so, less than your process manager waits.",
)
def _stops_hard(project: Project) -> Iterator[str]:
    if project.is_on_redis and not project.conf.worker_soft_shutdown_timeout:
        yield "worker_soft_shutdown_timeout is 0."


@redis.check(
    "D308",
    Severity.ADVICE,
    finds="no `socket_timeout`, `socket_connect_timeout` or `socket_keepalive` for Redis",
    why="If the broker does not answer, every sender waits without end, also a web request.",
    remedy="Set the three in broker_transport_options, such as 5, 2 and True; also health_check_interval.",
)
def _waits_without_end(project: Project) -> Iterator[str]:
    wanted = ("socket_timeout", "socket_connect_timeout", "socket_keepalive")
    missing = [name for name in wanted if not project.transport.get(name)]
    if project.is_on_redis and missing:
        yield f"broker_transport_options has no {', '.join(missing)}."


@redis.check(
    "D309",
    Severity.WARNING,
    finds="a pool of greenlets or threads with more of them than `max_connections` of the transport allows",
    why="Bodies that end in the same moment acknowledge at once, each on a connection of its own, of which"
    " kombu allows 10. A message that gets none stays unacknowledged, or is not given back: Celery logs"
    " MaxConnectionsError, and the message comes back only after visibility_timeout.",
    remedy="Set broker_transport_options['max_connections'] above worker_concurrency.",
)
def _shares_few_connections(project: Project) -> Iterator[str]:
    pool, bodies = str(project.conf.worker_pool), int(project.conf.worker_concurrency or 0)
    most = project.transport.get("max_connections", MAX_CONNECTIONS)
    is_shared = any(kind in pool for kind in ("gevent", "eventlet", "thread"))
    if project.is_on_redis and is_shared and most is not None and bodies > most:
        yield f"worker_concurrency is {bodies}, and max_connections {most}."


def _visibility(project: Project) -> float | None:
    """The seconds of ``visibility_timeout``; None where it is no such number."""
    given = project.transport.get("visibility_timeout", VISIBILITY_TIMEOUT)
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return float(given) if is_number and given > 0 else None


def _longest_wait(task: Any) -> float:
    """The seconds between two tries of a task that Celery retries by itself."""
    if getattr(task, "autoretry_for", ()) and getattr(task, "retry_backoff", False):
        return float(getattr(task, "retry_backoff_max", BACKOFF_MAX) or 0)
    return float(task.default_retry_delay or 0)


def _locations(cache: Mapping[str, Any]) -> list[Address]:
    given = cache.get("LOCATION", "")
    return addresses(list(given) if isinstance(given, list | tuple) else str(given).replace(",", ";"))


def _place(address: Address) -> tuple[str, int, str]:
    """Host, port and database, so that two spellings of one are equal."""
    host = "localhost" if address.is_local and address.host else address.host
    return host, address.port or 6379, address.path.strip("/") or "0"
