"""Steps of which an attempt cannot tell whether their values are kept: the ledger is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError, connections, transaction

from django_idempotent_tasks.ledger.stores.steps import Steps
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.running.settlement import Settlement
from tests.running.delivery.test_steps import a_task, kept
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


@pytest.mark.parametrize("kind", [ValueError, SoftTimeLimitExceeded])
def test_a_step_that_raised_after_its_commit_is_not_run_again(
    till: Till, shop: Counter, alias: str, kind: type[Exception]
) -> None:
    def fail() -> None:
        raise kind

    def write() -> int:
        shop.write(note="written")
        transaction.on_commit(fail, using=alias)
        return 5

    def body(self: Any) -> Any:
        with pytest.raises(kind):
            self.idempotency.step("write", write)
        return self.idempotency.step("write", write)

    assert till.deliver(a_task(till, body), 7).result == 5
    assert (shop.effects, kept(alias)) == (["written"], [("write", 1, "5")])


@pytest.mark.parametrize("external", [False, True])
def test_a_value_that_another_attempt_has_kept_meanwhile_is_not_taken_for_ones_own(
    till: Till, alias: str, monkeypatch: pytest.MonkeyPatch, external: bool
) -> None:
    connection, keep, reconnect = connections[alias], Steps.keep_step, Settlement._reconnect
    taken: list[Any] = []

    def lose() -> None:
        connection.rollback()
        raise OperationalError("the connection was cut")

    def cut(*_args: Any, **_values: Any) -> bool:
        monkeypatch.setattr(Steps, "keep_step", keep)
        raise OperationalError("the connection was cut")

    def overtaken(settlement: Settlement) -> None:
        reconnect(settlement)
        monkeypatch.setattr(Settlement, "_reconnect", reconnect)
        rows = IdempotencyKey.objects.using(alias)
        rows.update(token=2, owner="w:2:another")
        grant = replace(settlement.claim.grant, token=2)
        other = replace(settlement.claim, owner="w:2:another", grant=grant)
        assert settlement.ledger.store.keep_step(other, "write", value="6", elapsed=0.0)

    def body(self: Any) -> None:
        monkeypatch.setattr(Settlement, "_reconnect", overtaken)
        with monkeypatch.context() as patch:
            if external:
                monkeypatch.setattr(Steps, "keep_step", cut)
            else:
                patch.setattr(connection, "commit", lose)
            taken.append(self.idempotency.step("write", lambda: 5, external=external))

    till.deliver(a_task(till, body), 7)
    assert taken == []
    assert [value for *_, value in kept(alias)] == ["6"]
