"""Processes end at bad moments: whoever had committed an order has it done, whoever had not has nothing."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.states import State
from tests.processes.reserved.programs import ORDER, program
from tests.processes.reserved.shop import Shop
from tests.support.network.delays import LateProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.process


def test_an_order_whose_process_is_killed_between_commit_and_message_is_done_after_its_time(
    shop: Shop, proxy: LateProxy, key: str
) -> None:
    proxy.freeze()
    with program(shop, ORDER.format(key=key), broker_url=f"redis://127.0.0.1:{proxy.port}/0"):
        eventually(lambda: proxy.stalled, "it is about to send")
        (row,) = shop.keys()
    assert (row.state, row.sends, shop.site.broker.waiting()) == (State.PENDING, 0, 0)
    shop.committed.append(key)
    shop.worker("late").start()
    shop.each_is_done_once()


def test_an_order_whose_process_is_killed_before_its_commit_leaves_nothing(shop: Shop, key: str) -> None:
    begun = shop.site.directory / f"{key}.1.visited"
    text = (
        f"with transaction.atomic():\n ordering.delay({key!r})\n"
        f" from tests.sample.tasks import journal\n journal().visit({f'{key}.1'!r})"
    )
    with program(shop, text, broker_url=shop.site.broker.url):
        eventually(begun.exists, "it is about to commit")
    assert not shop.keys().exists()
    assert shop.site.broker.waiting() == 0
    shop.order(key)
    assert shop.site.broker.waiting() == 1


def test_orders_that_come_while_workers_are_told_to_stop_are_all_done_once(shop: Shop, key: str) -> None:
    workers = [shop.worker(name, "--concurrency", "2").start() for name in ("first", "second")]
    for number in range(300):
        shop.order(f"{key}-{number}")
        if number in {60, 180}:
            workers.pop().terminate()
        if number == 60:
            shop.worker("third", "--concurrency", "2").launch()
    shop.each_is_done_once()
