"""Due calls with large messages are sent, whatever they weigh together: a bite is bounded in bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from celery import Celery

from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.operations.redrives import begin
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.redrives import carry_on
from django_idempotent_tasks.sweeper.sweep import sweep_bite
from django_idempotent_tasks.testing.contract.bench import Bench
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

MEGABYTE = 1_000_000
CALLS = 100
#: Octets that a bite may hold at a time: its messages, what they decode to, and what is sent.
MOST = 60 * MEGABYTE
MESSAGE = '{"v": 1, "args": ["%s"], "kwargs": {}, "options": {"task_id": "A"}}' % ("x" * MEGABYTE)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """An app whose broker swallows what it gets."""
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    app = Celery("large", set_as_current=False, broker="memory://", backend="disabled://")
    monkeypatch.setattr("kombu.transport.memory.Channel._put", lambda *_args, **_kwargs: None)
    yield app
    app.close()


def reserve(shop: Counter) -> None:
    for _ in range(CALLS):
        call = Bench().call(message=MESSAGE)
        assert get_store(shop.alias).reserve_new(call, wait=0, sends=-1) is not None


def test_a_bite_holds_a_bounded_part_of_what_is_due_and_all_of_it_is_sent(app: Celery, shop: Counter) -> None:
    reserve(shop)
    sent = 0
    tracemalloc.start()
    try:
        with shifted(4000), get_store(shop.alias).side_connection() as store:
            for _ in range(CALLS):
                sent += sweep_bite(app, store).sent
                if sent == CALLS:
                    break
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (sent, peak < MOST) == (CALLS, True), f"{peak:,} bytes at a time"


def test_what_is_not_published_is_not_read(app: Celery, shop: Counter) -> None:
    reserve(shop)
    shop.put(state=State.RUNNING, lease_seconds=1, crashes=1, owner="gone:1:x")
    tracemalloc.start()
    try:
        with shifted(4000), get_store(shop.alias).side_connection() as store:
            swept = sweep_bite(app, store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(swept.rows), swept.sent) == (CALLS, 0)
    assert peak < MEGABYTE, f"{peak:,} bytes for rows that wait"


def test_a_redrive_of_large_messages_holds_a_bounded_part_of_them(shop: Counter) -> None:
    reserve(shop)
    past = database_now(get_store(shop.alias))
    shop.put(state=State.FAILED, signature="s", category=2, finished_at=past, open_at=None, due_at=None)
    operation = begin(Selection(), by="ann", reason="mended", alias=shop.alias)
    tracemalloc.start()
    bites = []
    try:
        with get_store(shop.alias).side_connection() as store:
            while done := carry_on(store):
                bites.append(done)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    operation.refresh_from_db(using=shop.alias)
    assert (operation.redriven, sum(bites)) == (CALLS, CALLS)
    assert peak < MOST, f"{peak:,} bytes at a time"
