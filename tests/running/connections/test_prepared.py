"""Tasks whose connection keeps prepared statements, loses them, or is given to another task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.ledger.stores import prepared
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.glitch import Glitch, files_of, raising
from tests.support.till import Counter, Till

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("watching"),
]

each_mode = pytest.mark.parametrize("mode", ["leased", "atomic"])


@pytest.fixture
def alias(transactional_db: None) -> str:  # noqa: ARG001
    """PostgreSQL alone prepares."""
    return "default"


@pytest.fixture(autouse=True)
def _soon(alias: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: ARG001  its connection is closed
    monkeypatch.setattr(prepared, "OFTEN", 2)
    yield
    connection.close()


def completing(till: Till, shop: Counter, mode: str) -> Any:
    """A task that writes in the transaction that completes its key."""

    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        if mode == "atomic":
            shop.sell(self)
        else:
            with self.idempotency.complete():
                shop.sell(self)

    return sell


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def session() -> Any:
    """The driver's connection, and how many statements its server has prepared for us."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'idem_%%'", [])
        ((found,),) = cursor.fetchall()
    return connection.connection, found


@each_mode
def test_a_kept_connection_names_the_statements_of_its_third_task(
    till: Till, postgresql: Counter, mode: str
) -> None:
    task, statements = completing(till, postgresql, mode), 1 if mode == "atomic" else 2
    till.deliver(task, 1)
    till.deliver(task, 2)
    raw, _ = session()
    with CaptureQueriesContext(connection) as captured:
        till.deliver(task, 3)
    ours = [query["sql"] for query in captured if "idem" in query["sql"]]
    assert len([each for each in ours if "EXECUTE idem_" in each]) == len(ours) == statements
    assert session() == (raw, statements), "what is prepared alters no session"
    assert len(postgresql.effects) == 3


@each_mode
@pytest.mark.parametrize("lost", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_a_task_is_done_at_once_where_its_connection_has_lost_them(
    till: Till, postgresql: Counter, mode: str, lost: str
) -> None:
    task = completing(till, postgresql, mode)
    for order in range(3):
        till.deliver(task, order)
    raw, found = session()
    assert found
    raw.execute(lost)  # by the driver: Django does not see it
    ends = [till.deliver(task, order) for order in (3, 4)]
    assert [end.error for end in ends] == [None, None]
    assert session() == (raw, 0)
    assert len(postgresql.effects) == 5


def test_a_body_that_takes_them_away_is_rolled_back_and_tried_again(till: Till, postgresql: Counter) -> None:
    bodies = []

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        bodies.append(order)
        with self.idempotency.complete():
            postgresql.sell(self)
            if bodies == [1, 2, 3]:
                connection.connection.execute("DEALLOCATE ALL")

    ends = [till.deliver(sell, order) for order in (1, 2, 3)]
    assert "PREPARED_STATEMENTS" in str(ends[-1].error)
    assert len(postgresql.effects) == 2
    till.deliver_sent(sell)
    assert bodies == [1, 2, 3, 3]
    assert (postgresql.state, len(postgresql.effects)) == (State.SUCCEEDED, 3)


@each_mode
def test_a_body_that_takes_them_away_by_a_cursor_of_django_is_done(
    till: Till, postgresql: Counter, mode: str
) -> None:
    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> dict[str, int]:
        with nullcontext() if mode == "atomic" else self.idempotency.complete():
            postgresql.sell(self)
            if order == 3:
                run("DEALLOCATE ALL")
        return {"order": order}

    assert [till.deliver(sell, order).error for order in (1, 2, 3, 4)] == [None] * 4
    assert len(postgresql.effects) == 4


@pytest.fixture(params=["0A000", "26000"])
def refusal(request: pytest.FixtureRequest, alias: str) -> Iterator[str]:  # noqa: ARG001  PostgreSQL's
    """A constraint of the project's that refuses a COMMIT, with the code of a statement that is gone."""
    run(f"""CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'no' USING errcode = '{request.param}'; END $$""")
    run("""CREATE CONSTRAINT TRIGGER refusing AFTER INSERT ON sample_effect DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.note = 'refused') EXECUTE FUNCTION refuse()""")
    yield request.param
    run("DROP FUNCTION refuse CASCADE")


def test_a_refused_commit_that_looks_like_a_lost_statement_completes_nothing(
    till: Till, postgresql: Counter, refusal: str
) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        with self.idempotency.complete():
            postgresql.sell(self, "sold" if order < 3 else "refused")

    ends = [till.deliver(sell, order) for order in (1, 2, 3)]
    assert getattr(getattr(ends[-1].error, "__cause__", None), "sqlstate", "") == refusal
    states = IdempotencyKey.objects.order_by("created_at").values_list("state", flat=True)
    assert list(states) == [State.SUCCEEDED, State.SUCCEEDED, State.FAILED]
    assert len(postgresql.effects) == 2


@each_mode
def test_a_signal_at_any_line_of_preparing_costs_no_later_task(
    till: Till, postgresql: Counter, mode: str
) -> None:
    task, orders, faults = completing(till, postgresql, mode), count(), []
    glitch = Glitch(files_of(Path(prepared.__file__)))

    def prepare() -> None:
        connection.close()
        for _ in range(2):
            till.deliver(task, next(orders))

    for spot in glitch.spots(prepare):
        with suppress(SoftTimeLimitExceeded):
            glitch.strike(spot, raising(SoftTimeLimitExceeded), prepare)
        before = len(postgresql.effects)
        ends = [till.deliver(task, next(orders)) for _ in range(3)]
        if any(end.error for end in ends) or len(postgresql.effects) != before + 3:
            faults.append(f"{spot}: {ends}")
    assert faults == []
