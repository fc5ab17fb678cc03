"""Shadow mode while the ledger's connection is cut, or its server is away or silent: no body notices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

from django_idempotent_tasks.ledger.stores import sql
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.running import shadow
from django_idempotent_tasks.states import State
from tests.running.delivery.shadowed import SHADOW
from tests.support.deliveries import ALIASES, APPS
from tests.support.network.cutting import CuttingProxy
from tests.support.till import Counter, Till

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


@contextmanager
def behind_a_proxy() -> Iterator[CuttingProxy]:
    """Let this process reach its database through a proxy."""
    connection = connections["default"]
    place = {name: connection.settings_dict[name] for name in ("HOST", "PORT")}
    with CuttingProxy(int(place["PORT"])) as proxy:
        connection.close()
        connection.settings_dict |= {"HOST": "127.0.0.1", "PORT": str(proxy.port)}
        try:
            yield proxy
        finally:
            proxy.thaw()
            connection.close()
            connection.settings_dict |= place


@pytest.fixture
def proxy(postgresql: Counter) -> Iterator[CuttingProxy]:  # noqa: ARG001  the database behind it
    """What stands between this process and its database."""
    with behind_a_proxy() as proxy:
        yield proxy


@pytest.fixture
def runs() -> list[str]:
    """The calls whose body has begun, which needs no database."""
    return []


def task_of(till: Till, runs: list[str], **during: Any) -> Any:
    """A task whose body does ``during[id]()`` for the call of that id."""

    @till.guarded(**SHADOW)
    def sell(self: Any, order: int) -> int:
        runs.append(self.request.id)
        during.get(self.request.id, lambda: None)()
        return order

    return sell


def test_a_connection_that_was_cut_between_two_calls_is_replaced(
    till: Till, postgresql: Counter, proxy: CuttingProxy, runs: list[str], told: list[str]
) -> None:
    task = task_of(till, runs)
    connections["default"].ensure_connection()
    proxy.cut()
    assert till.deliver(task, 7).result == 7
    assert (postgresql.state, told) == (State.SUCCEEDED, [])


def test_the_end_of_a_body_whose_connection_was_cut_is_noted_on_a_new_one(
    till: Till, postgresql: Counter, proxy: CuttingProxy, runs: list[str], told: list[str]
) -> None:
    task = task_of(till, runs, A=proxy.cut)
    assert till.deliver(task, 7).result == 7
    assert (postgresql.state, told) == (State.SUCCEEDED, [])


def test_a_server_that_is_away_stops_no_body_and_each_call_is_told_of_once(
    till: Till, postgresql: Counter, runs: list[str], told: list[str]
) -> None:
    task = task_of(till, runs)
    with behind_a_proxy() as proxy:
        proxy.close()
        for name in "ABC":
            assert till.deliver(task, 7, id=name).result == 7
    assert (runs, told) == (["A", "B", "C"], ["store_down"] * 3)
    assert not IdempotencyKey.objects.exists()
    shadow._rests_until = 0.001  # its rest is over
    assert till.deliver(task, 7, id="D").result == 7
    assert (postgresql.state, postgresql.row.task_id, told) == (State.SUCCEEDED, "D", ["store_down"] * 3)


def test_a_server_that_goes_away_during_the_body_fails_no_body_and_is_told_of_once(
    till: Till, postgresql: Counter, runs: list[str], told: list[str]
) -> None:
    with behind_a_proxy() as proxy:
        task = task_of(till, runs, A=proxy.close)
        assert till.deliver(task, 7).result == 7
    assert (postgresql.state, told) == (State.RUNNING, ["store_down"])


def test_a_server_that_has_taken_a_statement_and_is_silent_holds_no_body_for_long(
    till: Till, proxy: CuttingProxy, runs: list[str], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(till, runs)
    till.deliver(task, 6, id="before")
    monkeypatch.setattr(sql, "SIDE_LIMIT", 0.2)
    monkeypatch.setattr(shadow, "AT_ONCE", 0.2)
    proxy.freeze()
    assert till.deliver(task, 7).result == 7
    assert (runs, told) == (["before", "A"], ["store_down"])
