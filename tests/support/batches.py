"""Batches of one test: their tasks on a broker of their own, and workers that take what has arrived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery.app.trace import build_tracer

from django_idempotent_tasks import IdempotentTask, submit_batch
from django_idempotent_tasks.conf import settings
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.models import Batch as BatchRow
from django_idempotent_tasks.models import BatchChunk, BatchRecord
from django_idempotent_tasks.operations.batches import Batch
from django_idempotent_tasks.sending import pieces
from django_idempotent_tasks.sweeper.batches import Following
from tests.sample.models import Effect
from tests.support.post import Post
from tests.support.till import End

#: Those whose tables are emptied after each test.
APPS = ["django_idempotent_tasks", "tests.sample"]
#: Deliveries after which a batch that goes round in circles is given up.
MOST = 200

Work = Callable[[Any, Any], object]


class Desk(Post):
    """Takes uploads, and is the worker that runs their chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.app.finalize()  # tasks are made where they are decorated, not in the first thread that uses one
        #: The messages that are to come later, and those that have waited.
        self._later: list[dict[str, Any]] = []
        self._waited: list[dict[str, Any]] = []
        #: The batch ids with which callbacks were called, in their order.
        self.finished: list[str] = []
        self.attention: list[str] = []
        self.callback = self._listener("desk.finished", self.finished)
        self.on_attention = self._listener("desk.attention", self.attention)

    def _listener(self, name: str, heard: list[str]) -> Any:
        def note(batch: str) -> None:
            heard.append(batch)

        return self.app.task(name=name, base=IdempotentTask, shared=False)(note)

    def registering(self, work: Work | None = None, **options: Any) -> Any:
        """A task that writes an effect for each record, and does ``work`` with it before that."""

        def register(task: Any, records: list[Any], **more: Any) -> None:
            for record in task.idempotency.records(records):
                with record:
                    if work is not None:
                        work(task, record)
                    write(record.value, attempt=task.idempotency.attempt, **more)

        return self.chunked(register, **options)

    def chunked(self, body: Callable[..., Any], **options: Any) -> Any:
        """A task with this body, which gets the chunks of batches."""
        given = {
            "name": "desk.register",
            "base": IdempotentTask,
            "bind": True,
            "shared": False,
            "default_retry_delay": 0,
            "max_retries": 2,
            "retention": 0,
            "on_store_down": "raise",
        }
        return self.app.task(**{**given, **options})(body)

    def submit(self, task: Any, records: Any, **options: Any) -> Batch:
        """Submit with both callbacks, in chunks of five."""
        given = {"chunk_size": 5, "callback": self.callback.s(), "on_attention": self.on_attention.s()}
        return submit_batch(task, records, **{**given, **options})

    def deliver(self, message: dict[str, Any], *, redelivered: bool = False) -> End:
        """Run one message as a worker does."""
        task = self.app.tasks[message["task"]]
        info = {"redelivered": redelivered, "routing_key": self.queue, "exchange": ""}
        request = {**message, "hostname": "celery@tests", "delivery_info": info}
        del request["properties"], request["content_type"], request["embed"]
        request["args"], request["kwargs"] = message["args"], message["kwargs"]
        tracer = build_tracer(task.name, task, app=self.app)
        try:
            traced = tracer(message["id"], list(message["args"]), dict(message["kwargs"]), request)
        except BaseException as error:  # noqa: BLE001  what gets past Celery's tracer is an end as well
            return End(error=error)
        return End(error=traced.info.retval) if traced.info else End(result=traced.retval)

    def run(self) -> list[End]:
        """Run what arrives, until nothing does; what is to come later waits for the next time."""
        ends: list[End] = []
        waiting, self._later = self._later, []
        while messages := waiting + self.arrived():
            waiting = []
            for message in messages:
                if message.get("eta") and message not in self._waited:
                    self._later.append(message)
                    self._waited.append(message)
                else:
                    ends.append(self.deliver(message))
            assert len(ends) < MOST, "the batch goes round in circles"
        return ends

    def follow(self) -> None:
        """Let a sweeper look at all chunks and batches, and send what comes of it."""
        following = Following(self.app)
        while following.go_on(get_store()).goes_on:
            pass
        self.sweep(after=0)


def write(value: object, *, attempt: int = 0, **more: object) -> None:
    """Write the effect of a record."""
    note = ",".join(f"{name}={each}" for name, each in more.items())
    Effect.objects.using(settings().database).create(key=str(value), attempt=attempt, token=0, note=note)


def done() -> list[str]:
    """The records whose effects are committed, in their order; one that was done twice is there twice."""
    found = Effect.objects.using(settings().database).order_by("id")
    return list(found.values_list("key", flat=True))


def failures() -> list[tuple[int, int, str, str]]:
    """Index, category, class and message of the records that failed."""
    found = BatchRecord.objects.using(settings().database).order_by("index")
    rows = found.values_list("index", "category", "error", "description")
    return [(index, category, error.rpartition(".")[2], text) for index, category, error, text in rows]


def outcomes() -> list[str]:
    """The outcomes of each chunk."""
    found = BatchChunk.objects.using(settings().database).order_by("place")
    return list(found.values_list("outcomes", flat=True))


def texts(number: int) -> list[str]:
    """So many records."""
    return [f"r{each}" for each in range(number)]


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A desk whose relay has not failed lately."""
    relay.forget()
    desk = Desk()
    yield desk
    desk.app.close()


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chunks of five a transaction."""
    monkeypatch.setattr(pieces, "GROUP", 10)


def counted(alias: str) -> tuple[int, int]:
    """How many batches and chunks there are."""
    return BatchRow.objects.using(alias).count(), BatchChunk.objects.using(alias).count()
