"""A broker that refuses or says nothing: the request ends within three seconds, its work is done later."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from django.db import connections

from example_project.servers import Server
from example_project.servers.process import send_signal
from tests.processes.reserved.shop import Shop, forget_connections
from tests.support.network.delays import LateProxy, black_hole

pytestmark = pytest.mark.process

#: Seconds that a request may take altogether, and what one takes that does not try to send.
LONGEST = 3.0
AT_ONCE = 0.5
LATE = 10.0


@contextmanager
def away(server: Server, proxy: LateProxy) -> Iterator[None]:  # noqa: ARG001
    """The port is closed."""
    server.kill()
    yield
    server.restart()


@contextmanager
def stopped(server: Server, proxy: LateProxy) -> Iterator[None]:  # noqa: ARG001
    """The server's process stands still: its system takes connections and data, nobody answers."""
    send_signal(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        send_signal(server.pid, signal.SIGCONT)


@contextmanager
def mute(server: Server, proxy: LateProxy) -> Iterator[None]:  # noqa: ARG001
    """Something in between takes connections and data, and forwards nothing, not even afterwards."""
    proxy.freeze()
    yield
    proxy.cut()
    proxy.thaw()


@pytest.mark.parametrize("kept", [True, False], ids=["on a kept connection", "on a new connection"])
@pytest.mark.parametrize("unreachable", [away, stopped, mute], ids=lambda way: way.__name__)
def test_a_request_is_not_held_and_its_message_goes_out_when_the_broker_is_back(
    usual: Shop, server: Server, proxy: LateProxy, key: str, unreachable: Any, kept: bool
) -> None:
    shop = usual  # else what was sent before may be due again, and is sent with the two
    url = shop.site.broker.url if unreachable is away else f"redis://127.0.0.1:{proxy.port}/0"
    with shop.sending_to(url):
        shop.order(f"{key}-before")
        shop.site.broker.close()
        if not kept:
            forget_connections()
        with unreachable(server, proxy):
            is_not_held(shop, key)
    shop.site.broker.clear()
    assert shop.sweep().sent == 2
    assert shop.site.broker.waiting() == 2


def test_a_request_is_not_held_where_packets_are_dropped(shop: Shop, key: str) -> None:
    with black_hole() as port, shop.sending_to(f"redis://127.0.0.1:{port}/0"):
        is_not_held(shop, key)
    assert shop.sweep().sent == 2


def is_not_held(shop: Shop, key: str) -> None:
    """Order twice: the first request tries to send, the next one does not."""
    first, following = (shop.seconds_to_order(f"{key}-{each}") for each in ("first", "next"))
    print(f"the requests took {first:.2f} and {following:.2f} s")
    assert first < LONGEST
    assert following < AT_ONCE
    assert shop.unsent() == 2


def test_what_went_out_and_was_answered_late_is_sent_twice_and_done_once(
    shop: Shop, proxy: LateProxy, key: str
) -> None:
    with shop.sending_to(f"redis://127.0.0.1:{proxy.port}/0"):
        shop.order(f"{key}-before")
        proxy.delay = LATE
        assert shop.seconds_to_order(f"{key}-first") < LONGEST
        assert shop.seconds_to_order(f"{key}-next") < AT_ONCE
    assert shop.unsent() == 2
    assert shop.site.broker.waiting() == 2
    assert shop.sweep().sent == 2
    assert shop.site.broker.waiting() == 4
    shop.worker("late").start()
    shop.each_is_done_once()
    shop.site.broker.wait_until_empty()
    assert [shop.site.journal.starts(each) for each in shop.committed] == [1, 1, 1]


def test_a_worker_does_what_was_ordered_while_its_broker_was_away(
    shop: Shop, server: Server, key: str
) -> None:
    worker = shop.worker("waiting", "--concurrency", "2").start()
    server.kill()
    worker.wait_for_log("Connection to broker lost")
    for number in range(5):
        shop.order(f"{key}-{number}")
    assert shop.unsent() == 5
    server.restart()
    shop.each_is_done_once()


def test_requests_side_by_side_are_not_held_one_after_the_other(
    shop: Shop, server: Server, proxy: LateProxy, key: str
) -> None:
    took: list[float] = []

    def order(number: int) -> None:
        took.append(shop.seconds_to_order(f"{key}-{number}"))
        connections.close_all()

    threads = [threading.Thread(target=order, args=(number,)) for number in range(8)]
    with stopped(server, proxy):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert max(took) < LONGEST
        assert shop.unsent() == len(took) == 8


@pytest.mark.parametrize("closed", ["restarted", "cut"])
def test_a_kept_connection_that_was_closed_costs_the_next_message_nothing(
    shop: Shop, server: Server, proxy: LateProxy, key: str, closed: str
) -> None:
    way = nullcontext() if closed == "restarted" else shop.sending_to(f"redis://127.0.0.1:{proxy.port}/0")
    with way:
        shop.order(f"{key}-before")
        if closed == "restarted":
            server.restart()
            shop.site.broker.close()
        else:
            proxy.cut()
            shop.site.broker.clear()
        shop.order(key)
    assert shop.unsent() == 0
    assert shop.site.broker.waiting() == 1
