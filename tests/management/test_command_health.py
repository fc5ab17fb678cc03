"""``idem health sweeper`` and ``relay``: their exit codes on what the ledger and the broker say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery import Celery
from django.core.management import CommandError

from django_idempotent_tasks.ledger.stores import clock
from django_idempotent_tasks.ledger.sweeps import note_sweep
from django_idempotent_tasks.management.upkeep import health
from django_idempotent_tasks.models import SWEEPER, SWEPT, IdempotencyKey, Leader
from django_idempotent_tasks.operations import pauses
from django_idempotent_tasks.sweeper import thread
from django_idempotent_tasks.sweeper.sweep import Sweep
from django_idempotent_tasks.sweeper.thread import Sweeper
from tests.support.keys import Keys, both, idem
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])

AWAY = "redis://:pass-word@127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def _app(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app whose broker answers, unless a test says otherwise."""
    _on("memory://", monkeypatch)


def _on(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    app = Celery("shop", broker=broker, set_as_current=False, fixups=[])
    monkeypatch.setattr(health, "project_app", lambda: app)


def _health(keys: Keys, *words: str) -> tuple[int, dict[str, Any]]:
    code, printed = idem("health", *words, "--database", keys.alias, "--format", "json")
    return code, json.loads(printed)


@both
def test_nobody_who_leads_the_sweeper_is_ill(keys: Keys) -> None:
    code, facts = _health(keys, "sweeper")
    assert (code, facts["healthy"], facts["leader"]) == (1, False, None)
    assert "start a worker" in facts["problems"][0]


@both
def test_a_sweeper_that_leads_and_sweeps_is_well(keys: Keys) -> None:
    assert keys.store().lead(SWEEPER, holder="a:1", lease=7200)
    assert _health(keys, "sweeper")[0] == 0, "it has just begun"
    note_sweep(keys.store())
    code, facts = _health(keys, "sweeper")
    assert (code, facts["leader"]) == (0, "a:1")
    assert facts["last_sweep_seconds"] < 30
    with clock.shifted(45):
        assert _health(keys, "sweeper")[0] == 0


@both
def test_a_sweeper_that_leads_and_sweeps_nothing_is_ill(keys: Keys) -> None:
    assert keys.store().lead(SWEEPER, holder="a:1", lease=7200)
    with clock.shifted(90):
        code, facts = _health(keys, "sweeper")
        assert (code, facts["last_sweep_seconds"]) == (1, None)
        assert "has never ended a sweep" in facts["problems"][0]
    note_sweep(keys.store())
    with clock.shifted(5000):
        code, facts = _health(keys, "sweeper")
        assert code == 1
        assert 5000 <= facts["last_sweep_seconds"] < 5030
        assert "1 h 23 m ago" in facts["problems"][0]
        assert _health(keys, "sweeper", "--max-age", "2h")[0] == 0


@both
def test_the_sweep_of_another_leader_before_does_not_speak_against_a_new_one(keys: Keys) -> None:
    note_sweep(keys.store())
    with clock.shifted(5000):
        assert keys.store().lead(SWEEPER, holder="b:2", lease=60)
        assert _health(keys, "sweeper")[0] == 0


@both
def test_a_pause_is_said_and_makes_nothing_ill(keys: Keys) -> None:
    assert keys.store().lead(SWEEPER, holder="a:1", lease=60)
    assert _health(keys, "sweeper")[1]["pauses"] == []
    row = pauses.pause(keys.store(), "shop.refund", by="ann", reason="the bank is down", scope="acme")
    for probe in ("sweeper", "relay"):
        code, facts = _health(keys, probe)
        assert (code, [each["task"] for each in facts["pauses"]]) == (0, ["shop.refund"])
        code, printed = idem("health", probe, "--database", keys.alias)
        assert "shop.refund of the scope acme is paused for 59 m 5" in printed
    assert pauses.resume(keys.store(), row, by="ann")
    assert _health(keys, "relay")[1]["pauses"] == []


@both
def test_nothing_unsent_and_a_broker_that_answers_are_well(keys: Keys) -> None:
    keys.claimed()
    code, facts = _health(keys, "relay")
    assert (code, facts["broker_answers"], facts["oldest_unsent_seconds"]) == (0, True, None)


@both
def test_a_message_that_is_due_for_too_long_is_ill_and_its_task_named(keys: Keys) -> None:
    call = keys.call()
    assert keys.store().reserve_new(call, wait=0, sends=-1) is not None
    assert _health(keys, "relay")[0] == 0
    with clock.shifted(90):
        code, facts = _health(keys, "relay")
        assert (code, facts["oldest_unsent_task"]) == (1, call.task)
        assert facts["oldest_unsent_seconds"] >= 90
        assert _health(keys, "relay", "--max-age", "5m")[0] == 0


@both
def test_a_message_that_no_broker_takes_counts_from_when_its_call_was_made(keys: Keys) -> None:
    call = keys.call()
    token = keys.store().reserve_new(call, wait=0, sends=-1)
    assert token is not None
    with clock.shifted(90):
        keys.store().send_failed(call.identity.digest, token=token)
        assert _health(keys, "relay")[0] == 1
    row = IdempotencyKey.objects.using(keys.alias).get()
    row.started_at = row.created_at  # as of a dead letter that was redriven just now
    row.save()
    with clock.shifted(90):
        assert _health(keys, "relay")[0] == 0


@both
def test_a_broker_that_is_away_is_ill(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    _on(AWAY, monkeypatch)
    code, facts = _health(keys, "relay")
    assert (code, facts["broker_answers"]) == (1, False)
    assert "pass-word" not in str(facts)


def test_a_worker_that_cannot_be_asked_for_want_of_a_broker_ends_with_2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _on(AWAY, monkeypatch)
    with pytest.raises(CommandError, match="The broker does not answer") as error:
        idem("health", "worker", "--timeout", "2")
    assert error.value.returncode == 2
    assert "pass-word" not in str(error.value)


@pytest.mark.django_db(transaction=True, databases=["default", "sqlite"])
def test_a_sweeper_notes_each_sweep_that_ends_and_none_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys("sqlite")

    failed: list[int] = []

    def fail(*_call: object, **_options: object) -> None:
        failed.append(1)
        msg = "its tables are gone"
        raise RuntimeError(msg)

    monkeypatch.setattr(thread, "INTERVAL", 0.1)
    monkeypatch.setattr(thread, "POLL", 0.1)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(Sweep, "go_on", fail)
        _swept(keys, until=lambda: len(failed) > 1)
        assert not Leader.objects.using(keys.alias).filter(name=SWEPT).exists()
    _swept(keys, until=lambda: _health(keys, "sweeper")[1].get("last_sweep_seconds") is not None)


def _swept(keys: Keys, *, until: Any) -> None:
    """Let a sweeper run until what is looked for is there."""
    app = Celery("shop", broker="memory://", set_as_current=False, fixups=[])
    sweeper = Sweeper(app, database=keys.alias)
    sweeper.start()
    try:
        eventually(until, "the sweeper leads, or has swept")
    finally:
        sweeper.stop()
