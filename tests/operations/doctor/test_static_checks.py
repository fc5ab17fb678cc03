"""Each check of settings and tasks fires where its one setting is wrong, and is silent where it is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.backends.postgresql.psycopg_any import IsolationLevel
from kombu import Exchange, Queue

from django_idempotent_tasks.operations.doctor import redis
from django_idempotent_tasks.operations.doctor.check import Finding, Severity
from django_idempotent_tasks.operations.doctor.examine import STATIC
from django_idempotent_tasks.operations.doctor.project import Project
from tests.operations.doctor.projects import AMQP, REDIS, on, project

TRANSPORT = "broker_transport_options"
REDIS_OPTIONS: dict[str, Any] = REDIS[TRANSPORT]
ENTRY = {"task": "shop.gone", "schedule": 60}


def _redis(**options: Any) -> dict[str, Any]:
    return {TRANSPORT: REDIS_OPTIONS | options}


#: What Celery 5.7 does by default.
LOCKED = {"control_queue_exclusive": True, "control_queue_durable": False}
RESULTS = {"result_backend": "redis://redis.internal/1"}
CACHE = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://redis.internal"}

#: The check, and the settings that are wrong in a project on Redis.
CELERY: list[tuple[str, dict[str, Any]]] = [
    ("D101", {"accept_content": ["json", "pickle"]}),
    ("D101", {"result_accept_content": ["yaml"]}),
    ("D102", {"task_serializer": "pickle"}),
    ("D102", {"result_serializer": "yaml"}),
    ("D103", {"task_always_eager": True}),
    ("D104", {"broker_url": "memory://"}),
    ("D104", {"broker_url": None}),
    ("D104", {"broker_write_url": "filesystem://"}),
    ("D105", {"broker_url": "valkey://redis.internal/0"}),
    ("D106", {"worker_prefetch_multiplier": 4}),
    ("D107", {"worker_cancel_long_running_tasks_on_connection_loss": False}),
    ("D108", {"task_publish_retry_policy": {"max_retries": None}}),
    ("D109", {"result_backend": "redis://redis.internal/1", "result_expires": None}),
    ("D110", {"broker_use_ssl": {"ssl_cert_reqs": "none"}}),
    ("D110", {"broker_url": "rediss://redis.internal/0?ssl_cert_reqs=CERT_NONE"}),
    ("D111", {"broker_pool_acquire_timeout": None}),
    ("D112", {"broker_connection_max_retries": 100}),
    ("D302", _redis(visibility_timeout=90)),
    ("D302", {"task_time_limit": 3600}),
    ("D303", _redis(visibility_timeout=180)),
    ("D304", _redis(visibility_timeout="1h")),
    ("D304", _redis(visibility_timeout=0)),
    ("D305", {**RESULTS, "result_backend_transport_options": {"visibility_timeout": 60}}),
    ("D307", {"worker_soft_shutdown_timeout": 0}),
    ("D308", {TRANSPORT: {}}),
    ("D309", {"worker_pool": "gevent", "worker_concurrency": 11}),
    ("D309", {"worker_pool": "threads", "worker_concurrency": 50, **_redis(max_connections=49)}),
    ("D901", {"beat_scheduler": "django_celery_beat.schedulers:DatabaseScheduler"}),
    ("D903", {"beat_schedule": {"Tidy": ENTRY}}),
    ("D904", {"timezone": "Europe/Berlin"}),
    ("D904", {"enable_utc": False}),
]  # fmt: skip

#: The check, and the settings that are wrong in a project on RabbitMQ.
RABBITMQ: list[tuple[str, dict[str, Any]]] = [
    ("D110", {"broker_use_ssl": {"cert_reqs": 0}}),
    ("D401", {TRANSPORT: {}}),
    ("D402", {"task_default_delivery_mode": "transient"}),
    ("D402", {"task_queues": [Queue("celery", durable=False)]}),
    ("D402", {"task_queues": [Queue("celery", Exchange("celery", delivery_mode=1))]}),
    ("D403", {"broker_url": "amqp://guest:guest@rabbit.internal//"}),
    ("D403", {"broker_url": "amqp://rabbit.internal//"}),
    ("D404", {"worker_detect_quorum_queues": False}),
    ("D405", {"broker_heartbeat": 0}),
    ("D406", {"task_queues": [Queue("celery")]}),
    ("D407", {"task_default_queue_type": "classic"}),
    ("D408", LOCKED),
]

#: The check, and what is wrong with the options of a guarded task on Redis.
GUARDED: list[tuple[str, dict[str, Any]]] = [
    ("D102", {"serializer": "pickle"}),
    ("D201", {"acks_late": False}),
    ("D202", {"reject_on_worker_lost": False}),
    ("D204", {"time_limit": 0}),
    ("D205", {"soft_time_limit": 90}),
    ("D206", {"autoretry_for": (OSError,), "max_retries": None}),
    ("D207", {"autoretry_for": (Exception,)}),
    ("D303", {"autoretry_for": (OSError,), "retry_backoff": True, "retry_backoff_max": 3600}),
]

#: The check, and what is wrong with the ledger's entry of ``DATABASES``.
LEDGER: list[tuple[str, str, dict[str, Any]]] = [
    ("D501", "postgresql", {"OPTIONS": {"isolation_level": IsolationLevel.SERIALIZABLE}}),
    ("D601", "mysql", {"OPTIONS": {"isolation_level": "repeatable read"}}),
    ("D602", "mysql", {"OPTIONS": {"init_command": "SET default_storage_engine=MyISAM"}}),
    ("D702", "postgresql", {"CONN_HEALTH_CHECKS": False}),
    ("D702", "mysql", {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False}),
    ("D704", "postgresql", {"OPTIONS": {}}),
]

#: The check, and the setting of Django that is wrong.
DJANGO: list[tuple[str, str, Any]] = [
    ("D306", "CACHES", {"default": CACHE}),
    ("D801", "DEBUG", True),
    ("D803", "USE_TZ", False),
    ("D804", "LOGGING", {"loggers": {"django_idempotent_tasks": {"level": "ERROR"}}}),
]  # fmt: skip

#: Those that need more than one setting; each has a test of its own below.
APART = {"D203", "D208", "D301", "D701", "D703", "D705", "D802", "D902"}


def _findings(found: Project) -> list[Finding]:
    return [each for group in STATIC for check in group.checks for each in check.findings(found)]


def _ids(found: Project) -> set[str]:
    return {each.id for each in _findings(found)}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Celery prefers these to its settings."""
    for name in ("CELERY_BROKER_URL", "CELERY_RESULT_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    return iter(())


def _healthy(conf: dict[str, Any] = REDIS, **guarded: Any) -> Project:
    return on("postgresql", project(conf, guarded=guarded))


@pytest.mark.parametrize("conf", [REDIS, AMQP], ids=["redis", "amqp"])
@pytest.mark.parametrize("vendor", ["postgresql", "mysql"])
def test_nothing_is_said_of_a_project_that_is_well(conf: dict[str, Any], vendor: str) -> None:
    assert _findings(on(vendor, project(conf, guarded={}))) == []


@pytest.mark.parametrize(("check", "wrong"), CELERY)
def test_a_wrong_setting_on_redis_is_found(check: str, wrong: dict[str, Any]) -> None:
    assert check in _ids(_healthy(REDIS | wrong))


@pytest.mark.parametrize(("check", "wrong"), RABBITMQ)
def test_a_wrong_setting_on_rabbitmq_is_found(check: str, wrong: dict[str, Any]) -> None:
    assert check in _ids(_healthy(AMQP | wrong))


@pytest.mark.parametrize(("check", "wrong"), GUARDED)
def test_a_wrong_option_of_a_task_is_found_and_the_task_named(check: str, wrong: dict[str, Any]) -> None:
    found = [each for each in _findings(_healthy(REDIS, **wrong)) if each.id == check]
    assert len(found) == 1
    assert "shop.charge" in found[0].saw


@pytest.mark.parametrize(("check", "vendor", "wrong"), LEDGER)
def test_a_wrong_option_of_the_ledgers_database_is_found(
    check: str, vendor: str, wrong: dict[str, Any]
) -> None:
    assert check in _ids(on(vendor, project(REDIS, guarded={}), wrong))


@pytest.mark.parametrize(("check", "name", "wrong"), DJANGO)
def test_a_wrong_setting_of_django_is_found(settings: Any, check: str, name: str, wrong: Any) -> None:
    setattr(settings, name, wrong)
    assert check in _ids(_healthy())


def test_a_plain_task_that_comes_back_for_ever_is_d203() -> None:
    for wrong in ({"reject_on_worker_lost": True}, {"acks_on_timeout": False}):
        found = on("postgresql", project(REDIS, guarded={}, plain={"acks_late": True, **wrong}))
        assert _ids(found) == {"D203"}
    right = {"acks_late": True, "reject_on_worker_lost": True, "retry_on_worker_lost": True}
    for plain in (right, {"acks_late": True}):
        assert _ids(on("postgresql", project(REDIS, guarded={}, plain=plain))) == set()


def test_a_route_to_a_queue_that_is_not_declared_is_d208() -> None:
    strict = REDIS | {"task_create_missing_queues": False}
    assert _ids(_healthy(strict)) == set()
    assert _ids(_healthy(strict | {"task_routes": {"shop.charge": {"queue": "chrages"}}})) == {"D208"}


def test_a_client_that_is_not_installed_is_d301(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "find_spec", lambda name: None if name == "packaging" else object())
    (found,) = _findings(_healthy())
    assert (found.id, found.saw) == ("D301", "The package packaging is not installed.")
    assert _ids(_healthy(AMQP)) == set()


def test_d408_is_about_workers_on_rabbitmq_that_listen_to_remote_control() -> None:
    (found,) = _findings(_healthy(AMQP | LOCKED))
    assert (found.severity, found.saw) == (Severity.WARNING, "control_queue_exclusive is True.")
    for line in ("control_queue_exclusive = False", "control_queue_durable = True"):
        assert line in found.remedy
    assert _ids(_healthy(AMQP | LOCKED | {"worker_enable_remote_control": False})) == set()
    assert _ids(_healthy(REDIS | LOCKED)) == set()


def test_a_ledger_on_sqlite_is_d701() -> None:
    assert _ids(on("sqlite", project(REDIS, guarded={}))) == {"D701"}


class Elsewhere:
    """A router that puts everything elsewhere."""

    def allow_migrate(self, *_call: object, **_hints: object) -> bool:
        return False


def test_a_router_that_keeps_the_tables_away_is_d703(settings: Any) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.Elsewhere"]
    assert _ids(_healthy()) == {"D703"}


def test_calls_that_go_out_before_the_request_commits_are_d705(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "ATOMIC_REQUESTS", True)
    assert _ids(_healthy()) == {"D705"}
    assert _ids(_healthy(reserve=True)) == set()


def test_a_key_of_startproject_that_signs_sensitive_arguments_is_d802(settings: Any) -> None:
    settings.SECRET_KEY = "django-insecure-abc"
    assert _ids(_healthy()) == set()
    assert _ids(_healthy(sensitive=("order_id",))) == {"D802"}
    settings.IDEMPOTENT_TASKS = {"HMAC_KEY": "0123456789abcdef"}
    assert _ids(_healthy(sensitive=("order_id",))) == set()


def test_a_schedule_in_a_file_is_d902(settings: Any) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_celery_beat"]
    scheduled = REDIS | {"beat_schedule": {"Charge": {"task": "shop.charge", "schedule": 60}}}
    assert _ids(_healthy(scheduled)) == {"D902"}
    assert _ids(_healthy()) == set()


def test_each_check_has_a_case() -> None:
    here = {case[0] for table in (CELERY, RABBITMQ, GUARDED, LEDGER, DJANGO) for case in table} | APART
    assert here == {check.id for group in STATIC for check in group.checks}


def test_no_password_is_shown_whatever_the_url() -> None:
    for url in (
        "redis://:pass-word@redis.internal/0",
        "amqp://guest:pass/word@h//",
        "valkey://x:pass-word@h:port",
        ["amqp://guest:pass-word@h//", "amqp://h2:pass-word@h/3"],
        "redis://u/pass-word:x@h/0",
    ):
        found = _healthy(HEALTHLESS | {"broker_url": url})
        text = " ".join(each.saw for each in _findings(found)) + str([str(each) for each in found.brokers])
        assert not any(word in text for word in ("pass-word", "pass/word", "word@"))


HEALTHLESS = {TRANSPORT: {}, "broker_url": ""}
