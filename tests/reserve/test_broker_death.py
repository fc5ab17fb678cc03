"""The broker dies and comes back empty, children are killed: every order that committed is done once."""

from __future__ import annotations

import pytest

from tests.reserve.shop import Shop

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("orders", "kills"), [(200, 5), pytest.param(2000, 30, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_what_committed_is_done_once_and_what_rolled_back_never(shop: Shop, orders: int, kills: int) -> None:
    for name in ("first", "second"):
        shop.worker(name, "--concurrency", "2")
    for number in range(orders):
        if number % 10 == 9:
            shop.fail_to_order(f"failed-{number}")
        else:
            shop.order(f"order-{number}")
        if number % (orders // kills) == 1:
            shop.kill_a_child()
        if number == orders // 2:
            shop.server.kill()
        if number == orders // 2 + orders // 20:
            shop.server.restart()
            # Celery's consumers may stand still for good after a broker came back; somebody has to take over.
            shop.worker("third", "--concurrency", "2")
    shop.wait_until_done(within=180)
    assert shop.ordered() == set(shop.committed)
    assert shop.effects() == dict.fromkeys(shop.committed, 1)


def test_a_message_that_the_broker_lost_is_sent_again(shop: Shop, key: str) -> None:
    shop.order(key)
    assert shop.site.broker.waiting() == 1
    shop.server.kill()
    shop.server.restart()
    shop.site.broker.close()
    assert shop.site.broker.waiting() == 0
    shop.worker("late")
    shop.wait_until_done(within=60)
    assert shop.effects() == {key: 1}


def test_a_deep_queue_is_not_doubled(shop: Shop, key: str) -> None:
    """A worker sweeps and takes nothing from this queue; all messages wait there beyond their time."""
    for number in range(50):
        shop.order(f"{key}-{number}")
    worker = shop.worker("elsewhere", "--queues", "elsewhere")
    shop.wait_for_looks(2)
    assert shop.site.broker.waiting() == 50
    assert worker.is_alive


def test_work_that_was_purged_comes_back(shop: Shop, key: str) -> None:
    shop.order(key)
    shop.site.broker.clear()
    shop.worker("late")
    shop.wait_until_done(within=60)
    assert shop.effects() == {key: 1}
