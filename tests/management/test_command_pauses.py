"""``idem pause``, ``resume`` and ``pauses``: dry runs, exit codes, and what the status shows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError
from django.db.models import F

from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import Pause
from django_idempotent_tasks.operations import pauses, waiting
from django_idempotent_tasks.sweeper import pauses as sending
from django_idempotent_tasks.sweeper.pauses import drain, hold_back
from tests.management.graves import LEDGERS, everywhere
from tests.support.fleet import led, worker
from tests.support.keys import Keys, facts, idem

pytestmark = pytest.mark.django_db(databases=LEDGERS)

TASK = "shop.charge"
WHY = ("--reason", "the bank is down")


@pytest.fixture(autouse=True)
def _afresh() -> None:
    """A pause that was rolled back leaves its number to the next one, but not its pace."""
    sending._pace._left.clear()


def pause(keys: Keys, *words: object) -> Any:
    """Pause the task; the facts."""
    code, seen = facts(keys, "pause", "--task", TASK, *WHY, *words)
    assert code == 0
    return seen


def names(keys: Keys) -> list[str]:
    """The findings of a status."""
    return [each["name"] for each in facts(keys, "status")[1]["findings"]]


def swept(keys: Keys) -> int:
    """How many messages a sweep would send now."""
    store = keys.store()
    drain(store)
    return len(hold_back(store, store.sweep(bite=99, republish=300)))


@everywhere
def test_a_pause_is_a_dry_run_until_yes_and_is_listed_with_what_waits(keys: Keys) -> None:
    keys.reserved(wait=0)
    assert pause(keys)["outcome"] == "dry run"
    assert not Pause.objects.using(keys.alias).exists()
    assert facts(keys, "pauses")[1]["pauses"] == []
    assert pause(keys, "--for", "30m", "--yes")["outcome"] == "paused"
    row = Pause.objects.using(keys.alias).get()
    assert (row.until - row.since, row.reason, row.rate) == (timedelta(minutes=30), "the bank is down", 20)
    assert swept(keys) == 0
    (listed,) = facts(keys, "pauses")[1]["pauses"]
    assert (listed["task"], listed["scope"], listed["state"], listed["waiting"]["count"]) == (
        TASK, None, "paused", 1,
    )  # fmt: skip
    assert "ends in 29 m" in idem("pauses", "--database", keys.alias)[1]


@everywhere
def test_a_resumed_task_is_sent_at_the_rate_and_the_pause_is_over_when_nothing_waits(keys: Keys) -> None:
    for _ in range(5):
        keys.reserved(wait=0)
    pause(keys, "--yes")
    assert swept(keys) == 0
    words = ("resume", "--task", TASK, "--rate", "2")
    assert facts(keys, *words)[1]["waiting"]["count"] == 5
    assert facts(keys, *words, "--yes")[0] == 0
    assert facts(keys, *words, "--yes")[0] == 1  # not paused any more
    assert swept(keys) == 2
    assert facts(keys, "pauses")[1]["pauses"][0]["state"] == "ending"
    Pause.objects.using(keys.alias).update(rate=1000)
    with shifted(60):
        sent = 0
        while drain(keys.store()) or sent == 0:
            sent += swept(keys)
        assert facts(keys, "pauses")[1]["pauses"] == []
    assert Pause.objects.using(keys.alias).get().drained_at is not None


@everywhere
def test_a_forgotten_pause_ends_by_itself_and_is_no_finding_meanwhile(keys: Keys) -> None:
    led(keys)
    keys.reserved(wait=0)
    pause(keys, "--for", "10m", "--yes")
    assert swept(keys) == 0
    with shifted(300):
        code, seen = facts(keys, "status")
        assert (code, seen["findings"]) == (0, [])
        assert seen["pauses"][0]["reason"] == "the bank is down"
        assert "shop.charge ends in" in idem("status", "--database", keys.alias)[1]
        assert swept(keys) == 0
    with shifted(610):
        assert swept(keys) == 1


@everywhere
def test_what_waits_for_the_end_of_a_pause_waits_for_no_worker(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    led(keys)
    monkeypatch.setattr(waiting, "FIRST", 3)
    monkeypatch.setattr(waiting, "LAST", 1)
    for scope in ("acme", "acme", "moon"):
        keys.reserved(keys.call(scope=scope), wait=9000)
    with shifted(70):
        worker(keys, tasks=())
        assert names(keys) == ["task_not_known"]
        pause(keys, "--scope", "acme", "--yes")
        assert names(keys) == ["task_not_known"], "another tenant's calls are not paused"
        pause(keys, "--yes")
        assert names(keys) == []
        keys.reserved(keys.call(scope="acme"), wait=0)
        assert swept(keys) == 0
        Pause.objects.using(keys.alias).filter(scope="").update(resumed_at=F("since"))
        assert names(keys) == ["task_not_known"], "what is held back does not hide what waits"


@everywhere
def test_one_scope_is_paused_alone_and_pausing_again_changes_the_end(keys: Keys) -> None:
    for scope in ("acme", "globex"):
        keys.reserved(keys.call(scope=scope), wait=0)
    pause(keys, "--scope", "acme", "--yes")
    assert swept(keys) == 1
    pause(keys, "--scope", "acme", "--for", "7d", "--yes")
    row = Pause.objects.using(keys.alias).get()
    assert row.until - row.since <= timedelta(days=7)
    with shifted(7200):
        assert facts(keys, "pauses")[1]["pauses"][0]["state"] == "paused"
    assert facts(keys, "resume", "--task", TASK, "--yes")[0] == 1
    assert facts(keys, "resume", "--task", TASK, "--scope", "acme", "--yes")[0] == 0


@everywhere
def test_pauses_of_two_scopes_that_begin_in_one_moment_hold_calls_of_their_own(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = database_now(keys.store())
    monkeypatch.setattr(pauses, "database_now", lambda _store: now)
    rows = [
        pauses.pause(keys.store(), TASK, by="ann", reason="outage", scope=scope)
        for scope in ("acme", "globex")
    ]
    assert rows[0].held_at != rows[1].held_at


@everywhere
def test_a_key_of_a_paused_task_says_who_has_paused_it_and_why(keys: Keys) -> None:
    call = keys.reserved()
    pause(keys, "--yes")
    text = facts(keys, "keys", "show", call.identity.digest)[1]["next"]
    assert "has paused the task until" in text
    assert "the bank is down" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--for", "8d"), "7 days"),
        (("--for", "0"), "1 second"),
        (("--rate", "2000"), "1 to 1,000"),
    ],
)
def test_a_pause_that_cannot_be_is_refused_with_what_to_write(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        idem("pause", "--task", TASK, *WHY, "--yes", *words)


def test_a_task_that_is_not_known_here_is_paused_all_the_same_and_that_is_said() -> None:
    assert "no.such.task" in idem("pause", "--task", "no.such.task", *WHY)[1]
