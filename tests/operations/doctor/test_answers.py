"""Each check of what servers and workers answer fires on a bad answer, and is silent on a good one."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.operations.doctor.examine import LIVE
from django_idempotent_tasks.operations.doctor.ledger_state import LedgerState
from django_idempotent_tasks.operations.doctor.workers import Workers

#: What well servers answer.
REDIS: dict[str, Any] = {
    "redis_version": "7.2.4",
    "maxmemory_policy": "noeviction",
    "maxmemory": 1000,
    "used_memory": 800,
    "connected_clients": 8,
    "maxclients": 10,
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "evicted_keys": 0,
    "cluster_enabled": 0,
    "role": "master",
}
POSTGRESQL: dict[str, Any] = {
    "autovacuum": "on",
    "connections": 80,
    "dead_rows": 200_000,
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "fsync": "on",
    "full_page_writes": "on",
    "idle_in_transaction_session_timeout": "600000",
    "in_recovery": False,
    "living_rows": 300_000,
    "max_connections": "100",
    "synchronous_commit": "on",
}
MYSQL: dict[str, Any] = {
    "conn_health_checks": False,
    "conn_max_age": 60,
    "connections": 80,
    "engines": {"keys": "InnoDB"},
    "innodb_flush_log_at_trx_commit": 1,
    "max_connections": 100,
    "read_only": 0,
    "version": "10.6.1-MariaDB-log",
    "wait_timeout": 600,
}
WORKERS: dict[str, Any] = {
    "queues": {"a@h": ["celery"], "b@h": ["celery", "slow"]},
    "tasks": {"a@h": {"shop.charge"}, "b@h": {"shop.charge", "shop.slow"}},
    "pools": {"a@h": "celery.concurrency.prefork:TaskPool"},
    "versions": {"a@h": "celery:5.7.0", "b@h": "celery:5.7.0"},
    "routed": {"celery": ["shop.charge"], "slow": ["shop.slow"]},
    "has_limits": True,
}

BROKER = [
    ("D320", {"maxmemory_policy": "allkeys-lru"}),
    ("D321", {"aof_enabled": 0}),
    ("D322", {"rdb_last_bgsave_status": "err"}),
    ("D322", {"aof_last_write_status": "err"}),
    ("D323", {"used_memory": 801}),
    ("D323", {"connected_clients": 9}),
    ("D324", {"evicted_keys": 3}),
    ("D325", {"cluster_enabled": 1}),
    ("D326", {"role": "slave"}),
    ("D327", {"redis_version": "6.0.16"}),
    ("D327", {"valkey_version": "7.0.1"}),
]
DATABASE = [
    ("D520", {"in_recovery": True}),
    ("D520", {"default_transaction_read_only": "on"}),
    ("D521", {"default_transaction_isolation": "serializable"}),
    ("D522", {"fsync": "off"}),
    ("D522", {"full_page_writes": "off"}),
    ("D523", {"synchronous_commit": "off"}),
    ("D524", {"connections": 81}),
    ("D525", {"autovacuum": "off"}),
    ("D525", {"dead_rows": 300_001}),
    ("D526", {"idle_in_transaction_session_timeout": "0"}),
]
MARIADB = [
    ("D620", {"engines": {"keys": "MyISAM"}}),
    ("D621", {"read_only": 1}),
    ("D622", {"innodb_flush_log_at_trx_commit": 2}),
    ("D623", {"connections": 81}),
    ("D624", {"conn_max_age": 601}),
    ("D624", {"conn_max_age": None}),
    ("D625", {"version": "10.5.9-MariaDB"}),
]
FLEET = [
    ("D011", {"queues": {}}),
    ("D012", {"queues": {"a@h": ["celery"]}}),
    ("D013", {"queues": {"a@h": ["celery", "slow"], "b@h": []}}),
    ("D014", {"tasks": {"a@h": {"shop.charge"}, "b@h": {"shop.charge"}}}),
    ("D015", {"versions": {"a@h": "celery:5.7.0", "b@h": "celery:5.6.0"}}),
    ("D016", {"pools": {"a@h": "celery.concurrency.gevent:TaskPool"}}),
]
LEDGER: list[tuple[str, dict[str, Any]]] = [
    ("D720", {"unapplied": ["0007_steps"]}),
    ("D721", {"skew": 2.1}),
    ("D721", {"skew": -2.1}),
    ("D722", {"told": {"no_leader": "Nobody leads."}}),
    ("D723", {"told": {"expired_leases": "Leases ended."}}),
    ("D723", {"told": {"retry_overdue": "A retry is overdue."}}),
    ("D724", {"told": {"prune_behind": "Behind."}}),
    ("D920", {"told": {"beat_no_leader": "Nobody leads beat."}}),
    ("D921", {"told": {"beat_unreadable": "Beat cannot read one."}}),
    ("D922", {"told": {"beat_stranger": "An ordinary beat."}}),
    ("D923", {"unknown": {"Tidy": "shop.gone"}}),
]
SILENT = [
    ("D001", {"broker": "OperationalError"}),
    ("D002", {"database": "No answer within 6 s."}),
    ("D003", {"workers": "No answer within 6 s."}),
]


def _ids(read: Any, *, of: str) -> set[str]:
    """What the checks whose ids begin with one of these digits say of an answer."""
    checks = [check for group in LIVE for check in group.checks if check.id[1:3] in of.split()]
    return {each.id for check in checks for each in check.findings(read)}


def _of_broker(wrong: dict[str, Any]) -> set[str]:
    return _ids(REDIS | wrong, of="32")


@pytest.mark.parametrize(("check", "wrong"), BROKER)
def test_a_bad_answer_of_redis_is_found_alone(check: str, wrong: dict[str, Any]) -> None:
    assert _of_broker(wrong) == {check}


@pytest.mark.parametrize(("check", "wrong"), DATABASE)
def test_a_bad_answer_of_postgresql_is_found_alone(check: str, wrong: dict[str, Any]) -> None:
    assert _ids(POSTGRESQL | wrong, of="52") == {check}


@pytest.mark.parametrize(("check", "wrong"), MARIADB)
def test_a_bad_answer_of_mariadb_is_found_alone(check: str, wrong: dict[str, Any]) -> None:
    assert _ids(MYSQL | wrong, of="62") == {check}


@pytest.mark.parametrize(("check", "wrong"), FLEET)
def test_what_workers_get_wrong_is_found(check: str, wrong: dict[str, Any]) -> None:
    assert check in _ids(Workers(**WORKERS | wrong), of="01")


@pytest.mark.parametrize(("check", "wrong"), LEDGER)
def test_what_stands_in_the_ledger_is_found_alone(check: str, wrong: dict[str, Any]) -> None:
    assert _ids(LedgerState(**wrong), of="72 92") == {check}


@pytest.mark.parametrize(("check", "silent"), SILENT)
def test_who_does_not_answer_is_named(check: str, silent: dict[str, str]) -> None:
    assert _ids(silent, of="00") == {check}


def test_an_old_rabbitmq_is_found() -> None:
    assert _ids({"version": "3.9.13"}, of="42") == {"D420"}
    assert _ids({"version": "3.10.8"}, of="42") == set()


def test_good_answers_are_silent() -> None:
    assert _of_broker({}) == set()
    assert _of_broker({"maxmemory": 0}) == set()
    assert _of_broker({"valkey_version": "8.1.8"}) == set()
    assert _ids(POSTGRESQL, of="52") == set()
    assert _ids(POSTGRESQL | {"dead_rows": 100_000, "living_rows": 0}, of="52") == set()
    assert _ids(MYSQL, of="62") == set()
    assert _ids(MYSQL | {"conn_max_age": None, "conn_health_checks": True}, of="62") == set()
    assert _ids(Workers(**WORKERS), of="01") == set()
    assert _ids(Workers(**WORKERS | {"pools": {"a@h": "eventlet"}, "has_limits": False}), of="01") == set()
    assert _ids(LedgerState(skew=1.9, told={"failed": "A dead letter."}), of="72 92") == set()
    assert _ids({}, of="00") == set()


def test_each_check_has_a_case() -> None:
    here = {case[0] for table in (BROKER, DATABASE, MARIADB, FLEET, LEDGER, SILENT) for case in table}
    assert here | {"D420"} == {check.id for group in LIVE for check in group.checks}
