"""RabbitMQ that blocks who publishes, or whose confirm never comes: no request is held, all is done once."""

from __future__ import annotations

import pytest
from django.db.models.functions import Now

from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.thread import LEADER_LEASE
from tests.processes.reserved.shop import Shop, forget_connections
from tests.processes.reserved.test_broker_silence import is_not_held
from tests.support.brokers.rabbitmq import PUBLISH, through
from tests.support.brokers.vhost import Vhost
from tests.support.network.delays import LateProxy
from tests.support.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]

on_both = pytest.mark.parametrize("kept", [True, False], ids=["on a kept connection", "on a new connection"])


@on_both
@pytest.mark.usefixtures("alone")
def test_a_request_is_not_held_where_publishers_are_blocked_and_its_work_is_done_afterwards(
    vhost: Vhost, vhost_shop: Shop, key: str, kept: bool
) -> None:
    vhost_shop.order(f"{key}-before")
    if not kept:
        forget_connections()
    with vhost.blocking():
        is_not_held(vhost_shop, key)
        assert vhost_shop.seconds_to_sweep() < LEADER_LEASE / 2
        assert vhost_shop.unsent() == 2
        worker = vhost_shop.worker("late").start()
        worker.wait_for_log("was not sent again")
        pending = vhost_shop.keys(state=State.PENDING)
        eventually(lambda: pending.count() == 2, "only what was sent before is done")
    vhost_shop.each_is_done_once()
    vhost_shop.site.broker.wait_until_empty()
    assert [vhost_shop.site.journal.starts(each) for each in vhost_shop.committed] == [1, 1, 1]


@on_both
def test_a_submission_whose_confirm_never_comes_is_due_at_once_and_sent_again_and_done_once(
    rabbit_shop: Shop, rabbit_proxy: LateProxy, key: str, kept: bool
) -> None:
    broker = rabbit_shop.site.broker
    with rabbit_shop.sending_to(through(rabbit_proxy.port, broker.url)):
        rabbit_shop.order(f"{key}-before")
        if not kept:
            forget_connections()
        rabbit_proxy.hold_answers_to(PUBLISH)
        is_not_held(rabbit_shop, key)
    assert rabbit_proxy.held == 1
    assert broker.waiting() == 2
    assert rabbit_shop.keys(sends=-1, due_at__lte=Now()).count() == 2
    rabbit_shop.worker("elsewhere", "--queues", "elsewhere").start()  # it sweeps, and takes no messages
    eventually(lambda: broker.waiting() == 4, "both are sent, one of them again")
    rabbit_shop.worker("late").start()
    rabbit_shop.each_is_done_once()
    broker.wait_until_empty()
    assert [rabbit_shop.site.journal.starts(each) for each in rabbit_shop.committed] == [1, 1, 1]
