"""What waits for a pause is found by the sweeper's index, however many other rows there are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.paused import Paused
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import Pause
from tests.support.keys import Keys
from tests.support.ledger.crowd import fill
from tests.support.ledger.statements import Work, postgresql_plan, said

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]
KEY = "django_idempotent_tasks_idempotencykey"


def test_a_pause_finds_and_gives_back_what_it_holds_by_an_index() -> None:
    fill("default")
    keys, now = Keys("default"), database_now(get_store())
    later = {"until": now + timedelta(hours=1), "held_at": now + timedelta(days=8)}
    row = Pause.objects.create(
        task="shop.charge", reason="r", paused_by="ann", rate=5, since=now, scope="", **later
    )
    pause, call = Paused(row.pk, row.task, "", 5), keys.reserved()
    assert get_store().park(call.identity.digest, token=0, pause=row.pk)
    verbs: list[Work] = [
        lambda store: store.park(call.identity.digest, token=0, pause=row.pk),
        lambda store: store.count_held(pause, bite=100),
        lambda store: store.unpark(pause, bite=100),
    ]
    for verb in verbs:
        plan = [access for access in postgresql_plan(verb) if access.table == KEY]
        assert plan
        assert "Seq Scan" not in {access.node for access in plan}, said("default", verb)
