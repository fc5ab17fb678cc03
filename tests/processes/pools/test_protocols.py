"""Celery's older message protocol carries a call's identity as the newer one does."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.processes.pools.house import House
from tests.sample import tasks
from tests.sample.celery import app

pytestmark = [pytest.mark.process, pytest.mark.parametrize("_house", ["threads"], indirect=True)]


@pytest.mark.parametrize("protocol", [1, 2])
def test_the_key_of_one_call_travels_in_both_of_celery_s_protocols(
    house: House, key: str, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    site, protocols = house.site, vars(app.amqp)["task_protocols"]
    monkeypatch.setattr(app.amqp, "create_task_message", protocols[protocol])
    site.send(tasks.skipping, key, options={"idempotency_key": f"evt {protocol}", "scope": key[:100]})
    site.journal.started(key)
    site.journal.open_all()  # what the worker took over at its start waits at its gate
    site.broker.wait_until_empty()
    row = IdempotencyKey.objects.get(scope=key[:100])
    assert (row.key_text, row.state, row.attempts) == (f"evt {protocol}", State.SUCCEEDED, 1)
