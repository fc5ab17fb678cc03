"""Databases that are away, and connections that end, between any two ticks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from django_idempotent_tasks import schedulers
from django_idempotent_tasks.beat import duty
from tests.beat.bench import Bench


def test_a_database_that_goes_away_is_a_rest_and_nothing_is_lost_or_sent_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.every(10)
    beat = bench.beat()
    bench.tick(beat)

    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError

    for where in (
        "schedulers.database_now",
        "schedulers.place",
        "beat.dispatch._count",
        "beat.dispatch._remember_end",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"django_idempotent_tasks.{where}", fail)
            beat._read_at = 0.0
            assert bench.tick(beat, after=10) <= 5
        bench.tick(beat, after=3)
    assert bench.sent() == [10, 20, 30, 40, 50]


def test_a_connection_that_was_cut_between_two_ticks_costs_nothing(bench: Bench) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("there is no connection to cut")
    asks, cuts = {
        "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%s, 5000)"),
        "mysql": ("SELECT connection_id()", "KILL %s"),
    }[connection.vendor]
    bench.every(10)
    beat = bench.beat()
    bench.tick(beat)
    with connection.cursor() as cursor:
        cursor.execute(asks)
        pid = cursor.fetchone()[0]
    killer = connection.copy()
    with killer.cursor() as cursor:
        cursor.execute(cuts, [pid])
    killer.close()
    bench.now += timedelta(seconds=10)
    assert bench.look(beat) == 5
    assert bench.sent() == [10]


def test_a_beat_that_starts_without_a_database_waits_for_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.every(10)

    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError

    with monkeypatch.context() as patch:
        patch.setattr(type(connections["default"]), "ensure_connection", fail)
        connection.close()
        beat = bench.beat()
        assert beat.tick() == schedulers.REST
    bench.tick(beat)
    bench.tick(beat, after=10)
    assert bench.sent() == [10]


def test_a_server_that_closes_idle_connections_makes_neither_a_silence_nor_a_loop_of_errors(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    if connection.vendor != "mysql":
        pytest.skip("wait_timeout is MariaDB's and MySQL's")
    bench.cron("*")
    beat, standby = bench.beat(), bench.beat()
    bench.tick(beat)
    watcher = connection.copy()
    for _ in range(2):
        let_it_time_out(watcher)
        bench.now += timedelta(seconds=60)
        beat._renew_at = 0.0
        assert beat.tick() == duty.PACE
    let_it_time_out(watcher)
    assert standby.tick() == duty.STANDBY
    watcher.close()
    assert bench.sent() == [60, 120]
    assert "Beat cannot use the database" not in caplog.text


def let_it_time_out(watcher: Any) -> None:
    """The server closes this process's connection, as it does after wait_timeout seconds without a word."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION wait_timeout = 1")
        cursor.execute("SELECT connection_id()")
        (known,) = cursor.fetchone()

    def is_gone() -> bool:
        with watcher.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM information_schema.processlist WHERE id = %s", [known])
            return bool(cursor.fetchone()[0] == 0)
