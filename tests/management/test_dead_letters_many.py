"""``idem dead-letters redrive`` and ``discard`` of many, and ``idem redrives``: honest counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import DeadLetter, IdempotencyKey, RedriveOperation
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.redrives import carry_on
from example_project.payments.tasks import notify
from tests.management.graves import LEDGERS, WHY, dead, everywhere, many, states
from tests.support.keys import Keys, facts, idem

pytestmark = pytest.mark.django_db(databases=LEDGERS)


def left(keys: Keys) -> int:
    """How many dead letters there are."""
    return DeadLetter.objects.using(keys.alias).count()


def led(keys: Keys) -> None:
    """Let somebody lead the sweeper."""
    assert keys.store().lead("sweeper", holder="host:1:abc", lease=10_000)


def sweep_while_waiting(keys: Keys, monkeypatch: Any, work: Any = None) -> None:
    """Whoever waits for a redrive gives the sweeper its turn."""
    turn = work or (lambda: carry_on(keys.store()))
    monkeypatch.setattr("time.sleep", lambda _seconds: turn())


@everywhere
def test_a_dry_run_counts_by_kind_and_says_what_cannot_be_sent_and_what_is_likely_to_fail(keys: Keys) -> None:
    dead(keys, task="shop.gone")
    misfit = json.dumps({"v": 1, "args": [], "kwargs": {"payment": 1}, "options": {}})
    for message in (misfit, misfit, None, '{"v": 99}'):
        dead(keys, task=notify.name, message=message, signature="5" * 16)
    code, seen = facts(keys, "dead-letters", "redrive", "--all")
    assert (code, seen["outcome"], seen["dead_letters"], seen["cannot_be_sent"]) == (0, "dry run", 5, 2)
    assert [(group["signature"], group["count"]) for group in seen["groups"]] == [
        ("5" * 16, 4),
        ("0123456789abcdef", 1),
    ]
    assert sorted(seen["likely_to_fail"].values()) == [1, 2]
    assert left(keys) == 5
    assert not RedriveOperation.objects.using(keys.alias).exists()
    text = idem("dead-letters", "redrive", "--all", "--rate", "5/s", "--database", keys.alias)[1]
    assert "would redrive 3 dead letter(s), at most 5 a second" in text
    assert "1 more fit, but their message is not stored" in text
    assert "1 more have a message that cannot be read: they are skipped" in text


@everywhere
def test_many_are_redriven_by_an_operation_that_can_be_followed(keys: Keys, monkeypatch: Any) -> None:
    led(keys)
    wanted = [dead(keys) for _ in range(3)]
    other = dead(keys, task="shop.refund")
    sweep_while_waiting(keys, monkeypatch)
    words = ("dead-letters", "redrive", "--task", "shop.charge", "--wait", *WHY)
    code, seen = facts(keys, *words)
    assert (code, seen["outcome"], seen["redriven"], seen["total"]) == (0, "done", 3, 3)
    assert states(keys, *wanted, other) == ["PENDING"] * 3 + ["FAILED"]
    [row] = facts(keys, "redrives", "list")[1]["redrives"]
    assert (row["state"], row["reason"], row["selection"]) == ("done", WHY[1], "task shop.charge")


@everywhere
def test_what_is_skipped_is_a_finding(keys: Keys, monkeypatch: Any) -> None:
    led(keys)
    dead(keys)
    dead(keys, message=None)
    sweep_while_waiting(keys, monkeypatch)
    code, seen = facts(keys, "dead-letters", "redrive", "--all", "--wait", *WHY)
    assert (code, seen["redriven"], seen["skipped"]) == (1, 1, 1)


@everywhere
def test_a_redrive_is_written_and_told_of_until_the_sweeper_is_done_with_it(keys: Keys) -> None:
    dead(keys)
    code, seen = facts(keys, "dead-letters", "redrive", "--all", "--rate", "3/s", *WHY)
    assert (code, seen["outcome"], seen["rate"], seen["sweeper"]) == (0, "begun", 3, False)
    led(keys)
    [row] = facts(keys, "status")[1]["redrives"]
    assert (row["state"], row["redriven"], row["total"]) == ("running", 0, 1)
    assert f"redrive {seen['id']}" in idem("status", "--database", keys.alias)[1]
    with shifted(5):
        carry_on(keys.store())
        carry_on(keys.store())
    assert facts(keys, "status")[1]["redrives"] == []
    assert facts(keys, "redrives", "follow", seen["id"])[1]["outcome"] == "done"


@everywhere
def test_a_redrive_is_stopped_where_it_is_by_whoever_says_so(keys: Keys) -> None:
    claim = dead(keys)
    number = facts(keys, "dead-letters", "redrive", "--all", *WHY)[1]["id"]
    assert facts(keys, "redrives", "stop", number)[1]["outcome"] == "dry run"
    code, seen = facts(keys, "redrives", "stop", number, *WHY)
    assert (code, seen["outcome"], seen["state"]) == (0, "stopped", "stopped")
    assert seen["stopped_by"]
    carry_on(keys.store())
    assert states(keys, claim) == ["FAILED"]
    assert facts(keys, "redrives", "stop", number, *WHY)[0] == 1
    assert facts(keys, "redrives", "follow", number)[1]["outcome"] == "stopped"
    assert facts(keys, "redrives", "follow", number + 1) == (1, {"redrive": None})


@everywhere
def test_a_redrive_tells_how_many_have_failed_again(keys: Keys) -> None:
    claims = [dead(keys) for _ in range(3)]
    dead(keys, message=None)  # which it passes over
    number = facts(keys, "dead-letters", "redrive", "--task", "shop.charge", *WHY)[1]["id"]
    carry_on(keys.store())
    assert facts(keys, "redrives", "show", number)[1]["dead_letters_again"]["count"] == 0
    for claim in claims[:2]:
        assert keys.fail(keys.started(claim.call))
    with shifted(1):
        dead(keys)  # newer than the operation
        dead(keys, task="shop.other")
    code, seen = facts(keys, "redrives", "show", number)
    assert (code, seen["redriven"], seen["dead_letters_again"]) == (0, 3, {"count": 2, "at_least": False})
    assert "2 that fit the selection" in idem("redrives", "show", number, "--database", keys.alias)[1]
    assert f"redrives show {number}" in idem("redrives", "follow", number, "--database", keys.alias)[1]


def test_who_no_longer_waits_does_not_stop_the_redrive(monkeypatch: Any) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    keys = Keys("default")
    led(keys)
    dead(keys)
    sweep_while_waiting(keys, monkeypatch, interrupt)
    code, seen = facts(keys, "dead-letters", "redrive", "--all", "--wait", *WHY)
    assert (code, seen["outcome"], seen["state"]) == (0, "waiting", "running")


@everywhere
def test_two_redrives_of_the_same_dead_letters_send_each_once(keys: Keys) -> None:
    claims = [dead(keys) for _ in range(3)]
    tokens = [keys.row(claim).token for claim in claims]
    numbers = [facts(keys, "dead-letters", "redrive", "--all", *WHY)[1]["id"] for _ in range(2)]
    for _ in range(2):
        carry_on(keys.store())
    ended = [facts(keys, "redrives", "follow", number)[1] for number in numbers]
    assert sum(each["redriven"] for each in ended) == 3
    assert [keys.row(claim).token for claim in claims] == [token + 1 for token in tokens]


def test_nobody_waits_for_ever_where_nobody_sweeps(monkeypatch: Any) -> None:
    keys, waited = Keys("default"), []
    dead(keys)
    sweep_while_waiting(keys, monkeypatch, lambda: waited.append(1))
    code, seen = facts(keys, "dead-letters", "redrive", "--all", "--wait", *WHY)
    assert (code, seen["outcome"]) == (1, "waiting")
    assert 20 < len(waited) < 40


@everywhere
def test_where_nothing_fits_nothing_begins(keys: Keys) -> None:
    dead(keys)
    words = ("dead-letters", "redrive", "--task", "shop.none")
    assert facts(keys, *words, *WHY) == (0, {"outcome": "nothing", "dead_letters": 0})
    assert facts(keys, *words)[1]["dead_letters"] == 0
    assert not RedriveOperation.objects.using(keys.alias).exists()


@everywhere
def test_all_that_fit_are_discarded_also_over_many_bites_and_no_others(keys: Keys, monkeypatch: Any) -> None:
    monkeypatch.setattr("django_idempotent_tasks.operations.dead_letters.BITE", 4)
    many(keys, 10)
    other = dead(keys, task="shop.refund")
    words = ("dead-letters", "discard", "--task", "shop.charge")
    assert facts(keys, *words)[1]["dead_letters"] == 10
    assert left(keys) == 11
    assert facts(keys, *words, *WHY) == (0, {"outcome": "done", "discarded": 10, "moved_on": 0})
    assert left(keys) == 1
    assert keys.row(other).discarded_at is None


@everywhere
def test_what_moves_on_while_many_are_discarded_is_left_and_counted(keys: Keys, monkeypatch: Any) -> None:
    first, second = dead(keys, ago=60), dead(keys, ago=30)
    discard = type(keys.store()).discard
    moved: list[int] = []

    def redrive_the_second(store: Any, digest: Any, **values: Any) -> bool:
        if not moved:
            moved.append(1)
            row = keys.row(second)
            assert store.redrive(second.digest, token=row.token, message=row.message)
        return bool(discard(store, digest, **values))

    monkeypatch.setattr(type(keys.store()), "discard", redrive_the_second)
    code, seen = facts(keys, "dead-letters", "discard", "--all", *WHY)
    assert (code, seen["discarded"], seen["moved_on"]) == (1, 1, 1)
    assert states(keys, first, second) == ["FAILED", "PENDING"]


@pytest.mark.thorough
def test_ten_thousand_are_counted_and_handed_over_in_as_few_statements_as_one() -> None:
    keys = Keys("default")
    many(keys, 10_000)
    alias = connections["default"]
    with CaptureQueriesContext(alias) as planned:
        seen = facts(keys, "dead-letters", "redrive", "--all")[1]
    assert (seen["dead_letters"], seen["tried"]) == (10_000, 1000)
    assert len(planned) < 30
    with CaptureQueriesContext(alias) as begun:
        assert facts(keys, "dead-letters", "redrive", "--all", *WHY)[1]["total"] == 10_000
    assert len(begun) < 10
    assert IdempotencyKey.objects.filter(state=State.FAILED).count() == 10_000
