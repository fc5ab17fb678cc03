"""From the alarm to the cure in a real browser: each in under a minute and at most five clicks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import IdempotencyKey, Pause, RedriveOperation, Worker
from django_idempotent_tasks.operations import findings, pauses
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.admin.browser.site import Browser
from tests.admin.browser.test_operator import MESSAGE, shop
from tests.support.fleet import held, led, worker
from tests.support.keys import Keys

pytestmark = [pytest.mark.slow, pytest.mark.process]
TASK = "shop.tasks.charge"


@contextmanager
def drill(browser: Browser, *, clicks: int = 5) -> Iterator[None]:
    """An alarm leads to the dashboard; from there on clicks and seconds count."""
    browser.sign_in("root")
    browser.open(reverse("admin:django_idempotent_tasks_dashboard"))
    browser.clicks, began = 0, time.monotonic()
    yield
    print(f"{browser.clicks} clicks, {time.monotonic() - began:.1f} s")
    assert browser.clicks <= clicks
    assert time.monotonic() - began < 60
    assert browser.complaints == []


def waiting(keys: Keys, number: int, queue: str, task: str = TASK) -> list[Call]:
    """Calls whose messages went out five minutes ago."""
    calls = []
    for each in range(number):
        identity = Identity(uuid4(), None, f"order_id={each}", None)
        call = Call(identity, task, str(uuid4()), MESSAGE.replace("celery", queue))
        keys.reserved(call, wait=9000)
        keys.in_columns(call, created_at=keys.now(call) - timedelta(minutes=5))
        calls.append(call)
    return calls


def busy(keys: Keys) -> None:
    """Beside what is wrong: a worker at work, and calls that wait for it."""
    led(keys)
    worker(keys, queues=("celery", "mail"), tasks=(TASK, "shop.charge"))
    held(keys, worker(keys, tasks=(TASK, "shop.charge")), pid=4711, lease=600)


def test_a_stuck_key_is_found_understood_and_released(browser: Browser, keys: Keys) -> None:
    busy(keys)
    row = shop(keys)
    gone = worker(keys, instance="2" * 32, name="shop@host7", pid=2100, tasks=(TASK,))
    Worker.objects.filter(pk=gone.instance).update(seen_at=row.open_at)
    made = {"owner": f"{gone.instance}:2107:0123456789abcdef", "created_at": row.started_at}
    IdempotencyKey.objects.filter(pk=row.pk).update(**made)
    pauses.pause(keys.store(), "shop.tasks.refund", by="ann", reason="the bank is down")
    with drill(browser, clicks=4):
        browser.picture("dashboard")
        browser.follow("1 lease ended")
        browser.follow("order_id=7")
        assert "held by shop@host7, pid 2107 (not seen for " in browser.text
        assert "has fallen silent: its lease is over for " in browser.text
        browser.picture("stuck-key")
        browser.follow("Release the key")
        browser.fill("reason", "host 7 is on fire")
        browser.press("Release it")
        assert "Released." in browser.text
    row.refresh_from_db()
    assert row.state == State.RETRY


def test_what_an_outage_left_is_redriven_at_a_rate(browser: Browser, keys: Keys) -> None:
    busy(keys)
    for number in range(200):
        call = Call(Identity(uuid4(), None, f"order_id={number}", None), TASK, str(uuid4()), MESSAGE)
        failure = a_failure("shop.gateway.Timeout", "no answer within 5 s", signature="a" * 16)
        assert keys.fail(keys.claimed(call), failure=failure)
    with drill(browser, clicks=4):
        assert "200 dead letters failed for good" in browser.text
        browser.follow("200 dead letters")
        browser.picture("dead-letters")
        browser.follow("Redrive all that match")
        assert "Redrive 200 dead letters?" in browser.text
        browser.fill("rate", "20")
        browser.fill("reason", "the gateway is back")
        browser.picture("redrive")
        browser.press("Redrive")
        assert "0 / 200" in browser.text
    assert RedriveOperation.objects.get().total == 200


def test_a_queue_without_a_worker_is_named_with_what_to_start(browser: Browser, keys: Keys) -> None:
    busy(keys)
    waiting(keys, 3, "reports")
    with drill(browser, clicks=2):
        assert "No living worker consumes the queue reports" in browser.text
        assert "-Q reports" in browser.text
        queue = browser.driver.find_element("xpath", "//tr[th[normalize-space()='reports']]")
        assert [word in queue.text for word in ("3", "5 m", "no worker")] == [True, True, True]
        browser.shoot("drill-queue")
        browser.follow("No living worker consumes")
        browser.follow("order_id=0")
        assert "reports" in browser.text


def test_a_renamed_task_is_named_and_its_call_is_cancelled(browser: Browser, keys: Keys) -> None:
    busy(keys)
    (call,) = waiting(keys, 1, "celery", task="shop.tasks.old_name")
    with drill(browser, clicks=4):
        assert "No worker knows the task shop.tasks.old_name" in browser.text
        browser.follow("No worker knows the task")
        browser.follow("order_id=0")
        assert "No worker knows the task shop.tasks.old_name" in browser.text
        browser.picture("unknown-task")
        browser.follow("Cancel the call")
        browser.fill("reason", "it is shop.tasks.new_name now")
        browser.press("Cancel the call")
    assert IdempotencyKey.objects.get(digest=call.identity.digest).state == State.CANCELLED


def test_the_task_of_a_provider_that_is_down_is_paused(browser: Browser, keys: Keys) -> None:
    busy(keys)
    shop(keys)
    with drill(browser, clicks=3):
        browser.follow("order_id=7")
        browser.follow("Pause this task")
        browser.fill("reason", "the bank is down")
        browser.picture("pause")
        browser.press("Pause it")
        assert "Paused: shop.tasks.charge." in browser.text
    assert Pause.objects.get().task == TASK


def test_a_backlog_of_upkeep_says_what_helps(
    browser: Browser, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy(keys)
    monkeypatch.setattr(findings, "PRUNE_BEHIND", 30)
    for _ in range(30):
        done = keys.completed()
        keys.in_columns(done, due_at=keys.now(done) - timedelta(hours=3))
    with drill(browser, clicks=0):
        assert "30 keys should have been deleted" in browser.text
        assert "idem prune --yes --pause 0" in browser.text


def test_the_dashboard_updates_by_itself_until_it_is_told_not_to(browser: Browser, keys: Keys) -> None:
    led(keys)
    browser.sign_in("root")
    browser.open(reverse("admin:django_idempotent_tasks_dashboard"))
    assert "Nothing needs a person" in browser.text
    keys.failed(keys.claimed())
    until(browser, lambda: "1 dead letter failed for good" in browser.text)
    browser.toggle("Stop updating")
    assert "Update by itself" in browser.text
    browser.look(still=True)
    browser.driver.refresh()
    assert "Update by itself" in browser.text, "who asked for less movement sees none"
    keys.failed(keys.claimed())
    assert "1 dead letter failed for good" in browser.text
    browser.toggle("Update by itself")
    until(browser, lambda: "2 dead letters failed for good" in browser.text)
    assert browser.complaints == []


def until(browser: Browser, condition: Any) -> None:
    """Wait for what can be seen on the page."""
    from selenium.webdriver.support.ui import WebDriverWait  # noqa: PLC0415  where it is installed

    WebDriverWait(browser.driver, 60).until(lambda _driver: condition())
