"""The ledger in the admin: can be read and searched, never written; a task's text stays text."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import IdempotencyKey

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root", password=None))
    return client


@pytest.fixture
def key() -> IdempotencyKey:
    digest = uuid4()
    call = Call(
        Identity(digest, HOSTILE, HOSTILE, None), "shop.charge", str(uuid4()), f'{{"a": "{HOSTILE}"}}'
    )
    assert get_store().claim_new(call, owner="o", lease=60)
    return IdempotencyKey.objects.get(digest=digest)


def test_keys_are_listed_and_found_by_task_id_with_a_tasks_text_escaped(
    admin: Client, key: IdempotencyKey
) -> None:
    url = reverse("admin:django_idempotent_tasks_idempotencykey_changelist")
    found = admin.get(url, {"q": key.task_id}).content.decode()
    assert "charge <small>shop</small>" in found
    assert HOSTILE not in found
    assert "&lt;script&gt;" in found
    assert "charge <small>shop</small>" not in admin.get(url, {"q": str(uuid4())}).content.decode()


def test_a_key_is_shown_and_cannot_be_changed(admin: Client, key: IdempotencyKey) -> None:
    url = reverse("admin:django_idempotent_tasks_idempotencykey_change", args=[key.pk])
    page = admin.get(url).content.decode()
    assert "running" in page
    assert HOSTILE not in page
    assert admin.post(url, {"state": 7}).status_code == 403
    assert admin.post(url.replace("change", "delete")).status_code == 403
    key.refresh_from_db()
    assert key.state == 2


def test_the_other_lists_open(admin: Client) -> None:
    for model in ("duplicateattempt", "answeredcall"):
        assert admin.get(reverse(f"admin:django_idempotent_tasks_{model}_changelist")).status_code == 200


def test_a_search_for_any_text_is_an_answer_and_no_error(admin: Client, key: IdempotencyKey) -> None:
    url = reverse("admin:django_idempotent_tasks_idempotencykey_changelist")
    for text in ("evt_1Nq", HOSTILE, "a\x00b", str(key.digest)):
        assert admin.get(url, {"q": text}, follow=True).status_code == 200
    assert "charge <small>shop</small>" in admin.get(url, {"q": str(key.digest)}).content.decode()
