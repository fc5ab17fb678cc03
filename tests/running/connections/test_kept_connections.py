"""KEEP_CONNECTIONS in one process: CONN_MAX_AGE and CONN_HEALTH_CHECKS mean what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import signals
from celery.contrib.django.task import DjangoTask
from celery.fixups.django import DjangoWorkerFixup  # type: ignore[attr-defined]  # not in its stubs
from django.db import OperationalError, connections

from django_idempotent_tasks.worker.hooks import keep_connections
from tests.support.deliveries import ALIASES, APPS
from tests.support.ledger.backends import cut
from tests.support.till import Counter, Till
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]

Configure = Callable[..., None]


@pytest.fixture
def configure(postgresql: Counter, monkeypatch: pytest.MonkeyPatch) -> Iterator[Configure]:
    """Change DATABASES, from the next connection on."""
    assert postgresql.alias == "default"

    def change(**options: Any) -> None:
        for name, value in options.items():
            monkeypatch.setitem(connections.settings["default"], name, value)
        connections["default"].close()

    yield change
    connections["default"].close()


@pytest.fixture
def fixup(till: Till) -> Iterator[DjangoWorkerFixup]:
    """What Celery does to Django's connections around the tasks of a worker."""
    (installed,) = till._fixups  # type: ignore[attr-defined]  # not in the stubs
    fixup: DjangoWorkerFixup = installed.worker_fixup
    fixup.install()
    yield fixup
    signals.beat_embedded_init.disconnect(fixup.close_database)
    signals.task_prerun.disconnect(fixup.on_task_prerun)
    signals.task_postrun.disconnect(fixup.on_task_postrun)
    signals.worker_process_init.disconnect(fixup.on_worker_process_init)


@pytest.fixture
def kept(till: Till, fixup: DjangoWorkerFixup) -> DjangoWorkerFixup:
    """The same, with KEEP_CONNECTIONS."""
    keep_connections(till)
    return fixup


def _backend() -> int:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def asking(till: Till, mode: str) -> Any:
    """A task that says which server process answers it: unguarded, leased or atomic."""

    def ask(_task: Any, order: int) -> int:  # noqa: ARG001
        return _backend()

    if mode == "plain":
        return till.task(base=DjangoTask, bind=True, shared=False, name=till.new_name())(ask)
    return till.guarded(mode=mode)(ask)


class Orders:
    """Deliveries of new keys to one task."""

    def __init__(self, till: Till, task: Any) -> None:
        self.till, self.task, self.number = till, task, 0

    def next(self) -> Any:
        """What the next one ends with."""
        self.number += 1
        end = self.till.deliver(self.task, self.number, id=f"A{self.number}")
        return end.error if end.error is not None else end.result


each_mode = pytest.mark.parametrize("mode", ["plain", "leased", "atomic"])


@each_mode
@pytest.mark.usefixtures("fixup")
def test_without_it_celery_closes_the_connection_around_each_task(
    till: Till, configure: Configure, mode: str
) -> None:
    configure(CONN_MAX_AGE=None)
    orders = Orders(till, asking(till, mode))
    assert len({orders.next() for _ in range(3)}) == 3


@each_mode
@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("age", "backends"), [(None, 1), (600, 1), (0, 3)])
def test_with_it_a_connection_lives_as_long_as_conn_max_age_says(
    till: Till, configure: Configure, mode: str, age: int | None, backends: int
) -> None:
    configure(CONN_MAX_AGE=age)
    orders = Orders(till, asking(till, mode))
    assert len({orders.next() for _ in range(3)}) == backends


@pytest.mark.usefixtures("kept")
def test_a_connection_past_its_age_is_replaced_between_tasks(till: Till, configure: Configure) -> None:
    configure(CONN_MAX_AGE=1)
    orders = Orders(till, asking(till, "atomic"))
    first = orders.next()
    assert eventually(lambda: orders.next() != first, "another connection", within=10)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("checks", [True, False])
def test_health_checks_replace_a_broken_connection_before_a_task_meets_it(
    till: Till, configure: Configure, *, checks: bool
) -> None:
    configure(CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=checks)
    orders = Orders(till, asking(till, "plain"))
    first = orders.next()
    cut("default")
    second = orders.next()
    assert isinstance(second, int if checks else OperationalError)
    assert isinstance(orders.next(), int)  # Django lets a connection go that had an error
    assert first != second


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_a_guarded_task_survives_a_broken_connection_without_health_checks_as_well(
    till: Till, configure: Configure, mode: str, *, checks: bool
) -> None:
    configure(CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=checks)
    orders = Orders(till, asking(till, mode))
    for _ in range(2):
        first = orders.next()
        assert isinstance(first, int)
        cut("default")
        second = orders.next()
        assert isinstance(second, int)
        assert first != second
        assert orders.next() == second
    rows = Counter("default")
    assert rows.refusals == []


@pytest.mark.usefixtures("kept")
def test_a_connection_with_a_forgotten_transaction_is_not_handed_on(
    till: Till, configure: Configure, postgresql: Counter
) -> None:
    configure(CONN_MAX_AGE=None)

    @till.task(base=DjangoTask, shared=False, name=till.new_name())
    def forget(order: int) -> None:  # noqa: ARG001
        connections["default"].set_autocommit(False)
        postgresql.write(note="never committed")

    first = Orders(till, asking(till, "atomic"))
    before = first.next()
    till.deliver(forget, 1)
    assert first.next() != before
    assert postgresql.effects == []


@pytest.mark.usefixtures("kept")
def test_the_close_after_a_fork_stays(configure: Configure, fixup: DjangoWorkerFixup) -> None:
    configure(CONN_MAX_AGE=None)
    _backend()
    fixup._close_database()
    assert connections["default"].connection is None
