"""Periodic runs in a real browser: found from the dashboard, run by hand, fit for a phone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("django_celery_beat")

from django.urls import reverse
from django_celery_beat.models import CrontabSchedule

from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import BeatCursor, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.admin.browser.site import Browser
from tests.admin.conftest import HOSTILE, page
from tests.beat.bench import Bench
from tests.beat.conftest import bench

__all__ = ["bench"]
pytestmark = [pytest.mark.slow, pytest.mark.process]


@pytest.fixture
def shop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Entries of each kind after some minutes with two beats."""
    monkeypatch.setattr("django_idempotent_tasks.admin.actions.run_now.app_or_default", lambda: bench.app)
    bench.now = database_now(get_store()) - timedelta(minutes=6)
    bench.every(60, "Reconcile payments", task="shop.payments.reconcile")
    bench.cron("30", "Nightly clean-up", hour="3", task="shop.payments.tidy", enabled=False)
    bench.every(10, HOSTILE, task="shop.report")
    beat = bench.beat()
    bench.tick(beat)
    for _ in range(6):
        bench.tick(beat, after=59)
    bench.tick(beat, after=5)
    bench.tick(bench.beat(), leads=False)
    bench.entry("Remind who has not paid", crontab=weekdays(), task="shop.payments.remind")
    last = BeatCursor.objects.order_by("pk")[0]
    IdempotencyKey.objects.filter(digest=str(last.last_digest)).update(state=State.FAILED)
    BeatCursor.objects.filter(pk=last.pk).update(
        passed_over=12, passed_over_at=bench.now - timedelta(hours=2), stranger_at=bench.now
    )
    return bench


def weekdays() -> Any:
    """A crontab that is long in words."""
    return CrontabSchedule.objects.create(minute="0", hour="9", day_of_week="1-5", timezone="Europe/Berlin")


def test_an_entry_is_found_from_the_dashboard_and_run_by_hand(browser: Browser, shop: Bench) -> None:
    browser.sign_in("root")
    browser.open(reverse("admin:django_idempotent_tasks_dashboard"))
    browser.follow("beat, with its periodic runs")
    assert "stands by for" in browser.text
    browser.follow("Reconcile payments")
    shop.post.arrived()
    browser.follow("Run it now")
    assert "The schedule does not move" in browser.text
    browser.fill("reason", "the gateway was down")
    browser.press("Run it")
    assert "Reconcile payments is sent." in browser.text
    assert "asked for by root" in browser.text
    assert len(shop.post.arrived()) == 1
    assert browser.complaints == []


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_its_pages_neither_complain_nor_are_wider_than_the_screen(
    browser: Browser, shop: Bench, look: str
) -> None:
    first = BeatCursor.objects.order_by("pk")[0].pk
    shop.post.arrived()
    browser.sign_in("root")
    browser.look(dark=look == "dark", phone=look == "phone")
    pages = {
        "periodic-index": "/admin/django_idempotent_tasks/",
        "periodic-dashboard": reverse("admin:django_idempotent_tasks_dashboard"),
        "periodic-runs": page("beatcursor"),
        "periodic-run": page("beatcursor", "change", first),
        "periodic-run-now": page("beatcursor", "run_now", first),
        "periodic-history": page("beatcursor", "history", first),
    }
    for name, address in pages.items():
        browser.open(address)
        browser.shoot(f"{name}-{look}")
        assert browser.complaints == [], name
        assert not browser.is_wider_than_the_screen, name
