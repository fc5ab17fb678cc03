"""A broker that refuses or says nothing: the request ends within three seconds, its work is done later."""

from __future__ import annotations

import signal
import time

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.relay import relay
from django_idempotent_tasks.states import State
from example_project.servers.process import send_signal
from tests.reserve.shop import Shop

pytestmark = pytest.mark.process

#: Seconds that a request may take altogether, and what one takes that does not try to send.
LONGEST = 3.0
AT_ONCE = 0.5


def seconds_of(shop: Shop, key: str) -> float:
    """How long a request takes that orders."""
    began = time.monotonic()
    shop.order(key)
    return time.monotonic() - began


def pending(shop: Shop) -> int:
    """How many orders wait, none of them known to be with the broker."""
    keys = IdempotencyKey.objects.using(shop.site.rows.alias)
    return keys.filter(state=State.PENDING, sends=-1).count()


@pytest.mark.parametrize("kept", [True, False], ids=["on a kept connection", "on a new connection"])
def test_a_broker_that_stands_still_does_not_hold_the_request(shop: Shop, key: str, kept: bool) -> None:
    shop.order(f"{key}-before")
    if not kept:
        relay.forget()
    send_signal(shop.server.pid, signal.SIGSTOP)
    try:
        assert seconds_of(shop, f"{key}-first") < LONGEST
        assert seconds_of(shop, f"{key}-next") < AT_ONCE
        assert pending(shop) == 2
    finally:
        send_signal(shop.server.pid, signal.SIGCONT)
    shop.worker("late")
    shop.wait_until_done(within=60)
    assert shop.effects() == dict.fromkeys(shop.committed, 1)


def test_a_broker_that_is_away_does_not_hold_the_request(shop: Shop, key: str) -> None:
    shop.server.kill()
    assert seconds_of(shop, f"{key}-first") < LONGEST
    assert seconds_of(shop, f"{key}-next") < AT_ONCE
    assert pending(shop) == 2
    shop.server.restart()
    shop.worker("late")
    shop.wait_until_done(within=60)
    assert shop.effects() == dict.fromkeys(shop.committed, 1)
