"""What the sweeper does with rows that it cannot use, and that such rows never stop the others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from celery import Celery
from django.test import override_settings
from django.utils import timezone

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.sweeper.sweep import BITE, sweep_once
from django_idempotent_tasks.sweeper.thread import Sweeper
from tests.sample import tasks
from tests.support.waiting import eventually
from tests.support.workers.site import Pair, Site

pytestmark = pytest.mark.process

#: Texts that are no message of ours, or one that this version cannot read.
UNREADABLE = [
    "",
    "not json",
    "[]",
    "null",
    '{"v": 1}',
    '{"v": 2, "args": [], "kwargs": {}, "options": {}}',
    '{"v": 1, "args": 5, "kwargs": 7, "options": 3}',
]


def plant(site: Site, key: str, *, age: int = 60, **values: Any) -> IdempotencyKey:
    """Write a row as a dead worker would have left it; by default a retry that nobody has sent."""
    past = timezone.now() - timedelta(seconds=age)
    defaults = {
        "digest": uuid4(), "state": State.RETRY, "reason": Reason.RETRY_ASKED, "task": tasks.skipping.name,
        "key_text": f"key={key}", "task_id": str(uuid4()), "due_at": past, "open_at": past,
        "created_at": past, "started_at": past, "token": 1, "generation": 1, "lease_seconds": 2,
        "duplicates": 0, "attempts": 1, "crashes": 0, "sends": 0, "in_external": False,
        "message": '{"v": 1, "args": [], "kwargs": {}, "options": {}}',
    }  # fmt: skip
    return IdempotencyKey.objects.using(site.rows.alias).create(**defaults | values)


def seen(row: IdempotencyKey) -> IdempotencyKey:
    """The row as it is now."""
    return IdempotencyKey.objects.get(pk=row.pk)


def is_later(row: IdempotencyKey) -> bool:
    """Whether the sweeper leaves a row alone for now."""
    return row.due_at is not None and row.due_at > timezone.now()


def plant_call(site: Site, key: str, **values: Any) -> IdempotencyKey:
    """Write the row of a call that can be sent again."""
    headers = json.loads(site.park(tasks.skipping, key))["headers"]
    identity = headers["idempotency"]
    options = {"task_id": headers["id"], "headers": {"idempotency": identity}}
    message = json.dumps({"v": 1, "args": [key], "kwargs": {}, "options": options})
    named = {"digest": UUID(identity["digest"]), "task_id": headers["id"], "message": message}
    return plant(site, key, **named | values)


@pytest.fixture
def no_broker() -> Iterator[Celery]:
    """An app whose broker refuses connections."""
    app = Celery("no broker", set_as_current=False)
    app.conf.update(broker_write_url="redis://127.0.0.1:9/0")
    yield app
    app.close()


def test_an_unknown_task_is_sent_by_its_name_and_its_row_left_alone(site: Site, pair: Pair, key: str) -> None:
    row = plant(site, key, task="another.project.task")
    eventually(
        lambda: any("another.project.task" in worker.text() for worker in pair.workers),
        "a worker got a message that it does not know",
    )

    after = site.rows.wait_for(key, State.RETRY, also=lambda row: row.sends >= 1)
    assert (after.token, after.attempts, after.crashes) == (row.token, 1, 0)
    assert after.message == row.message
    assert is_later(after)


def test_rows_that_cannot_be_read_do_not_keep_others_from_being_sent(
    site: Site, pair: Pair, key: str
) -> None:
    bad = [plant(site, f"{key}-{number}", message=text, age=600) for number, text in enumerate(UNREADABLE)]
    mute = plant(site, f"{key}-mute", message=None, state=State.RUNNING, owner="gone:1:x", age=600)
    plant_call(site, key)

    assert site.rows.wait_for(key, State.SUCCEEDED).attempts == 2
    assert all(worker.is_alive for worker in pair.workers)
    for before in (*bad, mute):
        # A lease is not looked at before the ledger has answered for as long: its owner may come back.
        eventually(lambda: is_later(seen(before)), "it is left alone for now")  # noqa: B023
        row = seen(before)
        assert (row.state, row.message, row.token) == (before.state, before.message, before.token)


def test_a_sweep_ends_and_keeps_every_row_while_the_broker_is_away(
    own_site: Site, no_broker: Celery, key: str
) -> None:
    for number in range(BITE + 5):
        plant(own_site, f"{key}-{number}")
    sweeper = Sweeper(no_broker)
    with override_settings(IDEMPOTENT_TASKS={"DATABASE": own_site.rows.alias}):
        sweep = threading.Thread(target=sweeper._sweep)
        sweep.start()
        sweep.join(10)
        ended = not sweep.is_alive()
        sweeper._stopped.set()
        sweep.join(10)

    assert ended, "with more than one bite unsent, a sweep never ended"
    rows = IdempotencyKey.objects.using(own_site.rows.alias)
    assert rows.filter(state=State.RETRY, due_at__lte=timezone.now()).count() == BITE + 5


def test_what_one_sweep_took_is_sent_by_the_next_when_its_process_died_in_between(
    own_site: Site, key: str
) -> None:
    plant_call(own_site, key, state=State.RUNNING, owner="gone:1:x")
    taken = get_store(own_site.rows.alias).sweep(bite=BITE, republish=1)
    assert [row.publish for row in taken] == [True]  # and here the sweeping process dies

    with own_site.running("survivor"):
        row = own_site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes) == (2, 1)
    assert own_site.journal.started(key, attempt=2)["previous_attempt_died"] is True
    assert len(own_site.rows.effects(key)) == 1


def test_a_sweep_that_is_late_changes_nothing(own_site: Site, no_broker: Celery, key: str) -> None:
    store = get_store(own_site.rows.alias)
    finished = plant(own_site, key, state=State.SUCCEEDED, open_at=timezone.now(), result="1", message=None)
    renewed = plant(own_site, f"{key}-renewed", state=State.RUNNING, due_at=timezone.now() + timedelta(60))
    for row in (finished, renewed):
        store.send_failed(row.digest, token=row.token)
    assert sweep_once(no_broker, store) == 0

    for row in (finished, renewed):
        before = IdempotencyKey.objects.using(own_site.rows.alias).get(pk=row.pk)
        assert (before.state, before.token, before.due_at) == (row.state, row.token, row.due_at)
