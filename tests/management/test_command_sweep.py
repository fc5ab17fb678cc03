"""``idem sweep --once``: everything that is due is freed or sent before it ends, and rightly counted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from queue import Empty
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from celery import Celery
from django.core.management import CommandError

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.management.upkeep import sweep as module
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper import posting, prune, sweep
from django_idempotent_tasks.sweeper.thread import Sweeper
from tests.support.keys import Keys, both, facts, idem

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

MESSAGE = '{"v": 1, "args": [7], "kwargs": {}, "options": {"task_id": "%s"}}'
#: No queue has a number for a name.
BAD = MESSAGE.replace('{"task_id"', '{"queue": 5, "task_id"')


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """The current app, with a queue of its own."""
    app = Celery("shop", set_as_current=False)
    app.conf.update(
        broker_url=os.environ["CELERY_BROKER_URL"],
        task_default_queue=f"sweep-{uuid4().hex}",
        result_backend=None,
    )
    monkeypatch.setattr("celery._state._tls.current_app", app, raising=False)
    yield app
    app.close()


def arrived(app: Celery) -> list[str]:
    """Take the messages that wait; their task ids."""
    found: list[str] = []
    with (
        app.connection_for_read() as connection,
        connection.SimpleQueue(app.conf.task_default_queue) as queue,
    ):
        while True:
            try:
                message = queue.get_nowait()
            except Empty:
                return found
            message.ack()
            found.append(message.headers["id"])


def call(task_id: str) -> Call:
    """A call whose message can be sent."""
    return Call(Identity(uuid4(), None, "7", None), "shop.charge", task_id, MESSAGE % task_id)


def later(keys: Keys) -> tuple[int, Any]:
    """Sweep once when leases and republish times are over."""
    with shifted(400):
        return facts(keys, "sweep", "--once")


@both
def test_expired_leases_are_freed_and_everything_due_is_sent(keys: Keys, app: Celery) -> None:
    expired = keys.claimed(call("dead"), lease=60)
    living = keys.claimed(call("alive"), lease=9000)
    reserved = keys.reserved(call("unsent"), sends=-1)
    retrying = keys.claimed(call("retry"))
    assert keys.retry(retrying)
    keys.store().send_failed(retrying.digest, token=retrying.token)
    code, seen = later(keys)
    assert (code, seen) == (0, {"freed": 1, "sent": 3, "pruned": 0, "waiting": 0, "spared": 0})
    assert sorted(arrived(app)) == ["dead", "retry", "unsent"]
    states = [keys.row(key).state for key in (expired, living, reserved, retrying)]
    assert states == [State.RETRY, State.RUNNING, State.PENDING, State.RETRY]


@both
def test_a_message_that_most_likely_still_waits_is_neither_sent_again_nor_counted(
    keys: Keys, app: Celery
) -> None:
    keys.reserved(call("first"), sends=-1)
    assert later(keys)[1]["sent"] == 1
    keys.reserved(call("second"))
    assert later(keys)[1]["sent"] == 0
    assert arrived(app) == ["first"]


@both
def test_it_goes_on_until_nothing_is_due_however_small_the_bites(
    keys: Keys, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "BITE", 2)
    monkeypatch.setattr(module, "BITE", 2)
    for number in range(7):
        keys.claimed(call(f"dead{number}"), lease=60)
    _, seen = later(keys)
    assert (seen["freed"], seen["sent"], len(arrived(app))) == (7, 7, 7)


@both
def test_what_is_freed_to_wait_or_to_review_is_counted_as_freed_and_not_as_sent(
    keys: Keys, app: Celery
) -> None:
    crashed = keys.claimed(call("crashed"), lease=60)
    keys.in_columns(crashed, crashes=1)
    doubtful = keys.claimed(call("doubtful"), lease=60)
    keys.in_columns(doubtful, in_external=True)
    mute = keys.claimed(keys.call(message=None), lease=60)
    _, seen = later(keys)
    assert (seen["freed"], seen["sent"]) == (2, 0)
    assert [keys.row(key).state for key in (crashed, doubtful, mute)] == [
        State.RETRY,
        State.REVIEW,
        State.RUNNING,
    ]
    assert arrived(app) == []


def test_the_lead_is_neither_needed_nor_taken(app: Celery) -> None:
    keys = Keys("default")
    assert keys.store().lead("sweeper", holder="another", lease=9000)
    keys.reserved(call("lost"))
    assert later(keys)[1]["sent"] == 1
    assert keys.store().lead("sweeper", holder="another", lease=9000)
    assert arrived(app) == ["lost"]


def test_what_the_broker_does_not_take_waits_and_ends_with_1(app: Celery) -> None:
    keys = Keys("default")
    app.conf.update(broker_url="redis://127.0.0.1:9/0", broker_write_url="redis://127.0.0.1:9/0")
    reserved = keys.reserved(call("lost"))
    code, seen = later(keys)
    assert (code, seen["sent"], seen["waiting"]) == (1, 0, 1)
    assert keys.row(reserved).sends == -1


@both
def test_a_bite_of_what_is_past_its_time_is_deleted(keys: Keys, app: Celery) -> None:
    keys.completed(retention=0)
    with shifted(9000):
        assert facts(keys, "sweep", "--once")[1]["pruned"] == 1
    assert app.main == "shop"


def test_without_a_celery_app_it_says_where_to_import_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celery._state.default_app", None)
    monkeypatch.setattr("celery._state._tls.current_app", None, raising=False)
    with pytest.raises(CommandError, match=r"__init__\.py of your project") as error:
        idem("sweep", "--once")
    assert error.value.returncode == 2


@both
def test_what_a_bite_has_no_time_to_send_goes_with_the_next(
    keys: Keys, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "LONGEST_BITE", 0.0)
    for number in range(7):
        keys.reserved(call(f"unsent{number}"), sends=-1)
    code, seen = later(keys)
    assert (code, seen["sent"], seen["waiting"], len(arrived(app))) == (0, 7, 0, 7)


@both
def test_it_deletes_until_nothing_is_past_its_time(
    keys: Keys, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "BITE", 2)
    for _ in range(7):
        keys.completed(retention=0)
    with shifted(9000):
        assert facts(keys, "sweep", "--once")[1]["pruned"] == 7
    assert app.main == "shop"


@both
def test_the_thread_sums_and_deletes_while_bites_are_full(
    keys: Keys, app: Celery, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": keys.alias}
    monkeypatch.setattr(prune, "BITE", 2)
    held = keys.claimed()
    for _ in range(7):
        keys.completed(retention=0)
        keys.store().record_duplicate(held.call, place="worker", reason="in_progress")
    with shifted(9000):
        assert Sweeper(app)._tidy() is False
    assert keys.row(held).duplicates == 7
    assert IdempotencyKey.objects.using(keys.alias).count() == 1


@both
def test_a_message_that_cannot_be_sent_keeps_no_lease_from_being_freed(
    keys: Keys, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "BITE", 2)
    monkeypatch.setattr(module, "BITE", 2)
    bad = keys.claimed(replace(call("bad"), message=BAD % "bad"), lease=50)
    for number in range(7):
        keys.claimed(call(f"dead{number}"), lease=60)
    _, seen = later(keys)
    assert (seen["freed"], seen["sent"], len(arrived(app))) == (8, 7, 7)
    pause = keys.row(bad).due_at
    assert pause is not None
    assert pause > keys.now(bad) + timedelta(seconds=400), "it is looked at later, and not at every sweep"
