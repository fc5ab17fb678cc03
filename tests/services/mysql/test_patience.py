"""What MariaDB stops for taking too long is tried again by halves; a lock that is not granted is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from celery import Celery
from django.db import OperationalError, connections

from django_idempotent_tasks.ledger import outage
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.stores.patience import took_too_long
from django_idempotent_tasks.models import IdempotencyKey, Leader
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.bite import Bite
from django_idempotent_tasks.sweeper.thread import Sweeper
from django_idempotent_tasks.testing.contract.bench import LEASE, Bench
from tests.services.mysql.server import ALIAS, mark
from tests.support.ledger.session import Session

pytestmark = mark

#: The server's numbers: a statement above its time, a lock that was not granted; the driver's: no answer.
TOO_LONG, NOT_GRANTED, NO_ANSWER = 1969, 1205, 2013

CALLS, LATER = 20, 9000
TABLE = IdempotencyKey._meta.db_table


class Ledger(Bench):
    """What is due in it."""

    def store(self) -> LedgerStore:
        return get_store(ALIAS)


@pytest.fixture
def sweeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sweeper]:
    """The sweeper of a worker whose broker swallows what it gets."""
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    monkeypatch.setattr("kombu.transport.memory.Channel._put", lambda *_args, **_kwargs: None)
    app = Celery("slow", set_as_current=False, broker="memory://", backend="disabled://")
    yield Sweeper(app, database=ALIAS)
    app.close()


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections whose statements the server stops after a fifth of a second."""
    if not connections[ALIAS].mysql_is_mariadb:  # type: ignore[attr-defined]
        pytest.skip("MySQL bounds only what reads")
    options = connections[ALIAS].settings_dict["OPTIONS"]
    bounded = {**options, "init_command": "SET SESSION max_statement_time = 0.2"}
    monkeypatch.setitem(connections[ALIAS].settings_dict, "OPTIONS", bounded)


@contextmanager
def slow_updates() -> Iterator[None]:
    """Each row that is updated takes its time."""
    with closing(Session(ALIAS)) as session:
        session.sql("SET SESSION max_statement_time = 0")  # of the server's own work on its files
        session.sql(f"CREATE TRIGGER slow BEFORE UPDATE ON {TABLE} FOR EACH ROW DO SLEEP(0.02)")
        try:
            yield
        finally:
            session.sql("DROP TRIGGER slow")


@pytest.mark.usefixtures("limited")
def test_leases_are_freed_and_everything_is_sent_though_a_whole_bite_takes_too_long(
    sweeper: Sweeper, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger()
    assert ledger.store().lead(outage.LEDGER, holder=outage.LEDGER, lease=2 * LATER)
    claims = [ledger.claimed(lease=LEASE) for _ in range(CALLS)]
    with shifted(LATER), slow_updates():
        for _ in range(20):
            if not sweeper._free_and_send():
                break
    rows = [ledger.row(claim) for claim in claims]
    assert {(row.state, row.crashes, row.sends) for row in rows} == {(State.RETRY, 1, 0)}
    assert "takes too long ((1969," in caplog.text


def said(statement: str) -> OperationalError:
    """What the database raises of a statement on a connection of the sweeper."""
    with get_store(ALIAS).side_connection() as side, side.connection.cursor() as cursor:
        with pytest.raises(OperationalError) as raised:
            cursor.execute(statement)
        return raised.value


@pytest.mark.usefixtures("limited")
def test_a_statement_above_max_statement_time_has_taken_too_long() -> None:
    error = said("SELECT SLEEP(60)")
    assert (error.args[0], took_too_long(error)) == (TOO_LONG, True)


def test_an_answer_that_does_not_come_in_time_has_taken_too_long() -> None:
    error = said("SELECT SLEEP(60)")
    assert (error.args[0], took_too_long(error)) == (NO_ANSWER, True)


def test_a_lock_that_is_not_granted_is_no_reason_to_take_less() -> None:
    get_store(ALIAS).lead("another", holder="one", lease=60)
    bite = Bite(100)
    with closing(Session(ALIAS)) as rival, get_store(ALIAS).side_connection() as side:
        rival.begin()
        rival.do(lambda _: Leader.objects.using(ALIAS).filter(name="another").update(holder="two"))
        with pytest.raises(OperationalError) as raised:
            bite.take(lambda _: side.lead("another", holder="one", lease=60))
        rival.rollback()
    assert (raised.value.args[0], took_too_long(raised.value)) == (NOT_GRANTED, False)
    assert bite.size == 100
