"""Calls of one list that are alike get the form of the first; who stamps calls is asked about each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from celery import signals
from django.db import connections, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from kombu.utils import json as wire

from django_idempotent_tasks import ConfigurationError, InvalidKey
from django_idempotent_tasks.models import IdempotencyKey
from tests.sending.stamps import app, instrument, receiver, shadow
from tests.support.post import Post

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])

ARGUMENTS: list[tuple[list[Any], dict[str, Any]]] = [
    ([1], {}),
    ([2, "ü %s %(args)s"], {}),
    (["it's", "null"], {}),
    ([], {"order_id": 'a "quoted" one', "amount": [1, {"deep": None}]}),
    ([UUID(int=7)], {"amount": Decimal("1.50")}),
    ([date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)], {}),
    ([True], {"amount": 1.0}),
    ([{"a": "x" * 3000}], {}),
]


def calls(**options: Any) -> list[dict[str, Any]]:
    return [
        {"args": args, "kwargs": kwargs, "task_id": f"id {number}", **options}
        for number, (args, kwargs) in enumerate(ARGUMENTS)
    ]


def rows() -> dict[str, tuple[Any, ...]]:
    """What is stored of each call, and forgotten then."""
    names = ("digest", "scope", "key_text", "fingerprint", "message", "sends", "task")
    found = {row[0]: row[1:] for row in IdempotencyKey.objects.values_list("task_id", *names)}
    IdempotencyKey.objects.all().delete()
    return found


def sent(post: Post) -> list[Any]:
    """What has arrived, but for what differs whenever a message is published."""
    found = post.arrived()
    for message in found:
        del message["properties"]["delivery_tag"]
    return sorted(found, key=lambda message: str(message["id"]))


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that pass through Celery's whole sending, by their ids."""
    found: list[str] = []
    stamp = "django_idempotent_tasks.sending.prepared.stamp"
    from django_idempotent_tasks.messages.stamping import stamp as original  # noqa: PLC0415  patched below

    def noted(task: Any, send: Any, args: Any, kwargs: Any, task_id: str, options: Any) -> Any:
        found.append(task_id)
        return original(task, send, args, kwargs, task_id, options)

    monkeypatch.setattr(stamp, noted)
    return found


OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a scope and a priority": {"scope": "acme", "priority": 4},
    "a queue": {"queue": "{queue}"},
    "a callback": {"link": [{"task": "shop.after", "args": [], "kwargs": {}, "options": {}}]},
    "a result": {"ignore_result": False},
    "time limits": {"time_limit": 9, "soft_time_limit": 7},
}


@contextmanager
def listening() -> Iterator[None]:
    """Somebody hears of each call, and adds nothing: each passes through Celery."""

    def heard(**_sent: Any) -> None:
        return None

    signals.before_task_publish.connect(heard)
    try:
        yield
    finally:
        signals.before_task_publish.disconnect(heard)


@pytest.mark.parametrize("name", OPTIONS)
def test_many_are_stored_and_sent_as_each_alone_would_be(post: Post, passed: list[str], name: str) -> None:
    options = {key: post.queue if value == "{queue}" else value for key, value in OPTIONS[name].items()}
    charge = post.task(key="order_id")
    with listening():
        for call in calls():
            charge.submit(**call, **options)
    alone, alone_sent = rows(), sent(post)
    assert len(passed) == len(ARGUMENTS) == len(alone_sent)
    passed.clear()
    charge.submit_many(calls(), **options)
    assert rows() == alone
    assert sent(post) == alone_sent
    assert passed == ["id 0"]


def test_single_calls_are_stored_and_sent_as_if_each_was_the_first(post: Post, passed: list[str]) -> None:
    charge = post.task(key="order_id")
    with listening():
        for call in calls():
            charge.apply_async(**call)
    alone, alone_sent = rows(), sent(post)
    passed.clear()
    for call in calls():
        charge.apply_async(**call)
    assert (rows(), sent(post)) == (alone, alone_sent)
    assert passed == ["id 0"]


def test_a_single_call_notices_what_has_changed_since_the_one_before(post: Post, passed: list[str]) -> None:
    charge = post.task()
    charge.delay(1)
    post.app.conf.task_repr_maxlevels = 1
    charge.delay(2)
    charge.apply_async((3,), priority=5)
    charge.delay(4)
    with receiver(post):
        charge.delay(5)
    messages = sorted(post.arrived(), key=lambda message: message["args"])
    assert [message["properties"]["priority"] for message in messages] == [0, 0, 5, 0, 0]
    assert (len(passed), messages[4]["trace"]) == (4, "t5")


def test_each_call_says_when_it_was_sent(
    post: Post, passed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker measures of its wait counts from there, also where another call gave the form."""
    charge, clock = post.task(), itertools.count(1000)
    monkeypatch.setattr("time.time", lambda: float(next(clock)))
    with override_settings(IDEMPOTENT_TASKS={"TELEMETRY": ["prometheus"]}):
        for number in (1, 2):
            charge.delay(number)
        charge.submit_many({"args": [number]} for number in (3, 4))
    told = {message["args"][0]: message["idempotency"]["sent"] for message in post.arrived()}
    assert told[1] < told[2] < told[3] < told[4]
    assert len(passed) == 1


def test_a_list_gets_the_form_of_an_earlier_one_without_options(post: Post, passed: list[str]) -> None:
    charge = post.task(key="order_id")
    charge.submit_many(calls())
    first = rows()
    post.arrived()
    charge.submit_many(calls(), scope="acme")
    charge.submit_many([{"args": [9]}], priority=4)
    assert [id_ for id_ in passed if id_.startswith("id")] == ["id 0"]
    scoped = {task_id: row for task_id, row in rows().items() if task_id.startswith("id")}
    assert {row[1] for row in scoped.values()} == {"acme"}
    assert [row[2] for row in scoped.values()] == [first[task_id][2] for task_id in scoped]
    assert [message["properties"]["priority"] for message in post.arrived() if message["args"] == [9]] == [4]


def test_a_scope_that_cannot_be_stored_is_refused_in_each_list(post: Post) -> None:
    charge = post.task()
    charge.submit_many([{"args": [1]}])
    with pytest.raises(InvalidKey, match="calls\\[0\\]"):
        charge.submit_many([{"args": [2]}], scope="x" * 200)


def test_a_single_call_is_written_on_the_connection_that_the_process_has_now(post: Post) -> None:
    task = post.task()
    for number in (1, 2):
        task.delay(number)
    before = connections["default"]
    connections["default"] = before.copy()
    try:
        with CaptureQueriesContext(connections["default"]) as seen:
            task.delay(3)
    finally:
        connections["default"].close()
        connections["default"] = before
    assert any("INSERT" in each["sql"] for each in seen)
    assert len(rows()) == 3


def test_a_key_and_a_scope_of_one_call_are_its_own(post: Post, passed: list[str]) -> None:
    given = [
        {"args": [1], "idempotency_key": "a"},
        {"args": [2], "idempotency_key": "b", "scope": "s"},
        {"args": [3], "scope": None},
        {"args": [4]},
    ]
    submissions = post.task().submit_many(given, scope="all")
    found = [(row.key_text, row.scope) for row in IdempotencyKey.objects.order_by("key_text")]
    assert found == [("a", "all"), ("b", "s"), ("order_id=3", None), ("order_id=4", "all")]
    assert len(passed) == 1
    assert len({each.result.id for each in submissions}) == 4


def test_a_call_with_a_time_of_its_own_passes_by_itself(post: Post, passed: list[str]) -> None:
    given = [{"args": [1]}, {"args": [2], "countdown": 10}, {"args": [3]}]
    post.task().submit_many(given)
    assert [message["eta"] is None for message in post.arrived()] == [True, False, True]
    assert len(passed) == 2


def test_a_time_for_all_counts_from_each_call(post: Post, passed: list[str]) -> None:
    post.task().submit_many([{"args": [1]}, {"args": [2]}], countdown=10)
    first, second = post.arrived()
    assert first["eta"] < second["eta"]
    assert len(passed) == 2


@pytest.mark.parametrize("stamps", [receiver, instrument, app, shadow])
def test_who_stamps_is_asked_about_each_call(post: Post, stamps: Callable[[Post], Any]) -> None:
    with stamps(post) as charge:
        charge.submit_many([{"args": [1]}, {"args": [2]}, {"args": [3]}])
    found = [message.get("trace") or message["shadow"] for message in post.arrived()]
    assert found == ["t1", "t2", "t3"]


def test_a_router_is_asked_about_each_call(post: Post) -> None:
    post.app.conf.task_routes = (lambda _name, args, *_more, **_options: {"priority": args[0]},)
    post.task().submit_many([{"args": [1]}, {"args": [2]}, {"args": [3]}])
    assert sorted(message["properties"]["priority"] for message in post.arrived()) == [1, 2, 3]


def test_a_call_that_is_too_large_is_refused_with_its_place(post: Post) -> None:
    with (
        override_settings(IDEMPOTENT_TASKS={"MAX_PAYLOAD": 2000}),
        pytest.raises(ConfigurationError, match=r"calls\[2\].*MAX_PAYLOAD"),
    ):
        post.task().submit_many([{"args": [1]}, {"args": [2]}, {"args": ["x" * 2000]}])
    assert not IdempotencyKey.objects.exists()


def test_arguments_that_the_caller_changes_later_go_out_as_they_were(post: Post) -> None:
    orders: list[list[Any]] = [[1], [2], [3]]
    with transaction.atomic():
        post.task().submit_many([{"args": [order]} for order in orders])
        for order in orders:
            order.append("changed")
    assert [message["args"] for message in post.arrived()] == [[[1]], [[2]], [[3]]]


def test_more_than_is_kept_in_memory_is_read_again_and_goes_out_as_well(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.sending.outgoing.KEPT", 1000)
    charge = post.task()
    charge.submit_many(calls())
    assert [wire.loads(wire.dumps([each["args"], each["kwargs"]])) for each in post.arrived()] == [
        wire.loads(wire.dumps(list(each))) for each in ARGUMENTS
    ]
