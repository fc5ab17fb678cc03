"""Parts that end at the same moment, in several processes' places: the body is sent once, and is sent."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from celery import chord
from django.db import connections

from tests.results.desk import Desk, counters

ROUNDS = 8


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Carry works out at the same moment, each on a connection of its own."""
    barrier = Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        try:
            barrier.wait(10)
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


@pytest.mark.parametrize(
    "reports", [[0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 1, 1, 2, 2]], ids=lambda reports: f"parts {reports}"
)
def test_parts_that_end_at_once_send_the_body_once(desk: Desk, reports: list[int]) -> None:
    size = max(reports) + 1
    for number in range(ROUNDS):
        chord([desk.part.s([number, part]) for part in range(size)], desk.collect.s()).apply_async()
        parts = desk.messages()
        for early in set(range(size)) - set(reports):
            desk.end(parts[early])
        at_once(*(partial(desk.end, parts[part]) for part in reports))
        (body,) = desk.messages("collect")
        assert body["body"][0] == [[[number, part] for part in range(size)]]
    assert counters() == 0
