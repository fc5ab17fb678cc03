"""A task is paused, and workers, sweepers and the broker are killed: nothing is lost, or done too early."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import Pause
from django_idempotent_tasks.operations import pauses
from django_idempotent_tasks.states import State
from example_project.servers import Server
from tests.processes.reserved.shop import Shop
from tests.sample.reserving import enduring, ordering
from tests.support.waiting import eventually

pytestmark = pytest.mark.process


def paused(shop: Shop, task: Any, **options: Any) -> Pause:
    """Pause a task of the shop."""
    store = get_store(shop.site.rows.alias)
    return pauses.pause(store, task.name, by="ann", reason="the bank is down", **options)


def resume(shop: Shop, row: Pause) -> None:
    """End a pause of the shop."""
    assert pauses.resume(get_store(shop.site.rows.alias), row, by="ann", rate=1000)


def started(shop: Shop, key: str) -> list[str]:
    """The bodies of a test that have begun: the journal has those of other tests too."""
    return [each["key"] for each in shop.site.journal.read("started") if each["key"].startswith(key)]


def test_nothing_is_lost_of_a_paused_task_whoever_is_killed_meanwhile(
    shop: Shop, server: Server, key: str
) -> None:
    plain = [f"{key}-plain-{number}" for number in range(5)]
    for number in range(10):
        shop.order(f"{key}-sent-{number}")
    for name in plain:
        shop.site.send(enduring, name)
    rows = [paused(shop, ordering), paused(shop, enduring)]
    for number in range(10):
        shop.order(f"{key}-kept-{number}")
    assert shop.site.broker.waiting() == 15  # nothing is sent of what is paused
    held = shop.keys(state=State.PENDING, due_at__in=[row.held_at for row in rows])
    first = shop.worker("first", "--concurrency", "2").launch()
    eventually(held.exists, "a call waits in the ledger")
    first.kill()
    second = shop.worker("second", "--concurrency", "2").start()
    eventually(lambda: held.count() == 25 or shop.site.broker.waiting() == 0, "messages are taken")
    server.kill()
    second.kill()
    server.restart()
    shop.worker("third", "--concurrency", "2").launch()
    eventually(
        lambda: shop.keys(task=ordering.name).count() == held.filter(task=ordering.name).count(), "all wait"
    )
    assert not started(shop, key)
    for row in rows:
        resume(shop, row)
    shop.wait_until_done()
    done = shop.effects()
    assert {name: done[name] for name in shop.committed} == dict.fromkeys(shop.committed, 1)
    assert set(done.values()) == {1}
    texts = shop.keys(task=enduring.name).values_list("key_text", flat=True)
    kept = {text.removeprefix("key=") for text in texts}
    assert {name for name in plain if done[name]} == kept  # a broker that is killed keeps no plain message


def test_a_pause_takes_effect_within_seconds_and_ends_by_itself_and_what_runs_ends(
    shop: Shop, key: str
) -> None:
    shop.worker("only", "--concurrency", "2").start()
    shop.order(f"{key}-running", gated=True)
    eventually(lambda: started(shop, key), "it runs")
    paused(shop, ordering, lasts=timedelta(seconds=12))
    row = paused(shop, enduring, lasts=timedelta(seconds=12))
    began, number = time.monotonic(), 0
    while not shop.keys(task=enduring.name, state=State.PENDING, due_at=row.held_at).exists():
        shop.site.send(enduring, f"{key}-{number}")
        time.sleep(0.2)
        number += 1
        assert time.monotonic() - began < 8, "the pause takes no effect"
    shop.site.journal.open_all()
    eventually(lambda: shop.keys(task=ordering.name, state=State.SUCCEEDED).exists(), "what runs ends")
    shop.wait_until_done(within=60)
    assert shop.effects() == dict.fromkeys([f"{key}-running", *(f"{key}-{n}" for n in range(number))], 1)
