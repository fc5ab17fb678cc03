"""The ledger is where DATABASE says, whatever a router says; exactly-once ends at that database's edge."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connections, transaction
from django.test import Client
from django.urls import reverse
from django.utils.connection import ConnectionDoesNotExist

from django_idempotent_tasks import get_key
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.prune import prune_bite
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

each_mode = pytest.mark.parametrize("mode", ["leased", "atomic"])
anywhere = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def other(alias: str) -> Counter:
    """The database that the ledger is not in."""
    return Counter(next(name for name in ALIASES if name != alias))


@anywhere
@pytest.mark.usefixtures("astray")
def test_the_router_of_these_tests_leads_astray() -> None:
    with pytest.raises(ConnectionDoesNotExist, match="nowhere"):
        IdempotencyKey.objects.first()


@anywhere
@each_mode
@pytest.mark.usefixtures("astray")
def test_a_task_is_run_and_answered_without_asking_a_router(till: Till, shop: Counter, mode: str) -> None:
    task = till.seller(shop, mode=mode)
    assert till.deliver(task, 7).result == {"order": 7}
    assert till.deliver(task, 7, redelivered=True).result == {"order": 7}
    assert till.deliver(task, 7, id="B").result["reason"] == "already_completed"
    key = get_key(task, (7,))
    assert key is not None
    assert (key.task_id, shop.effects, shop.refusals) == ("A", ["sold"], ["already_completed"])


@anywhere
@each_mode
@pytest.mark.usefixtures("astray")
def test_a_call_is_reserved_read_and_cancelled_without_asking_a_router(
    till: Till, shop: Counter, mode: str
) -> None:
    task = till.seller(shop, mode=mode, reserve=True)
    with transaction.atomic(using=shop.alias):
        first = task.submit((7,))
        assert till.sent == []
    assert first.created
    assert not task.submit((7,)).created
    assert first.result.state == "PENDING"
    assert task.cancel(task_id=first.result.id) == "cancelled"
    assert shop.state is State.CANCELLED
    store = get_store()
    sweep_once(till, store)
    prune_bite(store)


@anywhere
@pytest.mark.usefixtures("astray")
def test_each_command_looks_where_the_ledger_is(
    till: Till, shop: Counter, capsys: pytest.CaptureFixture[str]
) -> None:
    task = till.seller(shop)
    till.deliver(task, 7)
    digest = str(shop.row.digest)
    for words in (["keys", "list"], ["keys", "show", digest], ["keys", "list", "--database", shop.alias]):
        call_command("idem", *words, "--format", "json")
        assert digest in capsys.readouterr().out
    call_command("idem", "prune", "--format", "json")
    assert json.loads(capsys.readouterr().out) is not None


@pytest.mark.django_db(databases=ALIASES)
@pytest.mark.parametrize("routed", [False, True], ids=["without a router", "with one"])
def test_the_admin_shows_the_ledgers_database(
    client: Client, settings: Any, request: Any, routed: bool
) -> None:
    if routed:
        request.getfixturevalue("astray")
    settings.IDEMPOTENT_TASKS = {"DATABASE": "sqlite"}
    till = Till(request.node.name)
    task = till.seller(Counter("sqlite"), mode="leased")
    task.submit((7,), idempotency_key="here")
    client.force_login(User.objects.create_superuser("root", password="secret"))
    key = IdempotencyKey.objects.using("sqlite").get()
    listed = client.get(reverse("admin:django_idempotent_tasks_idempotencykey_changelist"))
    assert str(key.pk) in listed.content.decode()
    shown = client.get(reverse("admin:django_idempotent_tasks_idempotencykey_change", args=[key.pk]))
    assert shown.status_code == 200
    till.close()


@anywhere
def test_what_an_atomic_body_writes_to_another_database_is_written_at_least_once(
    till: Till, shop: Counter
) -> None:
    elsewhere, troubles = other(shop.alias), [ValueError("after both writes")]

    @till.guarded(autoretry_for=(ValueError,), max_retries=1)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        elsewhere.write(note="elsewhere")
        if troubles:
            raise troubles.pop()
        return order

    assert till.deliver(sell, 7).is_retried
    assert till.deliver_sent(sell).result == 7
    assert (len(shop.effects), elsewhere.effects) == (1, ["elsewhere", "elsewhere"])


@anywhere
@each_mode
def test_a_transaction_on_another_database_is_none_of_the_ledgers(
    till: Till, shop: Counter, mode: str
) -> None:
    task, elsewhere = till.seller(shop, mode=mode, reserve=True), other(shop.alias)
    with transaction.atomic(using=elsewhere.alias):
        task.delay(7)
        assert len(till.sent) == 1  # the ledger's own commit was at once
        transaction.set_rollback(True, using=elsewhere.alias)
    assert shop.state is State.PENDING
    assert elsewhere.state is None


@pytest.mark.django_db(databases=ALIASES)
@each_mode
def test_in_a_testcase_with_both_databases_an_eager_task_is_guarded_in_a_savepoint(
    till: Till, settings: Any, mode: str
) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": "sqlite"}
    till.conf.task_always_eager = True
    shop = Counter("sqlite")
    task = till.seller(shop, mode=mode)
    assert connections["sqlite"].in_atomic_block
    assert task.delay(7).get() == {"order": 7}
    assert task.delay(7).get()["reason"] == "already_completed"
    assert (shop.state, shop.effects, other("sqlite").state) == (State.SUCCEEDED, ["sold"], None)
