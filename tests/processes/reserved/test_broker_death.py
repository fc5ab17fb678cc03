"""The broker dies and comes back empty, children are killed: every order that committed is done once."""

from __future__ import annotations

import pytest

from example_project.servers import Server
from tests.processes.reserved.shop import Shop
from tests.processes.reserved.victims import Victims

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("orders", "kills"), [(200, 5), pytest.param(2000, 30, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_what_committed_is_done_once_and_what_rolled_back_never(
    shop: Shop, server: Server, key: str, orders: int, kills: int
) -> None:
    victims, step = Victims(shop), orders // kills
    for name in ("first", "second"):
        shop.worker(name, "--concurrency", "2").launch()
    for number in range(orders):
        if number % step == 1 and number < step * kills:
            victims.order(f"{key}-victim-{number}")
        elif number % 10 == 9:
            shop.fail_to_order(f"{key}-failed-{number}")
        else:
            shop.order(f"{key}-order-{number}")
        victims.kill()
        if number == orders // 2:
            server.kill()
        if number == orders // 2 + orders // 20:
            server.restart()
            # Celery's consumers may stand still for good after a broker came back; somebody has to take over.
            shop.worker("third", "--concurrency", "2").launch()
    victims.kill_all()
    assert victims.killed == kills
    shop.each_is_done_once(within=180)


def test_a_message_that_the_broker_lost_is_sent_again(shop: Shop, server: Server, key: str) -> None:
    shop.order(key)
    assert shop.site.broker.waiting() == 1
    server.kill()
    server.restart()
    shop.site.broker.close()
    assert shop.site.broker.waiting() == 0
    shop.worker("late").start()
    shop.each_is_done_once()
