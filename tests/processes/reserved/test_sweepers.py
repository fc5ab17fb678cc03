"""Sweepers that die, meet, or find rows that cannot be sent: the others go out, each is done once."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest
from django.db import connections

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.sweeper import posting
from django_idempotent_tasks.sweeper.posting import FLUSH
from django_idempotent_tasks.sweeper.sweep import BITE
from django_idempotent_tasks.sweeper.thread import LEADER_LEASE
from tests.processes.reserved.programs import SWEEP, program
from tests.processes.reserved.shop import Shop
from tests.support.brokers.broker import QUEUE
from tests.support.network.delays import LateProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.process

NOWHERE = "redis://127.0.0.1:9/0"


def order_unsent(shop: Shop, key: str, number: int) -> list[str]:
    """Order so often while nothing can be sent; the keys."""
    keys = [f"{key}-{each}" for each in range(number)]
    with shop.sending_to(NOWHERE):
        for each in keys:
            shop.order(each)
    assert shop.unsent() == number
    return keys


def copies(shop: Shop) -> Counter[str]:
    """How many messages of each call wait."""
    raw = shop.site.broker.client.lrange(shop.site.broker.prefix + QUEUE, 0, -1)
    return Counter(json.loads(message)["headers"]["id"] for message in raw)


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_sweeper_killed_after_it_has_sent_makes_copies_and_each_order_is_done_once(
    shop: Shop, proxy: LateProxy, key: str, rounds: int
) -> None:
    for number in range(rounds):
        order_unsent(shop, f"{key}-{number}", 5)
        before = shop.site.broker.waiting()
        proxy.hold_answers_to(b"LPUSH")
        with program(shop, SWEEP, broker_url=f"redis://127.0.0.1:{proxy.port}/0"):
            eventually(lambda: proxy.held, "a message is sent, and not yet answered")
            # At least: older rounds may be due again.
            eventually(
                lambda least=before + 5: shop.site.broker.waiting() >= least,  # type: ignore[misc]
                "all of a flush are with the broker",
            )
        proxy.answer()
    # Each round left what one flush sends with the broker that the ledger knows nothing of.
    sent = copies(shop)
    shop.keys().update(sends=-1)
    shop.sweep(after=3600)
    assert copies(shop) == sent + Counter(shop.keys().values_list("task_id", flat=True))
    shop.worker("late", "--concurrency", "2").start()
    shop.each_is_done_once()
    shop.site.broker.wait_until_empty()
    assert [shop.site.journal.starts(each) for each in shop.committed] == [1] * rounds * 5


def test_what_a_killed_sweeper_had_taken_is_sent_at_a_later_look(
    shop: Shop, proxy: LateProxy, key: str
) -> None:
    order_unsent(shop, key, 5)
    proxy.freeze_at(b"LPUSH")
    with program(shop, SWEEP, broker_url=f"redis://127.0.0.1:{proxy.port}/0"):
        eventually(lambda: proxy.is_frozen, "it is about to send the first one")
    assert shop.site.broker.waiting() == 0
    shop.worker("late").start()
    shop.each_is_done_once()


def test_sweepers_that_all_believe_they_lead_send_each_message_once(shop: Shop, key: str) -> None:
    order_unsent(shop, key, 2 * BITE + 20)
    errors: list[BaseException] = []

    def sweep() -> None:
        try:
            while shop.sweep().rows:
                pass
        except BaseException as error:  # noqa: BLE001  the test's thread is to know
            errors.append(error)
        finally:
            connections.close_all()

    sweepers = [threading.Thread(target=sweep) for _ in range(3)]
    for each in sweepers:
        each.start()
    for each in sweepers:
        each.join()
    assert errors == []
    assert copies(shop) == Counter(shop.keys().values_list("task_id", flat=True))


def spoil(row: IdempotencyKey, how: str) -> None:
    """Make a row's message one that nobody can read, or one that no broker takes."""
    if how == "unreadable":
        row.message = "not json"
    else:
        content = json.loads(row.message or "")
        content["options"]["serializer"] = "no such serializer"
        row.message = json.dumps(content)
    row.save(update_fields=["message"])


@pytest.mark.parametrize("how", ["unreadable", "refused"])
def test_more_bad_rows_than_a_sweep_takes_do_not_hold_the_good_ones(shop: Shop, key: str, how: str) -> None:
    order_unsent(shop, f"{key}-bad", BITE + 5)
    rows = shop.keys()
    for row in rows:
        spoil(row, how)
    good = order_unsent_beside(shop, f"{key}-good", 5)
    for _ in range(4):
        shop.sweep()
    assert set(copies(shop)) == set(good)
    assert not shop.keys(key_text__contains="-bad-").exclude(state=1).exists()


def order_unsent_beside(shop: Shop, key: str, number: int) -> list[str]:
    """Order beside rows that are unsent already; the calls."""
    with shop.sending_to(NOWHERE):
        return [shop.order(f"{key}-{each}") for each in range(number)]


def test_a_broker_that_falls_silent_in_the_middle_holds_a_sweep_for_less_than_its_lease(
    shop: Shop, proxy: LateProxy, key: str
) -> None:
    order_unsent(shop, key, 100)
    proxy.freeze_at(b'"delivery_tag": ', after=FLUSH + 10)
    with shop.sending_to(f"redis://127.0.0.1:{proxy.port}/0"):
        assert shop.seconds_to_sweep() < LEADER_LEASE / 2
    assert shop.unsent() == 100 - FLUSH
    assert shop.sweep().sent == 100 - FLUSH


def test_a_slow_broker_gets_in_one_sweep_only_what_it_takes_within_the_lease(
    shop: Shop, proxy: LateProxy, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "FLUSH", 2)
    order_unsent(shop, key, 50)
    proxy.delay = 0.2
    with shop.sending_to(f"redis://127.0.0.1:{proxy.port}/0"):
        assert shop.seconds_to_sweep() < LEADER_LEASE / 2
    sent = shop.site.broker.waiting()
    assert 0 < sent < 50
    assert shop.unsent() == 50 - sent
    shop.sweep()
    assert shop.site.broker.waiting() == 50
