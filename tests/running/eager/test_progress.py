"""``self.idempotency.progress``: the newest word is beside the key, and never costs the body anything."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from celery import Celery
from django.db import OperationalError, connection

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.http.jobs import document
from django_idempotent_tasks.ledger.stores.sql import SqlStore
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.running.progress import PACE
from django_idempotent_tasks.states import State
from tests.support.post import only_row
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("_twice")


def told() -> Any:
    """What an HTTP client is told."""
    return document(only_row())["progress"]


@pytest.mark.parametrize("completes", [False, True], ids=["returns", "complete()"])
def test_the_last_word_is_beside_the_key_when_the_body_has_ended(app: Celery, completes: bool) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def plan(self: Any, order: int) -> int:
        for number in range(50):
            self.idempotency.progress(number + 1, 50, f"week {number + 1}")
        if completes:
            with self.idempotency.complete() as done:
                done.result = order
        return order

    assert plan.delay(7).get() == 7
    assert (only_row().state, told()) == (State.SUCCEEDED, {"done": 50, "total": 50, "note": "week 50"})


def test_where_a_body_failed_is_told(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def plan(self: Any, order: int) -> None:
        self.idempotency.progress(1, 3, "reading")
        self.idempotency.progress(2, 3, f"writing {order}")
        raise ValueError(f"no ink for {order}")

    with pytest.raises(ValueError, match="no ink"):
        plan.delay(7).get()
    assert (only_row().state, told()) == (State.FAILED, {"done": 2, "total": 3, "note": "writing 7"})


def test_a_database_that_is_away_costs_the_word_and_not_the_body(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def plan(self: Any, order: int) -> int:
        self.idempotency.progress(1)
        return order

    def refuse(*_arguments: Any, **_named: Any) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM no_such_table")
        raise OperationalError

    monkeypatch.setattr(SqlStore, "progress", refuse)
    assert plan.delay(7).get() == 7
    assert (only_row().state, told()) == (State.SUCCEEDED, None)


def test_what_is_no_number_is_an_error_of_the_body(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def plan(self: Any, order: int) -> None:
        self.idempotency.progress(-order)

    with pytest.raises(ValueError, match="done must be a number from 0"):
        plan.delay(7).get()
    with pytest.raises(ValueError, match="done must be a number from 0"):
        plan(7)


def test_an_atomic_task_has_none_and_says_so(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order", mode="atomic")
    def plan(self: Any, order: int) -> None:  # noqa: ARG001
        self.idempotency.progress(1)

    with pytest.raises(RuntimeError, match="leased"):
        plan.delay(7).get()


def test_a_plain_call_says_it_to_nobody(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def plan(self: Any, order: int) -> int:
        self.idempotency.progress(1, 2, "reading")
        return order

    assert plan(7) == 7
    assert not IdempotencyKey.objects.exists()


def test_a_lease_that_is_lost_raises_nothing_and_changes_nothing(app: Celery) -> None:
    @app.task(base=IdempotentTask, bind=True, key="order")
    def plan(self: Any, order: int) -> int:
        IdempotencyKey.objects.update(token=9, progress='{"done": 8, "total": 8, "note": "the winner"}')
        self.idempotency.progress(1)
        return order

    plan.delay(7)
    assert told() == {"done": 8, "total": 8, "note": "the winner"}


class TestWhileTheBodyRuns:
    """Outside a transaction, where others see the key."""

    @pytest.fixture(autouse=True)
    def _seen(self) -> None:
        if connection.in_atomic_block:
            pytest.skip("nobody sees what is not committed")

    def test_a_word_is_seen_and_the_lease_is_as_long_as_before(self, app: Celery) -> None:
        @app.task(base=IdempotentTask, bind=True, key="order")
        def plan(self: Any, order: int) -> list[Any]:
            before = only_row().open_at
            self.idempotency.progress(order, note="seven of who knows")
            eventually(lambda: told() is not None, "it was written")
            return [told(), only_row().open_at == before]

        word = {"done": 7, "total": None, "note": "seven of who knows"}
        assert plan.delay(7).get() == [word, True]

    def test_many_words_are_a_write_a_second(self, app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
        written: list[tuple[float, str]] = []
        write = SqlStore.progress

        def noted(store: SqlStore, claim: Any, *, text: str) -> bool:
            written.append((time.monotonic(), text))
            return write(store, claim, text=text)

        monkeypatch.setattr(SqlStore, "progress", noted)

        @app.task(base=IdempotentTask, bind=True, key="order")
        def plan(self: Any, order: int) -> None:  # noqa: ARG001
            self.idempotency.progress(0)
            eventually(lambda: told() is not None, "the first one was written at once")
            for number in range(1, 1001):
                self.idempotency.progress(number, 1000)
            eventually(lambda: told()["done"] == 1000, "the newest one was written by itself")

        plan.delay(7)
        moments = [moment for moment, _text in written]
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        assert gaps  # one, unless the thousand words have taken seconds
        assert min(gaps) >= PACE * 0.9

    def test_who_was_cancelled_hears_of_it_before_the_next_beat(self, app: Celery) -> None:
        lost: list[bool] = []

        @app.task(base=IdempotentTask, bind=True, key="order", lease=3600)
        def plan(self: Any, order: int) -> None:
            assert plan.cancel(task_id=self.request.id) == "cancelled"
            self.idempotency.progress(order)
            eventually(lambda: self.idempotency.lost, "it heard of it")
            lost.append(self.idempotency.lost)

        plan.delay(7)
        assert (lost, only_row().state) == ([True], State.CANCELLED)
