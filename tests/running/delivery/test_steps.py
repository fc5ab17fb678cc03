"""A step of a leased body: run once for a key's work, its value given to every later attempt."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks import (
    LeaseLost,
    TransientError,
    current,
)
from django_idempotent_tasks.models import IdempotencyKey, Step
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)
LEASE = 60
HOSTILE = {"nul": "a\x00b", "lone": "\ud800", "words": "Grüße 東京 🧾 %s %(x)s {now} '\"\\", "empty": ""}


def a_task(till: Till, body: Callable[[Any], Any], **options: Any) -> Any:
    """A leased task with this body."""

    @till.guarded(**{"mode": "leased", "lease": LEASE, "max_retries": 3, **options})
    def work(self: Any, order: int) -> Any:  # noqa: ARG001
        return body(self)

    return work


def kept(alias: str) -> list[tuple[str, int, str | None]]:
    """Name, attempt and value of what is kept."""
    return list(Step.objects.using(alias).order_by("id").values_list("name", "attempt", "value"))


@pytest.mark.parametrize("external", [False, True])
def test_a_later_attempt_takes_the_value_and_does_not_run_the_function(
    till: Till, shop: Counter, alias: str, external: bool
) -> None:
    asked: list[Any] = []

    def ask(what: str, *, loudly: bool) -> dict[str, Any]:
        asked.append((what, loudly))
        shop.write(note=what)
        return {"answer": len(asked)}

    def body(self: Any) -> Any:
        answer = self.idempotency.step("ask", ask, "why", external=external, loudly=True)
        if self.idempotency.attempt < 3:
            raise self.retry(countdown=0)
        return answer

    work = a_task(till, body)
    till.deliver(work, 7)
    till.deliver_sent(work)
    assert till.deliver_sent(work).result == {"answer": 1}
    assert (asked, shop.effects) == ([("why", True)], ["why"])
    assert kept(alias) == [("ask", 1, '{"answer": 1}')]


def test_the_writes_of_a_step_that_fails_are_rolled_back_and_it_may_be_called_again(
    till: Till, shop: Counter, alias: str
) -> None:
    calls: list[int] = []

    def write() -> int:
        calls.append(1)
        shop.write(note=f"try {len(calls)}")
        if len(calls) == 1:
            raise TransientError
        return len(calls)

    def body(self: Any) -> Any:
        with pytest.raises(TransientError):
            self.idempotency.step("write", write)
        return self.idempotency.step("write", write)

    assert till.deliver(a_task(till, body), 7).result == 2
    assert (shop.effects, kept(alias)) == (["try 2"], [("write", 1, "2")])


@pytest.mark.parametrize("value", [None, 0, "", [], {"a": [1, None]}, HOSTILE, Decimal("1.10")], ids=ascii)
def test_the_first_attempt_gets_what_a_later_one_will(till: Till, value: Any) -> None:
    seen: list[Any] = []

    def body(self: Any) -> None:
        seen.append(self.idempotency.step("value", lambda: value))
        if self.idempotency.attempt == 1:
            raise self.retry(countdown=0)

    work = a_task(till, body)
    till.deliver(work, 7)
    till.deliver_sent(work)
    assert seen == [value, value]


def test_a_tuple_is_a_list_from_the_first_attempt_on_and_a_time_is_a_time(till: Till) -> None:
    now = datetime(2026, 3, 4, tzinfo=UTC)
    work = a_task(till, lambda self: self.idempotency.step("pair", lambda: (1, now)))
    assert till.deliver(work, 7).result == [1, now]


@pytest.mark.parametrize("external", [False, True])
def test_an_attempt_that_was_overtaken_keeps_nothing(
    till: Till, shop: Counter, alias: str, external: bool
) -> None:
    lost: list[LeaseLost] = []

    def body(self: Any) -> None:
        IdempotencyKey.objects.using(alias).update(token=2, owner="w:2:another")
        try:
            self.idempotency.step("write", lambda: shop.write(note="late"), external=external)
        except LeaseLost as error:
            lost.append(error)
            raise

    till.deliver(a_task(till, body), 7)
    (error,) = lost
    assert "'write' was refused" in str(error)
    assert (shop.effects, kept(alias)) == (["late"] if external else [], [])


def test_an_external_step_after_at_most_once_counts_as_external(
    till: Till, shop: Counter, alias: str
) -> None:
    def ask() -> int:
        assert shop.row.in_external
        return 1

    def body(self: Any) -> None:
        self.idempotency.step("before", int)
        self.idempotency.step("ask", ask, external=True)
        raise ValueError("no")

    till.deliver(a_task(till, body, at_most_once=True), 7)
    assert (shop.state, [name for name, *_ in kept(alias)]) == (State.REVIEW, ["before", "ask"])


def test_a_provider_sees_the_same_downstream_key_in_every_attempt(till: Till) -> None:
    seen: list[str] = []

    def ask() -> None:
        seen.append(current.downstream_key("ask"))
        if len(seen) < 3:
            raise TransientError

    work = a_task(till, lambda self: self.idempotency.step("ask", ask, external=True), default_retry_delay=0)
    till.deliver(work, 7)
    till.deliver_sent(work)
    till.deliver_sent(work)
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_new_work_under_the_key_takes_its_steps_anew(till: Till) -> None:
    numbers = iter(range(9))
    work = a_task(till, lambda self: self.idempotency.step("one", lambda: next(numbers)), retention=0)
    assert [till.deliver(work, 7, id=each).result for each in "ABC"] == [0, 1, 2]


def test_a_step_costs_one_statement_and_a_first_attempt_reads_nothing(till: Till, alias: str) -> None:
    said: list[list[str]] = []

    def body(self: Any) -> None:
        for name in ("one", "two"):
            with CaptureQueriesContext(connections[alias]) as queries:
                self.idempotency.step(name, int)
            said.append([query["sql"].split(maxsplit=1)[0] for query in queries.captured_queries])
        if self.idempotency.attempt == 1:
            raise self.retry(countdown=0)
        with CaptureQueriesContext(connections[alias]) as queries:
            self.idempotency.step("three", int, external=True)
        said.append([query["sql"].split(maxsplit=1)[0] for query in queries.captured_queries])

    work = a_task(till, body)
    till.deliver(work, 7)
    till.deliver_sent(work)
    # On PostgreSQL it is a WITH that has the INSERT in it, and COMMIT behind it.
    kept = ["BEGIN", "WITH"] if connections[alias].vendor == "postgresql" else ["BEGIN", "INSERT", "COMMIT"]
    assert said == [kept] * 2 + [["SELECT"], [], ["INSERT"]]


def test_the_value_of_a_step_whose_commit_was_not_answered_is_found(
    till: Till, shop: Counter, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, commit = connections[alias], connections[alias].commit
    runs: list[int] = []

    def lose() -> None:
        commit()
        raise OperationalError("the answer was lost")

    def write() -> int:
        runs.append(1)
        shop.write(note="once")
        return 5

    def body(self: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(connection, "commit", lose)
            return self.idempotency.step("write", write)

    assert till.deliver(a_task(till, body), 7).result == 5
    assert (len(runs), shop.effects, kept(alias)) == (1, ["once"], [("write", 1, "5")])


def test_a_plain_call_runs_its_steps_and_keeps_nothing(till: Till, shop: Counter, alias: str) -> None:
    def write() -> tuple[int, int]:
        shop.write(note="written")
        return (1, 2)

    def body(self: Any) -> Any:
        take = self.idempotency.step
        return [take("write", write), take("ask", write, external=True)]

    work = a_task(till, body)
    assert work(7) == [[1, 2], [1, 2]]
    assert (shop.effects, kept(alias)) == (["written"] * 2, [])


@pytest.mark.parametrize("is_inside", [False, True])
def test_an_eager_call_is_guarded_and_its_retry_gets_the_values(
    till: Till, shop: Counter, alias: str, is_inside: bool
) -> None:
    def body(self: Any) -> Any:
        self.idempotency.step("write", lambda: shop.write(note="written"))
        if self.idempotency.attempt == 1:
            raise TransientError
        return self.idempotency.attempt

    work = a_task(till, body, default_retry_delay=0)
    with transaction.atomic(using=alias) if is_inside else nullcontext():
        assert work.apply(args=[7]).get() == 2
    assert shop.effects == ["written"]
    assert [name for name, *_ in kept(alias)] == ["write"]
