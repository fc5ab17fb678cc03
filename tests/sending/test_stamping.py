"""A reserved call is stamped once, where it is sent: by classes, by the app, by routers and by signals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from celery import Task, signals
from celery.app.trace import build_tracer
from django.db import transaction
from django.test import override_settings

from django_idempotent_tasks import ConfigurationError, IdempotentTask, IdempotentTaskMixin
from django_idempotent_tasks.models import IdempotencyKey
from tests.support.post import Post, only_row, rolled_back

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])

tenant: ContextVar[str] = ContextVar("sending_tenant", default="nobody")


class Behind(Task):  # type: ignore[type-arg]
    """A project's class; it takes no more by position than Celery's documentation shows."""

    abstract = True
    adds: dict[str, Any] = {}

    def apply_async(  # type: ignore[override]  # as projects write it
        self, args: Any = None, kwargs: Any = None, **options: Any
    ) -> Any:
        headers = {**(options.pop("headers", None) or {}), "tenant": tenant.get()}
        return super().apply_async(args, kwargs, headers=headers, **{**options, **self.adds})


class Mixed(IdempotentTaskMixin, Behind):
    """The mixin before it."""

    abstract = True


@pytest.fixture
def acme() -> Iterator[None]:
    """A request of that tenant."""
    token = tenant.set("acme")
    yield
    tenant.reset(token)


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """The publish signals, as they come; the first one stamps."""
    said: list[str] = []

    def before(headers: Any, **_rest: Any) -> None:
        said.append("before")
        headers |= {"trace": tenant.get(), "argsrepr": "(hidden)"}

    def after(**_rest: Any) -> None:
        said.append("after")

    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    yield said
    signals.before_task_publish.disconnect(before)
    signals.after_task_publish.disconnect(after)


def lose(post: Post) -> None:
    """The broker loses every message, and somebody else's process sends what was lost."""
    for queue in (post.queue, f"{post.queue}.acme"):
        post.arrived(queue)
    token = tenant.set("sweeper")
    post.sweep()
    tenant.reset(token)


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("send", [lambda t: t.delay(7), lambda t: t.submit((7,))], ids=["delay", "submit"])
def test_signals_are_heard_once_and_later_publications_carry_what_they_stamped(
    post: Post, heard: list[str], send: Callable[[Any], Any]
) -> None:
    with transaction.atomic():
        send(post.task(base=Mixed))
        assert heard == ["before", "after"]
    (first,) = post.arrived()
    lose(post)
    (again,) = post.arrived()
    for message in (first, again):
        assert (message["tenant"], message["trace"]) == ("acme", "acme")
        assert message["argsrepr"] == "(hidden)"
    assert first["origin"] == again["origin"]
    assert heard == ["before", "after"]


def test_a_class_behind_the_mixin_may_choose_queue_and_priority(post: Post) -> None:
    charge = post.task(base=Mixed, adds={"queue": f"{post.queue}.acme", "priority": 4})
    charge.delay(7)
    lose(post)
    (message,) = post.arrived(f"{post.queue}.acme")
    assert message["properties"]["priority"] == 4


@pytest.mark.parametrize("reserve", [True, False])
def test_a_class_behind_the_mixin_sees_calls_of_both_kinds(post: Post, reserve: bool) -> None:
    post.task(base=Mixed, reserve=reserve).delay(7)
    assert [message["tenant"] for message in post.arrived()] == ["nobody"]


def test_a_queue_that_a_router_chooses_by_the_sender_is_kept(post: Post) -> None:
    def by_tenant(*_call: Any, **_more: Any) -> dict[str, str]:
        if tenant.get() == "sweeper":
            raise LookupError
        return {"queue": f"{post.queue}.{tenant.get()}"}

    post.app.conf.task_routes = (by_tenant,)
    token = tenant.set("acme")
    post.task().delay(7)
    tenant.reset(token)
    lose(post)
    assert len(post.arrived(f"{post.queue}.acme")) == 1


class Silent(Behind):
    """A class that leaves sending to a moment of its own."""

    abstract = True

    def apply_async(self, *_args: Any, **_options: Any) -> Any:
        return None


@pytest.mark.parametrize("call", ["delay", "submit"])
def test_a_class_that_does_not_send_at_once_is_refused_and_nothing_is_written(post: Post, call: str) -> None:
    class Base(IdempotentTaskMixin, Silent):
        abstract = True

    charge = post.task(base=Base)
    with pytest.raises(ConfigurationError, match="returned without sending"):
        charge.delay(7) if call == "delay" else charge.submit((7,))
    assert not IdempotencyKey.objects.exists()


def test_an_error_of_a_class_reaches_the_caller_and_nothing_is_written(post: Post) -> None:
    class Broken(Task):  # type: ignore[type-arg]  # generic in the stubs only
        abstract = True

        def apply_async(self, *_args: Any, **_options: Any) -> Any:
            raise LookupError

    charge = post.task(base=type("Base", (IdempotentTaskMixin, Broken), {"abstract": True}))
    with pytest.raises(LookupError):
        charge.delay(7)
    assert not IdempotencyKey.objects.exists()


def test_a_submit_passes_a_class_before_the_mixin(post: Post) -> None:
    class Base(IdempotentTask):
        abstract = True

        def apply_async(self, *args: Any, headers: Any = None, **options: Any) -> Any:
            result = super().apply_async(*args, headers={**(headers or {}), "front": "yes"}, **options)
            assert result.id
            return result

    charge = post.task(base=Base)
    submission = charge.submit((7,), scope="acme", headers={"own": 1})
    again = charge.submit((7,), scope="acme")
    (message,) = post.arrived()
    assert (message["front"], message["own"], only_row().scope) == ("yes", 1, "acme")
    assert (submission.created, again.created, again.result.id) == (True, False, submission.result.id)


def test_what_instruments_stamp_takes_no_room_from_the_arguments(post: Post) -> None:
    with override_settings(IDEMPOTENT_TASKS={"MAX_PAYLOAD": 2000}):
        post.task().apply_async((7, "x" * 1000), headers={"baggage": "y" * 1000})
    assert len(only_row().message or "") > 2000
    lose(post)
    (message,) = post.arrived()
    assert message["baggage"] == "y" * 1000


@pytest.mark.usefixtures("heard")
def test_a_message_that_was_stored_without_stamps_is_sent_with_those_of_the_sweeper(post: Post) -> None:
    post.task().delay(7)
    row = only_row()
    content = json.loads(row.message or "")
    del content["stamped"], content["options"]["headers"]["trace"]
    IdempotencyKey.objects.update(message=json.dumps(content))
    lose(post)
    (message,) = post.arrived()
    assert (message["id"], message["trace"]) == (row.task_id, "sweeper")


@pytest.mark.usefixtures("acme", "heard")
@pytest.mark.parametrize("reserve", [True, False])
@pytest.mark.parametrize("nested", [True, False], ids=["under nested headers", "plain"])
def test_a_lost_retry_keeps_the_headers_that_were_delivered(post: Post, reserve: bool, nested: bool) -> None:
    def retry(self: Any, order_id: int) -> None:  # noqa: ARG001
        raise self.retry(countdown=0)

    charge = post.task(retry, bind=True, reserve=reserve, max_retries=3)
    charge.delay(7)
    (message,) = post.arrived()
    own = {name: message[name] for name in ("idempotency", "trace")}
    if nested:
        own["headers"] = {"idempotency": message["idempotency"]}
    request = {"id": message["id"], "args": [7], "kwargs": {}, "delivery_info": {}, **own}
    tracer: Any = build_tracer(charge.name, charge, app=post.app)
    tracer(message["id"], (7,), {}, request)
    lose(post)
    (retried,) = post.arrived()
    assert (retried["retries"], retried["trace"]) == (1, "acme")


@pytest.mark.parametrize(
    ("call", "how"),
    [
        *(("apply_async", each) for each in ("connection", "producer", "by position")),
        *(("submit", each) for each in ("connection", "producer")),
    ],
)
def test_a_connection_of_the_sender_s_own_sends_nothing_before_the_commit(
    post: Post, call: str, how: str
) -> None:
    task = post.task()
    with post.app.connection_for_write() as connection, post.app.amqp.Producer(connection) as producer:
        given: dict[str, Any] = {"connection": connection} if how == "connection" else {"producer": producer}
        positions = (None, None, producer) if how == "by position" else ()
        given = {} if positions else given
        with rolled_back():
            getattr(task, call)((7,), *positions, **given)
        assert post.arrived() == []
        with transaction.atomic():
            getattr(task, call)((7,), *positions, **given)
            assert post.arrived() == []
    assert len(post.arrived()) == 1


def test_a_rollback_leaves_nothing_of_a_call_that_was_stamped(post: Post, heard: list[str]) -> None:
    with rolled_back():
        post.task().delay(7)
    assert (heard, post.arrived()) == (["before", "after"], [])
