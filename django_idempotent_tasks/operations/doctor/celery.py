"""Checks of Celery's settings."""

from __future__ import annotations

from collections.abc import Iterator

from kombu.transport import TRANSPORT_ALIASES

from ...identity.text import harmless
from .check import Catalogue, Severity
from .project import Project
from .tasks import names

celery = Catalogue("Celery")

#: Serializers that run code of whoever wrote the message, by name and by content type.
DANGEROUS = frozenset({"pickle", "yaml", "application/x-python-serialize", "application/x-yaml"})
#: Transports that no other process reads, or that are for one host.
_NO_BROKER = frozenset({"memory", "filesystem"})


@celery.check(
    "D101",
    Severity.ERROR,
    finds="pickle or yaml in `accept_content` or `result_accept_content`",
    why="Everybody who can write to the broker can run code in the worker.",
    remedy='Set accept_content and result_accept_content to ["json"].',
)
def _accepts_code(project: Project) -> Iterator[str]:
    for name in ("accept_content", "result_accept_content"):
        found = sorted({str(each) for each in getattr(project.conf, name) or ()} & DANGEROUS)
        if found:
            yield f"{name} has {', '.join(found)}."


@celery.check(
    "D102",
    Severity.ERROR,
    finds="pickle or yaml as the serializer of tasks or results",
    why="The workers must accept what runs code, and a reserved call is stored as JSON: the sender refuses"
    " values that only pickle can carry.",
    remedy='Set task_serializer and result_serializer to "json", and take serializer off the task.',
)
def _sends_code(project: Project) -> Iterator[str]:
    for name in ("task_serializer", "result_serializer"):
        if getattr(project.conf, name) in DANGEROUS:
            yield f"{name} is {getattr(project.conf, name)}."
    default = project.conf.task_serializer
    for text in names(t for t in project.tasks if t.serializer in DANGEROUS and t.serializer != default):
        yield f"serializer is pickle or yaml on {text}."


@celery.check(
    "D103",
    Severity.ERROR,
    finds="`task_always_eager`",
    why="Tasks run inside the web request, and no worker gets any: that is for tests.",
    remedy="Take task_always_eager out of the settings of production.",
)
def _is_eager(project: Project) -> Iterator[str]:
    if project.conf.task_always_eager:
        yield "task_always_eager is True."


@celery.check(
    "D104",
    Severity.ERROR,
    finds="a broker of one process or host (`memory://`, `filesystem://`), or no `broker_url` at all",
    why="No worker receives the messages that a web process sends.",
    remedy="Set broker_url to Redis, Valkey or RabbitMQ.",
)
def _has_no_broker(project: Project) -> Iterator[str]:
    if not any((project.conf.broker_url, project.conf.broker_write_url)):
        yield "broker_url is not set: Celery takes amqp://guest@localhost//."
    for each in project.brokers:
        if each.scheme in _NO_BROKER:
            yield f"A broker is {each.scheme}://."


@celery.check(
    "D105",
    Severity.ERROR,
    finds="a `broker_url` whose scheme kombu does not know, such as `valkey://`",
    why="No message can be sent, and no worker starts.",
    remedy="Write redis:// or rediss:// for Redis and Valkey, amqp:// or amqps:// for RabbitMQ.",
)
def _is_no_transport(project: Project) -> Iterator[str]:
    for each in project.brokers:
        known = (
            each.scheme in {*TRANSPORT_ALIASES, "redis+socket"} or "+" in each.scheme or "." in each.scheme
        )
        if not known:
            yield f"A broker's scheme is {harmless(each.scheme)!r}."


@celery.check(
    "D106",
    Severity.WARNING,
    finds="`worker_prefetch_multiplier` other than 1, where tasks acknowledge late",
    why="Messages wait in a worker behind a long body while other workers are idle, and a worker that dies"
    " takes all of them along until they are delivered again.",
    remedy="Set worker_prefetch_multiplier = 1.",
)
def _prefetches(project: Project) -> Iterator[str]:
    multiplier = project.conf.worker_prefetch_multiplier
    late = any(task.acks_late for task in project.tasks)
    if multiplier != 1 and late and not project.conf.worker_disable_prefetch:
        yield f"worker_prefetch_multiplier is {multiplier}."


@celery.check(
    "D107",
    Severity.WARNING,
    finds="`worker_cancel_long_running_tasks_on_connection_loss` off, where tasks acknowledge late",
    why="After a lost connection the broker delivers the message of a running body again: a plain task then"
    " runs twice at a time, and a guarded body works on though another attempt may have its key.",
    remedy="Set worker_cancel_long_running_tasks_on_connection_loss = True.",
)
def _works_on(project: Project) -> Iterator[str]:
    late = any(task.acks_late for task in project.tasks)
    if late and not project.conf.worker_cancel_long_running_tasks_on_connection_loss:
        yield "worker_cancel_long_running_tasks_on_connection_loss is False."


@celery.check(
    "D108",
    Severity.WARNING,
    finds="`task_publish_retry_policy` without a bound",
    why="A web request that sends waits for as long as the broker is away.",
    remedy="Set max_retries in task_publish_retry_policy, such as 2; reserve=True sends later by itself.",
)
def _publishes_for_ever(project: Project) -> Iterator[str]:
    policy = project.conf.task_publish_retry_policy or {}
    if project.conf.task_publish_retry and policy.get("max_retries", 3) is None:
        yield "task_publish_retry_policy has max_retries None."


@celery.check(
    "D109",
    Severity.WARNING,
    finds="a result backend, and `result_expires = None`",
    why="Results are kept for ever.",
    remedy="Set result_expires, or ignore results: the ledger has them.",
)
def _keeps_results(project: Project) -> Iterator[str]:
    if project.conf.result_backend and project.conf.result_expires is None:
        yield "result_expires is None."


@celery.check(
    "D110",
    Severity.WARNING,
    finds="TLS to a broker that checks no certificate",
    why="Somebody on the network in between can read and write messages, and so run tasks.",
    remedy="Set ssl_cert_reqs to CERT_REQUIRED in broker_use_ssl (or in the query of a rediss:// URL), with"
    " the certificate of your authority.",
)
def _trusts_anybody(project: Project) -> Iterator[str]:
    given = project.conf.broker_use_ssl
    options = given if isinstance(given, dict) else {}
    requires = options.get("ssl_cert_reqs", options.get("cert_reqs"))
    urls = [project.conf.broker_url, project.conf.broker_write_url, project.conf.broker_read_url]
    in_query = any(
        "ssl_cert_reqs=none" in str(u).lower() or "ssl_cert_reqs=cert_none" in str(u).lower() for u in urls
    )
    off = requires is not None and (str(requires).upper().endswith("NONE") or requires == 0)
    if off or in_query:
        yield "ssl_cert_reqs is none."


@celery.check(
    "D111",
    Severity.ADVICE,
    finds="no `broker_pool_acquire_timeout` (Celery 5.7)",
    why="When all connections of the pool are in use, a thread that sends waits without end.",
    remedy="Set broker_pool_acquire_timeout = 5 or so.",
)
def _waits_for_the_pool(project: Project) -> Iterator[str]:
    timeout = getattr(project.conf, "broker_pool_acquire_timeout", 0)  # of Celery 5.7
    if project.conf.broker_pool_limit and timeout is None:
        yield "broker_pool_acquire_timeout is None."


@celery.check(
    "D112",
    Severity.ADVICE,
    finds="`broker_connection_max_retries` that is finite",
    why="A worker gives up after this number of tries, and ends while the broker is away.",
    remedy="Set broker_connection_max_retries = None, or make sure that something starts the worker again.",
)
def _gives_up(project: Project) -> Iterator[str]:
    tries = project.conf.broker_connection_max_retries
    if project.conf.broker_connection_retry and tries:
        yield f"broker_connection_max_retries is {tries}."
