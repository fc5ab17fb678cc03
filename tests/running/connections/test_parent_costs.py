"""What the hooks of the parent cost its event loop: few statements, one connection that no child has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.backends.signals import connection_created

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import Pause
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import Bench
from django_idempotent_tasks.worker import presence, revoked
from django_idempotent_tasks.worker.breaker import Kept, breaker, kept, on_own_connection
from django_idempotent_tasks.worker.pauses import Watch
from tests.support.deliveries import ALIASES, APPS
from tests.support.ledger.backends import terminate
from tests.support.ledger.slow_server import Server
from tests.support.till import Counter

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


class Heard:
    """The connections that were made meanwhile, and the statements on them."""

    def __init__(self) -> None:
        self.connections = 0
        self.statements: list[str] = []

    def connected(self, connection: Any, **_kwargs: object) -> None:
        self.connections += 1
        connection.execute_wrappers.append(self._execute)

    def _execute(self, execute: Any, sql: str, *rest: Any) -> Any:
        self.statements.append(sql.split(maxsplit=1)[0])
        return execute(sql, *rest)


@pytest.fixture
def heard(shop: Counter) -> Iterator[Heard]:
    connections[shop.alias].ensure_connection()
    heard = Heard()
    connection_created.connect(heard.connected)
    yield heard
    connection_created.disconnect(heard.connected)


@pytest.fixture
def keeping() -> Iterator[None]:
    """As in a worker whose event loop closes the connection when it is idle."""
    breaker.until = 0.0
    kept.begin()
    yield
    kept.end()


def test_many_revoked_ids_are_cancelled_by_few_statements(shop: Counter, heard: Heard) -> None:
    call = Bench().call("T4321")
    get_store(shop.alias).reserve_new(call, wait=60, sends=0)
    breaker.until = 0.0
    revoked.cancel_waiting([f"T{number}" for number in range(5000)])
    assert shop.state is State.CANCELLED
    assert heard.connections == 1
    assert heard.statements.count("UPDATE") <= 10


def look(found: list[Any]) -> None:
    on_own_connection(lambda store: found.append(store.led_for("nobody")))


@pytest.mark.usefixtures("keeping")
def test_hooks_one_after_the_other_share_a_connection_until_it_is_idle(shop: Counter, heard: Heard) -> None:
    found: list[Any] = []
    for _ in range(20):
        look(found)
    assert (len(found), heard.connections) == (20, 1)
    kept.close_idle(after=60.0)
    look(found)
    assert heard.connections == 1
    kept.close_idle(after=0.0)
    look(found)
    assert heard.connections == 2
    assert shop.alias


@pytest.mark.usefixtures("keeping")
def test_a_hook_that_fails_leaves_no_connection_to_the_next(shop: Counter, heard: Heard) -> None:
    def fail(store: Any) -> None:
        store.led_for("nobody")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        on_own_connection(fail)
    look([])
    assert heard.connections == 2
    assert shop.alias


@pytest.mark.usefixtures("keeping")
def test_a_connection_that_the_server_has_closed_meanwhile_costs_no_hook(
    postgresql: Counter, settings: Any
) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": postgresql.alias}
    found: list[Any] = []
    look(found)
    assert terminate("application_name = 'idempotent-tasks'", alias=postgresql.alias) >= 1
    kept.ask_after = 0.0
    look(found)
    assert found == [None, None]


@pytest.mark.usefixtures("keeping")
def test_a_look_for_pauses_that_the_database_keeps_waiting_keeps_no_hook(postgresql: Counter) -> None:
    looking = Thread(target=Watch()._look)
    with transaction.atomic(using=postgresql.alias), connections[postgresql.alias].cursor() as cursor:
        cursor.execute(f"LOCK TABLE {Pause._meta.db_table}")
        looking.start()
        assert Server(postgresql.alias).wait_until_held_up()
        kept.close_idle()
        look([])
        assert looking.is_alive(), "the hook waited for the look"
    looking.join()


@pytest.mark.parametrize("own", [kept, presence.own], ids=["of the hooks", "of the worker's presence"])
def test_no_child_inherits_the_connection(own: Kept, postgresql: Counter, settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": postgresql.alias}
    found: list[Any] = []
    own.begin()
    own.use(lambda store: found.append(store.led_for("nobody")))
    ours = own.descriptor()
    assert ours is not None
    pid = os.fork()
    if pid == 0:
        try:
            os.fstat(ours)
            os._exit(1)
        except OSError:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the descriptor is open in the child"
    own.use(lambda store: found.append(store.led_for("nobody")))
    own.end()
    assert found == [None, None]
