"""The one search box: whatever a person has at hand leads to the key, and to no value that is hidden."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from celery import current_app
from django.test import Client

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.identity.key import Identity, stated_digest
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.operations import finding
from tests.admin.conftest import Person, page
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
KEY = "idempotencykey"
TASK = "shop.tasks.charge_card"


@pytest.fixture(autouse=True)
def charge() -> Any:
    """A guarded task that this process knows, whose key is made of an argument."""

    def body(order_id: int, amount: str) -> None: ...

    yield current_app.task(base=IdempotentTask, name=TASK, key="order_id", shared=False)(body)
    current_app.tasks.pop(TASK)


def made(
    keys: Keys, key_text: str, *, call_id: str = "", scope: str | None = None, digest: UUID | None = None
) -> Claim:
    identity = Identity(digest or uuid4(), scope, key_text, None)
    return keys.claimed(Call(identity, TASK, call_id or str(uuid4()), None))


def found(client: Client, term: str, model: str = KEY, **query: str) -> set[Any]:
    return {row.pk for row in client.get(page(model), {"q": term, **query}).context["cl"].result_list}


def test_a_key_is_found_by_whatever_is_at_hand(root: Client, keys: Keys) -> None:
    seven = made(keys, "order_id=7, amount=9.90", call_id="call-7", scope="tenant-42")
    made(keys, "order_id=17, amount=70.07")
    other = made(keys, "invoices/inv-2024-77/mail", scope="tenant-1")
    given = made(keys, "evt_1NqXYZ short", digest=stated_digest(TASK, idempotency_key="evt_1NqXYZ"))
    keys.store().record_duplicate(keys.call("refused", of=seven.call), place="send", reason="in_progress")
    assert found(root, "7") == found(root, "order_id=7") == found(root, "9.90") == {seven.digest}
    assert found(root, "inv-2024-77") == found(root, "2024-7") == {other.digest}
    assert found(root, "evt_1NqXYZ") == {given.digest}
    assert found(root, "tenant-42") == found(root, "call-7") == found(root, "refused") == {seven.digest}
    assert found(root, str(seven.digest)) == found(root, seven.digest.hex[:8]) == {seven.digest}
    assert len(found(root, "charge_card")) == len(found(root, "tasks.charge_card")) == 4
    assert found(root, "charge") == found(root, "8") == set()


def test_a_value_that_names_the_key_is_found_however_old_the_key_is(
    root: Client, keys: Keys, charge: Any, monkeypatch: Any
) -> None:
    old = made(keys, "order_id=7", digest=charge.idempotency_identity((7, "9.90"), {}).digest)
    keys.in_columns(old, created_at=keys.now(old) - timedelta(days=3))
    beyond = made(keys, "order=8")
    keys.in_columns(beyond, created_at=keys.now(beyond) - timedelta(days=2))
    made(keys, "order_id=9")
    monkeypatch.setattr(finding, "READ", 1)
    assert found(root, "7") == {old.digest}
    assert found(root, "8") == set(), "not among the newest, which the list says"
    shown = root.get(page(KEY), {"q": "8"}).content.decode()
    assert "and the newest 1 rows" in shown


def test_more_than_a_page_can_show_is_said(root: Client, keys: Keys, monkeypatch: Any) -> None:
    made(keys, "order_id=1"), made(keys, "order_id=2")
    monkeypatch.setattr(finding, "MOST", 1)
    assert "More of them match" in root.get(page(KEY), {"q": "charge_card"}).content.decode()


@pytest.mark.parametrize("term", ["7", "order_id=7", "order_id", "=7"])
def test_who_may_not_see_arguments_cannot_ask_for_them(
    person: Person, keys: Keys, charge: Any, term: str
) -> None:
    digest = charge.idempotency_identity((7, "9.90"), {}).digest
    made(keys, "order_id=7", digest=digest)
    made(keys, "order_id=8, note=7")
    viewer = person("view_idempotencykey", "view_deadletter", "view_duplicateattempt", "view_failedjob")
    assert found(viewer, term) == found(viewer, term, task=TASK) == set()
    assert found(viewer, digest.hex[:8]) == {digest}, "the short digest that the list shows"


def test_a_key_that_was_given_is_for_whoever_may_see_keys(person: Person, keys: Keys) -> None:
    given = made(keys, "evt_1Nq", digest=stated_digest(TASK, idempotency_key="evt_1Nq"))
    assert found(person("view_idempotencykey"), "evt_1Nq") == {given.digest}


def test_a_value_that_redact_hides_is_not_confirmed(root: Client, keys: Keys, charge: Any) -> None:
    made(keys, "order_id=(hidden)", digest=charge.idempotency_identity((4242, "9.90"), {}).digest)
    assert found(root, "4242") == found(root, "order_id=4242") == found(root, "4242", task=TASK) == set()


def test_refused_calls_are_found_by_id_by_key_and_by_scope(root: Client, keys: Keys) -> None:
    seven = made(keys, "order_id=7, amount=1", scope="t-1")
    call = keys.call("refused", of=seven.call, scope="t-1")
    keys.store().record_duplicate(call, place="send", reason="in_progress")
    for term in ("refused", "t-1", str(seven.digest)):
        assert len(found(root, term, "duplicateattempt")) == 1
    assert found(root, "nothing", "duplicateattempt") == set()
