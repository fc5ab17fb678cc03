"""``idem status``: bounded numbers, and exit code 1 exactly when something needs a person."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.sweeps import note_sweep
from django_idempotent_tasks.models import Batch
from django_idempotent_tasks.operations import counts, findings
from django_idempotent_tasks.states import Category, State
from django_idempotent_tasks.testing.contract.bench import WINDOW
from tests.management.graves import dead
from tests.support.fleet import led
from tests.support.keys import Keys, both, facts, idem
from tests.support.ledger.crowd import fill
from tests.support.ledger.statements import postgresql_plan
from tests.support.uploads import Batches

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])

KEY = "django_idempotent_tasks_idempotencykey"
RESERVED = '{"v": 1, "args": [], "kwargs": {}, "options": {"eta": "%s"}}'


def found(keys: Keys) -> list[str]:
    """The names of the findings; the exit code must agree with them."""
    code, seen = facts(keys, "status")
    names = [each["name"] for each in seen["findings"]]
    assert code == (1 if names else 0)
    return names


@both
def test_a_sound_ledger_is_fine_and_shows_its_numbers(keys: Keys) -> None:
    led(keys)
    keys.claimed()
    keys.reserved()
    keys.completed()
    keys.completed()
    code, seen = facts(keys, "status")
    assert (code, seen["findings"]) == (0, [])
    numbers = {name: state["count"] for name, state in seen["states"].items() if state["count"]}
    assert numbers == {"pending": 1, "running": 1, "succeeded": 2}
    assert seen["sweeper"]["leader"] == "host:1:abc"
    assert 0 <= seen["oldest_pending_seconds"] < 60
    text = idem("status", "--database", keys.alias)[1]
    assert "host, pid 1 leads for " in text
    assert "Nothing needs a person." in text


@both
def test_an_expected_end_is_counted_and_needs_nobody_and_many_hide_no_dead_letter(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    led(keys)
    monkeypatch.setattr(counts, "CAP", 2)
    for _ in range(4):
        dead(keys, category=Category.EXPECTED, signature="x" * 16)
    seen = facts(keys, "status")[1]
    assert (seen["dead_letters"]["count"], seen["expected_ends"]["count"]) == (0, 2)
    assert found(keys) == []
    dead(keys, category=Category.FATAL, signature="f" * 16)
    assert found(keys) == ["failed"]
    assert facts(keys, "status")[1]["dead_letters"]["categories"]["fatal"]["count"] == 1


@both
def test_nobody_who_leads_is_a_finding_also_once_the_last_ones_lease_is_over(keys: Keys) -> None:
    assert found(keys) == ["no_leader"]
    assert keys.store().lead("sweeper", holder="host:1:abc", lease=10)
    assert found(keys) == []
    with shifted(11):
        assert found(keys) == ["no_leader"]
        assert "host, pid 1 did until" in idem("status", "--database", keys.alias)[1]


@both
def test_a_sweeper_that_leads_and_ends_no_sweep_is_a_finding_after_five_minutes(keys: Keys) -> None:
    store = keys.store()
    assert store.lead("sweeper", holder="host:1:abc", lease=10_000)
    with shifted(290):
        assert found(keys) == []
    with shifted(310):
        assert found(keys) == ["sweeper_idle"]
        text = idem("status", "--database", keys.alias)[1]
        assert re.search(r"host, pid 1 leads the sweeper for 5 m \d+ s and has never ended a sweep", text)
        note_sweep(store)
        assert found(keys) == []
    with shifted(700):
        assert found(keys) == ["sweeper_idle"]


@both
def test_a_lease_that_is_over_is_a_finding_after_a_minute(keys: Keys) -> None:
    led(keys)
    keys.claimed(lease=60)
    with shifted(90):
        assert found(keys) == []
        assert facts(keys, "status")[1]["expired_leases"]["count"] == 1
    with shifted(150):
        assert found(keys) == ["expired_leases"]


@both
def test_a_lease_without_a_message_stays_a_finding_while_the_sweeper_looks_at_it(keys: Keys) -> None:
    led(keys)
    keys.claimed(keys.call(message=None), lease=60)
    with shifted(150):
        keys.store().sweep(bite=9, republish=300)
        assert found(keys) == ["expired_leases"]


@both
def test_a_pending_key_is_a_finding_when_the_sweeper_is_late_with_it(keys: Keys) -> None:
    led(keys)
    keys.reserved(wait=300)
    with shifted(330):
        assert found(keys) == []
    with shifted(400):
        assert found(keys) == ["pending_overdue"]


@both
def test_a_pending_key_that_no_broker_takes_is_a_finding_though_its_due_time_moves(keys: Keys) -> None:
    led(keys)
    call = keys.reserved(wait=0)
    with shifted(90):
        keys.store().send_failed(call.identity.digest, token=0)
        assert found(keys) == ["pending_overdue"]


@both
def test_a_pending_key_whose_eta_has_just_come_is_none(keys: Keys) -> None:
    led(keys)
    call = keys.reserved(wait=90, sends=-1)
    eta = keys.now(call) + timedelta(seconds=90)
    keys.in_columns(call, message=RESERVED % eta.isoformat())
    with shifted(95):
        assert found(keys) == []
    keys.in_columns(call, message=RESERVED % (eta - timedelta(seconds=80)).isoformat())
    with shifted(95):
        assert found(keys) == ["pending_overdue"]


@both
def test_a_key_that_was_sent_twice_in_vain_is_a_finding(keys: Keys) -> None:
    led(keys)
    call = keys.reserved(wait=9000)
    keys.in_columns(call, sends=1)
    assert found(keys) == []
    keys.in_columns(call, sends=2)
    assert found(keys) == ["pending_overdue"]
    keys.in_columns(call, state=State.RETRY)
    assert found(keys) == ["retry_overdue"]


@both
def test_a_retry_that_no_broker_takes_is_a_finding(keys: Keys) -> None:
    led(keys)
    claim = keys.claimed()
    assert keys.retry(claim, wait=5)
    with shifted(30):
        keys.store().send_failed(claim.digest, token=claim.token)
        assert found(keys) == []
    with shifted(70):
        keys.store().send_failed(claim.digest, token=claim.token)
        assert found(keys) == ["retry_overdue"]


@both
@pytest.mark.parametrize("state", [State.FAILED, State.REVIEW])
def test_a_dead_letter_is_a_finding_until_it_is_discarded(keys: Keys, state: State) -> None:
    led(keys)
    claim = keys.claimed()
    assert keys.fail(claim, state=state)
    assert found(keys) == [state.name.lower()]
    keys.in_columns(claim, discarded_at=keys.now(claim))
    assert found(keys) == []


@both
def test_more_keys_than_one_count_looks_at_are_told_as_a_bound(keys: Keys, monkeypatch: Any) -> None:
    led(keys)
    monkeypatch.setattr(counts, "CAP", 3)
    for _ in range(5):
        keys.completed()
        keys.failed(keys.claimed())
    keys.cancelled(keys.claimed())
    code, status = facts(keys, "status")
    seen = status["states"]
    assert (seen["succeeded"]["count"], seen["succeeded"]["at_least"]) == (3, True)
    assert (seen["cancelled"]["count"], seen["cancelled"]["at_least"]) == (1, False)
    assert [(each["count"], each["at_least"]) for each in status["findings"]] == [(3, True)]
    assert code == 1
    assert "at least 3" in idem("status", "--database", keys.alias)[1]


@pytest.mark.postgresql
def test_every_count_of_keys_reads_a_range_of_the_sweepers_index(monkeypatch: Any) -> None:
    monkeypatch.setattr(counts, "CAP", 100)
    fill("default")
    plan = [access for access in postgresql_plan(lambda _: idem("status")) if access.table == KEY]
    assert len(plan) >= len(State)
    assert {access.index for access in plan} == {"idem_key_state_due", "idem_key_dead_letters"}
    ranges = {"idem_key_state_due": "state = ", "idem_key_dead_letters": "signature"}
    assert all(ranges[access.index] in access.condition for access in plan if access.index)


def test_the_number_of_statements_does_not_depend_on_the_number_of_keys() -> None:
    keys = Keys("default")
    said = []
    for _ in range(2):
        with CaptureQueriesContext(connections["default"]) as captured:
            idem("status")
        said.append(len(captured))
        for _ in range(20):
            keys.reserved(wait=0, sends=-1)
            keys.failed(keys.claimed())
    assert said[0] == said[1] <= len(State) + 12


@both
def test_batches_that_need_a_person_are_findings(keys: Keys) -> None:
    uploads = Batches(keys.alias)
    led(keys)
    batch, calls = uploads.of("...", "ooo")
    made = uploads.batch_row(uploads.batch()).created_at - timedelta(hours=2)
    Batch.objects.using(keys.alias).update(created_at=made)
    assert found(keys) == ["batches_unsealed"]
    uploads.failed_chunk(calls[0])
    uploads.settled(batch.id)
    assert found(keys) == ["failed", "batches_attention", "batches_unsealed"]


def test_text_and_json_tell_the_same_findings() -> None:
    keys = Keys("default")
    keys.failed(keys.claimed())
    code, text = idem("status")
    told = json.loads(idem("status", "--format", "json")[1])["findings"]
    assert code == 1
    assert [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")] == [
        each["text"] for each in told
    ]
    links = [line.strip() for line in text.splitlines() if line.startswith("  docs/")]
    assert links == [each["link"] for each in told]
    assert "docs/incidents/many-dead-letters.md" in links


@both
def test_a_bite_of_keys_past_their_time_says_that_the_sweeper_is_behind(keys: Keys, monkeypatch: Any) -> None:
    monkeypatch.setattr(findings, "PRUNE_BEHIND", 3)
    led(keys)
    for _ in range(3):
        keys.completed(retention=0)
    with shifted(WINDOW + 30):
        assert found(keys) == [], "the next sweep deletes them"
    with shifted(WINDOW + 90):
        assert found(keys) == ["prune_behind"]
        text = idem("status", "--database", keys.alias)[1]
    assert "3 keys should have been deleted over a minute ago: the sweeper is behind" in text
