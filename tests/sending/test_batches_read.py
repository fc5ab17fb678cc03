"""The records of a batch are read in parts, and one that is refused leaves nothing half done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks import ConfigurationError, InvalidKey
from django_idempotent_tasks.models import BatchChunk, IdempotencyKey
from tests.sample.models import Effect
from tests.support.batches import APPS, Desk, counted, texts
from tests.support.deliveries import ALIASES

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias", "small_groups"),
]


def test_a_queryset_is_read_in_parts(desk: Desk, alias: str) -> None:
    effects = [Effect(key=text, attempt=0, token=0) for text in texts(23)]
    Effect.objects.using(alias).bulk_create(effects)
    found = Effect.objects.using(alias).order_by("id").values("key", "note")
    seen: list[Any] = []

    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            with record:
                seen.append(record.value)

    batch = desk.submit(desk.chunked(body), found, batch_key=1)
    desk.run()
    assert seen == [{"key": text, "note": ""} for text in texts(23)]
    assert batch.refresh().state == "finished"


def test_a_generator_is_read_as_fast_as_rows_are_written_and_ended_after_an_error(
    desk: Desk, alias: str
) -> None:
    ended: list[bool] = []
    ahead: list[int] = []

    def read() -> Iterator[Any]:
        try:
            for number in range(40):
                ahead.append(number - BatchChunk.objects.using(alias).count() * 5)
                yield number if number != 33 else object()
        finally:
            ended.append(True)

    with pytest.raises(InvalidKey, match=r"records\[33\]"):
        desk.submit(desk.registering(), read(), batch_key=1)
    assert (ended, max(ahead)) == ([True], 9)
    assert counted(alias) == (1, 6)


def test_a_record_that_is_refused_in_the_first_group_leaves_nothing(desk: Desk, alias: str) -> None:
    task = desk.registering()
    with pytest.raises(InvalidKey, match=r"records\[2\], at when"):
        desk.submit(task, ["a", "b", {"when": object()}], batch_key=1)
    with pytest.raises(ConfigurationError, match="MAX_PAYLOAD"):
        desk.submit(task, ["x" * 600_000] * 2, batch_key=1)
    assert (counted(alias), IdempotencyKey.objects.using(alias).count()) == ((0, 0), 0)
