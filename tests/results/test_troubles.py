"""A part's message comes back where its end cannot be written, or the body cannot be sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import chord
from celery.exceptions import ChordError, Reject
from django.db import OperationalError, connections
from django_celery_results.models import TaskResult

from tests.results.desk import Desk, counters


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_idempotent_tasks.results.time.sleep", lambda _seconds: None)


@contextmanager
def no_broker(desk: Desk) -> Iterator[None]:
    """A broker that is down."""
    for port in (9, None):
        desk.app.conf.broker_write_url = port and f"redis://127.0.0.1:{port}/0"
        desk.app._after_fork()  # or the pool's connections would be used
        if port:
            yield


def last_of(desk: Desk, task: Any) -> tuple[Any, Any]:
    """A chord of two parts, and the message of the one that has not ended yet."""
    result = chord([task.s(1), task.s(2)], desk.collect.s()).apply_async()
    first, last = desk.messages()
    desk.end(first)
    return result, last


@pytest.mark.usefixtures("no_pauses")
def test_a_body_that_cannot_be_sent_brings_a_guarded_part_back(desk: Desk) -> None:
    result, last = last_of(desk, desk.kept)
    with no_broker(desk), pytest.raises(Reject) as rejected:
        desk.end(last)
    assert rejected.value.requeue  # type: ignore[attr-defined]
    assert counters() == 1
    assert not TaskResult.objects.filter(task_id=last["id"]).exists(), "or Celery would drop its message"
    desk.end(last)
    (body,) = desk.messages("collect")
    assert (body["id"], body["body"][0]) == (result.id, [[1, 2]])


def test_a_body_that_can_never_be_sent_fails_the_chord_of_guarded_parts(desk: Desk) -> None:
    result = chord([desk.kept.s(1), desk.kept.s(2)], desk.collect.s()).apply_async()
    for part in desk.messages():
        part["body"][2]["chord"]["kwargs"]["no_such"] = 1
        desk.end(part)
    assert isinstance(desk.app.AsyncResult(result.id).result, ChordError)


def test_a_body_that_cannot_be_sent_after_a_plain_part_fails(desk: Desk) -> None:
    result, last = last_of(desk, desk.part)
    with no_broker(desk):
        desk.end(last)
    assert isinstance(desk.app.AsyncResult(result.id).result, ChordError)
    assert counters() == 0


class Refusals:
    """The database refuses the statements that a chord is counted with, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if "chordcounter" in sql.lower() and sql.startswith("UPDATE") and self.times:
            self.times -= 1
            raise OperationalError("deadlock")
        return execute(sql, params, many, context)


@pytest.mark.usefixtures("no_pauses")
def test_a_database_that_refuses_a_part_once_is_asked_again(desk: Desk, alias: str) -> None:
    _, last = last_of(desk, desk.part)
    with connections[alias].execute_wrapper(Refusals(2)):
        desk.end(last)
    assert len(desk.messages("collect")) == 1


@pytest.mark.usefixtures("no_pauses")
def test_a_database_that_refuses_a_guarded_part_for_good_brings_its_message_back(
    desk: Desk, alias: str
) -> None:
    _, last = last_of(desk, desk.kept)
    with connections[alias].execute_wrapper(Refusals(100)), pytest.raises(Reject):
        desk.end(last)
    desk.end(last)
    assert len(desk.messages("collect")) == 1
