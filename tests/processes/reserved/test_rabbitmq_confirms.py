"""The same on RabbitMQ, where a request waits for the broker's word that it has the message."""

from __future__ import annotations

import json

import pytest

from django_idempotent_tasks.sweeper.thread import LEADER_LEASE
from tests.processes.reserved.shop import REPUBLISH_AFTER, Shop, forget_connections
from tests.processes.reserved.test_broker_silence import is_not_held
from tests.processes.reserved.victims import Victims
from tests.support.brokers.rabbitmq import PUBLISH, through
from tests.support.network.delays import LateProxy, black_hole

pytestmark = [pytest.mark.process, pytest.mark.slow]


NOWHERE = "amqp://guest:guest@127.0.0.1:9//"


def behind(shop: Shop, port: int) -> str:
    """The broker's URL by way of a port on this machine."""
    return through(port, shop.site.broker.url)


@pytest.mark.parametrize(
    ("orders", "kills"), [(200, 5), pytest.param(2000, 30, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_what_committed_is_done_once_and_what_rolled_back_never(
    rabbit_shop: Shop, rabbit_proxy: LateProxy, key: str, orders: int, kills: int
) -> None:
    shop, url = rabbit_shop, behind(rabbit_shop, rabbit_proxy.port)
    victims, step = Victims(shop), orders // kills
    for name in ("first", "second"):
        shop.worker(name, "--concurrency", "2", CELERY_BROKER_URL=url).launch()
    with shop.sending_to(url):
        for number in range(orders):
            if number % step == 1 and number < step * kills:
                victims.order(f"{key}-victim-{number}")
            elif number % 10 == 9:
                shop.fail_to_order(f"{key}-failed-{number}")
            else:
                shop.order(f"{key}-order-{number}")
            victims.kill()
            if number % (orders // 4) == orders // 8:
                rabbit_proxy.cut()
            if number == orders // 2:
                shop.site.broker.clear()  # the queue is deleted under its consumers, with all that is in it
    victims.kill_all()
    assert victims.killed == kills
    shop.each_is_done_once(within=180)


def test_a_request_is_not_held_where_the_port_is_closed(rabbit_shop: Shop, key: str) -> None:
    with rabbit_shop.sending_to(NOWHERE):
        is_not_held(rabbit_shop, key)
    assert rabbit_shop.sweep().sent == 2
    assert rabbit_shop.site.broker.waiting() == 2


def test_a_request_is_not_held_where_packets_are_dropped(rabbit_shop: Shop, key: str) -> None:
    with black_hole() as port, rabbit_shop.sending_to(behind(rabbit_shop, port)):
        is_not_held(rabbit_shop, key)
    assert rabbit_shop.sweep().sent == 2


@pytest.mark.parametrize("kept", [True, False], ids=["on a kept connection", "on a new connection"])
def test_a_request_is_not_held_where_nothing_is_forwarded(
    rabbit_shop: Shop, rabbit_proxy: LateProxy, key: str, kept: bool
) -> None:
    with rabbit_shop.sending_to(behind(rabbit_shop, rabbit_proxy.port)):
        rabbit_shop.order(f"{key}-before")
        if not kept:
            forget_connections()
        rabbit_proxy.freeze()
        is_not_held(rabbit_shop, key)
        rabbit_proxy.cut()
        rabbit_proxy.thaw()
    assert rabbit_shop.sweep().sent == 2


def test_a_message_whose_confirm_is_lost_is_sent_twice_and_done_once(
    rabbit_shop: Shop, rabbit_proxy: LateProxy, key: str
) -> None:
    with rabbit_shop.sending_to(behind(rabbit_shop, rabbit_proxy.port)):
        rabbit_shop.order(f"{key}-before")
        rabbit_proxy.delay = 10.0
        is_not_held(rabbit_shop, key)
    assert rabbit_shop.sweep().sent == 2
    assert rabbit_shop.site.broker.waiting() == 4
    rabbit_shop.worker("late").start()
    rabbit_shop.each_is_done_once()
    assert [rabbit_shop.site.journal.starts(each) for each in rabbit_shop.committed] == [1, 1, 1]


def test_a_kept_connection_that_was_cut_costs_the_next_message_nothing(
    rabbit_shop: Shop, rabbit_proxy: LateProxy, key: str
) -> None:
    with rabbit_shop.sending_to(behind(rabbit_shop, rabbit_proxy.port)):
        rabbit_shop.order(f"{key}-before")
        rabbit_proxy.cut()
        rabbit_shop.order(key)
    assert rabbit_shop.unsent() == 0
    assert rabbit_shop.site.broker.waiting() == 2


def test_rows_that_the_broker_refuses_do_not_hold_the_others(rabbit_shop: Shop, key: str) -> None:
    with rabbit_shop.sending_to(NOWHERE):
        for number in range(20):
            rabbit_shop.order(f"{key}-{number}")
    for row in rabbit_shop.keys().order_by("due_at")[:10]:
        content = json.loads(row.message or "")
        content["options"] |= {"queue": None, "exchange": "no such exchange", "routing_key": "x"}
        row.message = json.dumps(content)
        row.save(update_fields=["message"])
    swept = rabbit_shop.sweep()
    assert (swept.sent, len(swept.unsent)) == (10, 10)
    assert rabbit_shop.site.broker.waiting() == 10


def test_a_broker_that_falls_silent_in_the_middle_holds_a_sweep_for_less_than_its_lease(
    rabbit_shop: Shop, rabbit_proxy: LateProxy, key: str
) -> None:
    with rabbit_shop.sending_to(NOWHERE):
        for number in range(50):
            rabbit_shop.order(f"{key}-{number}")
    rabbit_proxy.freeze_at(PUBLISH, after=10)
    with rabbit_shop.sending_to(behind(rabbit_shop, rabbit_proxy.port)):
        assert rabbit_shop.seconds_to_sweep() < LEADER_LEASE / 2
    assert rabbit_shop.unsent() == 40
    assert rabbit_shop.sweep().sent == 40


def test_a_deep_queue_is_not_doubled_and_an_empty_one_is_filled(rabbit_shop: Shop, key: str) -> None:
    for number in range(50):
        rabbit_shop.order(f"{key}-{number}")
    assert rabbit_shop.sweep(after=2 * REPUBLISH_AFTER).sent == 0
    assert rabbit_shop.site.broker.waiting() == 50
    rabbit_shop.site.broker.clear()
    assert rabbit_shop.sweep(after=10 * REPUBLISH_AFTER).sent == 50
