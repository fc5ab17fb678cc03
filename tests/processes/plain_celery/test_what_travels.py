"""What travels with a message: headers, options, and values that are more than JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from celery.canvas import Signature
from celery.concurrency.solo import TaskPool
from celery.worker import request as worker_request
from celery.worker.request import Request
from kombu.utils import json as wire

from tests.processes.plain_celery.conftest import VERSION, Queued, Tracer, define

HEADER = {"v": 1, "digest": "0" * 32, "scope": None}
#: What a later message says again that an earlier one said.
LASTING = {
    "id": "the-id",
    "root_id": "the-root",
    "parent_id": "the-parent",
    "group": "the-group",
    "group_index": 4,
    "timelimit": [20, 10],
    "shadow": "the-shadow",
    "retries": 2,
    "stamped_headers": ["the_stamp"],
    "stamps": {"the_stamp": ["the-value"]},
    "replaced_task_nesting": 1,
    "idempotency": HEADER,
}


def delivered(app: Any, message: Any) -> dict[str, Any]:
    """The request as a worker makes it of a message."""
    request = Request(message, app=app, decoded=False)
    return dict(request.request_dict)


@pytest.fixture
def kept(app: Any) -> Any:
    """A task that keeps its request and what can be sent of it."""

    @define(app, name="kept", bind=True)
    def task(self: Any, *_args: Any) -> None:
        request = self.request
        signature = self.signature_from_request(request, retries=request.retries)
        self.seen.append((dict(vars(request)), dict(signature.options)))

    task.seen = []
    return task


def send_with_everything(app: Any, kept: Any) -> None:
    """Send a call that uses every option of a canvas."""
    follower = kept.signature((2,), immutable=True)
    app.send_task(
        kept.name,
        [1],
        task_id="the-id",
        root_id="the-root",
        parent_id="the-parent",
        group_id="the-group",
        group_index=4,
        time_limit=20,
        soft_time_limit=10,
        shadow="the-shadow",
        retries=2,
        priority=3,
        link=[follower],
        link_error=[follower],
        chain=[follower],
        chord=follower,
        stamped_headers=["the_stamp"],
        stamps={"the_stamp": ["the-value"]},
        the_stamp=["the-value"],
        replaced_task_nesting=1,
        headers={"idempotency": HEADER},
    )


def test_a_header_of_ours_is_in_the_request(app: Any, queued: Queued, trace: Tracer, kept: Any) -> None:
    kept.apply_async((1,), headers={"idempotency": HEADER})
    (message,) = queued()
    assert message.headers["idempotency"] == HEADER

    trace(kept, 1, **delivered(app, message))
    request, _ = kept.seen[0]
    assert request["headers"]["idempotency"] == HEADER


def test_a_header_of_ours_travels_with_a_retry(app: Any, queued: Queued, trace: Tracer) -> None:
    @define(app, name="retrying", bind=True)
    def task(self: Any) -> None:
        self.retry(countdown=0)

    task.apply_async(headers={"idempotency": HEADER})
    for retries in (1, 2):
        trace(task, **delivered(app, queued()[0]))
        (message,) = queued_again = queued()
        assert (message.headers["idempotency"], message.headers["retries"]) == (HEADER, retries)
        send_again(app, queued_again[0])


def send_again(app: Any, message: Any) -> None:
    """Put a message back as it is."""
    with app.producer_pool.acquire(block=True) as producer:
        producer.publish(
            message.body,
            routing_key=app.conf.task_default_queue,
            headers=message.headers,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            correlation_id=message.properties["correlation_id"],
        )


def test_what_a_request_says_can_be_stored_as_json_and_sent_again(
    app: Any, queued: Queued, trace: Tracer, kept: Any
) -> None:
    send_with_everything(app, kept)
    (first,) = queued()
    trace(kept, 1, **delivered(app, first), **embedded(first))
    _, options = kept.seen[0]
    queued()  # what follows the call

    app.send_task(kept.name, [1], {}, add_to_parent=False, **wire.loads(wire.dumps(options)))
    (second,) = queued()
    assert {name: second.headers.get(name) for name in LASTING} == LASTING
    assert embedded(second) == embedded(first)
    assert second.properties["priority"] == first.properties["priority"] == 3


#: Earlier versions send a retry or a copy with the task's own choice.
KEEPS_IGNORE_RESULT = {"5.6": False, "5.7": True}


def test_whether_a_calls_own_choice_to_ignore_its_result_is_sent_again(
    app: Any, queued: Queued, trace: Tracer, kept: Any
) -> None:
    kept.apply_async((1,), ignore_result=True)
    trace(kept, 1, **delivered(app, queued()[0]))
    _, options = kept.seen[0]

    assert bool(options.get("ignore_result")) is KEEPS_IGNORE_RESULT[VERSION]


def embedded(message: Any) -> dict[str, Any]:
    """The canvas in the message's body, under the names of a request."""
    embed = json.loads(message.body)[2]
    return {name: embed[name] for name in ("callbacks", "errbacks", "chain", "chord")}


@pytest.mark.parametrize("passing", ["countdown", "eta", "expires"])
def test_a_time_of_one_sending_is_not_repeated_unless_it_is_given(
    app: Any, queued: Queued, trace: Tracer, kept: Any, passing: str
) -> None:
    moment: Any = 60 if passing == "countdown" else datetime(2100, 1, 1, tzinfo=UTC)
    kept.apply_async((1,), **{passing: moment})
    trace(kept, 1, **delivered(app, queued()[0]))
    _, options = kept.seen[0]

    assert "countdown" not in options
    assert "eta" not in options
    assert bool(options["expires"]) is (passing == "expires")


def test_a_message_on_the_default_exchange_goes_back_to_its_queue(trace: Tracer, kept: Any) -> None:
    trace(kept, 1, delivery_info={"exchange": "", "routing_key": "that-queue"})
    trace(kept, 1, delivery_info={"exchange": "that", "routing_key": "key"})
    first, second = (options for _, options in kept.seen)

    assert first["queue"] == "that-queue"
    assert (second["exchange"], second["routing_key"]) == ("that", "key")


def test_a_tasks_own_request_class_is_kept_under_the_one_that_a_worker_makes(app: Any) -> None:
    class Own(Request):
        def on_failure(self, *_args: Any, **_kwargs: Any) -> None:
            """Another one."""

    task = define(app, name="owned", Request=Own)(answer)
    made: Any = worker_request.create_request_cls(  # type: ignore[attr-defined]  # not in the stubs
        Own, task, pool=TaskPool(1, app=app), hostname="", eventer=None, app=app
    )
    assert issubclass(made, Own)
    assert made.on_failure is Own.on_failure
    assert made.on_timeout is Request.on_timeout


def answer() -> None:
    """A body."""


def test_the_request_class_may_be_named(app: Any) -> None:
    assert app.Task.Request == "celery.worker.request:Request"


VALUES = [
    UUID(int=7),
    datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
    datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001  a naive one
    date(2026, 1, 2),
    time(3, 4),
    Decimal("1.10"),
    b"\x00\xff",
    "\x00 \ud800 \U0001f600",
    2**70,
    -0.0,
    1e300,
    {"1": [None, True]},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_from_json_as_it_was(value: object) -> None:
    back = wire.loads(wire.dumps(value))
    assert (type(back), back) == (type(value), value)


CHANGED = [((1, 2), [1, 2]), ({1: 2}, {"1": 2})]


@pytest.mark.parametrize(("value", "becomes"), CHANGED, ids=repr)
def test_a_value_that_json_changes_is_changed_in_this_way(value: object, becomes: object) -> None:
    assert wire.loads(wire.dumps(value)) == becomes


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, timedelta(1), 1j], ids=lambda value: type(value).__name__
)
def test_a_value_that_json_does_not_know_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        wire.dumps(value)


def test_a_signature_is_a_dictionary(app: Any, kept: Any) -> None:
    assert isinstance(kept.signature((1,)), dict)
    assert Signature.from_dict(json.loads(json.dumps(kept.signature((1,)))), app=app).args == [1]  # type: ignore[comparison-overlap]  # a list by now
