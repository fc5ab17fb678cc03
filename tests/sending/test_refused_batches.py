"""What cannot be submitted as a batch is refused before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks import ConfigurationError, submit_batch
from tests.support.batches import APPS, Desk, counted, texts
from tests.support.deliveries import ALIASES

pytestmark = [pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"chunk_size": 0}, "chunk_size"),
        ({"chunk_size": 1001}, "chunk_size"),
        ({"chunk_size": True}, "chunk_size"),
        ({"records": "abc"}, "not str"),
        ({"records": {"a": 1}}, "not dict"),
        ({"records": 7}, "not int"),
        ({"records": iter("abc")}, "Give batch_key"),
        ({"task_id": "A"}, "task_id"),
        ({"idempotency_key": "A"}, "idempotency_key"),
        ({"kwargs": {"records": []}}, "records"),
        ({"callback": "finished"}, "callback"),
    ],
)
def test_what_cannot_be_submitted_is_refused(
    desk: Desk, alias: str, changed: dict[str, Any], words: str
) -> None:
    given = {"records": texts(3), **changed}
    with pytest.raises(ConfigurationError, match=words):
        desk.submit(desk.registering(), **given)
    assert counted(alias) == (0, 0)


def test_tasks_that_cannot_work_on_batches_are_refused(desk: Desk, alias: str) -> None:
    def plain(records: list[Any]) -> None:
        """As given."""

    def secret(records: list[Any], pin: str = "") -> None:
        """As given."""

    sensitive = desk.chunked(secret, bind=False, name="desk.secret", sensitive=("pin",))
    atomic = desk.registering(name="desk.atomic", mode="atomic")
    unguarded = desk.app.task(shared=False, name="desk.plain")(plain)
    for task, words in ((atomic, "leased"), (sensitive, "sensitive"), (unguarded, "IdempotentTask")):
        with pytest.raises(ConfigurationError, match=words):
            submit_batch(task, texts(3))
    task = desk.registering()
    chained = desk.callback.s() | desk.callback.s()
    for callback, words in ((unguarded.s(), "not guarded"), (chained, "one guarded task")):
        with pytest.raises(ConfigurationError, match=words):
            submit_batch(task, texts(3), callback=callback)
    assert counted(alias) == (0, 0)


def test_a_callback_whose_time_would_be_over_before_the_batch_has_ended_is_refused(
    desk: Desk, alias: str
) -> None:
    task, brief = desk.registering(), desk.registering(name="desk.brief", expires=60)
    for name, callback in (
        ("countdown", desk.callback.s().set(countdown=600)),
        ("expires", desk.callback.s().set(expires=60)),
        ("expires", brief.s()),
    ):
        for purpose in ("callback", "on_attention"):
            with pytest.raises(ConfigurationError, match=f"{purpose}: its '{name}' would be counted from"):
                submit_batch(task, texts(3), **{purpose: callback})
    assert counted(alias) == (0, 0)
