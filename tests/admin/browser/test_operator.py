"""What an operator does at night, in a real browser under a strict Content-Security-Policy."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from celery import current_app
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import (
    AnsweredCall,
    Batch,
    FailedJob,
    HourlyCount,
    IdempotencyKey,
    RedriveOperation,
)
from django_idempotent_tasks.operations import redrives
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import Category, State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.admin.browser.site import Browser
from tests.admin.conftest import HOSTILE, page
from tests.support.keys import Keys
from tests.support.uploads import Batches

pytestmark = [pytest.mark.slow, pytest.mark.process]
MESSAGE = '{"v": 1, "args": [], "kwargs": {"order_id": 7, "amount": "9.90"}, "options": {"queue": "celery"}}'


def shop(keys: Keys) -> IdempotencyKey:
    """A night at a shop: a key whose owner fell silent, dead letters of two kinds, counts of a week."""
    stuck = keys.claimed(
        Call(Identity(uuid4(), "tenant-42", "order_id=7", None), "shop.tasks.charge", "call-7", MESSAGE)
    )
    now = keys.now(stuck)
    keys.in_columns(
        stuck, started_at=now - timedelta(hours=2), open_at=now - timedelta(minutes=9), in_external=False
    )
    keys.in_columns(stuck, progress='{"done": 3, "total": 5, "note": "page 3 of the invoice"}')
    keys.store().record_duplicate(keys.call("call-8", of=stuck.call), place="send", reason="in_progress")
    for number in range(12):
        call = Call(
            Identity(uuid4(), None, f"order_id={number}", None),
            "shop.tasks.charge",
            f"dead-{number}",
            MESSAGE,
        )
        error, signature = (
            ("shop.gateway.Timeout", "a" * 16) if number % 3 else ("shop.gateway.CardDeclined", "b" * 16)
        )
        failure = a_failure(
            error,
            "no answer within 5 s",
            signature=signature,
            traceback="Traceback (most recent call last):\n  File tasks.py, line 7, in charge\nno answer",
        )
        assert keys.fail(
            keys.claimed(call), failure=failure, state=State.REVIEW if number == 0 else State.FAILED
        )
    hour = database_now(keys.store()).replace(minute=0, second=0, microsecond=0)
    for back in range(1, 169):
        HourlyCount.objects.create(
            hour=hour - timedelta(hours=back),
            task="shop.tasks.charge",
            created=back,
            succeeded=100 + back % 24 * 9,
            failed=back % 7,
            duplicates=back % 11,
            crashes=int(back % 50 == 0),
        )
    return keys.row(stuck)


def long_names(keys: Keys) -> IdempotencyKey:
    """A dead letter whose names have no place where a line may end."""
    identity = Identity(uuid4(), "cafe-luna", "evt_62283283a2af443d820c", None)
    task = "example_project.payments.tasks.handle_event"
    claim = keys.claimed(Call(identity, task, str(uuid4()), MESSAGE))
    error = "example_project.payments.gateway_client.GatewayUnavailable"
    assert keys.fail(claim, failure=a_failure(error, "503: the bank is down", signature="c" * 16))
    return keys.row(claim)


def known_call(keys: Keys) -> IdempotencyKey:
    """A dead letter of a task that this process knows, so that its arguments have names."""

    def body(order_id: int, amount: str, note: str = "") -> None: ...

    task = current_app.task(base=IdempotentTask, name="shop.tasks.refund", key="order_id", shared=False)(body)
    claim = keys.claimed(Call(Identity(uuid4(), None, "order_id=7", None), task.name, "refund-7", MESSAGE))
    assert keys.fail(claim, failure=a_failure("shop.gateway.Timeout", "no answer", signature="d" * 16))
    return keys.row(claim)


def test_a_dead_letter_is_redriven_with_another_argument(browser: Browser, keys: Keys) -> None:
    row = known_call(keys)
    browser.sign_in("root")
    browser.open(page("deadletter"))
    browser.fill("q", "7")
    browser.press("Search")
    browser.follow("order_id=7")
    browser.follow("Redrive")
    browser.shoot("redrive-by-name-light")
    browser.fill("argument_1", "9.90 EUR")
    browser.fill("reason", "the amount was wrong")
    browser.press("Redrive it")
    assert "A text stands in quotes" in browser.text
    browser.fill("argument_1", '"9.90 EUR"')
    browser.press("Redrive it")
    assert "Redriven: the key is pending" in browser.text
    row.refresh_from_db()
    assert '"amount": "9.90 EUR"' in str(row.message)
    assert [each for each in browser.complaints if "400" not in each] == []


def test_a_stuck_key_is_found_understood_and_released(browser: Browser, keys: Keys) -> None:
    row = shop(keys)
    browser.sign_in("root")
    browser.open("/admin/django_idempotent_tasks/")
    browser.follow("Dashboard")
    assert "1 lease ended over a minute ago" in browser.text
    browser.follow("1 lease ended")
    browser.follow("order_id=7")
    assert "has fallen silent: its lease is over for 9 m" in browser.text
    assert "call-8" in browser.text
    browser.follow("Release the key")
    assert "the ledger refuses its completion" in browser.text
    browser.fill("reason", "host 7 is on fire")
    browser.press("Release it")
    assert "Released." in browser.text
    row.refresh_from_db()
    assert row.state == State.RETRY
    assert browser.complaints == []


def test_a_group_is_redriven_as_it_was_filtered(browser: Browser, keys: Keys) -> None:
    shop(keys)
    browser.sign_in("root")
    browser.open(page("deadletter"))
    browser.follow("shop.gateway.Timeout")
    browser.follow("Redrive all that match")
    assert "Redrive 8 dead letters?" in browser.text
    browser.fill("rate", "5")
    browser.fill("reason", "the gateway is back")
    browser.press("Redrive")
    assert "0 / 8" in browser.text
    operation = RedriveOperation.objects.get()
    assert (operation.total, operation.rate, operation.created_by) == (8, 5, "root")
    browser.follow("Stop it")
    browser.fill("reason", "no, it is not")
    browser.press("Stop it")
    assert "stopped (root)" in browser.text
    assert browser.complaints == []


def test_picked_ones_are_redriven_at_once(browser: Browser, keys: Keys) -> None:
    shop(keys)
    browser.sign_in("root")
    browser.open(page("deadletter"))
    for box in browser.driver.find_elements("css selector", "input.action-select")[:2]:
        box.click()
    browser.driver.find_element(
        "css selector", "select[name='action'] option[value='redrive_picked']"
    ).click()
    browser.press_named("index")
    browser.fill("reason", "the gateway is back")
    browser.press("Redrive")
    assert "Redrive: done 2 of 2." in browser.text
    assert IdempotencyKey.objects.filter(state=State.PENDING).count() == 2
    assert browser.complaints == []


def test_permissions_hide_what_they_forbid(browser: Browser, keys: Keys) -> None:
    row = shop(keys)
    viewer = User.objects.create_user("ann", password="secret", is_staff=True)
    viewer.user_permissions.set(
        Permission.objects.filter(codename__in=["view_idempotencykey", "view_deadletter"])
    )
    browser.sign_in("ann")
    browser.open(page("idempotencykey", "change", row.pk))
    assert "has fallen silent" in browser.text
    assert "9.90" not in browser.text
    for words in ("Release the key", "Cancel the call"):
        assert words not in browser.text
    browser.open(page("deadletter"))
    assert "Redrive" not in browser.text
    browser.open(page("idempotencykey", "release", row.pk))
    assert "403" in browser.text
    assert [one for one in browser.complaints if "403" not in one] == []


def upload() -> Batch:
    """A batch with records that failed in several ways, one of them with a long hostile message."""
    batches = Batches()
    batch, calls = batches.of("oof", "fmo", "...", "oor", scope=HOSTILE)
    long = {"description": HOSTILE * 5, "error": f"shop.errors.{'Very' * 20}Long", "signature": "f" * 16}
    batches.failing(batch.pk, 2, Category.FATAL, **long)
    batches.failed_chunk(calls[2])
    batches.settled(batch.pk)
    batches.of("ooo")
    return batches.batch_row(batch.pk)


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_no_page_complains_or_is_wider_than_the_screen(browser: Browser, keys: Keys, look: str) -> None:
    row = shop(keys)
    hostile = keys.claimed(Call(Identity(uuid4(), HOSTILE, HOSTILE * 2, None), HOSTILE, HOSTILE, None))
    dead = long_names(keys)
    keys.store().record_plain(
        "legacy.mail",
        "old",
        attempt=1,
        state=State.FAILED,
        failure=a_failure("smtplib.SMTPException"),
        message=MESSAGE,
    )
    job = FailedJob.objects.latest("pk")
    operation = redrives.begin(Selection(task="shop.tasks.charge"), by="ann", reason=HOSTILE)
    AnsweredCall.objects.create(
        digest=row.pk, task_id="call-6", generation=1, state=7, reason=1, due_at=keys.now(hostile)
    )
    batch = upload()
    browser.sign_in("root")
    browser.look(dark=look == "dark", phone=look == "phone")
    pages = {
        "index": "/admin/django_idempotent_tasks/",
        "dashboard": reverse("admin:django_idempotent_tasks_dashboard"),
        "keys": page("idempotencykey"),
        "keys-filtered": f"{page('idempotencykey')}?task=shop.tasks.charge&state=2",
        "key": page("idempotencykey", "change", row.pk),
        "key-hostile": page("idempotencykey", "change", hostile.digest),
        "release": page("idempotencykey", "release", row.pk),
        "dead-letters": page("deadletter"),
        "dead-letter": page("deadletter", "change", dead.pk),
        "redrive": page("deadletter", "redrive", dead.pk),
        "redrive-many": page("deadletter", "redrive_many"),
        "failed-jobs": page("failedjob"),
        "failed-job": page("failedjob", "change", FailedJob.objects.get(digest=dead.pk).pk),
        "plain-job": page("failedjob", "change", job.pk),
        "rerun": page("failedjob", "rerun", job.pk),
        "operations": page("redriveoperation"),
        "operation": page("redriveoperation", "change", operation.pk),
        "batches": page("batch"),
        "batch": page("batch", "change", batch.pk),
        "batch-redrive": page("batch", "redrive", batch.pk),
        "duplicates": page("duplicateattempt"),
        "answers": page("answeredcall"),
        "hours": page("hourlycount"),
    }
    for name, address in pages.items():
        browser.open(address)
        browser.shoot(f"{name}-{look}")
        assert browser.complaints == [], name
        assert not browser.is_wider_than_the_screen, name
        assert browser.cut == [], name
