"""Upkeep on PostgreSQL whose statements take longer the more rows they touch: by halves, to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from celery import Celery
from django.db import connections

from django_idempotent_tasks.ledger import outage
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store, limits
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper import prune as pruning
from django_idempotent_tasks.sweeper.thread import Sweeper
from django_idempotent_tasks.testing.contract.bench import LEASE, WINDOW, Bench
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

#: Calls of a kind, and how many rows one statement can touch before its time is over.
CALLS, ROWS = 40, 20
#: A message that PostgreSQL keeps beside its row.
MESSAGE = '{"v": 1, "args": ["%s"], "kwargs": {}, "options": {"task_id": "A"}}' % ("x" * 100_000)
LATER = 9000
TABLE = IdempotencyKey._meta.db_table

SLOW = f"""
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM touched) > {ROWS} THEN PERFORM pg_sleep(600); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER slow_update AFTER UPDATE ON {TABLE} REFERENCING NEW TABLE AS touched
  FOR EACH STATEMENT EXECUTE FUNCTION slow();
CREATE TRIGGER slow_delete AFTER DELETE ON {TABLE} REFERENCING OLD TABLE AS touched
  FOR EACH STATEMENT EXECUTE FUNCTION slow();
"""  # noqa: S608  a table's name and a number


@pytest.fixture
def slow(postgresql: Counter, monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """From a moment on the server is slow, and its time limit as short as a test's patience."""
    monkeypatch.setattr(limits, "BEGIN", limits.BEGIN.replace("timeout = 2000;", "timeout = 400;"))

    @contextmanager
    def from_now_on() -> Iterator[None]:
        with connections[postgresql.alias].cursor() as cursor:
            cursor.execute(SLOW)
            try:
                yield
            finally:
                cursor.execute("DROP FUNCTION slow CASCADE")

    return from_now_on


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What a broker gets."""
    messages: list[object] = []
    put = "kombu.transport.memory.Channel._put"
    monkeypatch.setattr(put, lambda _self, _queue, message, **_kwargs: messages.append(message))
    return messages


@pytest.fixture
def sweeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sweeper]:
    """The sweeper of a worker with that broker."""
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    app = Celery("slow", set_as_current=False, broker="memory://", backend="disabled://")
    yield Sweeper(app)
    app.close()


class Ledger(Bench):
    """What is due in it."""

    def store(self) -> LedgerStore:
        return get_store("default")


def to_the_end(look: Callable[[], bool]) -> None:
    """As the sweeper does while it is behind."""
    for _ in range(100):
        if not look():
            return
    pytest.fail("it never comes to an end")


def test_leases_are_freed_and_everything_is_sent_though_a_whole_bite_takes_too_long(
    slow: Callable[[], AbstractContextManager[None]],
    sweeper: Sweeper,
    sent: list[object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = Ledger()
    assert ledger.store().lead(outage.LEDGER, holder=outage.LEDGER, lease=2 * LATER)
    for _ in range(CALLS):
        ledger.reserved(ledger.call(message=MESSAGE), sends=-1)
        ledger.claimed(ledger.call(message=MESSAGE), lease=LEASE)
    with shifted(LATER), slow():
        to_the_end(sweeper._free_and_send)
    states = list(IdempotencyKey.objects.values_list("state", flat=True))
    assert {state: states.count(state) for state in State if state in states} == {
        State.PENDING: CALLS,
        State.RETRY: CALLS,
    }
    assert len(sent) == 2 * CALLS
    assert "the next bite is of 12" in caplog.text


def test_what_is_past_its_time_is_deleted_though_a_whole_bite_takes_too_long(
    slow: Callable[[], AbstractContextManager[None]], sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "BITE", 100)
    ledger = Ledger()
    for _ in range(CALLS):
        ledger.completed(retention=0)
        ledger.cancelled(ledger.claimed())
    with shifted(WINDOW + LATER), slow():
        to_the_end(sweeper._tidy)
    assert not IdempotencyKey.objects.exists()
