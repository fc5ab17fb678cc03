"""Pauses in the admin: made on a key's page, listed, resumed, with permission, reason and the admin's log."""

from __future__ import annotations

import pytest
from django.test import Client

from django_idempotent_tasks.models import Pause
from tests.admin.conftest import Person, logged, messages_of, page, seen
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
KEY, PAUSE = "idempotencykey", "pause"
WHY = "the bank is down"


def test_a_task_is_paused_from_the_page_of_a_key_and_resumed_from_the_list(root: Client, keys: Keys) -> None:
    call = keys.reserved(keys.call(scope="acme"))
    url = page(KEY, "pause", call.identity.digest)
    given = {"seen": seen(root, url), "reason": WHY, "lasts": "240", "only": "on"}
    assert "Paused: shop.charge" in messages_of(root.post(url, given, follow=True))
    row = Pause.objects.get()
    assert (row.task, row.scope, row.reason) == ("shop.charge", "acme", WHY)
    assert (row.until - row.since).total_seconds() == 240 * 60
    assert WHY in root.get(page(PAUSE)).content.decode()
    assert "has paused the task" in root.get(page(KEY, "change", call.identity.digest)).content.decode()
    assert WHY in root.get(page("dashboard")).content.decode()
    assert "every scope" not in root.get(page(PAUSE, "change", row.pk)).content.decode()
    url = page(PAUSE, "resume", row.pk)
    given = {"seen": seen(root, url), "reason": "it is back", "rate": "7"}
    assert "Resumed" in messages_of(root.post(url, given, follow=True))
    row.refresh_from_db()
    assert (row.rate, row.resumed_by) == (7, "root")
    assert "has resumed it" in messages_of(root.post(url, given, follow=True))
    assert any("it is back" in text for text in logged())


def test_who_may_not_pause_sees_no_button_and_gets_no_page(person: Person, keys: Keys) -> None:
    call = keys.reserved()
    viewer = person("view_idempotencykey", "view_pause")
    assert "Pause this task" not in viewer.get(page(KEY, "change", call.identity.digest)).content.decode()
    assert viewer.get(page(KEY, "pause", call.identity.digest)).status_code == 403
    assert viewer.get(page(PAUSE)).status_code == 200
    nobody = person("view_idempotencykey", name="eve")
    assert nobody.get(page(PAUSE)).status_code == 403


def test_a_key_without_a_scope_is_no_reason_to_pause_one(root: Client, keys: Keys) -> None:
    call = keys.reserved()
    url = page(KEY, "pause", call.identity.digest)
    given = {"seen": seen(root, url), "reason": WHY, "lasts": "15", "only": "on"}
    assert "has no scope" in messages_of(root.post(url, given, follow=True))
    assert not Pause.objects.exists()
