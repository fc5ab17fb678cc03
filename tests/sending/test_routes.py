"""What the project's routers say is followed by looks into queues too; what they refuse stops one call."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.messages.queues import Depths
from tests.support.post import Post, no_broker, only_row

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])


def by_arguments(post: Post) -> Any:
    """A router that wants to know all that there is to know."""

    def route(name: str, args: Any, kwargs: Any, _options: Any, task: Any = None, **_rest: Any) -> Any:
        return {"queue": f"{post.queue}.{task.name}.{[*args, *kwargs.values()][0]}"} if name else None

    return route


@pytest.mark.parametrize("how", [{"args": (7,)}, {"kwargs": {"order_id": 7}}], ids=["args", "kwargs"])
def test_a_queue_that_is_routed_to_by_arguments_is_looked_into(post: Post, how: dict[str, Any]) -> None:
    post.app.conf.task_routes = (by_arguments(post),)
    post.task().apply_async(**how)
    post.sweep()
    assert len(post.arrived(f"{post.queue}.shop.charge.7")) == 1, "most likely it waits there"
    post.sweep(after=3600)
    assert len(post.arrived(f"{post.queue}.shop.charge.7")) == 1, "and now it does not"


def test_a_look_into_a_queue_that_fails_is_no_failed_sending(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    post.task().delay(7)
    post.arrived()

    def fail(*_args: object) -> int:
        raise ConnectionResetError

    monkeypatch.setattr("django_idempotent_tasks.messages.queues.Depths._ask", fail)
    post.sweep()
    assert len(post.arrived()) == 1
    assert only_row().sends == 1


def test_a_router_that_fails_at_a_look_is_taken_for_an_empty_queue(post: Post) -> None:
    post.app.conf.task_routes = (refuse_seven(LookupError),)
    with post.app.connection_for_write() as connection:
        assert Depths(post.app, connection).of(Message("shop.charge", (7,), {}, {})) == 0


def refuse_seven(error: type[Exception]) -> Any:
    """A router that cannot be asked for one call."""

    def route(_name: str, args: Any, *_rest: Any, **_more: Any) -> None:
        if tuple(args) == (7,):
            raise error

    return route


@pytest.mark.parametrize("error", [LookupError, KeyError, ValueError, TypeError])
def test_a_message_that_cannot_be_sent_does_not_hold_back_the_next_one(
    post: Post, error: type[Exception]
) -> None:
    charge = post.task()
    post.app.conf.task_routes = (refuse_seven(error),)
    charge.delay(7)
    charge.delay(8)
    assert [message["args"] for message in post.arrived()] == [[8]], "at once, and not by the sweeper"


def test_a_broker_that_is_down_is_not_asked_again_at_once(post: Post) -> None:
    charge = post.task()
    with no_broker(post):
        charge.delay(7)
        post.app.conf.broker_write_url = None
        charge.delay(8)
    assert post.arrived() == []
