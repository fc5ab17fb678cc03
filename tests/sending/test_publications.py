"""What the sweeper publishes of a stored message is, byte for byte, what Celery and kombu publish of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from inspect import unwrap
from typing import Any

import pytest
from celery import Celery
from kombu import Exchange, Queue

from django_idempotent_tasks.messages.bulk import Bulk
from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.messages.relay import bounded_connection
from tests.support.post import Post

NAME = "shop.charge"
#: What differs between any two publications: kombu's tag, and how long from now the message lives.
FLEETING = re.compile(rb'"delivery_tag": "[^"]*"|"expiration": "\d+"')
FOLLOWER: dict[str, Any] = {
    "task": "shop.after",
    "args": [],
    "kwargs": {},
    "options": {},
    "subtask_type": None,
}

#: The first of a kind is kombu's, and shows how the others are to be written.
ARGUMENTS: list[tuple[list[Any], dict[str, Any]]] = [
    ([7], {}),
    (["ü", [[[1]]]], {"amount": "1.5"}),
    ([], {"order_id": None}),
    ([1, "two", 3.5, "it's", '"', "%(id)s", "x" * 2000], {"who": "a b", "is": True}),
    (["a@b.org", "null", -1, 1e100], {"a": "b", "n": 2}),
    ([date(2026, 1, 1), Decimal("1.50")], {"when": datetime(2026, 1, 1, tzinfo=UTC)}),
]

OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "headers": {"headers": {"tenant": "a", "sentry-trace": {"nested": ["ü"]}, "origin": "elsewhere"}},
    "nested headers": {"headers": {"headers": {"a": 1, "idempotency": {"v": 1, "key": "order_id=7"}}}},
    "priority": {"priority": 6},
    "another queue": {"queue": "{queue}.other"},
    "eta": {"eta": "2099-01-01T00:00:00+00:00"},
    "expires": {"expires": "2099-01-01T00:00:00+00:00"},
    "a canvas": {"link": [FOLLOWER], "link_error": [FOLLOWER], "chord": FOLLOWER, "chain": [FOLLOWER]},
    "a group": {"group_id": "g", "group_index": 3},
    "stamps": {"stamped_headers": ["shop"], "shop": "north"},
    "time limits": {"time_limit": 9, "soft_time_limit": 7},
    "a lineage": {"root_id": "r", "parent_id": "p", "retries": 2, "replaced_task_nesting": 1},
    "other words": {"argsrepr": "(...)", "kwargsrepr": "{...}", "shadow": "nick"},
    "a result": {"ignore_result": False, "reply_to": "box"},
    "pickle": {"serializer": "pickle"},
    "zlib": {"compression": "zlib"},
    "not persistent": {"delivery_mode": 1},
}
Changed = Callable[[Post], None]


def _function(post: Post) -> None:
    post.app.conf.task_routes = (lambda *_call, **_more: {"queue": f"{post.queue}.routed", "priority": 3},)


def _topic(post: Post) -> None:
    exchange = Exchange(f"{post.queue}.topic", type="topic")
    post.app.conf.task_queues = [Queue(post.queue, exchange, routing_key=f"{post.queue}.#")]
    post.app.conf.task_default_routing_key = f"{post.queue}.key"


APPS: dict[str, Changed] = {
    "nothing": lambda _post: None,
    "protocol 1": lambda post: post.app.conf.update(task_protocol=1),
    "a router": _function,
    "routes by name": lambda post: post.app.conf.update(task_routes={NAME: {"queue": f"{post.queue}.named"}}),
    "a topic exchange": _topic,
    "a task with options": lambda post: post.task(priority=4, time_limit=30, compression="zlib"),
    "events": lambda post: post.app.conf.update(task_send_sent_event=True),
    "settings": lambda post: post.app.conf.update(
        task_serializer="pickle", task_compression="zlib", task_default_delivery_mode=1, task_repr_maxlevels=1
    ),
    "queues that expire": lambda post: post.app.conf.update(task_queues=[Queue(post.queue, expires=60)]),
}


def named(value: Any, queue: str) -> Any:
    """An option with the names of this test's own queue."""
    return value.replace("{queue}", queue) if isinstance(value, str) else value


def messages(post: Post, options: dict[str, Any]) -> list[Message]:
    """Three calls: what is remembered of the first serves the others."""
    own = {name: named(value, post.queue) for name, value in options.items()}
    own["headers"] = {"idempotency": {"v": 1, "key": "order_id=7"}, **own.get("headers", {})}
    return [
        Message.as_stamped(NAME, args, kwargs, {"origin": "somebody", "task_id": f"id-{number}", **own})
        for number, (args, kwargs) in enumerate(ARGUMENTS)
    ]


def published(post: Post, send: Callable[[Any], None]) -> dict[bytes, list[bytes]]:
    """Everything at the broker that has the queue's name in its key, which is deleted."""
    with bounded_connection(post.app) as connection:
        send(connection)
        channel: Any = connection.default_channel
        client = channel.client
        found = {}
        for key in client.keys(f"*{post.queue}*"):
            is_list = client.type(key) == b"list"
            content = client.lrange(key, 0, -1) if is_list else sorted(client.smembers(key))
            found[key] = [FLEETING.sub(b"", each) for each in content]
            client.delete(key)
    return found


def by_celery(post: Post, calls: list[Message]) -> dict[bytes, list[bytes]]:
    """Each by Celery itself, as if nothing else was ever sent."""
    send_task: Any = unwrap(Celery.send_task)

    def send(connection: Any) -> None:
        for call in calls:
            options = {"expires": None, "time_limit": None, "soft_time_limit": None, **call.options}
            send_task(post.app, call.task, list(call.args), call.kwargs, connection=connection, **options)

    return published(post, send)


def by_the_sweeper(post: Post, calls: list[Message]) -> dict[bytes, list[bytes]]:
    """All in one flush."""

    def send(connection: Any) -> None:
        bulk = Bulk(post.app, connection)
        for number, call in enumerate(calls):
            bulk.publish(number, call)
        assert dict(bulk.flush()) == dict.fromkeys(range(len(calls)))

    return published(post, send)


@pytest.mark.filterwarnings("ignore::celery.exceptions.CDeprecationWarning")
@pytest.mark.parametrize("name", OPTIONS)
def test_a_message_with_this_option_is_celery_s_own(post: Post, name: str) -> None:
    calls = messages(post, OPTIONS[name])
    expected = by_celery(post, calls)
    assert expected
    assert by_the_sweeper(post, calls) == expected


@pytest.mark.filterwarnings("ignore::celery.exceptions.CDeprecationWarning")
@pytest.mark.parametrize("name", APPS)
def test_a_message_of_an_app_with_this_is_celery_s_own(post: Post, name: str) -> None:
    APPS[name](post)
    calls = messages(post, {})
    expected = by_celery(post, calls)
    assert expected
    assert by_the_sweeper(post, calls) == expected
