"""Messages that wait in a deep queue are not doubled; those that are gone are sent again."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.conf import settings
from django_idempotent_tasks.sweeper.posting import HELD
from tests.processes.reserved.shop import REPUBLISH_AFTER, Shop

pytestmark = pytest.mark.process

#: Seconds after which every look of so many has come: each is twice as late as the one before.
LOOK = 2 ** (HELD + 1) * REPUBLISH_AFTER
#: Seconds before a look comes: far more than a test takes until then.
HALF_A_MINUTE = 30


def test_a_queue_that_nobody_empties_is_not_doubled(shop: Shop, key: str) -> None:
    for number in range(500):
        shop.order(f"{key}-{number}")
    for look in range(1, HELD + 1):
        taken = 0
        while swept := shop.sweep(after=look * LOOK).rows:
            taken += len(swept)
        assert taken == 500
        assert set(shop.keys().values_list("sends", flat=True)) == {look}
    assert shop.site.broker.waiting() == 500


def test_a_worker_that_sweeps_beside_a_deep_queue_leaves_it_alone(shop: Shop, key: str) -> None:
    for number in range(50):
        shop.order(f"{key}-{number}")
    shop.worker("elsewhere", "--queues", "elsewhere").start()
    shop.wait_for_looks(2)
    assert shop.site.broker.waiting() == 50


def test_a_message_lost_from_an_empty_queue_is_sent_at_the_next_look(usual: Shop, key: str) -> None:
    usual.order(key)
    usual.site.broker.clear()
    pause = settings().republish_after
    assert usual.sweep(after=pause - HALF_A_MINUTE).rows == []
    assert usual.sweep(after=pause + 1).sent == 1
    assert usual.site.broker.waiting() == 1


def test_a_message_lost_from_a_busy_queue_is_sent_after_some_looks(shop: Shop, key: str) -> None:
    shop.order(f"{key}-lost")
    shop.site.broker.clear()
    shop.order(f"{key}-there")
    sent = [shop.sweep(after=look * LOOK).sent for look in range(1, HELD + 2)]
    assert sent == [0] * HELD + [2]


def test_work_that_was_purged_comes_back(shop: Shop, key: str) -> None:
    shop.order(key)
    shop.site.broker.clear()
    shop.worker("late").start()
    shop.each_is_done_once()
