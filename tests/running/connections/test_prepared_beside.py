"""What is prepared is said beside the transactions of senders and bodies, and changes nothing in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import Error as DatabaseError
from django.db import connection, connections, transaction
from django.db.backends.signals import connection_created

from django_idempotent_tasks.ledger.stores import prepared
from django_idempotent_tasks.running import altered
from tests.support.deliveries import ALIASES, APPS
from tests.support.ledger.session import Session
from tests.support.till import Counter, Till

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


#: How many locks on our tables this session has.
OUR_LOCKS = """
SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
 WHERE l.pid = pg_backend_pid() AND c.relname LIKE 'django_idempotent_tasks%'
"""


@pytest.fixture
def alias(transactional_db: None) -> str:  # noqa: ARG001
    """PostgreSQL alone prepares."""
    return "default"


@pytest.fixture(autouse=True, params=["prepared", "whole"])
def _soon(request: pytest.FixtureRequest, alias: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: ARG001
    connection_created.disconnect(dispatch_uid=altered._UID)
    connection.close()
    connection.execute_wrappers.clear()
    monkeypatch.setattr(prepared, "OFTEN", 2 if request.param == "prepared" else 10**9)
    yield
    connection.close()
    connection.execute_wrappers.clear()
    altered._altered.discard(connections["default"])


def run(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone() if cursor.description else None


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds have passed since the plans were made, as in a long body."""
    monkeypatch.setattr(prepared, "PLANNED", 0)


@pytest.mark.parametrize("how", ["complete", "step"])
def test_a_body_may_choose_the_isolation_of_its_own_transaction(
    till: Till, postgresql: Counter, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """DISCARD PLANS is a query, before which the level would have to be set."""

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        def work() -> None:
            run("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            postgresql.sell(self)

        if order == 4:
            later(monkeypatch)
        if how == "step":
            self.idempotency.step("work", work)
        else:
            with self.idempotency.complete():
                work()

    assert [till.deliver(sell, order, id=str(order)).error for order in (1, 2, 3, 4)] == [None] * 4


@pytest.mark.usefixtures("postgresql")
def test_a_body_that_locks_first_sees_what_was_committed_before_its_lock(
    till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the database's default is REPEATABLE READ: LOCK takes no snapshot, DISCARD PLANS does."""
    level = "-c default_transaction_isolation=repeatable\\ read"
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", level)
    seen: list[int] = []
    rival = Session("default")

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        if order == 4:
            later(monkeypatch)
            rival.begin("READ COMMITTED")
            rival.sql("LOCK sample_effect IN EXCLUSIVE MODE")
            rival.sql("INSERT INTO sample_effect (key, attempt, token, note) SELECT 'theirs', 0, 0, ''")
            threading.Timer(0.5, rival.commit).start()
        with self.idempotency.complete():
            run("LOCK sample_effect IN EXCLUSIVE MODE")
            seen.append(run("SELECT count(*) FROM sample_effect WHERE key = 'theirs'")[0])

    try:
        assert [till.deliver(sell, order, id=str(order)).error for order in (1, 2, 3, 4)] == [None] * 4
        assert seen == [0, 0, 0, 1]
    finally:
        rival.close()


def test_a_statement_that_a_wrapper_refuses_leaves_the_server_s_transaction_unopened(
    till: Till, postgresql: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = till.seller(postgresql, mode="leased", reserve=True)
    for order in range(3):
        task.apply_async((order,), countdown=600)

    def refuse(*_: Any) -> None:
        raise RuntimeError

    later(monkeypatch)
    with transaction.atomic():
        with pytest.raises(RuntimeError), connection.execute_wrapper(refuse):
            task.apply_async((9,), countdown=600)
        run("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")


@pytest.mark.usefixtures("watching")
def test_a_worker_keeps_the_connection_of_a_task_that_sends_a_reserved_call(
    till: Till, postgresql: Counter
) -> None:
    """With whole statements, too: RESERVE_NEW reads as if it took a lock of the session."""
    other = till.seller(postgresql, mode="leased", reserve=True)

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        other.apply_async((order,), countdown=600)

    kept = []
    for order in range(4):
        assert till.deliver(sell, order, id=str(order)).error is None
        run("SELECT 1")
        kept.append(connection.connection)
    assert len({id(raw) for raw in kept}) == 1


def test_the_next_transaction_after_a_step_is_the_body_s_alone(till: Till, postgresql: Counter) -> None:
    """What the step needs is prepared between the two, so that its locks are not kept until the end."""
    locked: list[int] = []

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        self.idempotency.step("work", lambda: postgresql.sell(self))
        with self.idempotency.complete():
            run("SELECT 1")
            locked.append(run(OUR_LOCKS)[0])

    for order in range(4):
        assert till.deliver(sell, order, id=str(order)).error is None
    assert locked == [0] * 4


def test_a_connection_that_was_ended_says_why(
    till: Till, postgresql: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement that comes next would only say that the connection is lost."""
    task = till.seller(postgresql, mode="leased", reserve=True)
    for order in range(3):
        task.apply_async((order,), countdown=600)
    later(monkeypatch)
    raw: Any = connection.connection
    rival = Session("default")
    rival.sql(f"SELECT pg_terminate_backend({raw.pgconn.backend_pid}, 5000)")
    rival.close()
    with pytest.raises(DatabaseError) as found:
        task.apply_async((9,), countdown=600)
    assert getattr(found.value.__cause__, "sqlstate", None) == "57P01"


def test_a_setting_of_each_new_connection_takes_nothing_from_those_after_the_first(
    till: Till, postgresql: Counter
) -> None:
    """In a worker; the project's receiver is older than ours, as that of an app's ``ready()``."""

    def configure(connection: Any = None, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '60s'")

    connection_created.connect(configure)
    altered.listen()
    task, names = till.seller(postgresql, mode="leased"), []
    try:
        for number in range(2):
            connection.close()
            for order in range(4):
                till.deliver(task, f"{number}{order}", id=f"{number}{order}")
            assert not altered.is_altered(connections["default"])
            names.append(run("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'idem%'")[0])
    finally:
        connection_created.disconnect(configure)
        connection_created.disconnect(dispatch_uid=altered._UID)
    assert names[0] == names[1]
