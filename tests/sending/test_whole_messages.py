"""What is sent after the commit, and again by the sweeper, is the call that was made, whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from celery import chain, chord, group
from celery.app.trace import build_tracer
from django.db import connection, transaction
from kombu.exceptions import OperationalError

from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.models import IdempotencyKey
from tests.support.post import Post, only_row

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])

#: Celery 5.7 would have such options of a class in task_routes; it still follows them.
OF_THE_CLASS = pytest.mark.filterwarnings("ignore::celery.exceptions.CDeprecationWarning")

Road = Callable[[Post], None]


def at_once(post: Post) -> None:
    """The message that goes out after the commit is the one to look at."""


def again(post: Post) -> None:
    """Lose every message; the sweeper sends what was lost."""
    for queue in (post.queue, f"{post.queue}.other"):
        post.arrived(queue)
    post.sweep()


@pytest.fixture(params=[at_once, again], ids=["at once", "again"])
def road(request: pytest.FixtureRequest) -> Road:
    found: Road = request.param
    return found


OPTIONS: dict[str, tuple[dict[str, Any], Callable[[Any], Any], Any]] = {
    "a header of the user": ({"headers": {"tenant": "a"}}, lambda m: m["tenant"], "a"),
    "priority": ({"priority": 6}, lambda m: m["properties"]["priority"], 6),
    "shadow": ({"shadow": "nick"}, lambda m: m["shadow"], "nick"),
    "time limits": ({"time_limit": 9, "soft_time_limit": 7}, lambda m: m["timelimit"], [9, 7]),
    "ignore_result": ({"ignore_result": True}, lambda m: m["ignore_result"], True),
    "a result that is wanted": ({"ignore_result": False}, lambda m: m["ignore_result"], False),
    "root_id": ({"root_id": "r", "parent_id": "p"}, lambda m: (m["root_id"], m["parent_id"]), ("r", "p")),
    "stamps": (
        {"stamped_headers": ["shop"], "shop": "north"},
        lambda m: (m["stamped_headers"], m["stamps"]),
        (["shop"], {"shop": "north"}),
    ),
    "group": (
        {"group_id": "g", "group_index": 0, "add_to_parent": False},
        lambda m: (m["group"], m["group_index"]),
        ("g", 0),
    ),
    "a task id": ({"task_id": "mine"}, lambda m: m["id"], "mine"),
    "reply_to": ({"reply_to": "box"}, lambda m: m["properties"]["reply_to"], "box"),
    "argsrepr": ({"argsrepr": "(...)"}, lambda m: m["argsrepr"], "(...)"),
    "delivery_mode": ({"delivery_mode": 1}, lambda m: m["properties"]["delivery_mode"], 1),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_of_the_call_is_kept(post: Post, road: Road, name: str) -> None:
    options, look, expected = OPTIONS[name]
    post.task().apply_async((7,), **options)
    road(post)
    (message,) = post.arrived()
    assert look(message) == expected


@OF_THE_CLASS
@pytest.mark.parametrize(
    "where",
    [lambda q: {"queue": q}, lambda q: {"exchange": q, "routing_key": q}],
    ids=["queue", "exchange and routing_key"],
)
@pytest.mark.parametrize("of_the_task", [True, False], ids=["of the task", "of the call"])
def test_a_call_goes_to_its_queue(
    post: Post, road: Road, where: Callable[[str], dict[str, str]], of_the_task: bool
) -> None:
    other = f"{post.queue}.other"
    with post.app.connection_for_write() as connection:
        connection.SimpleQueue(other).close()
    charge = post.task(**(where(other) if of_the_task else {}))
    charge.apply_async((7,), **({} if of_the_task else where(other)))
    road(post)
    assert post.arrived() == []
    assert len(post.arrived(other)) == 1


def test_a_task_route_is_followed(post: Post, road: Road) -> None:
    post.app.conf.task_routes = {"shop.*": {"queue": f"{post.queue}.other", "priority": 3}}
    post.task().delay(7)
    road(post)
    (message,) = post.arrived(f"{post.queue}.other")
    assert message["properties"]["priority"] == 3


@OF_THE_CLASS
def test_the_options_of_the_task_are_kept(post: Post, road: Road) -> None:
    post.task(priority=4, time_limit=8, soft_time_limit=5, ignore_result=True).delay(7)
    road(post)
    (message,) = post.arrived()
    assert (message["properties"]["priority"], message["timelimit"]) == (4, [8, 5])
    assert message["ignore_result"] is True


def test_the_serializer_is_kept(post: Post, road: Road) -> None:
    post.task(serializer="pickle").delay(7)
    road(post)
    (message,) = post.arrived()
    assert message["content_type"] == "application/x-python-serialize"


def test_callbacks_and_errbacks_are_kept(post: Post, road: Road) -> None:
    charge = post.task()
    links = {"link": [charge.si(8), charge.si(9)], "link_error": charge.si(10)}
    charge.apply_async((7,), **links)
    road(post)
    (message,) = post.arrived()
    assert [each["args"] for each in message["embed"]["callbacks"]] == [[8], [9]]
    assert [each["args"] for each in message["embed"]["errbacks"]] == [[10]]


def test_the_rest_of_a_chain_is_kept(post: Post, road: Road) -> None:
    charge = post.task()
    result = chain(charge.si(1), charge.si(2), charge.si(3)).apply_async()
    road(post)
    (message,) = post.arrived()
    assert [each["args"] for each in message["embed"]["chain"]] == [[3], [2]]
    assert message["embed"]["chain"][0]["options"]["task_id"] == result.id
    assert message["root_id"] == message["id"]


def test_a_chord_and_its_members_places_are_kept(post: Post, road: Road) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task()
    body: Any = chord([charge.si(1), charge.si(2)], charge.si(3)).apply_async()
    road(post)
    members = [message for message in post.arrived() if message["task"] == charge.name]
    first, second = sorted(members, key=lambda message: message["args"])
    assert (first["group_index"], second["group_index"]) == (0, 1)
    assert first["group"] == second["group"] == body.parent.id
    assert first["embed"]["chord"]["options"]["task_id"] == body.id


def test_a_call_made_inside_a_task_names_its_parent(post: Post, road: Road) -> None:
    charge = post.task()

    def sell() -> str:
        return str(charge.delay(7).id)

    sell_task = post.app.task(sell, name="shop.sell", shared=False)
    outcome = sell_task.apply(task_id="the-parent")
    road(post)
    (message,) = post.arrived()
    assert (message["root_id"], message["parent_id"]) == ("the-parent", "the-parent")
    assert message["id"] == outcome.result


def test_a_call_made_inside_a_task_is_its_child(post: Post) -> None:
    charge = post.task()
    children: list[Any] = []

    def sell(self: Any) -> None:
        charge.delay(7)
        charge.delay(7)
        charge.apply_async((8,), add_to_parent=False)
        children.extend(self.request.children)

    post.app.task(sell, name="shop.sell", shared=False, bind=True).apply()
    first = IdempotencyKey.objects.get(key_text="order_id=7").task_id
    assert [child.id for child in children] == [first, first]


def test_arguments_that_are_changed_later_are_sent_as_they_were(post: Post, road: Road) -> None:
    def pack(order_id: int, lines: list[str]) -> None:
        """Not run here."""

    lines = ["ink"]
    with transaction.atomic():
        post.task(pack).delay(7, lines)
        lines.append("paper")
    road(post)
    (message,) = post.arrived()
    assert message["args"] == [7, ["ink"]]


def test_the_republished_message_is_the_one_that_was_sent_first(post: Post) -> None:
    post.task().apply_async((7,), {"amount": "9"}, headers={"tenant": "a"}, countdown=30, expires=600)
    (sent,) = post.arrived()
    post.sweep()
    (republished,) = post.arrived()
    passing = {"properties", "origin"}
    assert {k: v for k, v in sent.items() if k not in passing} == {
        k: v for k, v in republished.items() if k not in passing
    }


def test_a_broker_that_is_down_fails_no_call_and_the_next_sweep_sends_it(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OperationalError("down")

    with monkeypatch.context() as patch:
        patch.setattr(Message, "publish", refuse)
        result = post.task().delay(7)
    assert post.arrived() == []
    relay._closed_until = 0
    post.sweep(after=0)
    assert [message["id"] for message in post.arrived()] == [result.id]


def test_a_purged_queue_is_filled_again(post: Post) -> None:
    charge = post.task()
    ids = {charge.delay(number).id for number in range(3)}
    with post.app.connection_for_write() as connection:
        assert post.app.amqp.queues[post.queue](connection.default_channel).purge() == 3
    post.sweep()
    assert {message["id"] for message in post.arrived()} == ids


def test_a_queue_where_the_message_most_likely_waits_is_not_doubled(post: Post) -> None:
    post.task().delay(7)
    post.sweep()
    assert len(post.arrived()) == 1


def test_with_results_by_message_they_go_to_the_caller_also_when_another_process_sends_it(
    post: Post,
) -> None:
    post.app.conf.update(result_backend="rpc://")
    post.task().delay(7)
    (sent,) = post.arrived()

    def sweep() -> None:
        post.sweep()
        connection.close()

    sweeper = threading.Thread(target=sweep)  # another thread has another reply queue, as a process has
    sweeper.start()
    sweeper.join()
    (republished,) = post.arrived()
    assert sent["properties"]["reply_to"] == republished["properties"]["reply_to"] == post.app.thread_oid


def test_members_of_a_group_are_reserved_and_sent(post: Post, road: Road) -> None:
    charge = post.task()
    result: Any = group(charge.si(1), charge.si(2)).apply_async()
    road(post)
    assert {message["id"] for message in post.arrived()} == {child.id for child in result.children}
    assert IdempotencyKey.objects.count() == 2


def test_a_row_keeps_scope_and_key_as_the_caller_gave_them(post: Post) -> None:
    post.task().apply_async((7,), idempotency_key="evt", scope="tenant-1")
    row = only_row()
    assert (row.key_text, row.scope) == ("evt", "tenant-1")


# -- what the call says of itself, though its task says otherwise --


@OF_THE_CLASS
def test_no_expiry_and_no_time_limit_are_kept_where_the_task_has_them(post: Post, road: Road) -> None:
    charge = post.task(expires=600, time_limit=77, soft_time_limit=70)
    charge.apply_async((7,), expires=None, time_limit=None, soft_time_limit=None)
    road(post)
    (message,) = post.arrived()
    assert (message["expires"], message["timelimit"]) == (None, [None, None])


@OF_THE_CLASS
@pytest.mark.parametrize("reserve", [True, False])
def test_the_retry_of_a_task_with_an_expiry_does_not_expire(post: Post, reserve: bool) -> None:
    def retry(self: Any, order_id: int) -> None:  # noqa: ARG001
        raise self.retry(countdown=0)

    charge = post.task(retry, bind=True, reserve=reserve, expires=600, max_retries=3)
    charge.delay(7)
    (message,) = post.arrived()
    headers = {"idempotency": message["idempotency"]}
    tracer: Any = build_tracer(charge.name, charge, app=post.app)
    request = {"id": message["id"], "args": [7], "kwargs": {}, "delivery_info": {}, "headers": headers}
    tracer(message["id"], (7,), {}, request)
    (retried,) = post.arrived()
    assert (retried["retries"], retried["expires"]) == (1, None)
