"""Several senders of the same upload at a time, and one with more records than fit into memory."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections

from django_idempotent_tasks import KeyReused
from django_idempotent_tasks.sending import pieces
from tests.support.batches import APPS, Desk, counted, done, texts
from tests.support.deliveries import ALIASES
from tests.support.post import no_broker

pytestmark = [pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)]
SENDERS, RECORDS = 4, 103


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """What each sender got, or its error."""
    found: list[Any] = [None] * SENDERS
    barrier = threading.Barrier(SENDERS)

    def send(number: int) -> None:
        try:
            barrier.wait()
            found[number] = work(number)
        except Exception as error:  # noqa: BLE001  the test looks at it
            found[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send, args=[number]) for number in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_senders_of_the_same_upload_reserve_each_chunk_once(
    desk: Desk, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "GROUP", 10)
    task = desk.registering()
    batches = at_once(lambda _: desk.submit(task, iter(texts(RECORDS)), batch_key=1))
    assert sorted(batch.created for batch in batches) == [False] * (SENDERS - 1) + [True]
    assert counted(alias) == (1, 21)
    desk.run()
    assert (sorted(done()), len(desk.finished)) == (sorted(texts(RECORDS)), 1)


def test_of_senders_of_different_uploads_under_one_key_one_is_done_whole(
    desk: Desk, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "GROUP", 10)
    task = desk.registering()
    uploads = [[f"{sender}-{text}" for text in texts(RECORDS)] for sender in range(SENDERS)]
    found = at_once(lambda number: desk.submit(task, iter(uploads[number]), batch_key=1))
    (winner,) = (number for number, each in enumerate(found) if not isinstance(each, Exception))
    assert {type(each) for number, each in enumerate(found) if number != winner} == {KeyReused}
    assert counted(alias) == (1, 21)
    desk.run()
    assert sorted(done()) == sorted(uploads[winner])


def test_memory_does_not_grow_with_the_number_of_records(desk: Desk, alias: str) -> None:
    task = desk.registering()

    def read(number: int) -> Iterator[dict[str, Any]]:
        for each in range(number):
            yield {"name": f"n{each}" * 200, "age": each}

    def peak(number: int) -> int:
        tracemalloc.start()
        desk.submit(task, read(number), batch_key=number, chunk_size=50)
        _, found = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return found

    with no_broker(desk):
        peak(100)
        few, many = peak(2000), peak(8000)
    assert many - few < 1_000_000  # 6,000 records more are above 6 MB
    assert counted(alias)[1] == 2 + 40 + 160
