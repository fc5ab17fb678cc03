"""A header that names the key of another task or scope is refused and changes nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from django_idempotent_tasks.exceptions import KeyMismatch
from django_idempotent_tasks.messages.header import to_header
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.worker.revoked import cancel_revoked, fail_unknown
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

each_mode = pytest.mark.parametrize("mode", ["leased", "atomic"])


def forged(till: Till, task: Any, of: IdempotencyKey, *, id: str, **changes: Any) -> dict[str, Any]:  # noqa: A002, ARG001
    """A header that says of a message of ``task`` that its key is another one's."""
    identity = task.idempotency_identity((7,), task_id=id)
    header = to_header(identity, task_name=task.name, task_id=id)
    return {"idempotency": {**header, "digest": of.digest.hex, **changes}}


@each_mode
@pytest.mark.parametrize("state", ["succeeded", "reserved"])
@pytest.mark.parametrize(("id_", "by"), [("A", "task"), ("B", "task"), ("A", "scope")])
def test_a_header_that_names_the_key_of_another_task_or_scope_is_refused(
    till: Till, shop: Counter, caplog: pytest.LogCaptureFixture, mode: str, state: str, id_: str, by: str
) -> None:
    victim = till.seller(shop, mode=mode, on_duplicate="replay")
    other = till.seller(shop, mode=mode, on_duplicate="replay") if by == "task" else victim
    victim.submit((7,), task_id="A", scope="tenant")
    if state == "succeeded":
        till.deliver_sent(victim)
    before, runs = shop.row, shop.runs
    scope = "tenant" if by == "task" else "mine"
    headers = forged(till, other, before, id=id_, scope=scope, reserved=True)

    with caplog.at_level(logging.WARNING):
        for redelivered in (False, True):
            end = till.deliver(other, 7, id=id_, redelivered=redelivered, **headers)
            assert isinstance(end.error, KeyMismatch)
    assert vars(shop.row) | {"_state": None} == vars(before) | {"_state": None}
    assert shop.runs == runs
    assert shop.refusals == ["mismatch"] * 2
    said = [each.message for each in caplog.records if each.name == "django_idempotent_tasks"]
    assert any("another task or scope" in each for each in said)
    assert not any("tenant" in each for each in said)
    if state == "reserved":
        assert till.deliver_sent(victim).result == {"order": 7}


class Revoked:
    """What Celery says of a revoked message."""

    hostname = None
    delivery_info: Any = None

    def __init__(self, id: str, headers: dict[str, Any]) -> None:  # noqa: A002
        self.id = id
        self.args: tuple[int, ...] = (7,)
        self.kwargs: dict[str, Any] = {}
        vars(self).update(headers)


@pytest.mark.parametrize("verb", ["expired", "terminated", "unknown"])
def test_a_forged_header_ends_no_key_in_the_parent_either(till: Till, shop: Counter, verb: str) -> None:
    victim, other = till.seller(shop, mode="leased"), till.seller(shop, mode="leased")
    victim.submit((7,), task_id="A", scope="tenant")
    shop.put(sends=99)
    before = shop.row
    headers = forged(till, other, before, id="A", scope="tenant")
    if verb == "unknown":
        fail_unknown(other.name, "A", headers)
    else:
        verbs = {"expired": verb == "expired", "terminated": verb == "terminated"}
        cancel_revoked(other, Revoked("A", headers), **verbs)
    assert vars(shop.row) | {"_state": None} == vars(before) | {"_state": None}
    assert till.deliver_sent(victim).result == {"order": 7}
