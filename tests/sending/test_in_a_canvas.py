"""Inside a canvas nothing is refused at send: others wait for each of its messages."""

from __future__ import annotations

from typing import Any

import pytest
from celery import chain, chord, group
from celery.app.trace import build_tracer
from django.db import transaction
from kombu.exceptions import OperationalError

from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from tests.support.post import Post, no_broker, rolled_back, silent_broker

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])


def links(charge: Any) -> dict[str, Any]:
    return {"link": charge.si(99)}


@pytest.mark.parametrize("on_duplicate", ["skip", "replay", "raise"])
def test_a_duplicate_with_a_callback_is_sent_as_a_call_that_was_not_accepted(
    post: Post, on_duplicate: str
) -> None:
    charge = post.task(on_duplicate=on_duplicate)
    first = charge.delay(7)
    second = charge.apply_async((7,), **links(charge))
    assert second.id != first.id
    reserved, sent = post.arrived()
    assert (reserved["id"], sent["id"]) == (first.id, second.id)
    assert reserved["idempotency"]["reserved"] is True
    assert "reserved" not in sent["idempotency"]
    assert sent["embed"]["callbacks"][0]["args"] == [99]
    assert not DuplicateAttempt.objects.exists(), "it is decided, and recorded, where it arrives"


def test_another_payload_in_a_canvas_is_sent_and_refused_where_it_arrives(post: Post) -> None:
    charge = post.task()
    charge.apply_async((7,), idempotency_key="evt")
    charge.apply_async((8,), idempotency_key="evt", **links(charge))
    assert [message["args"] for message in post.arrived()] == [[7], [8]]
    assert IdempotencyKey.objects.count() == 1


def test_a_duplicate_in_a_canvas_waits_for_the_commit_too(post: Post) -> None:
    charge = post.task()
    with transaction.atomic():
        charge.delay(7)
        charge.apply_async((7,), **links(charge))
        assert post.arrived() == []
    assert len(post.arrived()) == 2


def test_a_rollback_takes_a_duplicate_in_a_canvas_with_it(post: Post) -> None:
    charge = post.task()
    with rolled_back():
        group(charge.si(7), charge.si(7)).apply_async()
    assert post.arrived() == [], "it would run as if the first call had never been"


def test_every_member_of_a_group_is_sent(post: Post) -> None:
    charge = post.task()
    result: Any = group(charge.si(7), charge.si(8), charge.si(7)).apply_async()
    assert {message["id"] for message in post.arrived()} == {child.id for child in result.children}
    assert IdempotencyKey.objects.count() == 2


def test_every_member_of_a_chord_is_sent_after_the_commit(post: Post) -> None:
    post.app.conf.update(result_backend="cache+memory://")
    charge = post.task()
    with transaction.atomic():
        chord([charge.si(7), charge.si(7)], charge.si(9)).apply_async()
        assert [message for message in post.arrived() if message["task"] == charge.name] == []
    assert [m["args"] for m in post.arrived() if m["task"] == charge.name] == [[7], [7]]


def test_the_head_of_a_chain_that_was_accepted_before_is_sent_with_its_rest(post: Post) -> None:
    charge = post.task(on_duplicate="raise")
    charge.delay(7)
    post.arrived()
    chain(charge.si(7), charge.si(8)).apply_async()
    (message,) = post.arrived()
    assert message["embed"]["chain"][0]["args"] == [8]


def test_submit_refuses_and_records_a_duplicate_even_with_a_callback(post: Post) -> None:
    charge = post.task()
    first = charge.delay(7)
    second = charge.submit((7,), **links(charge))
    assert not second.created
    assert second.result is not None
    assert second.result.id == first.id
    assert len(post.arrived()) == 1
    assert DuplicateAttempt.objects.get().reason == "in_progress"


# -- what a worker sends on --


def work_as_a_worker(task: Any, **request: Any) -> None:
    """Run a task as a worker does, which sends on what the message carries."""
    tracer: Any = build_tracer(task.name, task, app=task.app)
    tracer("head", (), {}, {"id": "head", "root_id": "root", "delivery_info": {}, **request})


def head(post: Post) -> Any:
    """A task of Celery's own."""
    return post.app.task(work, name="shop.head", shared=False)


def work() -> None:
    """Done."""


def replaced(post: Post, charge: Any) -> Any:
    """A task of Celery's own that another takes the place of."""

    def replace(self: Any) -> None:
        self.replace(charge.si(7))

    return post.app.task(replace, name="shop.replaced", shared=False, bind=True)


LASTS = {
    "the end of a chain": lambda post, charge: work_as_a_worker(
        head(post), chain=[charge.si(7).set(task_id="end")]
    ),
    "a callback": lambda post, charge: work_as_a_worker(head(post), callbacks=[charge.si(7)]),
    "a replacement": lambda post, charge: work_as_a_worker(replaced(post, charge)),
    "a replacement without a root": lambda post, charge: work_as_a_worker(
        replaced(post, charge), root_id=None
    ),
    "a chain of one": lambda _post, charge: chain(charge.si(7)).apply_async(),
}


@pytest.mark.parametrize("send", LASTS.values(), ids=LASTS)
@pytest.mark.parametrize("on_duplicate", ["skip", "raise"])
def test_what_a_canvas_ends_with_is_sent_though_it_was_accepted_before(
    post: Post, on_duplicate: str, send: Any
) -> None:
    charge = post.task(on_duplicate=on_duplicate)
    first = charge.delay(7)
    post.arrived()
    send(post, charge)
    (message,) = post.arrived()
    assert (message["task"], message["args"]) == (charge.name, [7])
    assert message["id"] != first.id
    assert message["idempotency"]["canvas"] is True, "it tells the worker that others wait"
    assert not DuplicateAttempt.objects.exists()


@pytest.mark.parametrize("send", LASTS.values(), ids=LASTS)
def test_a_task_that_does_not_reserve_tells_the_worker_as_well(post: Post, send: Any) -> None:
    send(post, post.task(reserve=False))
    (message,) = post.arrived()
    assert message["idempotency"]["canvas"] is True


@pytest.mark.parametrize("reserve", [True, False])
def test_a_call_outside_a_canvas_does_not_pass_for_one(post: Post, reserve: bool) -> None:
    charge = post.task(reserve=reserve)
    charge.delay(1)
    charge.s(2).delay()
    charge.apply_async((3,), link=None, link_error=None, countdown=0)

    def sell() -> None:
        charge.delay(4)

    work_as_a_worker(post.app.task(sell, name="shop.sell", shared=False))
    messages = post.arrived()
    assert [message["args"] for message in messages] == [[1], [2], [3], [4]]
    assert not any("canvas" in message["idempotency"] for message in messages)


def test_the_end_of_a_chain_that_is_sent_twice_has_one_row(post: Post) -> None:
    charge = post.task(on_duplicate="raise")
    for _ in range(2):
        work_as_a_worker(head(post), chain=[charge.si(7).set(task_id="end")])
    assert [message["id"] for message in post.arrived()] == ["end", "end"]
    assert IdempotencyKey.objects.get().task_id == "end"


# -- no broker: nobody else would send it, and a canvas would hang --


def test_a_duplicate_in_a_canvas_that_cannot_be_sent_is_an_error(post: Post) -> None:
    charge = post.task()
    charge.delay(7)
    with no_broker(post):
        for _ in range(2):  # asked, and then not asked again for a while
            with pytest.raises(OperationalError):
                charge.apply_async((7,), **links(charge))


def test_a_duplicate_in_a_canvas_that_cannot_be_sent_after_the_commit_is_logged(
    post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    charge = post.task()
    charge.delay(7)
    with no_broker(post), transaction.atomic():
        second = charge.apply_async((7,), **links(charge))
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert second.id in record.getMessage()
    assert charge.name in record.getMessage()


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_duplicate_in_a_canvas_does_not_hang_on_a_silent_broker(post: Post, in_transaction: bool) -> None:
    charge = post.task()
    charge.delay(7)
    with silent_broker(post) as took:
        if in_transaction:
            with transaction.atomic():
                charge.apply_async((7,), **links(charge))
        else:
            with pytest.raises(OperationalError):
                charge.apply_async((7,), **links(charge))
    assert took() < 10, "a request waits for two seconds, and not for the minutes of Celery's own"
