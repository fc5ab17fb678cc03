"""What a guarded task leaves its place to: when it is sent, what is refused, and what duplicates get."""

from __future__ import annotations

from typing import Any

import pytest
from celery import chain
from celery.app.trace import build_tracer
from celery.exceptions import Ignore

from django_idempotent_tasks.http import jobs
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.running.replay import replacement_text
from django_idempotent_tasks.states import Reason, State
from tests.support.post import Post, no_broker

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])

MODES = ["leased", "atomic"]


def replacing(post: Post, replace: Any, **options: Any) -> Any:
    """A task that leaves its place to what ``replace`` gives, and a plain one to be that."""

    def run(self: Any, order_id: int) -> Any:
        return replace(self, order_id)

    return post.task(run, **{"bind": True, "reserve": False, "name": "shop.replacing", **options})


def work(task: Any, order_id: int, call: str = "one", **request: Any) -> Any:
    """Run it as a worker does; what the worker has to see."""
    tracer: Any = build_tracer(task.name, task, app=task.app)
    return tracer(call, (order_id,), {}, {"id": call, "delivery_info": {}, **request})


def error_of(outcome: Any) -> str:
    """The error that an end has, or nothing."""
    return str(outcome.info.retval) if outcome.info and outcome.info.state == "FAILURE" else ""


def row() -> IdempotencyKey:
    return IdempotencyKey.objects.get(key_text="order_id=7")


@pytest.fixture
def other(post: Post) -> Any:
    """What takes the place."""
    return post.task(name="shop.other", reserve=False)


@pytest.mark.parametrize("mode", MODES)
def test_a_key_completes_with_what_takes_its_place(post: Post, other: Any, mode: str) -> None:
    task = replacing(post, lambda self, order_id: self.replace(other.si(order_id)), mode=mode)
    work(task, 7)
    (message,) = post.arrived()
    assert (message["task"], message["id"]) == (other.name, "one")
    assert (row().state, row().reason) == (State.SUCCEEDED, Reason.REPLACED)


def test_an_atomic_body_that_fails_after_it_was_replaced_sends_nothing(post: Post, other: Any) -> None:
    def replace(self: Any, order_id: int) -> None:
        try:
            self.replace(other.si(order_id))
        except Ignore:
            raise ValueError from None

    work(replacing(post, replace, mode="atomic"), 7)
    assert post.arrived() == []
    assert row().state == State.FAILED


def test_an_atomic_call_comes_back_until_what_takes_its_place_is_sent(post: Post, other: Any) -> None:
    task = replacing(post, lambda self, order_id: self.replace(other.si(order_id)), mode="atomic")
    post.app.conf.task_publish_retry = False
    with no_broker(post):
        post.app._after_fork()
        (info,) = work(task, 7)[1:2]
        assert (info.state, info.retval.requeue) == ("REJECTED", True)
    post.app._after_fork()
    assert row().state == State.SUCCEEDED
    work(task, 7, delivery_info={"redelivered": True})
    (message,) = post.arrived()
    assert (message["task"], message["id"]) == (other.name, "one")


@pytest.mark.parametrize("mode", MODES)
def test_a_duplicate_in_a_canvas_goes_on_with_the_same(post: Post, other: Any, mode: str) -> None:
    task = replacing(post, lambda self, order_id: self.replace(other.si(order_id)), mode=mode)
    work(task, 7)
    post.arrived()
    work(task, 7, "two", chain=[other.si(9).set(task_id="end")])
    (message,) = post.arrived()
    assert (message["task"], message["id"], message["args"]) == (other.name, "two", [7])
    assert message["embed"]["chain"][0]["options"]["task_id"] == "end"


@pytest.mark.parametrize("why", ["store_result", "sensitive", "size"])
@pytest.mark.parametrize("mode", MODES)
def test_what_may_not_be_stored_is_not_and_a_duplicate_hears_of_it(
    post: Post, settings: Any, mode: str, why: str
) -> None:
    secret = post.task(name="shop.secret", reserve=False, sensitive=("amount",) if why == "sensitive" else ())
    settings.IDEMPOTENT_TASKS = {"MAX_PAYLOAD": 300} if why == "size" else {}
    options = {"store_result": False} if why == "store_result" else {}
    task = replacing(
        post, lambda self, order_id: self.replace(secret.si(order_id, "9" * 400)), mode=mode, **options
    )
    work(task, 7)
    assert len(post.arrived()) == 1
    assert "9999" not in (row().result or "")
    work(task, 7)
    assert post.arrived() == [], "it was sent before"
    assert "was not stored" in error_of(work(task, 7, "two", chain=[secret.si(9)]))


@pytest.mark.parametrize("mode", MODES)
def test_a_canvas_that_waits_for_the_key_it_replaces_is_refused(post: Post, other: Any, mode: str) -> None:
    task = replacing(post, lambda self, order_id: self.replace(self.si(order_id) | other.si(1)), mode=mode)
    assert "own key" in error_of(work(task, 7))
    assert post.arrived() == []
    assert row().state == State.FAILED


def test_an_atomic_task_is_not_replaced_by_a_call_of_its_own_key(post: Post) -> None:
    task = replacing(post, lambda self, order_id: self.replace(self.si(order_id)), mode="atomic")
    assert "own key" in error_of(work(task, 7))
    assert post.arrived() == []


def test_a_leased_call_of_its_own_key_goes_on_as_a_retry(post: Post) -> None:
    task = replacing(post, lambda self, order_id: self.replace(self.si(order_id)))
    work(task, 7, chain=[task.si(9).set(task_id="end")])
    (message,) = post.arrived()
    assert (message["id"], message["embed"]["chain"][0]["args"]) == ("one", [9])
    assert row().state == State.RETRY


def test_what_leads_back_to_the_key_is_an_error(post: Post, other: Any) -> None:
    task = replacing(post, lambda self, order_id: self.replace(other.si(order_id)))
    work(task, 7)
    assert error_of(work(task, 7)) == ""
    assert "leads back to its own key" in error_of(work(task, 7, replaced_task_nesting=2))


def test_complete_and_replace_do_not_go_together(post: Post, other: Any) -> None:
    def replace(self: Any, order_id: int) -> None:
        with self.idempotency.complete() as done:
            done.result = 5
        self.replace(other.si(order_id))

    assert work(replacing(post, replace), 7).retval == 5
    assert post.arrived() == []


def test_the_result_of_a_replaced_call_is_not_ready_before_what_takes_its_place(post: Post) -> None:
    other = post.task(name="shop.other")
    task = replacing(post, lambda self, order_id: self.replace(other.si(order_id)), reserve=True)
    result = task.delay(7)
    post.arrived()
    work(task, 7, result.id)
    assert result.state in {"PENDING", "STARTED"}
    (message,) = post.arrived()
    carried = {name: message[name] for name in ("idempotency", "replaced_task_nesting")}
    work(other, 7, message["id"], **carried, headers={})
    assert result.get(timeout=5) == 7


@pytest.mark.parametrize("mode", MODES)
def test_ignore_in_a_part_of_a_chord_is_an_error_there(post: Post, other: Any, mode: str) -> None:
    def ignore(_self: Any, _order_id: int) -> None:
        raise Ignore

    task = replacing(post, ignore, mode=mode)
    for call in ("one", "one", "two"):
        assert "raised Ignore" in error_of(work(task, 7, call, chord=other.s()))
    assert (row().state, row().reason) == (State.SUCCEEDED, Reason.IGNORED)
    assert error_of(work(task, 7)) == ""


def test_a_signature_that_is_no_json_is_not_kept(post: Post) -> None:
    task = replacing(post, lambda *_: None)
    text, is_kept = replacement_text(task, chain(task.si(object()), task.si(2)))
    assert not is_kept
    assert "object" not in text


@pytest.mark.parametrize("task_of", ["the same task", "another task"])
@pytest.mark.parametrize("mode", MODES)
def test_what_took_a_task_s_place_is_cancelled_by_its_task_id(post: Post, mode: str, task_of: str) -> None:
    def replace(self: Any, _order_id: int) -> Any:
        return self.replace((task if task_of == "the same task" else other).si(after))

    task = replacing(post, replace, mode=mode, reserve=True)
    other = post.task(name="shop.other")
    digests = {order: task.idempotency_identity((order,)).digest for order in range(7, 99)}
    after = next(order for order, digest in digests.items() if digest > digests[7])  # as rows are sorted
    work(task, 7)
    waiting = IdempotencyKey.objects.get(key_text=f"order_id={after}")
    assert (waiting.task_id, waiting.state, row().reason) == ("one", State.PENDING, Reason.REPLACED)
    found = jobs.find("one")
    assert found is not None
    assert found.key_text == waiting.key_text

    assert task.cancel(task_id="one") == "cancelled"
    waiting.refresh_from_db()
    assert waiting.state == State.CANCELLED
    assert task.cancel(task_id="one") == "cancelled"
