"""The doctor asks real servers, waits for none of them long, and says who did not answer."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from celery import Celery
from django.conf import settings as django_settings
from django.db import connections

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import SWEEPER
from django_idempotent_tasks.operations.doctor.live import ask
from django_idempotent_tasks.operations.doctor.reading import ledger_read, server_of
from tests.operations.doctor.projects import REDIS, project
from tests.support.network.proxy import Proxy

ALIASES = [alias for alias in ("default", "sqlite", "mysql") if alias in django_settings.DATABASES]
BROKER = os.environ.get("CELERY_BROKER_URL", "")
#: What a broker of tests has that is not for production.
OF_TESTS = {"D320", "D321", "D327"}

pytestmark = pytest.mark.django_db(
    transaction=True, databases=ALIASES, available_apps=["django_idempotent_tasks", "django_celery_beat"]
)
live = pytest.mark.skipif(not BROKER.startswith("redis"), reason="the tests' broker is no Redis")


def _app(url: str, monkeypatch: pytest.MonkeyPatch) -> Celery:
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    return project(REDIS | {"broker_url": url}, guarded={}).app


def _port(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


@live
@pytest.mark.parametrize("alias", ALIASES)
def test_servers_that_answer_are_judged_and_nothing_hangs(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = get_store(alias)
    assert store.lead(SWEEPER, holder="a", lease=60)
    began = time.monotonic()
    found = {each.id: each for each in ask(_app(BROKER, monkeypatch), alias, within=30)}
    assert time.monotonic() - began < 30
    assert "D011" in found, "no worker runs"
    servers = {name for name in found if name[1:3] in {"52", "62"}}
    if store.connection.vendor == "postgresql":
        assert "D522" in servers, "the tests' PostgreSQL does not sync"
    assert set(found) - servers - OF_TESTS == {"D011"}


@pytest.mark.parametrize("alias", ALIASES)
def test_what_is_read_of_a_database_has_what_the_checks_judge(alias: str) -> None:
    store = get_store(alias)
    state = ledger_read(store, project(REDIS, guarded={}).app)
    assert (state.unapplied, state.unknown) == ([], {})
    assert abs(state.skew) < 2
    assert state.told.keys() == {"no_leader"}
    if store.connection.vendor == "sqlite":
        return
    server = server_of(store)
    assert int(server["connections"]) >= 1
    assert int(server["max_connections"]) > 1
    if store.connection.vendor == "mysql":
        assert len(server["engines"]) > 5
        assert set(server["engines"].values()) == {"InnoDB"}


@live
def test_a_broker_that_is_away_and_one_that_says_nothing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy(_port(BROKER)) as proxy:
        proxy.freeze()
        for url in (f"redis://:pass-word@127.0.0.1:{proxy.port}/0", "redis://:pass-word@127.0.0.1:1/0"):
            began = time.monotonic()
            found = {each.id: each for each in ask(_app(url, monkeypatch), "sqlite", within=6)}
            assert time.monotonic() - began < 10
            assert "D001" in found
            assert not {"D003", "D011"} & found.keys(), "workers cannot be asked without a broker"
            assert "pass-word" not in str(found)


@live
def test_a_database_that_is_away_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connections["default"]
    if connection.vendor == "sqlite":
        pytest.skip("a file is never away")
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    monkeypatch.setitem(connection.settings_dict, "PASSWORD", "pass-word")
    found = {each.id: each for each in ask(_app(BROKER, monkeypatch), "default", within=10)}
    assert "OperationalError" in found["D002"].saw
    assert "pass-word" not in str(found)


def test_a_migration_that_is_not_applied_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db.migrations.recorder import MigrationRecorder  # noqa: PLC0415

    store = get_store("sqlite")
    applied: dict[Any, Any] = MigrationRecorder(store.connection).applied_migrations()
    ours = sorted(key for key in applied if key[0] == "django_idempotent_tasks")
    left = {key: value for key, value in applied.items() if key != ours[-1]}
    monkeypatch.setattr(MigrationRecorder, "applied_migrations", lambda _self: left)
    assert ledger_read(store, project(REDIS, guarded={}).app).unapplied == [ours[-1][1]]
